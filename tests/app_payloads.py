"""One small message of each format of apps and sensors, in the shape of the real ones; for unit tests and fuzzing."""

from __future__ import annotations

import json
from typing import Any

T_NS = 1_700_000_000_000_000_000
Reading = dict[str, Any]


def reading(name: str, ms: float, x: float, y: float, z: float) -> Reading:
    """One of Sensor Logger, ms after T_NS."""
    return {"name": name, "time": T_NS + round(ms * 1e6), "values": {"z": z, "y": y, "x": x}}


def sensor_logger(*readings: Reading, **fields: Any) -> bytes:
    """A push message of Sensor Logger."""
    return json.dumps({"messageId": 7, "sessionId": "s", "deviceId": "p", "payload": readings, **fields}).encode()


def senml(*records: Reading) -> bytes:
    """A pack."""
    return json.dumps(records).encode()


SENML: list[Reading] = [
    {"bn": "urn:dev:mac:0024befffe804ff1:", "bt": 1_700_000_000, "n": "acc_x", "u": "m/s2", "v": 1},
    {"n": "acc_y", "u": "m/s2", "v": -0.5},
    {"n": "acc_z", "u": "m/s2", "v": 9.8},
    {"n": "gyr_x", "u": "rad/s", "v": 0.25},
    {"n": "gyr_y", "u": "rad/s", "v": 0},
    {"n": "gyr_z", "u": "rad/s", "v": -0.125},
]
PHYPHOX: dict[str, Any] = {
    "acc_time": [1.25, 1.26],
    "accX": [0.5, 1.5],
    "accY": [1, 2],
    "accZ": [9.75, 9.5],
    "gyr_time": [1.25, 1.26],
    "gyrX": [0.25, 0.5],
    "gyrY": [0, 0],
    "gyrZ": [-1, 1],
    "time": {
        "now": 1_700_000_002.5,
        "events": [{"event": "START", "experimentTime": 0.5, "systemTime": 1_700_000_000.25}],
    },
}
MOVESENSE: dict[str, Any] = {
    "Uri": "174630000192/Meas/IMU6/52",
    "Body": {
        "Timestamp": 2000,
        "ArrayAcc": [{"x": 0, "y": 1, "z": 9.5}, {"x": 1, "y": 2, "z": 9.75}],
        "ArrayGyro": [{"x": 90, "y": 0, "z": 0}, {"x": 0, "y": -180, "z": 0}],
    },
}
SHIMMER = (
    b'"sep=,"\r\nS_A_Timestamp_Unix_CAL,S_A_Accel_LN_X_CAL,S_A_Accel_LN_Y_CAL,S_A_Accel_LN_Z_CAL,S_A_Accel_WR_X_CAL,'
    b"S_A_Accel_WR_Y_CAL,S_A_Accel_WR_Z_CAL,S_A_Gyro_X_CAL,S_A_Gyro_Y_CAL,S_A_Gyro_Z_CAL,\r\n"
    b"ms,m/(s^2),m/(s^2),m/(s^2),m/(s^2),m/(s^2),m/(s^2),deg/s,deg/s,deg/s,\r\n"
    b"1.7E12,1,2,3,0.5,-1.5,9.75,180.0,0.0,-90.0,\r\n"
    b"1.7000000000195312E12,1,2,3,0.25,-1.0,9.5,0.0,90.0,0.0\r\n"
)
APPLE_WATCH = (
    b"time,seconds_elapsed,rotationRateX,rotationRateY,rotationRateZ,gravityX,gravityY,gravityZ,accelerationX,"
    b"accelerationY,accelerationZ\n1700000000000000000,0.0,0.25,0.5,-1.0,0.0,0.0,-1.0,0.5,0.25,-0.5\n"
)
WITMOTION = b"time,ts_iso,ax,ay,az,wx,wy,wz,roll\n" + b"".join(
    f"{stamp},-,{k},0.0,1.0,{90 * k},0.0,0.0,0.4\n".encode()
    for k, stamp in enumerate(["1700000000.0", "1700000000.0", "1700000000.012", "1700000000.012", "1700000000.1"])
)

WRIST: Reading = {
    "name": "wrist motion",
    "time": T_NS,
    "values": {f"{stem}{axis}": 0.0 for stem in ("acceleration", "gravity", "rotationRate") for axis in "XYZ"}
    | {"accelerationX": 0.5, "gravityZ": -1},
}

MESSAGES: dict[str, bytes] = {
    "sensor-logger": sensor_logger(
        reading("accelerometer", 0, 0.5, 1, 0), reading("gravity", 0, 0, 0, 9.75), reading("gyroscope", 0, 1, 2, 3)
    ),
    "senml": senml(*SENML),
    "phyphox": json.dumps(PHYPHOX).encode(),
    "movesense": json.dumps(MOVESENSE).encode(),
    "shimmer": SHIMMER,
    "apple-watch": APPLE_WATCH,
    "witmotion": WITMOTION,
}
"""Codec -> a message that it takes, where the profile says what the message does not."""
