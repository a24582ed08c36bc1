"""From a configuration to a link and a pipeline: options, a client id that stays from start to start; what fits."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import socket
from pathlib import Path
from typing import IO

from stream_occ.config import Config
from stream_occ.errors import ServiceError
from stream_occ.events import EventPolicy
from stream_occ.mqtt import MqttOptions
from stream_occ.pipeline import Pipeline
from stream_occ.reach import Reach
from stream_occ.resampling import StreamSettings
from stream_occ.scoring import Model
from stream_occ.topics import Topics
from stream_occ.waveform import Signals

log = logging.getLogger("stream_occ.wiring")

MAX_ID_CHARACTERS = 1024  # far more than an id and its line end: whatever else the file is, it is not read whole


def topics_of(config: Config) -> Topics:
    """The topics of this process."""
    return Topics(config.mqtt.prefix, config.instance, config.discovery_prefix)


def pipeline_of(config: Config, model: Model) -> Pipeline:
    """The core, with the model, as the configuration wants streams judged and alerts raised."""
    settings = StreamSettings(gap_s=config.stream.gap_s, reorder_s=config.stream.reorder_s)
    return Pipeline(model, settings, EventPolicy(**config.events.model_dump()))


def signals_of(config: Config, model: Model) -> Signals | None:
    """What holds the last samples, for the signals behind an alert; None where nobody wants them."""
    is_kept = config.state.enabled and config.state.keep_waveforms > 0
    if not (is_kept or config.output.publish_waveform):
        return None
    return Signals(model.window_s, model.rate_hz, reorder_s=config.stream.reorder_s)


def link_options(config: Config, client_id: str) -> MqttOptions:
    """The link's options from the configuration."""
    mqtt, password = config.mqtt, config.resolved_password
    if password is not None and not mqtt.tls.enabled and not re.fullmatch(r"localhost|127\..*|::1", mqtt.host):
        log.warning("the password goes to %s for everybody on the way to read: set mqtt.tls.enabled", mqtt.host)
    return MqttOptions(
        host=mqtt.host,
        port=mqtt.port,
        client_id=client_id,
        protocol=mqtt.protocol,
        use_tls=mqtt.tls.enabled,
        ca_file=mqtt.tls.ca_file,
        cert_file=mqtt.tls.cert_file,
        key_file=mqtt.tls.key_file,
        username=mqtt.username,
        password=None if password is None else password.get_secret_value(),
        keepalive_s=mqtt.keepalive_s,
        session_expiry_s=mqtt.session_expiry_s,
        connect_timeout_s=mqtt.connect_timeout_s,
        reconnect_min_s=mqtt.reconnect_min_s,
        reconnect_max_s=mqtt.reconnect_max_s,
        outgoing_messages=mqtt.outgoing_messages,
        max_payload_bytes=config.limits.max_payload_bytes,
    )


def state_folder() -> Path:
    """Where small things are kept from start to start: systemd's STATE_DIRECTORY, else the user's state folder."""
    given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "stream_occ"


class ClientId:
    """The configured client id, or one made of the host's name and chance, kept in a file that one process may hold.

    Two processes with one id would throw each other out of the broker for ever, so the second one is refused here.
    """

    def __init__(self, config: Config, folder: Path | None = None) -> None:
        self._file: IO[str] | None = None
        mqtt = config.mqtt
        if mqtt.client_id:
            self.value = config.own_shard.named(mqtt.client_id)
        else:
            self.value = self._kept(folder or state_folder(), f"{mqtt.prefix}-{config.instance}")

    def _kept(self, folder: Path, instance: str) -> str:
        path = folder / f"{instance}.client-id"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+", encoding="utf-8", errors="replace")
        except OSError as error:
            raise _not_writable(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise ServiceError(
                str(path),
                "be held by one process",
                f"a running detector of instance {instance}",
                "Stop it, or give this one its own mqtt.instance or mqtt.client_id",
            ) from error
        self._file.seek(0)
        kept = self._file.read(MAX_ID_CHARACTERS).strip()
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", kept):
            host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:24]
            kept = f"{instance[:24]}-{host}-{secrets.token_hex(4)}"
            try:
                self._file.truncate(0)
                self._file.write(kept + "\n")
                self._file.flush()
            except OSError as error:
                with contextlib.suppress(OSError):  # closing writes once more
                    self.release()
                raise _not_writable(path, error) from error
        return kept

    def release(self) -> None:
        """Lets another process have the id."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _not_writable(path: Path, error: OSError) -> ServiceError:
    got = error.strerror or "an error"
    return ServiceError(str(path), "be a file that can be written", got, "Set mqtt.client_id, or STATE_DIRECTORY")


def warn_of_placements(config: Config, model: Model) -> None:
    """A warning for each input whose devices are worn where none was in the training data; unknown goes with any."""
    trained_at = str(model.metadata.get("placement", "unknown")).split("/")
    for entry in config.inputs:
        worn_at = entry.device_profile.placement
        if "unknown" not in (worn_at, *trained_at) and worn_at not in trained_at:
            log.warning(
                "inputs %s: worn at the %s, and model %s was trained at the %s: expect missed falls and false alarms",
                entry.pattern,
                worn_at,
                model.model_id,
                ", ".join(trained_at),
            )


def warn_of_ranges(config: Config, model: Model) -> None:
    """A warning for each input whose sensors end below what the model was trained to see; what cannot be compared is
    said once."""
    reach = Reach.of_model(model.metadata)
    if reach is None:
        log.info("model %s does not say how far its training's sensors went: no input is compared", model.model_id)
        return
    undeclared = []
    for entry in config.inputs:
        profile = entry.device_profile
        if found := reach.beyond(profile):
            log.warning(
                "inputs %s: model %s was trained to see more: %s; its devices have the fault range_too_low",
                entry.pattern,
                model.model_id,
                "; ".join(found),
            )
        if profile.acc_range_ms2 is None or profile.gyr_range_rads is None:
            undeclared.append(entry.pattern)
    if undeclared:
        told = ", ".join(undeclared)
        log.info("inputs %s: no acc_range_ms2 or gyr_range_rads in the profile to compare with the model's", told)
