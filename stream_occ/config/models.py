"""The configuration's keys: pydantic models, a unit in each name; read by stream_occ.config.

A validator's ValueError is "what must hold|what to do": the second half becomes the remedy of the error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainValidator, PrivateAttr, SecretStr, SerializeAsAny, field_validator, model_validator

from stream_occ.config.inputs import InputConfig
from stream_occ.section import Section
from stream_occ.sharding import MAX_SHARDS, Shard
from stream_occ.sinks import SinkSettings, settings_class

Seconds = Annotated[float, Field(gt=0, le=31_536_000)]
Level = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
FileLevel = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]  # the state file has its name
Levels = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}(/[A-Za-z0-9._-]{1,64}){0,7}$")]


def _sink(value: object) -> SinkSettings:
    """The settings of a sink's kind; they were checked key by key before (stream_occ.config)."""
    if isinstance(value, SinkSettings):
        return value
    if not isinstance(value, dict):
        raise ValueError("hold the keys of a sink|See docs/sinks.md")
    kind = settings_class(str(value.get("kind")), "sinks: kind")
    return kind.model_validate_json(json.dumps(value), strict=True)


SinkName = Annotated[str, Field(pattern=r"^[a-z0-9]+(_[a-z0-9]+)*$", max_length=32)]
AnySink = Annotated[SerializeAsAny[SinkSettings], PlainValidator(_sink)]


class TlsConfig(Section):
    """Files in PEM format; ca_file None uses the system's authorities."""

    enabled: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("have cert_file and key_file together|Give both, or neither")
        if not self.enabled and (self.ca_file, self.cert_file) != (None, None):
            raise ValueError("have enabled: true beside files, which do nothing without it|Set it, or leave them out")
        return self


class MqttConfig(Section):
    """The broker and how to speak with it."""

    host: str = Field(default="127.0.0.1", min_length=1, max_length=253)
    port: int = Field(default=1883, ge=1, le=65535)
    protocol: Literal["5", "3.1.1"] = "5"
    tls: TlsConfig = TlsConfig()
    username: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    client_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] | None = None
    keepalive_s: int = Field(default=30, ge=5, le=3600)
    session_expiry_s: int = Field(default=3600, ge=0, le=604_800)
    connect_timeout_s: Seconds = 10.0
    reconnect_min_s: Seconds = 0.5
    reconnect_max_s: Seconds = 30.0
    prefix: FileLevel = "stream_occ"
    instance: FileLevel = "edge"
    is_only_instance: bool = True
    outgoing_messages: int = Field(default=10_000, ge=100, le=60_000)  # below the 65,535 packet ids

    @field_validator("protocol", mode="before")
    @classmethod
    def _number_as_text(cls, value: object) -> object:
        return str(value) if type(value) is int else value  # YAML reads 5 as a number

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.password is not None and self.password_file is not None:
            raise ValueError("have password or password_file, not both|Remove one")
        if self.reconnect_min_s > self.reconnect_max_s:
            raise ValueError("have reconnect_min_s <= reconnect_max_s|Raise reconnect_max_s")
        return self


class StreamConfig(Section):
    """How stamps are judged: gap_s, reorder_s as in resampling; what is further from the wall clock is refused."""

    gap_s: float = Field(default=0.5, gt=0, le=1)  # two stamps this far apart become gap_s * rate_hz samples
    reorder_s: float = Field(default=0.0, ge=0, le=60)
    max_future_s: Seconds = 86_400.0
    max_past_s: Seconds = 604_800.0
    max_skew_s: float = Field(default=1.0, gt=0, le=10)


