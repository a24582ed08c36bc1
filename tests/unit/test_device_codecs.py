"""Codecs of devices and gateways: hand-made messages with values computed by hand."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import struct
import subprocess
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import cbor2
import msgpack
import numpy as np
import pytest

from simulators.resending import Memory
from stream_occ.codecs import load_codec
from stream_occ.codecs._common import to_block
from stream_occ.config import Config, check_config
from stream_occ.errors import PayloadError
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.samples import DeviceProfile, SampleBlock
from stream_occ.topics import Topics

DEVICE = Path(__file__).resolve().parents[2] / "configs" / "devices" / "mpu6050_compact"
DECLARED = DeviceProfile()
DOCUMENT: dict[str, Any] = {
    "t_ns": [1_700_000_000_000_000_001, 1_700_000_000_020_000_001],
    "acc": [[0.0, 0.0, 1.0], [0, 0.5, -1]],
    "gyr": [[180.0, 0, 0], [0, 90, 0]],
    "units": {"acc": "g", "gyr": "deg/s"},
    "boot": 7,
    "seq": 3,
}
PACKERS = {"msgpack": msgpack.packb, "cbor": cbor2.dumps}


def decode(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> SampleBlock:
    [block] = load_codec(codec).decode(payload, device_id="w1", profile=profile)
    return block


def reason_of(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> str:
    with pytest.raises(PayloadError) as caught:
        load_codec(codec).decode(payload, device_id="w1", profile=profile)
    return caught.value.reason


def message_of(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> str:
    with pytest.raises(PayloadError) as caught:
        load_codec(codec).decode(payload, device_id="w1", profile=profile)
    return str(caught.value)


# ---- what codecs share


def test_raw_counts_are_scaled_by_the_profile() -> None:
    """16384 counts are 1 g, 131 are 1 deg/s; of two units one is counts, and axes are turned after."""
    profile = DeviceProfile("g", "deg/s", acc_counts_per_unit=16384, gyr_counts_per_unit=131, axes=("y", "-x", "z"))
    acc, gyr = np.array([[8192.0, 0.0, 16384.0]]), np.array([[0.0, 131.0 * 180, 0.0]])
    block = to_block("w1", profile, np.array([1]), acc, gyr, (None, None))
    np.testing.assert_allclose(block.acc_ms2, [[0.0, -4.903325, 9.80665]])
    np.testing.assert_allclose(block.gyr_rads, [[np.pi, 0.0, 0.0]])


def test_a_message_in_units_is_no_message_of_counts() -> None:
    """Counts of g are in the profile and g in the message: one of them is wrong."""
    profile = DeviceProfile("g", "deg/s", acc_counts_per_unit=16384)
    assert reason_of("msgpack", msgpack.packb(DOCUMENT), profile) == "unit_conflict"


def test_stamps_at_arrival_move_a_message_as_a_whole() -> None:
    """Two samples 20 ms apart by an uptime clock, taken off the queue after 0.25 s: the last is when they came."""
    profile = {"stamps": "arrival", "acc_unit": "g", "gyr_unit": "deg/s"}
    settings = Config.model_validate({"inputs": ({"pattern": "a/{device}", "profile": profile},)})
    intake = Intake(settings, Topics("stream_occ", "edge"))
    payload = b'{"t_ms": [100, 120], "acc": [[0, 0, 1], [0, 0, 1]], "gyr": [[0, 0, 0], [0, 0, 0]]}'
    message = Received.of("a/w1", payload, is_retained=False, arrived_s=10.0, max_bytes=1000)
    [block] = intake.accept(message, now_ns=1_700_000_000_500_000_000, now_s=10.25)
    assert block.t_ns.tolist() == [1_700_000_000_230_000_000, 1_700_000_000_250_000_000]


# ---- msgpack and cbor


@pytest.mark.parametrize("codec", PACKERS)
def test_document_in_binary_is_read_as_in_json(codec: str) -> None:
    """Stamps to the ns, g and deg/s to SI, boot and seq beside the samples."""
    block = decode(codec, PACKERS[codec](DOCUMENT))
    assert block.t_ns.tolist() == DOCUMENT["t_ns"]
    np.testing.assert_allclose(block.acc_ms2, [[0, 0, 9.80665], [0, 4.903325, -9.80665]])
    np.testing.assert_allclose(block.gyr_rads, [[np.pi, 0, 0], [0, np.pi / 2, 0]])
    assert block.number == (7, 3)


def test_bytes_written_by_hand_are_read() -> None:
    """{"t_ns": 5, "acc": [0, 0, 1], "gyr": [0, 0, 0]} in MessagePack and in CBOR, byte by byte."""
    by_hand = {
        "msgpack": b"\x83\xa4t_ns\x05\xa3acc\x93\x00\x00\x01\xa3gyr\x93\x00\x00\x00",
        "cbor": b"\xa3\x64t_ns\x05\x63acc\x83\x00\x00\x01\x63gyr\x83\x00\x00\x00",
    }
    for codec, payload in by_hand.items():
        block = decode(codec, payload, DeviceProfile("m/s2", "rad/s"))
        assert (block.t_ns.tolist(), block.acc_ms2.tolist()) == ([5], [[0.0, 0.0, 1.0]])


def test_cbor_decimals_are_exact_stamps_in_seconds() -> None:
    """A decimal fraction (tag 4) of seconds keeps every nanosecond; a float would not, and is refused."""
    one = {"acc": [0, 0, 1], "gyr": [0, 0, 0], "units": DOCUMENT["units"]}
    block = decode("cbor", cbor2.dumps({"t_s": Decimal("1700000000.123456789"), **one}))
    assert block.t_ns.tolist() == [1_700_000_000_123_456_789]
    assert reason_of("cbor", cbor2.dumps({"t_s": 1700000000.5, **one})) == "stamp_invalid"


@pytest.mark.parametrize("codec", PACKERS)
def test_what_is_no_document_is_refused(codec: str) -> None:
    """A list, keys that are no text, a cut message, bytes after it: invalid_binary; a missing gyroscope by its name."""
    pack = PACKERS[codec]
    good = pack(DOCUMENT)
    for payload in (pack([1, 2]), pack({1: 2}), good[:-1], good + b"\x00", b"\x9f"):
        assert reason_of(codec, payload) == "invalid_binary"
    assert reason_of(codec, pack({key: DOCUMENT[key] for key in ("t_ns", "acc")})) == "missing_gyro"


@pytest.mark.parametrize(
    "payload",
    [
        b"\xd8\x23\x64(a+)",  # a regular expression
        b"\xc2\x59\xff\xff" + b"\xff" * 0xFFFF,  # an integer of half a million bits
        b"\xd8\x1c\x81\xd8\x1d\x00",  # a list that holds itself
        b"\xc0\x74" + b"2013-03-21T20:04:00Z",  # a date
        b"\xd9\x01\x00\xd8\x19\x00",  # texts by reference
        b"\x81" * 100_000,  # deep
        b"\x9b\x00\x00\xff\xff\xff\xff\xff\xff",  # a list said to have 2^48 members
    ],
)
def test_cbor_that_would_build_more_than_numbers_is_refused(payload: bytes) -> None:
    """None of the tags that build other things than exact decimals is ever followed."""
    assert reason_of("cbor", payload) == "invalid_binary"
    assert reason_of("cbor", b"\xa1\x64t_ns" + payload) == "invalid_binary"


# ---- compact

HEADER = "<2sBBIIqfffH"  # written down here from docs/device-codecs.md, not taken from the codec
T0_NS = 1_700_000_000_000_000_000
COUNTS = [(0, 0, 2048, 164, 0, 0), (0, -1024, 0, 0, -328, 0), (32767, -32768, 0, 0, 0, 1)]
ACC_SCALE, GYR_SCALE = 9.80665 / 2048, math.pi / 180 / 16.4


def compact(**changes: Any) -> bytes:
    """Three samples at 50 Hz; boot 7, message 41."""
    fields = {"magic": b"SO", "version": 1, "flags": 1, "boot": 7, "seq": 41, "t0_ns": T0_NS, "rate_hz": 50.0}
    fields |= {"acc": ACC_SCALE, "gyr": GYR_SCALE, "n": 3} | changes
    body = struct.pack(HEADER, *fields.values()) + b"".join(struct.pack("<6h", *row) for row in COUNTS)
    return body + struct.pack("<I", zlib.crc32(body))


def check_compact(block: SampleBlock) -> None:
    """What COUNTS are in SI units: 2048 counts are 1 g, 164 are 10 deg/s."""
    assert block.number == (7, 41)
    assert block.t_ns.tolist() == [T0_NS, T0_NS + 20_000_000, T0_NS + 40_000_000]
    acc = [[0, 0, 9.80665], [0, -4.903325, 0], [156.90162, -156.9064, 0]]
    gyr = [[0.17453293, 0, 0], [0, -0.34906585, 0], [0, 0, 0.00106422]]
    np.testing.assert_allclose(block.acc_ms2, acc, rtol=1e-6)
    np.testing.assert_allclose(block.gyr_rads, gyr, rtol=1e-5)


def test_compact_message_is_read_as_documented() -> None:
    """34 bytes, three samples of 12, a check sum: 74 bytes; stamps at 20 ms, counts by the header's scales."""
    payload = compact()
    assert len(payload) == 34 + 36 + 4
    check_compact(decode("compact", payload))
    assert decode("compact", compact(flags=0)).number is None


