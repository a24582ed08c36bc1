"""Home Assistant: one retained discovery message a device, of which it makes entities that read our topics.

It is published when a device has given its first samples, again on every connection and when Home Assistant says that
it has started, and emptied when the device is forgotten. docs/home-assistant.md says what it is good for.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Iterable, Set
from typing import Any, get_args

from stream_occ import __version__
from stream_occ.config import Config
from stream_occ.inbox import Link, Received
from stream_occ.messages import DEVICE_STATES, OFFLINE, ONLINE
from stream_occ.samples import AlertState
from stream_occ.topics import Topics

log = logging.getLogger("stream_occ.home_assistant")

PIECE = 50  # messages of one look: thousands of devices must not take the room that events need
EXPIRE_INTERVALS, LEAST_EXPIRE_S = 6, 60  # a state that is not told again is one that nobody watches over
MAX_MISSED = 1000  # devices forgotten while Home Assistant was away; beyond it the oldest stay in it
SETTLE_S = 10.0  # until it has made entities of a message: of one that is emptied sooner it would keep them
UNSAFE = ("pending", "alarm", "acknowledged")  # as long as the alert is retained
ALERT_STATES: tuple[str, ...] = get_args(AlertState)

# Jinja2, run by Home Assistant. 'None' is its word for unknown.
_FALL = f"'None' if value_json.state == 'waiting' else 'ON' if value_json.state in {UNSAFE!r} else 'OFF'"
_ACT = '{"by": "Home Assistant", "t": "{{ utcnow().isoformat() }}"}'  # with t, one that comes late is refused


def _reads(expression: str, otherwise: str = "None") -> str:
    """A template for JSON; the topic of a forgotten device is emptied, and then there is no value_json."""
    return f"{{% if value_json is defined %}}{{{{ {expression} }}}}{{% else %}}{otherwise}{{% endif %}}"


def _attributes(key: str) -> dict[str, str]:
    """One key of the state as an attribute of the entity."""
    return {"json_attributes_template": _reads(f"{{'{key}': value_json.{key}}} | tojson", "{}")}


_SENSORS: dict[str, dict[str, Any]] = {
    "state": {
        "name": "State",
        "device_class": "enum",
        "options": DEVICE_STATES,
        "value_template": _reads("value_json.state"),
    },
    "score": {
        "name": "Score",
        "state_class": "measurement",
        "suggested_display_precision": 2,
        "value_template": _reads("value_json.score"),
        **_attributes("threshold"),
    },
    "rate": {
        "name": "Sampling rate",
        "device_class": "frequency",
        "unit_of_measurement": "Hz",
        "state_class": "measurement",
        "suggested_display_precision": 1,
        "entity_category": "diagnostic",
        "value_template": _reads("value_json.rate_hz"),
    },
    "last_seen": {
        "name": "Last seen",
        "device_class": "timestamp",
        "entity_category": "diagnostic",
        "value_template": _reads("value_json.last_seen"),
    },
}
_BINARY_SENSORS: dict[str, dict[str, Any]] = {
    "fall": {"name": "Fall alert", "device_class": "safety", "value_template": _reads(_FALL)},
    "problem": {
        "name": "Problem",
        "device_class": "problem",
        "entity_category": "diagnostic",
        "value_template": _reads("'ON' if value_json.faults else 'OFF'"),
        **_attributes("faults"),
    },
}
_BUTTONS = {"ack": "Acknowledge", "cancel": "Cancel or all clear", "mute": "Mute for an hour", "unmute": "Unmute"}
_ONLY_WITH_DATA = frozenset({"score", "rate"})  # all else matters most when the device is silent
SAID_INTERVAL_S = 10.0  # between two lines of its start


class HomeAssistant:
    """Keeps the discovery messages of the known devices at the broker; does nothing unless it is enabled.

    `hear` and `renew` are for any thread, the rest for the worker's.
    """

    def __init__(self, link: Link, config: Config, topics: Topics) -> None:
        self._link = link
        self._topics = topics
        self._is_enabled = config.home_assistant.enabled
        self._expire_s = round(max(EXPIRE_INTERVALS * config.output.state_interval_s, LEAST_EXPIRE_S))
        self._has_buttons = config.resolved_command_key is None  # Home Assistant signs nothing
        self._told: set[str] = set()  # whose message the broker may hold
        self._fresh: set[str] = set()  # and has had since the connection, or Home Assistant, began
        self._is_away = False
        self._said_s = -math.inf
        self._missed: dict[str, float | None] = {}  # taken away while it was: when they are to be taken away again
        self._is_begun = False  # connected is not yet subscribed: published before `renew` it would be twice
        self._is_renewal_wanted = threading.Event()

    def hear(self, message: Received) -> None:
        """What Home Assistant says of itself. A retained word came with our connection, when all was published."""
        self._is_away = message.payload == OFFLINE
        if message.payload == ONLINE and not message.is_retained:
            if message.arrived_s >= self._said_s + SAID_INTERVAL_S:  # anybody may send it, again and again
                self._said_s = message.arrived_s
                log.info("Home Assistant has started: devices are announced anew")
            self.renew()

    def renew(self) -> None:
        """Has all messages published again."""
        self._is_renewal_wanted.set()

    def was_told(self, device_ids: Iterable[str]) -> None:
        """Devices known to the process before: messages of those that are known no more are taken away."""
        self._told.update(device_ids)

    def tell(self, known: Set[str], now_s: float) -> None:
        """Publishes what is missing and takes away what is too much: a piece of it, while there is a broker."""
        if not self._is_enabled or not self._link.is_connected:
            return
        if self._is_renewal_wanted.is_set():
            self._is_renewal_wanted.clear()
            self._fresh.clear()
            self._is_begun = True
        if not self._is_begun:
            return
        for device_id in sorted((self._told - known) | (known - self._fresh))[:PIECE]:
            if not self._link.has_room:
                return
            is_known = device_id in known
            self._publish(device_id, is_there=is_known)
            for ids in (self._told, self._fresh):
                ids.add(device_id) if is_known else ids.discard(device_id)
            self._missed.pop(device_id, None)
            if self._is_away and not is_known:
                self._missed[device_id] = None
        if self._is_away:
            self._missed = dict.fromkeys(list(self._missed)[-MAX_MISSED:])
        else:
            self._repeat(now_s)

    def _repeat(self, now_s: float) -> None:
        """What was taken away unheard: Home Assistant lets go of what it has been told of since its start alone."""
        for device_id, due_s in list(self._missed.items())[:PIECE]:
            if not self._link.has_room:
                return
            if due_s is None:
                self._publish(device_id, is_there=True, is_retained=False)
                self._missed[device_id] = now_s + SETTLE_S
            elif now_s >= due_s:
                self._publish(device_id, is_there=False)
                del self._missed[device_id]

    def _publish(self, device_id: str, *, is_there: bool, is_retained: bool = True) -> None:
        payload = json.dumps(self.message(device_id)).encode() if is_there else b""
        self._link.publish(self._topics.discovery(device_id), payload, qos=1, is_retained=is_retained)

    def message(self, device_id: str) -> dict[str, Any]:
        """The device, and what Home Assistant is to make of its topics."""
        own_id = self._topics.discovery_id(device_id)
        service = {"topic": self._topics.bridge_status}
        components = {
            key: {"unique_id": f"{own_id}_{key}", "qos": 1, "availability": [service], **component}
            for key, component in self._components(device_id).items()
        }
        for key in _ONLY_WITH_DATA:
            components[key]["availability"] = [service, {"topic": self._topics.availability(device_id)}]
        return {
            "device": {"identifiers": [own_id], "name": device_id, "manufacturer": "stream_occ", "model": "Wearable"},
            "origin": {"name": "stream_occ", "sw_version": __version__},
            "availability_mode": "all",
            "components": components,
        }

    def _components(self, device_id: str) -> dict[str, dict[str, Any]]:
        topic = self._topics.state(device_id)
        state = {"state_topic": topic, "expire_after": self._expire_s}
        components: dict[str, dict[str, Any]] = {
            "alert": {
                "platform": "event",
                "name": "Alert",
                "state_topic": self._topics.event(device_id),
                "event_types": ALERT_STATES,
            }
        }
        for platform, entities in (("binary_sensor", _BINARY_SENSORS), ("sensor", _SENSORS)):
            for key, entity in entities.items():
                attributes = {"json_attributes_topic": topic} if "json_attributes_template" in entity else {}
                components[key] = {"platform": platform, **state, **attributes, **entity}
        for kind, name in _BUTTONS.items() if self._has_buttons else ():
            act = {"command_topic": self._topics.command(device_id, kind), "command_template": _ACT}
            components[kind] = {"platform": "button", "name": name, **act}
        return components
