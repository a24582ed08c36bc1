"""A service to be driven by hand: a fake link, a fake clock, a model that can be followed on paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stream_occ.alert_sinks import AlertSinks
from stream_occ.codecs import load_codec
from stream_occ.config import Config
from stream_occ.inbox import Inbox, Outcome, Received, Token
from stream_occ.keeping import Keeper
from stream_occ.pace import Clock
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.scoring import Model
from stream_occ.service import Service
from tests.unit.toy_model import toy_model

AT_ONCE = {"k": 2, "n": 3, "check": False, "countdown_s": 0.0}
CHECKED = {"k": 2, "n": 3, "countdown_s": 20.0, "repeat_s": 60.0, "check_s": 10.0, "refractory_s": 30.0}
T0_NS = 1_700_000_000 * NS_PER_S
JSON = load_codec("json")


class FakeLink:
    """Keeps what was published; retained topics are kept by topic as a broker would."""

    def __init__(self) -> None:
        self.is_connected = True
        self.has_room = True
        self.outcome: Outcome = "taken"
        self.sent: list[tuple[str, bytes, int, bool]] = []
        self.retained: dict[str, bytes] = {}
        self.acknowledged: list[Token] = []

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int,
        is_retained: bool,
        on_done: Callable[[Outcome], None] | None = None,
    ) -> bool:
        self.sent.append((topic, payload, qos, is_retained))
        if is_retained:
            self.retained[topic] = payload
        if on_done is not None:
            on_done(self.outcome)
        return True

    def acknowledge(self, tokens: Sequence[Token]) -> None:
        self.acknowledged += tokens

    def of(self, topic: str) -> list[Any]:
        return [json.loads(payload) for name, payload, *_ in self.sent if name == topic and payload]


class Bench:
    """A service whose time stands still until it is moved; windows of 0.4 s, one every 0.1 s, threshold 9.

    Walking: acc (0, 0, 9.8 + 2 sin), which scores 0; a knock: acc x = 20, which scores 20; lying: acc (0, 9.8, 0).
    Alerts are alarms at once unless `events` says otherwise.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        keeper: Keeper | None = None,
        sinks: AlertSinks | None = None,
        at_s: float = 0.0,
        ahead_s: float = 0.0,
        **sections: Any,
    ) -> None:
        data = {"inputs": [{"pattern": "wearables/{device}/imu"}], "events": AT_ONCE, **sections}
        self.config = Config.model_validate_json(json.dumps(data), strict=True)
        self.link = FakeLink()
        self.inbox = Inbox(self.config.limits.queue_messages, self.config.limits.queue_bytes)
        self.now_s = at_s
        self.ahead_s = ahead_s  # by so much the wall clock is wrong
        clock = Clock(
            lambda: T0_NS + round((self.now_s + self.ahead_s) * NS_PER_S),
            lambda: self.now_s,
            lambda: round(self.now_s * NS_PER_S),
        )
        self.service = Service(
            self.config, model or toy_model(), self.link, self.inbox, keeper=keeper, sinks=sinks, clock=clock
        )

    def deliver(self, topic: str, payload: bytes, *, is_retained: bool = False) -> bool:
        limit = self.config.limits.max_payload_bytes
        return self.inbox.put(
            Received.of(topic, payload, is_retained=is_retained, arrived_s=self.now_s, max_bytes=limit)
        )

    def send(
        self, n: int, *, device: str = "w1", first: int = 0, knock: bool = False, lying: bool = False, hz: int = 50
    ) -> None:
        """n samples from sample number `first` on."""
        k = np.arange(first, first + n)
        acc = np.tile([20.0 if knock else 0.0, 9.8 if lying else 0.0, 0.0 if lying else 9.8], (n, 1))
        acc[:, 2] += (0.05 if lying else 2.0) * np.sin(2 * np.pi * 2.0 * k / 50.0)
        gyr = np.zeros((n, 3))
        for phase, noise in ((2, 0.001), (12, -0.001)):  # where no window ends, and of mean 0: scores stay whole
            acc[k % 20 == phase] += noise
            gyr[k % 20 == phase] += noise
        block = SampleBlock(device, T0_NS + k * (NS_PER_S // hz), acc, gyr)
        assert self.deliver(f"wearables/{device}/imu", JSON.encode(block))

    def fall(self) -> None:
        """Two seconds of walking, a knock of half a second, lying still until 6 s: pending where checks are made."""
        self.send(100)
        self.send(25, first=100, knock=True)
        self.send(175, first=125, lying=True)
        self.run(6.0)

    def run(self, seconds: float = 0.0) -> None:
        self.now_s += seconds
        self.service.run_slice()

    def command(self, kind: str, payload: bytes = b"", *, device: str = "w1", is_retained: bool = False) -> None:
        """A person's act, taken with the next slice."""
        assert self.deliver(f"stream_occ/{device}/set/{kind}", payload, is_retained=is_retained)

    def events(self, device: str = "w1") -> list[tuple[str, int]]:
        """(state, number) of every told change."""
        return [(event["event_type"], event["seq"]) for event in self.link.of(f"stream_occ/{device}/event")]

    def wait(self, seconds: float) -> None:
        """Time passes as it does: a slice a second."""
        for _ in range(round(seconds)):
            self.run(1.0)

    def state(self, device: str = "w1") -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.link.retained[f"stream_occ/{device}/state"])
        return content