def test_number_of_a_block_goes_through_every_codec_that_has_one() -> None:
    """(boot, seq) of encode comes out of decode."""
    one = SampleBlock("w1", np.array([1]), np.zeros((1, 3)), np.zeros((1, 3)), (4_294_967_295, 12))
    for codec in ("compact", "json", "msgpack", "cbor"):
        assert decode(codec, load_codec(codec).encode(one)).number == (4_294_967_295, 12)


@pytest.mark.parametrize("codec", ["msgpack", "cbor", "compact"])
@pytest.mark.parametrize("profile", [DECLARED, DeviceProfile(axes=("-z", "x", "y"))])
def test_signalling_nan_is_refused_and_not_warned_of(codec: str, profile: DeviceProfile) -> None:
    """Doubles may hold one, and arithmetic on it raises a flag that other NaN do not."""
    [signalling] = struct.unpack("<d", bytes.fromhex("010000000000f07f"))
    acc = np.array([[signalling, 0.0, 9.8]])
    whole = load_codec(codec).encode(SampleBlock("w1", np.array([1_700_000_000 * 10**9]), acc, np.zeros((1, 3))))
    assert reason_of(codec, whole, profile) == "not_finite"
    in_g = {**DOCUMENT, "acc": [[signalling, 0.0, 1.0]] * 2}
    if codec in PACKERS:
        assert reason_of(codec, PACKERS[codec](in_g), profile) == "not_finite"


