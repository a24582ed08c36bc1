"""Real exports of apps and sensors, cut into the messages that a gateway would publish of them, each at its time."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

Timed = tuple[float, str, bytes]
"""Seconds after the start, topic, payload."""


def recorded(folder: Path, start_ns: int, seconds: float) -> list[Timed]:
    """Messages of all wearers in order: of the watch and one phone with stamps from start_ns on, the others as is."""
    watch = folder / "apple_watch/ucancme_WristMotion.csv"
    parts = [
        *_table("lab/n1/acc", folder / "phyphox/nina1_Accelerometer_semicolon.csv.gz", "Time (s)", seconds),
        *_table("lab/n1/gyr", folder / "phyphox/nina1_Gyroscope_semicolon.csv.gz", "Time (s)", seconds),
        *_table("witmotion/m3/csv", folder / "witmotion/imu_realtime_peak_head.csv.gz", "time", seconds),
        *_table(
            "watches/a1/export",
            watch,
            "time",
            seconds,
            start_ns,
            skipped_s=13.0,
        ),
        *_movesense("movesense/c2/imu", folder / "movesense/MovesenseLog_2_625.json", seconds),
        *_export("phones/s1/motion", folder / "sensor_logger/export_2022-06-14_03-15-05.json", seconds, start_ns),
        (0.0, "pushes/s2/motion", (folder / "sensor_logger/http_mqtt_push_message.json").read_bytes()),
    ]
    return sorted(parts, key=lambda part: part[0])


def _table(
    topic: str, path: Path, stamp: str, seconds: float, start_ns: int | None = None, *, skipped_s: float = 0.0
) -> list[Timed]:
    """A message for each second of a CSV, with its header; stamps in ns from start_ns on, or as they are."""
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    head, *lines = text.splitlines()
    delimiter = ";" if ";" in head else ","
    names = next(csv.reader(io.StringIO(head), delimiter=delimiter))
    column, scale = names.index(stamp), 1 if start_ns is None else 10**9
    first = float(lines[0].split(delimiter)[column]) + skipped_s * scale
    found: dict[int, list[str]] = {}
    last: dict[int, float] = {}
    for line in lines:
        cells = line.split(delimiter)
        t_s = (float(cells[column]) - first) / scale
        if 0 <= t_s < seconds:
            if start_ns is not None:
                cells[column] = str(round(t_s * 1e9) + start_ns)
            found.setdefault(int(t_s), []).append(delimiter.join(cells))
            last[int(t_s)] = t_s
    return [(last[k], topic, "\n".join([head, *rows]).encode()) for k, rows in found.items()]


def _movesense(topic: str, path: Path, seconds: float) -> list[Timed]:
    """A message for each four batches of eight samples, in the shape of the log."""
    batches: list[dict[str, Any]] = json.loads(path.read_text())["Meas"]["IMU9"]
    start_ms, found = batches[0]["Timestamp"], []
    for i in range(0, len(batches), 4):
        own = batches[i : i + 4]
        t_s = (own[-1]["Timestamp"] - start_ms) / 1000 + 0.075
        if t_s < seconds:
            found.append((t_s, topic, json.dumps({"Meas": {"IMU9": own}}).encode()))
    return found


def _export(topic: str, path: Path, seconds: float, start_ns: int) -> list[Timed]:
    """A message for each second of the app's JSON; without each sensor's first reading, which is days older."""
    readings = [one for one in json.loads(path.read_text()) if float(one.get("seconds_elapsed", -1)) >= 0]
    found: dict[int, list[Any]] = {}
    for one in readings:
        elapsed_s = float(one["seconds_elapsed"])
        if elapsed_s < seconds:
            found.setdefault(int(elapsed_s), []).append(one | {"time": str(start_ns + round(elapsed_s * 1e9))})
    return [(k + 1.0, topic, json.dumps(own).encode()) for k, own in found.items()]