class EventsConfig(Section):
    """When alerts begin, what is asked of the wearer and of people, when alerts end; as EventPolicy in stream_occ."""

    k: int = Field(default=1, ge=1, le=1000)
    n: int = Field(default=1, ge=1, le=1000)
    check: bool = True
    still_s: float = Field(default=2.0, ge=0.5, le=60)
    still_acc_ms2: float = Field(default=0.7, ge=0.01, le=20)
    still_gyr_rads: float = Field(default=0.5, ge=0.01, le=20)
    posture_deg: float = Field(default=45.0, ge=5, le=175)
    silence_s: float = Field(default=10.0, ge=2, le=120)
    check_s: float = Field(default=30.0, ge=1, le=600)
    max_check_s: float = Field(default=120.0, ge=1, le=3600)
    countdown_s: float = Field(default=30.0, ge=0, le=600)
    repeat_s: float = Field(default=60.0, ge=5, le=3600)
    max_level: int = Field(default=3, ge=1, le=10)
    clear_after_s: Seconds = 300.0
    refractory_s: float = Field(default=60.0, ge=0, le=86_400)
    merge_s: float = Field(default=6.0, ge=0, le=60)
    live_within_s: Seconds = 3600.0
    learning_s: float = Field(default=0.0, ge=0, le=2_592_000)
    not_worn_s: float = Field(default=600.0, ge=0, le=86_400)
    not_worn_guard_s: float = Field(default=900.0, ge=0, le=86_400)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.k > self.n:
            raise ValueError("have k <= n|Lower k or raise n")
        if self.check_s > self.max_check_s:
            raise ValueError("have check_s <= max_check_s|Lower check_s or raise max_check_s")
        return self


class DriftConfig(Section):
    """When a lasting change of a device's scores is a fault; as DriftPolicy in stream_occ.drift."""

    enabled: bool = True
    block_s: float = Field(default=1800.0, ge=10, le=86_400)
    max_blocks: int = Field(default=336, ge=4, le=10_000)
    min_blocks: int = Field(default=5, ge=2, le=5000)
    delta: float = Field(default=0.002, ge=1e-12, lt=1)

    @model_validator(mode="after")
    def _two_sides(self) -> Self:
        if 2 * self.min_blocks > self.max_blocks:
            raise ValueError("have 2 * min_blocks <= max_blocks|Lower min_blocks or raise max_blocks")
        return self


class LimitsConfig(Section):
    """Bounds of everything that hostile or broken devices could make grow."""

    max_devices: int = Field(default=200, ge=1, le=100_000)
    allowed_devices: tuple[Level, ...] = ()
    queue_messages: int = Field(default=20_000, ge=10, le=1_000_000)
    queue_bytes: int = Field(default=64 * 1024 * 1024, ge=65_536, le=2**32)
    max_payload_bytes: int = Field(default=1024 * 1024, ge=256, le=4 * 1024 * 1024)
    forget_device_after_s: Seconds = 86_400.0
    idle_device_after_s: Seconds = 3600.0
    max_command_age_s: Seconds = 300.0


class StateConfig(Section):
    """What outlives the process: open alerts, mutes, streams, a history of alerts; path None: in the state folder."""

    enabled: bool = True
    path: Path | None = None
    save_interval_s: float = Field(default=5.0, ge=0.1, le=3600)
    keep_days: float = Field(default=90.0, gt=0, le=36_500)
    keep_changes: int = Field(default=100_000, ge=100, le=100_000_000)
    keep_waveforms: int = Field(default=10_000, ge=0, le=10_000_000)
    outbox_changes: int = Field(default=10_000, ge=10, le=1_000_000)


class OutputConfig(Section):
    """What is published and how often."""

    publish_score: bool = False
    publish_suspected: bool = True
    publish_waveform: bool = False
    slice_s: float = Field(default=0.02, ge=0.0, le=10)
    state_interval_s: Seconds = 10.0
    offline_after_s: Seconds = 10.0
    fault_hold_s: Seconds = 60.0


class HomeAssistantConfig(Section):
    """Discovery messages for Home Assistant; its own settings of MQTT have the same two texts."""

    enabled: bool = False
    discovery_prefix: Levels = "homeassistant"
    status_topic: Levels = "homeassistant/status"