def test_compact_message_that_is_damaged_is_refused_by_reason() -> None:
    """Each byte changed alone is noticed; other versions, lengths, scales, rates and stamps have their reasons."""
    good = compact()
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= 0x10
        assert reason_of("compact", bytes(damaged)) in ("invalid_binary", "checksum_wrong")
    assert reason_of("compact", good[:-1]) == reason_of("compact", good + b"\0") == "invalid_binary"
    for field, value, reason in (
        ("magic", b"OS", "invalid_binary"),
        ("version", 2, "invalid_binary"),
        ("flags", 8, "invalid_binary"),
        ("n", 2, "invalid_binary"),
        ("acc", 0.0, "bad_field"),
        ("gyr", math.nan, "bad_field"),
        ("acc", 1e6, "value_out_of_range"),
        ("rate_hz", 0.0, "rate_invalid"),
        ("rate_hz", math.nan, "rate_invalid"),
        ("t0_ns", -1, "stamp_invalid"),
        ("t0_ns", 2**62, "stamp_invalid"),
    ):
        assert (field, reason_of("compact", compact(**{field: value}))) == (field, reason)


HOST_PROGRAM = """
#include <cstdio>
#include "stream_occ_compact.h"
int main() {
  static uint8_t buffer[stream_occ::message_bytes(3)];
  const int16_t counts[3][6] = {{0, 0, 2048, 164, 0, 0}, {0, -1024, 0, 0, -328, 0}, {32767, -32768, 0, 0, 0, 1}};
  stream_occ::CompactWriter message(buffer, sizeof buffer);
  message.begin(7, 41, 1700000000000000000LL, 50.0f, ACC_SCALE, GYR_SCALE);
  for (const auto& row : counts) if (!message.add(row, row + 3)) return 1;
  if (message.add(counts[0], counts[0])) return 2;  // full
  return std::fwrite(buffer, 1, message.end(), stdout) == sizeof buffer ? 0 : 3;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_devices_own_code_writes_what_the_codec_reads(tmp_path: Path) -> None:
    """configs/devices/mpu6050_compact/stream_occ_compact.h, compiled here: byte for byte the message made by hand."""
    source, program = tmp_path / "host.cpp", tmp_path / "host"
    source.write_text(HOST_PROGRAM)
    scales = [f"-DACC_SCALE=float({ACC_SCALE!r})", f"-DGYR_SCALE=float({GYR_SCALE!r})"]
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", f"-I{DEVICE}"]
    subprocess.run(["g++", *flags, *scales, str(source), "-o", str(program)], check=True, timeout=120)
    payload = subprocess.run([str(program)], check=True, capture_output=True, timeout=20).stdout
    assert payload == compact()
    check_compact(decode("compact", payload))


RING_PROGRAM = """
#include <cstdio>
#include "stream_occ_compact.h"
int main() {  // from lines "command value now_ms" to what is due, the numbers in a line
  static stream_occ::ResendRing<10, 4> ring;
  char command, json[64];
  long value;
  unsigned now_ms;
  while (std::scanf(" %c %ld %u", &command, &value, &now_ms) == 3) {
    uint32_t number = ring.added(), boot = 0, seq = 0;
    const int n = std::snprintf(json, sizeof json, "{\\"boot\\":7, \\"seq\\": %ld}", value);
    if (command == 'a') ring.push(reinterpret_cast<uint8_t*>(&number), 4);
    if (command == 'c') ring.reconnected(now_ms);
    const bool is_read = stream_occ::read_received_up_to(reinterpret_cast<uint8_t*>(json), n, &boot, &seq);
    if (command == 'h' && is_read && boot == 7) ring.hear(seq, now_ms);
    if (command != 'd') continue;
    size_t length = 0;
    while (const uint8_t* due = ring.due(now_ms, &length)) {
      memcpy(&number, due, length);
      std::printf("%u ", number);
    }
    std::printf("kept %u dropped %u\\n", ring.kept(), ring.dropped());
  }
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_devices_own_ring_sends_what_the_simulated_one_does(tmp_path: Path) -> None:
    """A thousand random acts: messages added and dropped, words of the service old and new, connections, silences."""
    rng, memory, connection, now_ms = random.Random(0), Memory(max_kept=10), 0, 5000
    lines, expected = [f"c 0 {now_ms}"], []
    for _ in range(1000):
        now_ms += rng.choice([10, 200, 1000, 3000])
        act, value = rng.choice("aaaahhhcdddd"), 0
        if act == "a":
            memory.add(memory.n_added.to_bytes(4, "little"))
        elif act == "h":
            value = max(0, memory.told + rng.choice([-1, 0, 0, 1, 3, 1000]))
            memory.hear(value, now_ms / 1000)
        elif act == "c":
            connection += 1
        lines.append(f"{act} {value} {now_ms}")
        if act in "cd":
            lines += [] if act == "d" else [f"d 0 {now_ms}"]
            due = []
            while (payload := memory.due(now_ms / 1000, connection)) is not None:
                due.append(f"{int.from_bytes(payload, 'little')} ")
            expected.append(f"{''.join(due)}kept {len(memory)} dropped {memory.n_dropped}")
    source, program = tmp_path / "ring.cpp", tmp_path / "ring"
    source.write_text(RING_PROGRAM)
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined,address", f"-I{DEVICE}"]
    subprocess.run(["g++", *flags, str(source), "-o", str(program)], check=True, timeout=120)
    done = subprocess.run(
        [str(program)], input="\n".join(lines), check=True, capture_output=True, text=True, timeout=20
    )
    assert done.stdout.splitlines() == expected
    assert memory.n_dropped > 20
    assert memory.n_again > 100


ARDUINO = """
#include <cstddef>
#include <cstdint>
struct Preferences { void begin(const char*, bool); uint32_t getUInt(const char*, uint32_t); void end();
                     size_t putUInt(const char*, uint32_t); };
struct Client {};
struct WiFiClient : Client {};
struct WiFiClientSecure : WiFiClient { void setCACert(const char*); void setHandshakeTimeout(unsigned long); };
struct PubSubClient { PubSubClient(Client&); bool connected(); bool loop();
                      bool connect(const char* id, const char* user, const char* password);
                      bool publish(const char*, const uint8_t*, unsigned); bool subscribe(const char*);
                      PubSubClient& setCallback(void (*)(char*, uint8_t*, unsigned));
                      PubSubClient& setSocketTimeout(uint16_t);
                      PubSubClient& setServer(const char*, uint16_t); };
struct WireClass { void begin(); void setClock(uint32_t); void beginTransmission(uint8_t); size_t write(uint8_t);
                   uint8_t endTransmission(bool = true); uint8_t requestFrom(uint8_t, uint8_t); int read(); };
struct WiFiClass { int begin(const char*, const char*); int status(); };
extern WireClass Wire;
extern WiFiClass WiFi;
const int WL_CONNECTED = 3;
void delay(uint32_t);
uint32_t micros();
uint32_t millis();
void configTime(long, int, const char*);
"""


def test_the_sketch_logs_in_as_whom_the_shipped_access_list_lets_do_what_it_does() -> None:
    """Its user is its device id, so the patterns of configs/mosquitto.acl cover the topics that it uses."""
    text = (DEVICE / "mpu6050_compact.ino").read_text()
    said = dict(re.findall(r'const char\* (\w+) = "(.*?)";', text))
    assert "mqtt.connect(DEVICE, USER, PASSWORD)" in text
    assert said["USER"] == said["DEVICE"]
    patterns = re.findall(r"(?m)^pattern (\w+) (\S+)$", (DEVICE.parents[1] / "mosquitto.acl").read_text())
    allowed = {(way, pattern.replace("%u", said["USER"]).removesuffix("#")) for way, pattern in patterns}
    assert allowed == {("write", said["TOPIC"].removesuffix("imu")), ("read", said["RECEIVED_UP_TO"])}


def test_the_sketch_over_tls_believes_one_authority_and_checks_the_brokers_name() -> None:
    """WiFiClientSecure holds the name that it connects to against the certificate: a name it must be, no address."""
    text = (DEVICE / "mpu6050_compact.ino").read_text()
    assert "setInsecure" not in text
    secured = re.findall(r"(?s)#ifdef USE_TLS\n(.*?)(?:#else|#endif)", text)
    said = dict(re.findall(r"(\w+) = \"?([\w.]+)\"?;", "".join(secured)))
    assert said == {"BROKER": "broker.lan", "PORT": "8883"}
    steps = ["configTime(", "time(nullptr) <", "network.setCACert(CA)", "mqtt.setServer(BROKER, PORT)"]
    places = [text.index(step) for step in steps]
    assert places == sorted(places)


@pytest.mark.parametrize("define", ["", "-DUSE_TLS"])
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_sketch_compiles_against_the_interfaces_that_it_uses(tmp_path: Path, define: str) -> None:
    """Syntax and types alone: the libraries' declarations are written down here, no board is at hand."""
    (tmp_path / "arduino.h").write_text("#pragma once\n" + ARDUINO)
    for header in ("Preferences.h", "PubSubClient.h", "WiFi.h", "WiFiClientSecure.h", "Wire.h"):
        (tmp_path / header).write_text('#include "arduino.h"\n#include <ctime>\n')
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{tmp_path}", "-x", "c++"]
    subprocess.run(["g++", *flags, *define.split(), str(DEVICE / "mpu6050_compact.ino")], check=True, timeout=120)


# ---- esp32

HUGE = ("units_unknown", "acc_counts_per_unit")
RAW = DeviceProfile("g", "deg/s", acc_counts_per_unit=16384, gyr_counts_per_unit=131, stamps="arrival")
SI_AT_ARRIVAL = DeviceProfile("m/s2", "rad/s", stamps="arrival")
NAMED = {  # as found in a public description: whole seconds, acc and gyr stamped apart
    "created_at": 1703865660,
    "device": {"serial_number": "ESP32-001", "firmware_version": "1.0.0"},
    "data": [
        {
            "name": "acceleration",
            "value": {"x": 0.123, "y": -0.057, "z": 9.815},
            "unit": "m/s^2",
            "timestamp": 1703865601,
        },
        {
            "name": "angular_velocity",
            "value": {"x": 0.015, "y": -0.026, "z": 0.035},
            "unit": "rad/s",
            "timestamp": 1703865602,
        },
    ],
}


@pytest.mark.parametrize(
    ("payload", "profile", "acc", "gyr"),
    [
        (
            b'{"accX":0.1,"accY":-0.2,"accZ":9.7,"gycX":0.01,"gycY":0,"gycZ":-0.02,"temp":24.5,"timestamp":"12:01:07"}',
            SI_AT_ARRIVAL,
            [0.1, -0.2, 9.7],
            [0.01, 0, -0.02],
        ),
        (
            b'{\n\t"Ax":\t0.5,\n\t"Ay":\t0,\n\t"Az":\t-1,\n\t"Temperature":\t24.5,\n\t"Gx":\t90,\n\t"Gy":\t0,\n\t"Gz":\t0\n}',
            DeviceProfile("g", "deg/s", stamps="arrival"),
            [4.903325, 0, -9.80665],
            [math.pi / 2, 0, 0],
        ),
        (json.dumps(NAMED).encode(), DeviceProfile(stamps="arrival"), [0.123, -0.057, 9.815], [0.015, -0.026, 0.035]),
        (
            b'{"AcX":8192,"AcY":0,"AcZ":-16384,"GyX":131,"GyY":-262,"GyZ":0}',
            RAW,
            [4.903325, 0, -9.80665],
            [math.pi / 180, -math.pi / 90, 0],
        ),
    ],
)
def test_sketches_messages_of_one_sample(payload: bytes, profile: DeviceProfile, acc: Any, gyr: Any) -> None:
    """Four shapes as sketches send them, each with the profile that it needs; the stamp is for the intake."""
    block = decode("esp32", payload, profile)
    np.testing.assert_allclose(block.acc_ms2, [acc])
    np.testing.assert_allclose(block.gyr_rads, [gyr])
    assert block.t_ns.tolist() == [0]


def bike(*records: dict[str, Any]) -> bytes:
    """The shape with units in its keys and several samples."""
    return json.dumps({"attributes": {"channel": "imu"}, "data": list(records)}).encode()


GYR_4 = {"gyr_x_deg": 0, "gyr_y_deg": 180, "gyr_z_deg": 0}
AXES_4 = {"acc_x_mps2": 0.5, "acc_y_mps2": 0, "acc_z_mps2": 9.5, **GYR_4}


def test_units_in_keys_and_stamps_in_milliseconds_need_no_profile() -> None:
    """Seconds with decimals are read exactly; several records are one block."""
    records = [{"timestamp": 1570338716.748, "seq_num": 1, **AXES_4}, {"timestamp": 1570338716.768, **AXES_4}]
    block = decode("esp32", bike(*records))
    assert block.t_ns.tolist() == [1_570_338_716_748_000_000, 1_570_338_716_768_000_000]
    np.testing.assert_allclose(block.acc_ms2, [[0.5, 0, 9.5]] * 2)
    np.testing.assert_allclose(block.gyr_rads, [[0, math.pi, 0]] * 2)


def test_instants_are_told_from_their_size_and_nothing_else_is() -> None:
    """ms, us and ns since 1970 are taken; whole seconds, uptimes and texts are refused with what to set."""
    for stamp in (1_570_338_716_748, 1_570_338_716_748_000, 1_570_338_716_748_000_000):
        assert decode("esp32", bike({"timestamp": stamp, **AXES_4})).t_ns.tolist() == [1_570_338_716_748_000_000]
    for stamp in (1_570_338_716, 123_456, "1570338716.748", True, None, 10**30, 10**5000):
        text = message_of("esp32", bike({"timestamp": stamp, **AXES_4}) if stamp != 10**5000 else huge_stamp())
        assert "stamps: arrival" in text or "be JSON" in text
    assert decode("esp32", bike({"timestamp": 5, **AXES_4}), DeviceProfile(stamps="arrival")).t_ns.tolist() == [0]
    two = bike({"timestamp": 5, **AXES_4}, {"timestamp": 6, **AXES_4})
    assert reason_of("esp32", two, DeviceProfile(stamps="arrival")) == "stamp_invalid"


def huge_stamp() -> bytes:
    """More digits than Python takes for a number."""
    return bike(AXES_4).replace(b'"acc_x', b'"timestamp": ' + b"1" * 5000 + b', "acc_x')


@pytest.mark.parametrize(
    ("payload", "profile", "reason", "remedy"),
    [
        (b'{"AcX":100,"AcY":0,"AcZ":16384}', RAW, "missing_gyro", "Send both sensors"),
        (b'{"AcX":100,"AcY":0,"AcZ":16384,"GyX":1,"GyY":1,"GyZ":1}', SI_AT_ARRIVAL, "units_unknown", "acc_counts_per"),
        (b'{"Ax":0,"Ay":0,"Az":1,"Gx":1,"Gy":1,"Gz":1}', DeviceProfile(stamps="arrival"), "units_unknown", "acc_unit"),
        (b'{"Ax":0,"Ay":0,"Az":1,"Gx":1,"Gy":1,"Gz":1}', DeviceProfile("g", "deg/s"), "stamp_missing", "arrival"),
        (b'{"Ax":0,"Ay":0,"Az":1,"Gx":1,"Gy":1}', RAW, "wrong_shape", "all three"),
        (b'{"Ax":0,"Ay":0,"Az":1,"ax":0,"ay":0,"az":1,"Gx":1,"Gy":1,"Gz":1}', RAW, "duplicate_key", "one of them"),
        (b'{"Ax":0,"Ay":"0","Az":1,"Gx":1,"Gy":1,"Gz":1}', RAW, "not_a_number", "numbers"),
        (b'{"Ax":0,"Ay":1e400,"Az":1,"Gx":1,"Gy":1,"Gz":1}', RAW, "not_finite", "broken"),
        (b'{"Ax":0,"Ay":1e200,"Az":1,"Gx":1,"Gy":1,"Gz":1}', DeviceProfile("g", "deg/s", stamps="arrival"), *HUGE),
        (b'{"Ax":0,"Ay":1e200,"Az":0.5,"Gx":1,"Gy":1,"Gz":1}', SI_AT_ARRIVAL, "value_out_of_range", "units"),
        (bike({"timestamp": 1570338716.748, "acc_x_mps2": 0.5}), DECLARED, "wrong_shape", "all three"),
        (bike({"timestamp": 1570338716.748, "gyr_z_deg": 0.5}), DECLARED, "missing_acc", "both"),
        (bike(AXES_4, {**GYR_4, "acc_x_g": 0, "acc_y_g": 0, "acc_z_g": 1}), DECLARED, "unit_conflict", "sender"),
        (bike(AXES_4), DeviceProfile("g", stamps="arrival"), "unit_conflict", "acc_unit"),
        (bike(), DECLARED, "no_samples", "empty"),
        (b'{"data": 3}', DECLARED, "wrong_shape", "documented"),
        (json.dumps(NAMED).encode(), DECLARED, "stamp_invalid", "stamps: arrival"),
    ],
)
def test_what_a_sketch_leaves_open_is_refused_with_what_to_do(
    payload: bytes, profile: DeviceProfile, reason: str, remedy: str
) -> None:
    """Ambiguous messages name the line of the profile; partial records and mixed spellings are never filled in."""
    assert reason_of("esp32", payload, profile) == reason
    assert remedy in message_of("esp32", payload, profile)


@pytest.mark.parametrize(
    "partial",
    [
        *({"acc_x_mps2": 0.5}, {"gyr_z_deg": 0.5}, {}, {key: AXES_4[key] for key in AXES_4 if key.startswith("acc")}),
        *({**AXES_4, "acc_x_mps2": None}, {**AXES_4, "gyr_x_deg": "nan"}, {**AXES_4, "gyr_x_deg": True}),
    ],
)
def test_partial_record_costs_itself_alone_and_is_counted(partial: dict[str, Any]) -> None:
    """Of three records the middle one lacks a value, or has something else in its place: two samples, one refusal."""
    t_s = 1_700_000_000
    payload = bike(*({"timestamp": t_s + k / 50, **axes} for k, axes in enumerate((AXES_4, partial, AXES_4))))
    config = Config.model_validate_json('{"inputs": [{"pattern": "imu/{device}", "codec": "esp32"}]}')
    intake = Intake(config, Topics("stream_occ", "edge"))
    message = Received.of("imu/w1", payload, is_retained=False, arrived_s=0.0, max_bytes=10**6)
    for n in (1, 2):
        [block] = intake.accept(message, now_ns=(t_s + 1) * 10**9, now_s=0.0)
        assert (block.t_ns - t_s * 10**9).tolist() == [0, 40_000_000]
        np.testing.assert_allclose(block.gyr_rads, [[0, math.pi, 0]] * 2)
        assert intake.refused == intake.devices["w1"].refused == {"partial_record": n}
        assert block.lost_rows.tolist() == [0, 1, 2]  # which record of the message it was is not known
    assert intake.devices["w1"].fault_seen_s == {"partial_record": 0.0}


# ---- sparkplug_b


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def delimited(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def metric(name: str, value: float, t_ms: int | None = None, *, alias: int | None = None) -> bytes:
    """A Double metric; field numbers of Sparkplug B: name 1, alias 2, timestamp 3, datatype 4, double_value 13."""
    content = delimited(1, name.encode()) if name else b""
    content += b"" if alias is None else varint(2 << 3) + varint(alias)
    content += b"" if t_ms is None else varint(3 << 3) + varint(t_ms)
    return delimited(2, content + varint(4 << 3) + varint(10) + varint(13 << 3 | 1) + struct.pack("<d", value))


SIX = [f"imu/{sensor}/{axis}" for sensor in ("acc", "gyr") for axis in "xyz"]
T_MS = 1_700_000_000_123
SI = DeviceProfile("m/s2", "rad/s")


def test_sparkplug_metrics_are_gathered_by_stamp() -> None:
    """Payload timestamp 1, metrics 2, seq 3: two samples of six metrics, those of the second stamped one by one."""
    payload = varint(1 << 3) + varint(T_MS)
    payload += b"".join(metric(name, i + 0.5) for i, name in enumerate(SIX))
    payload += metric("battery", 3.7) + varint(3 << 3) + varint(17)
    payload += b"".join(metric(name, i - 2.5, T_MS + 20) for i, name in enumerate(SIX))
    block = decode("sparkplug-b", payload, SI)
    assert block.t_ns.tolist() == [T_MS * 10**6, (T_MS + 20) * 10**6]
    assert block.acc_ms2.tolist() == [[0.5, 1.5, 2.5], [-2.5, -1.5, -0.5]]
    assert block.gyr_rads.tolist() == [[3.5, 4.5, 5.5], [0.5, 1.5, 2.5]]


def test_sparkplug_numbers_of_every_kind() -> None:
    """int_value as Int16 -2, long_value as Int64 -3 in two's complement, float_value 0.25, UInt32 7, bytes by hand."""
    names = [delimited(1, name.encode()) for name in SIX]
    payload = bytes([0x08, 0x01])
    for name, rest in zip(
        names,
        [
            bytes([0x20, 2, 0x50, 0xFE, 0xFF, 0x03]),  # datatype 2, field 10: 0xFFFE
            bytes([0x20, 4, 0x58, 0xFD, *[0xFF] * 8, 0x01]),  # datatype 4, field 11: 2^64 - 3
            bytes([0x20, 9, 0x65, 0x00, 0x00, 0x80, 0x3E]),  # datatype 9, field 12: 0.25
            bytes([0x20, 7, 0x50, 7]),
            bytes([0x20, 3, 0x50, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]),  # datatype 3: -1
            bytes([0x20, 10, 0x69, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F]),
        ],
        strict=True,
    ):
        payload += delimited(2, name + rest)
    block = decode("sparkplug-b", payload, SI)
    assert (block.acc_ms2.tolist(), block.gyr_rads.tolist()) == ([[-2, -3, 0.25]], [[7, -1, 1]])
    assert block.t_ns.tolist() == [1_000_000]


@pytest.mark.parametrize(
    ("payload", "reason", "remedy"),
    [
        (b"\x08\x01", "missing_acc", "Name them"),
        (metric("", 1.0, 5, alias=3), "missing_acc", "by name"),
        (b"".join(metric(name, 1.0) for name in SIX), "stamp_missing", "stamps: arrival"),
        (b"".join(metric(name, 1.0, 5) for name in SIX[:3]), "missing_gyro", "Name them"),
        (b"".join(metric(name, 1.0, 5) for name in SIX[:5]), "wrong_shape", "together"),
        (b"".join(metric(name, 1.0, 5) for name in [*SIX, SIX[0]]), "duplicate_key", "its own timestamp"),
        (b"".join(metric(name, 1.0, 5) for name in [*SIX, "other/acc/x"]), "duplicate_key", "one sensor"),
        (b"".join(metric(name, math.nan, 5) for name in SIX), "not_finite", "broken"),
        (delimited(2, delimited(1, b"acc/x") + bytes([0x18, 5, 0x38, 1])), "not_a_number", "Float or Double"),
        (b"\x12\x7fabc", "invalid_binary", "codec"),
        (b"\xff" * 11, "invalid_binary", "codec"),
        (b"\x0b\x0c", "invalid_binary", "codec"),
    ],
)
def test_sparkplug_messages_that_are_refused(payload: bytes, reason: str, remedy: str) -> None:
    """Aliases without names, half samples, two sensors in one message, null metrics, broken protobuf."""
    assert reason_of("sparkplug-b", payload, SI) == reason
    assert remedy in message_of("sparkplug-b", payload, SI)


def test_sparkplug_without_stamps_is_stamped_at_arrival_where_the_profile_says_so() -> None:
    """One sample, no stamp anywhere."""
    payload = b"".join(metric(name, 1.0) for name in SIX)
    assert decode("sparkplug-b", payload, SI_AT_ARRIVAL).t_ns.tolist() == [0]


def test_examples_of_the_documentation_hold(tmp_path: Path) -> None:
    """Every configuration in docs/device-codecs.md and docs/doctor.md is one, every message of a sketch is read."""
    docs = DEVICE.parents[2] / "docs"
    text = (docs / "device-codecs.md").read_text()
    shown = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    shown += re.findall(r"^mqtt:\n.*?(?=```)", (docs / "doctor.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(shown) == 3
    for block in shown:
        (tmp_path / "shown.yaml").write_text(block)
        assert check_config(tmp_path / "shown.yaml", {})[1] == []
    [sketches] = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    payloads = [line.encode() for line in re.split(r"\n(?=\{\")", sketches)]
    assert len(payloads) == 5
    for payload, profile in zip(
        payloads,
        [SI_AT_ARRIVAL, DeviceProfile("g", "deg/s", stamps="arrival"), RAW, DECLARED, DeviceProfile(stamps="arrival")],
        strict=True,
    ):
        assert 9.5 < np.linalg.norm(decode("esp32", payload, profile).acc_ms2) < 10.0
