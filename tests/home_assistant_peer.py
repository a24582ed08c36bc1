"""A stand-in for Home Assistant's MQTT integration, written from its documentation and not from our code.

Sources: home-assistant.io, the pages of the integrations mqtt (discovery, birth, availability), binary_sensor.mqtt,
sensor.mqtt, event.mqtt and button.mqtt, and the device classes on those of binary_sensor and sensor, as of 2025.
It refuses what Home Assistant would refuse or ignore, also a misspelt key, and makes of messages what it would show.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jsonschema
from jinja2 import StrictUndefined, Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEXT = {"type": "string", "minLength": 1}
TOPIC = {"type": "string", "pattern": r"^[^+#\x00]+$"}
QOS = {"enum": [0, 1, 2]}
COUNT = {"type": "integer", "minimum": 0}
AVAILABILITY = {
    "availability": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "topic": TOPIC,
                "payload_available": TEXT,
                "payload_not_available": TEXT,
                "value_template": TEXT,
            },
            "required": ["topic"],
            "additionalProperties": False,
        },
    },
    "availability_mode": {"enum": ["all", "any", "latest"]},
}
COMMON = {
    "platform": TEXT,
    "unique_id": TEXT,
    "name": {"type": ["string", "null"]},
    "default_entity_id": TEXT,
    "enabled_by_default": {"type": "boolean"},
    "entity_category": {"enum": ["config", "diagnostic"]},
    "icon": {"type": "string", "pattern": "^mdi:"},
    "json_attributes_topic": TOPIC,
    "json_attributes_template": TEXT,
    "qos": QOS,
    **AVAILABILITY,
}
PLATFORMS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "binary_sensor": (
        ["state_topic"],
        {
            "state_topic": TOPIC,
            "device_class": {"enum": ["problem", "safety", "connectivity", "motion", "running", "battery"]},
            "expire_after": COUNT,
            "force_update": {"type": "boolean"},
            "off_delay": COUNT,
            "payload_on": TEXT,
            "payload_off": TEXT,
            "value_template": TEXT,
        },
    ),
    "sensor": (
        ["state_topic"],
        {
            "state_topic": TOPIC,
            "device_class": {"enum": ["enum", "frequency", "timestamp", "duration", "battery"]},
            "expire_after": COUNT,
            "force_update": {"type": "boolean"},
            "options": {"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True},
            "state_class": {"enum": ["measurement", "total", "total_increasing"]},
            "suggested_display_precision": COUNT,
            "unit_of_measurement": TEXT,
            "value_template": TEXT,
        },
    ),
    "event": (
        ["state_topic", "event_types"],
        {
            "state_topic": TOPIC,
            "event_types": {"type": "array", "items": TEXT, "minItems": 1},
            "device_class": {"enum": ["button", "doorbell", "motion"]},
            "value_template": TEXT,
        },
    ),
    "button": (
        ["command_topic"],
        {
            "command_topic": TOPIC,
            "command_template": TEXT,
            "device_class": {"enum": ["identify", "restart", "update"]},
            "payload_press": TEXT,
            "retain": {"type": "boolean"},
        },
    ),
}
SCHEMA = {
    "type": "object",
    "properties": {
        "device": {
            "type": "object",
            "properties": {
                "identifiers": {"type": "array", "items": TEXT, "minItems": 1},
                **dict.fromkeys(("name", "manufacturer", "model", "model_id", "serial_number", "via_device"), TEXT),
                **dict.fromkeys(("hw_version", "sw_version", "suggested_area", "configuration_url"), TEXT),
            },
            "required": ["identifiers"],
            "additionalProperties": False,
        },
        "origin": {
            "type": "object",
            "properties": {"name": TEXT, "sw_version": TEXT, "support_url": TEXT},
            "required": ["name"],
            "additionalProperties": False,
        },
        "components": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^[a-zA-Z0-9_-]+$"},
            "additionalProperties": {
                "type": "object",
                "properties": {"platform": {"enum": list(PLATFORMS)}},
                "required": ["platform", "unique_id"],
                "allOf": [
                    {
                        "if": {"properties": {"platform": {"const": platform}}},
                        "then": {
                            "required": required,
                            "properties": {**COMMON, **keys},
                            "additionalProperties": False,
                        },
                    }
                    for platform, (required, keys) in PLATFORMS.items()
                ],
            },
        },
        "qos": QOS,
        "encoding": TEXT,
        "state_topic": TOPIC,
        "command_topic": TOPIC,
        **AVAILABILITY,
    },
    "required": ["device", "origin", "components"],
    "additionalProperties": False,
}
jsonschema.Draft202012Validator.check_schema(SCHEMA)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
DISCOVERY_TOPIC = re.compile(r"homeassistant/device/(?:[a-zA-Z0-9_-]+/)?[a-zA-Z0-9_-]+/config")


def check_discovery(topic: str, payload: bytes) -> dict[str, Any]:
    """The message; AssertionError or ValidationError where Home Assistant would not take every word of it."""
    assert DISCOVERY_TOPIC.fullmatch(topic), topic
    message: dict[str, Any] = json.loads(payload)
    VALIDATOR.validate(message)
    components = message["components"].values()
    unique = [component["unique_id"] for component in components]
    assert len(set(unique)) == len(unique)
    assert len({(c["platform"], c.get("name")) for c in components}) == len(unique), "entities of one name"
    for component in components:
        is_enum = component.get("device_class") == "enum"
        assert ("options" in component) == is_enum
        has_number = bool({"state_class", "unit_of_measurement"} & component.keys())
        assert not (has_number and component.get("device_class") in ("enum", "timestamp"))
        if component.get("device_class") == "frequency":
            assert component["unit_of_measurement"] in ("Hz", "kHz", "MHz", "GHz")
        assert ("json_attributes_template" not in component) or "json_attributes_topic" in component
        assert component.get("retain") is not True, "a retained press comes again at every start"
    return message


ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
ENVIRONMENT.filters["to_json"] = json.dumps
ENVIRONMENT.globals["utcnow"] = lambda: datetime.now(UTC)


def render(template: str, payload: bytes | None = None, **variables: Any) -> str:
    """A template as Home Assistant runs it: `value` and, where it is JSON, `value_json`."""
    if payload is not None:
        variables["value"] = payload.decode()
        with contextlib.suppress(ValueError):
            variables["value_json"] = json.loads(payload)
    return _compiled(template).render(**variables)


@functools.cache
def _compiled(template: str) -> Template:
    return ENVIRONMENT.from_string(template)


@dataclass
class Entity:
    """One entity: what it would show, from what came on its topics."""

    config: dict[str, Any]
    online: dict[str, bool] = field(default_factory=dict)
    value: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    fired: list[dict[str, Any]] = field(default_factory=list)

    @property
    def state(self) -> str | None:
        """As shown; None is unknown."""
        wanted = [self.online.get(entry["topic"], False) for entry in self.config["availability"]]
        assert self.config["availability_mode"] == "all"
        return self.value if all(wanted) else "unavailable"

    def hear(self, topic: str, payload: bytes, *, is_retained: bool) -> None:
        """Takes a message in."""
        for entry in self.config["availability"]:
            if entry["topic"] == topic and payload in (b"online", b"offline"):
                self.online[topic] = payload == b"online"
        if topic == self.config.get("json_attributes_topic"):
            self.attributes |= json.loads(render(self.config["json_attributes_template"], payload))
        if topic == self.config.get("state_topic"):
            if self.config["platform"] == "event":
                self._fire(payload, is_retained=is_retained)
            else:
                self._show(render(self.config["value_template"], payload))

    def _fire(self, payload: bytes, *, is_retained: bool) -> None:
        if not is_retained:
            event = json.loads(payload)
            assert event["event_type"] in self.config["event_types"]
            self.fired.append(event)

    def _show(self, text: str) -> None:
        if text == "":
            return
        kind, device_class = self.config["platform"], self.config.get("device_class")
        if text == "None":
            self.value = None
        elif kind == "binary_sensor":
            self.value = {"ON": "on", "OFF": "off"}[text]
        elif device_class == "enum":
            assert text in self.config["options"], text
            self.value = text
        elif device_class == "timestamp":
            assert datetime.fromisoformat(text).tzinfo is not None
            self.value = text
        else:
            float(text)
            self.value = text

    def press(self, *, at: datetime | None = None) -> tuple[str, bytes]:
        """Topic and payload of a button that is pressed now, or at an instant."""
        pressed = self.config.get("payload_press", "PRESS")
        template = self.config.get("command_template", "{{ value }}")
        clock = {} if at is None else {"utcnow": lambda: at}
        return self.config["command_topic"], render(template, pressed.encode(), **clock).encode()


class Peer:
    """Home Assistant's devices: {discovery topic: {component: Entity}}; it subscribes to what they name."""

    def __init__(self) -> None:
        self.devices: dict[str, dict[str, Entity]] = {}
        self._kept: dict[str, bytes] = {}

    def hear(self, topic: str, payload: bytes, *, is_retained: bool = False) -> None:
        """Takes any message in, in the order in which they come."""
        if not topic.startswith("homeassistant/device/"):
            self._kept[topic] = payload
            for device in self.devices.values():
                for entity in device.values():
                    entity.hear(topic, payload, is_retained=is_retained)
        elif not payload:
            self.devices.pop(topic, None)
        else:
            self._discover(topic, check_discovery(topic, payload))

    def _discover(self, topic: str, message: dict[str, Any]) -> None:
        known = self.devices.setdefault(topic, {})
        shared = {key: message[key] for key in AVAILABILITY if key in message}
        for key in known.keys() - message["components"].keys():
            del known[key]
        for key, component in message["components"].items():
            config = {**shared, **component}
            if key not in known or known[key].config != config:
                known[key] = Entity(config)
                for kept, payload in self._kept.items():  # what a broker has for a new subscription
                    if not kept.endswith("/event"):
                        known[key].hear(kept, payload, is_retained=True)
