"""The topics of one instance, and which texts may name a device in them; all of it is documented in docs/topics.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DEVICE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
RESERVED_DEVICE_IDS = frozenset({"bridge", "status", ".", ".."})  # levels of our own topics


@dataclass(frozen=True, slots=True)
class Topics:
    """Builds the topics of one instance.

    >>> Topics("stream_occ", "edge").alert("w1")
    'stream_occ/w1/alert'
    """

    prefix: str = "stream_occ"
    instance: str = "edge"
    discovery_prefix: str = ""  # of Home Assistant; empty: it is told nothing

    @property
    def bridge_status(self) -> str:
        """online or offline, retained, last will."""
        return f"{self.prefix}/bridge/{self.instance}/status"

    @property
    def status(self) -> str:
        """The same where there is one instance only."""
        return f"{self.prefix}/status"

    @property
    def counters(self) -> str:
        """What happened to messages, of unknown devices too."""
        return f"{self.prefix}/bridge/{self.instance}/counters"

    def availability(self, device_id: str) -> str:
        """online or offline, by data."""
        return f"{self.prefix}/{device_id}/availability"

    def state(self, device_id: str) -> str:
        """The device's state."""
        return f"{self.prefix}/{device_id}/state"

    def event(self, device_id: str) -> str:
        """Changes of alerts."""
        return f"{self.prefix}/{device_id}/event"

    def alert(self, device_id: str) -> str:
        """The open alert."""
        return f"{self.prefix}/{device_id}/alert"

    def score(self, device_id: str) -> str:
        """One message a window."""
        return f"{self.prefix}/{device_id}/score"

    def waveform(self, device_id: str) -> str:
        """The signals behind a pending alert."""
        return f"{self.prefix}/{device_id}/waveform"

    def received_up_to(self, device_id: str) -> str:
        """Up to where a numbering device's messages are kept."""
        return f"{self.prefix}/{device_id}/received_up_to"

    def discovery(self, device_id: str) -> str:
        """What Home Assistant is told of the device.

        >>> Topics(discovery_prefix="homeassistant").discovery("w1")
        'homeassistant/device/stream_occ_w1/config'
        """
        return f"{self.discovery_prefix}/device/{self.discovery_id(device_id)}/config"

    def discovery_id(self, device_id: str) -> str:
        """Prefix and device as Home Assistant takes them, without dots; two devices never have the same.

        >>> [Topics().discovery_id(name) for name in ("a.b", "a-b", "a_b")]
        ['stream_occ_a-db', 'stream_occ_a--b', 'stream_occ_a_b']
        """
        return f"{self.prefix}_{device_id}".replace("-", "--").replace(".", "-d")

    def command(self, device_id: str, kind: str) -> str:
        """A person's act."""
        return f"{self.prefix}/{device_id}/set/{kind}"

    def is_receipt(self, topic: str) -> bool:
        """True for <prefix>/<device>/set/received."""
        return self.command_of(topic)[1] == "received"

    @property
    def commands_filter(self) -> str:
        """What to subscribe to for people's commands."""
        return f"{self.prefix}/+/set/#"

    def command_of(self, topic: str) -> tuple[str, str]:
        """Device and kind of a topic under .../set/, unchecked; ("", "") for any other topic.

        >>> Topics().command_of("stream_occ/w1/set/ack"), Topics().command_of("stream_occ/w1/state")
        (('w1', 'ack'), ('', ''))
        """
        levels = topic.removeprefix(f"{self.prefix}/").split("/", 2)
        is_command = topic.startswith(f"{self.prefix}/") and len(levels) == 3 and levels[1] == "set"
        return (levels[0], levels[2]) if is_command else ("", "")

    def is_command(self, topic: str) -> bool:
        """True for <prefix>/<device>/set/<anything>."""
        return self.command_of(topic) != ("", "")

    def is_own(self, topic: str) -> bool:
        """True for every topic under our prefix: what we publish is never taken for a device's message."""
        is_discovery = bool(self.discovery_prefix) and topic.startswith(f"{self.discovery_prefix}/device/")
        return is_discovery or topic == self.prefix or topic.startswith(f"{self.prefix}/")


def is_device_id(text: str) -> bool:
    """True for 1 to 64 of A-Z a-z 0-9 . _ - that are no level of our own topics.

    >>> is_device_id("ward-3.watch_7"), is_device_id("a/b"), is_device_id("bridge"), is_device_id("")
    (True, False, False, False)
    """
    return _DEVICE_ID.fullmatch(text) is not None and text not in RESERVED_DEVICE_IDS
