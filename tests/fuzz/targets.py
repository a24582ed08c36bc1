"""What is fuzzed: each target takes bytes and says what became of them; anything else that it raises is a finding.

A target's name is a folder of tests/corpus. Its outcome is `taken` or the reason of the refusal.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stream_occ.artifacts import unpack_model
from stream_occ.codecs import REASONS, codec_names, load_codec
from stream_occ.codecs.compact import CRC
from stream_occ.config import check_config
from stream_occ.datasets import load_table, open_dataset
from stream_occ.deliveries import NUMBERED_SAVE_S
from stream_occ.errors import ConfigError, DataError, ModelError, PayloadError
from stream_occ.messages import COMMAND_REASONS, SERVICE_REASONS
from stream_occ.samples import DeviceProfile
from stream_occ.showing import read_alert, read_waveform
from stream_occ.training.config import load_training_config
from tests.fake_model import SELF_TEST_SCORES, SELF_TEST_X, register
from tests.property.test_codecs_fuzz import check_blocks
from tests.unit.service_bench import Bench

Target = Callable[[bytes], str]

PROFILES = (
    DeviceProfile(),
    DeviceProfile("m/s2", "rad/s", gravity="included", acc_sign=1, nominal_rate_hz=104),
    DeviceProfile("g", "deg/s", axes=("-z", "x", "y"), acc_sign=-1),
    DeviceProfile("g", "deg/s", acc_counts_per_unit=16384, gyr_counts_per_unit=131, stamps="arrival"),
)
MAX_ERROR_CHARACTERS = 4100
MESSAGES_OF_ONE_SERVICE = 300
_ZEROS = b"0" * 64
_SHA_AT, _HMAC_AT = (
    8 + len(b'{"__metadata__":{"sha256":"'),
    8 + len(b'{"__metadata__":{"sha256":"","hmac_sha256":"') + 64,
)


def decode(name: str, data: bytes) -> str:
    """Blocks within the bounds or one PayloadError, by every profile; the outcome by the first that takes it."""
    outcome = ""
    if name == "compact" and len(data) > CRC.size:  # a check sum that fits, or nothing behind it is ever reached
        data = data[: -CRC.size] + CRC.pack(zlib.crc32(data[: -CRC.size]))
    for profile in PROFILES:
        try:
            blocks = load_codec(name).decode(data, device_id="w1", profile=profile)
        except PayloadError as error:
            one_line(error)
            outcome = outcome or error.reason
            continue
        check_blocks(blocks)
        outcome = "taken"
    assert outcome in {"taken", *REASONS}
    return outcome


def one_line(error: Exception) -> None:
    """An error that a person can read."""
    assert "\n" not in str(error)
    assert len(str(error)) <= MAX_ERROR_CHARACTERS


def model(data: bytes) -> str:
    """The bytes as they are, and with a digest that fits: what a forger would bring."""
    register()
    outcome = _model(data)
    head = bytearray(data)
    if len(head) >= _HMAC_AT + 64:
        head[_SHA_AT : _SHA_AT + 64] = head[_HMAC_AT : _HMAC_AT + 64] = _ZEROS
        head[_SHA_AT : _SHA_AT + 64] = hashlib.sha256(head).hexdigest().encode()
        outcome = _model(bytes(head))
    return outcome


def _model(data: bytes) -> str:
    try:
        loaded = unpack_model(data)
    except ModelError as error:
        one_line(error)
        return "refused"
    with np.errstate(all="ignore"):  # a scale of 1e-308 is one: what is not finite has no verdict further on
        assert len(loaded.score_features(SELF_TEST_X)) == len(SELF_TEST_SCORES)
    return "taken"


def config(folder: Path, data: bytes) -> str:
    """A configuration, or problems of one line each."""
    path = folder / "c.yaml"
    path.write_bytes(data)
    loaded, problems = check_config(path, {})
    assert (loaded is None) == bool(problems)
    for problem in problems:
        one_line(problem)
    if loaded is not None:
        loaded.shown()
    return "refused" if problems else "taken"


def training_config(folder: Path, data: bytes) -> str:
    """The same for training."""
    path = folder / "t.yaml"
    path.write_bytes(data)
    try:
        load_training_config(path)
    except ConfigError as error:
        one_line(error)
        return "refused"
    return "taken"


def dataset(name: str, folder: Path, data: bytes) -> str:
    """Recordings of a file from elsewhere, or a DataError."""
    path = folder / ("S1.dat" if name == "table" and data.startswith(b"@") else "S1.csv")
    path.write_bytes(data)
    try:
        if name == "table":
            load_table(path)
            return "taken"
        found = list(open_dataset(name, path).iter_recordings())
    except DataError as error:
        one_line(error)
        return "refused"
    return "taken" if found else "nothing"


def alert(folder: Path, data: bytes) -> str:
    """An alert message, or a waveform, that somebody sent as a file."""
    path = folder / "a.json"
    path.write_bytes(data)
    for read in (read_alert, lambda path: read_waveform(path, "a")):
        try:
            read(path)
        except DataError as error:
            one_line(error)
        else:
            return "taken"
    return "refused"


class Messages:
    """Topic, NUL, payload, to a running service: each is samples, an act or a receipt, or a refusal that is counted."""

    def __init__(self) -> None:
        self._n = 0

    def __call__(self, data: bytes) -> str:
        if self._n % MESSAGES_OF_ONE_SERVICE == 0:
            self._start()
        self._n += 1
        topic, _, payload = data.partition(b"\0")
        return self._send(topic.decode(errors="replace"), payload)

    def _start(self) -> None:
        inputs = [{"pattern": "wearables/{device}/#"}, {"pattern": "s/{device}", "codec": "csv"}]
        self._bench = Bench(inputs=inputs, receivers=["ward"])
        self._bench.send(50)
        self._bench.run(1.0)
        self._n_acts, service = 0, self._bench.service
        for name in ("_act", "_receive"):
            setattr(service, name, partial(self._count, getattr(service, name)))

    def _count(self, act: Callable[..., Any], *arguments: Any) -> Any:
        self._n_acts += 1
        return act(*arguments)

    def _send(self, topic: str, payload: bytes) -> str:
        bench = self._bench
        before, n_before = Counter(bench.service.counters().refused), self._n_results()
        bench.deliver(topic, payload)
        bench.run(0.01)
        if self._is_one_to_be_told():
            bench.run(NUMBERED_SAVE_S)  # past a save: whoever numbers is told
            assert not self._is_one_to_be_told()
        bench.link.sent.clear()
        refused = Counter(bench.service.counters().refused) - before
        assert set(refused) <= {*REASONS, *SERVICE_REASONS, *COMMAND_REASONS} - {"internal_error"}, refused
        assert refused or self._n_results() > n_before, topic
        return next(iter(refused), "taken")

    def _is_one_to_be_told(self) -> bool:
        """Of the same number a device is told again only after a while, which is not over with every message."""
        devices = self._bench.service.intake.devices.values()
        return any(record.numbering.is_to_be_told(self._bench.now_s) for record in devices)

    def _n_results(self) -> int:
        """Samples in states, what the resampler had already, and acts."""
        counters = [device.resampler.counters for device in self._bench.service._state.devices.values()]
        return self._n_acts + sum(each.n_samples + each.duplicate + each.late for each in counters)


def targets(folder: Path | None = None) -> dict[str, Target]:
    """All by name; files are written below `folder`, in memory by default where the system has such a place."""
    if folder is None:
        shm = Path("/dev/shm")
        folder = Path(tempfile.mkdtemp(prefix="stream_occ_fuzz", dir=shm if shm.is_dir() else None))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found: dict[str, Target] = {f"codec-{name}": partial(decode, name) for name in codec_names()}
    found |= {f"dataset-{name}": partial(dataset, name, folder) for name in ("csv", "recording", "table")}
    files = {"config": config, "training-config": training_config, "alert": alert}
    found |= {name: partial(function, folder) for name, function in files.items()}
    return found | {"model": model, "message": Messages()}