class LogConfig(Section):
    """Lines on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class HttpConfig(Section):
    """/health, /ready and /metrics; off unless wanted, and for this machine alone unless host says otherwise."""

    enabled: bool = False
    host: str = Field(default="127.0.0.1", min_length=1, max_length=253)
    port: int = Field(default=9464, ge=1, le=65535)


class Config(Section):
    """The whole configuration of `stream-occ detect` and `record`."""

    mqtt: MqttConfig = MqttConfig()
    inputs: tuple[InputConfig, ...]
    receivers: tuple[Level, ...] = Field(default=(), max_length=16)
    sinks: dict[SinkName, AnySink] = Field(default={}, max_length=16)
    model: Path = Path("model.occ")
    model_key_file: Path | None = None
    engine: Literal["auto", "numpy", "compiled"] = "auto"
    command_key: SecretStr | None = None
    command_key_file: Path | None = None
    stream: StreamConfig = StreamConfig()
    events: EventsConfig = EventsConfig()
    drift: DriftConfig = DriftConfig()
    limits: LimitsConfig = LimitsConfig()
    state: StateConfig = StateConfig()
    output: OutputConfig = OutputConfig()
    home_assistant: HomeAssistantConfig = HomeAssistantConfig()
    log: LogConfig = LogConfig()
    http: HttpConfig = HttpConfig()
    shard: str | None = None

    _password: SecretStr | None = PrivateAttr(default=None)
    _model_key: SecretStr | None = PrivateAttr(default=None)
    _command_key: SecretStr | None = PrivateAttr(default=None)

    @field_validator("inputs")
    @classmethod
    def _some(cls, inputs: tuple[InputConfig, ...]) -> tuple[InputConfig, ...]:
        if not 1 <= len(inputs) <= 100:  # here and not as a bound: that would count only those without a mistake
            raise ValueError("have 1 to 100 entries|Say which topics to listen to")
        return inputs

    @field_validator("shard")
    @classmethod
    def _some_share(cls, shard: str | None) -> str | None:
        try:
            Shard.parse("1of1" if shard is None else shard)
        except ValueError:
            raise ValueError(f"be one of several processes such as 2of4, of {MAX_SHARDS} at most|Correct it") from None
        return shard

    @model_validator(mode="after")
    def _one_command_key(self) -> Self:
        if self.command_key is not None and self.command_key_file is not None:
            raise ValueError("have command_key or command_key_file, not both|Remove one")
        return self

    @model_validator(mode="after")
    def _separate_topics(self) -> Self:
        for entry in self.inputs:
            if entry.pattern.split("/")[0] == self.mqtt.prefix:
                raise ValueError(
                    f"have inputs outside of its own topics, {self.mqtt.prefix}/|Change the pattern or mqtt.prefix"
                )
        for key in ("discovery_prefix", "status_topic"):
            if getattr(self.home_assistant, key).split("/")[0] == self.mqtt.prefix:
                raise ValueError(f"have home_assistant.{key} outside of its own topics, {self.mqtt.prefix}/|Change it")
        return self

    @property
    def own_shard(self) -> Shard:
        """Which devices this process has: all, where `shard` does not say."""
        return Shard.parse(self.shard or "1of1")

    @property
    def instance(self) -> str:
        """mqtt.instance, with the shard's number where there is one: each process has topics and files of its own."""
        return self.own_shard.named(self.mqtt.instance)

    @property
    def discovery_prefix(self) -> str:
        """home_assistant.discovery_prefix; empty where Home Assistant is told nothing."""
        return self.home_assistant.discovery_prefix if self.home_assistant.enabled else ""

    @property
    def resolved_password(self) -> SecretStr | None:
        """The password from the file or the environment, read once when the configuration was loaded."""
        return self._password

    @property
    def model_key(self) -> bytes | None:
        """The key that signs models, or None."""
        return None if self._model_key is None else self._model_key.get_secret_value().encode()

    @property
    def resolved_command_key(self) -> bytes | None:
        """The key that signs commands, or None where unsigned ones are taken."""
        return None if self._command_key is None else self._command_key.get_secret_value().encode()

    def shown(self) -> dict[str, Any]:
        """The effective values as plain data, secrets as ***."""
        data: dict[str, Any] = self.model_dump(mode="json")
        if self.mqtt.password is not None:
            data["mqtt"]["password"] = "***"
        if self.command_key is not None:
            data["command_key"] = "***"
        for name, sink in self.sinks.items():
            data["sinks"][name] |= {key: "***" for key in sink.secrets() if getattr(sink, key) is not None}
        return data
