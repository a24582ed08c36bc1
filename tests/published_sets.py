"""Four sets in the layout in which they are published, with recordings of a few made-up rows.

Every maker gives the files by name, and the trials that its own loops wrote: the loaders' reading of names is no
part of it. Each recording holds its own number, to be found again. docs/datasets.md says which parts of a layout are
known and from where; how many trials each person has is known of SisFall alone, and else made up to the total.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

N_ROWS = 12  # of a recording without stamps
JUNK = {
    "Readme.txt": b"L\xf3pez, J.D.\r\n",
    "desktop.ini": b"[ViewState]\r\n",
    "Thumbs.db": b"\xd0\xcf\x11\xe0",
    ".DS_Store": b"\0\0\0\1Bud1",
}


@dataclass
class Published:
    """Files by name, and (number in the recording, is it a fall) by (person, activity, trial)."""

    files: dict[str, bytes] = field(default_factory=dict)
    trials: dict[tuple[str, str, str], tuple[int, bool]] = field(default_factory=dict)

    def add(self, trial: tuple[str, str, str], *, is_fall: bool) -> int:
        """The number of a new trial."""
        self.trials[trial] = (len(self.trials), is_fall)
        return len(self.trials) - 1


def zipped(files: Mapping[str, bytes]) -> bytes:
    """An archive as a Mac makes it: with a hidden twin beside each file."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        for name in list(files)[:50]:
            folder, _, base = name.rpartition("/")
            archive.writestr(f"__MACOSX/{folder}/._{base}", b"\0\5\26\7")
    return target.getvalue()


def unpack(files: Mapping[str, bytes], folder: Path) -> Path:
    """The folder, with the files below it."""
    for parent in {Path(name).parent for name in files}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


# SisFall: elderly people did not do D06, D13, D18 and D19; these did not do others, as a public copy's file names show
SISFALL_LEFT_OUT = {"SE02": ("D04", "D09", "D10"), "SE15": ("D04",)}
# the published totals need five files less: which ones is not known
SISFALL_LOST = ("D01_SE07_R01", "D02_SE09_R01", "D03_SE11_R01", "F05_SA03_R05", "F13_SA21_R05")


def sisfall() -> Published:
    """`SisFall_dataset/SA01/D01_SA01_R01.txt`: 38 people, nine counts a row, blanks, ';' and empty lines between."""
    made = Published({f"SisFall_dataset/{name}": data for name, data in JUNK.items()})
    made.files["SisFall_dataset/SE03/desktop.ini"] = JUNK["desktop.ini"]
    made.files["SisFall_dataset/D01_video.mp4"] = b"\0\0\0\x18ftyp"
    for person in [f"SA{i:02}" for i in range(1, 24)] + [f"SE{i:02}" for i in range(1, 16)]:
        is_old = person.startswith("SE") and person != "SE06"
        left_out = SISFALL_LEFT_OUT.get(person, ()) + (("D06", "D13", "D18", "D19") if is_old else ())
        for activity in [f"D{i:02}" for i in range(1, 20)] + ([] if is_old else [f"F{i:02}" for i in range(1, 16)]):
            for trial in range(1, 2 if activity in ("D01", "D02", "D03", "D04") else 6):
                stem = f"{activity}_{person}_R{trial:02}"
                if activity in left_out or stem in SISFALL_LOST:
                    continue
                n = made.add((person, activity, f"R{trial:02}"), is_fall=activity.startswith("F"))
                row = f"{n % 4096:4},-256,   0,  16384,0,-8192,{n // 4096:4},-1024,   0;\r\n\r\n"
                made.files[f"SisFall_dataset/{person}/{stem}.txt"] = (row * N_ROWS).encode()
    return made


UMAFALL_ACTIVITIES = (
    *("Aplausing", "Bending", "GoDownstairs", "GoUpstairs", "HandsUp", "Hopping", "Jogging", "LyingDown_OnABed"),
    *("MakingACall", "OpeningDoor", "Sitting_GettingUpOnAChair", "Walking"),
)
UMAFALL_FALLS = ("backwardFall", "forwardFall", "lateralFall")
UMAFALL_PLACES = {1: "CHEST", 2: "WAIST", 3: "WRIST", 4: "ANKLE"}
UMAFALL_START = datetime(2016, 5, 1, 10, 0, 0)


def umafall(*, start_g: float = 0.0) -> Published:
    """746 files in one folder; a number of a trial may come again at another time. start_g is added to each x."""
    made = Published()
    wanted = [(f"{i % 19 + 1:02}", "ADL", UMAFALL_ACTIVITIES[i // 19 % 12], i // 228 + 1) for i in range(538)]
    wanted += [(f"{i % 17 + 1:02}", "Fall", UMAFALL_FALLS[i // 17 % 3], 1) for i in range(208)]
    for k, (person, kind, activity, number) in enumerate(wanted):
        stamp = (UMAFALL_START + timedelta(minutes=k)).strftime("%Y-%m-%d_%H-%M-%S")
        n = made.add((person, f"{kind}_{activity}", f"{number}_{stamp}"), is_fall=kind == "Fall")
        name = f"UMAFall_Subject_{person}_{kind}_{activity}_{number}_{stamp}.csv"
        made.files[name] = umafall_file(start_g + n / 1000)
    return made


def umafall_file(x_g: float) -> bytes:
    """All places and the phone; the waist's accelerometer has x_g on its first axis, the others 2, 3 and 4 g more."""
    head = ["% Universidad de Malaga", "%f8:95:c7:f3:ba:82; 0; RIGHTPOCKET; lge-LG-H815-5.1"]
    head += [f"%C4:BE:84:71:A5:0{i}; {i}; {place}; SensorTag" for i, place in UMAFALL_PLACES.items()]
    head += ["% TimeStamp; Sample No; X-Axis; Y-Axis; Z-Axis; Sensor Type; Sensor ID;"]
    rows = []
    for i in range(N_ROWS):
        rows.append(f"{5 * i};{i};0.5;0.5;0.5;0;0")
        for sensor in UMAFALL_PLACES:
            x = x_g + (sensor if sensor != 2 else 0)
            rows += [f"{50 * i};{i};{x!r};-0.5;0.25;0;{sensor}", f"{50 * i + 2};{i};90.0;0.0;-45.0;1;{sensor}"]
            rows.append(f"{50 * i + 2};{i};12.0;3.0;4.0;2;{sensor}")
    return ("\n".join(head + rows) + "\n").encode()


def fallalld(n_people: int = 15, n_recordings: int = 6605) -> Published:
    """`FallAllD/S01_D3_A001_T01_A.dat` and its G, M and B: three devices, whole numbers; the trial is (person, ...)."""
    made = Published({"FallAllD_to_PYTHON_Structure.py": b"import os\n", "FallAllD_to_MATLAB_Structure.m": b"clc\n"})
    made.files["DATASET SCRIPTS/Readme.txt"] = JUNK["Readme.txt"]
    activities = [*range(1, 45), *range(101, 136)]
    once = [(s, d, a) for s in range(1, n_people + 1) for d in (1, 2, 3) for a in activities]
    for trial in range(1, 1 + -(-n_recordings // len(once))):
        for s, device, a in once[: n_recordings - (trial - 1) * len(once)]:
            n = made.add((f"S{s:02}", f"A{a:03}", f"D{device} T{trial:02}"), is_fall=a > 100)
            stem = f"FallAllD/S{s:02}_D{device}_A{a:03}_T{trial:02}"
            made.files[f"{stem}_A.dat"] = f"{n},-2000,4000\n".encode() * N_ROWS
            made.files[f"{stem}_G.dat"] = b"100,0,-1000\n" * N_ROWS
            made.files[f"{stem}_M.dat"] = b"-1200,340,2211\n" * (N_ROWS // 3)
            made.files[f"{stem}_B.dat"] = b"1013.25,21.5\n" * 2
    return made


SMARTFALLMM_START = datetime(2023, 3, 27, 15, 39, 53, 872_000)


def smartfallmm(n_young: int = 19, n_old: int = 21, n_trials: int = 5) -> Published:
    """Both groups and four devices; old people do not fall, and have four columns for the gyroscope at the hip."""
    made = Published(
        {"README.md": b"# SmartFallMM\n", "young/.DS_Store": JUNK[".DS_Store"], "images/a.png": b"\x89PNG"}
    )
    made.files["old/gyroscope/phone_and_watch/S02/S02TUG.csv"] = b"1,2,3\n"
    made.files["old/gyroscope/phone_and_watch/S03/S03_drink.xlsx"] = b"PK"
    people = [("young", f"S{i + 29}") for i in range(n_young)] + [("old", f"S{i + 1:02}") for i in range(n_old)]
    for group, person in people:
        for a in (1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14) if group == "young" else range(1, 9):
            for trial in range(1, n_trials + 1):
                n = made.add((person, f"A{a:02}", f"T{trial:02}"), is_fall=a >= 10)
                name = f"{person}A{a:02}T{trial:02}.csv"
                for device in ("watch", "phone"):
                    made.files[f"{group}/accelerometer/{device}/{name}"] = watch_file(30, f"{n / 1000!r},9.75,0.5")
                    made.files[f"{group}/gyroscope/{device}/{name}"] = watch_file(20, "0.5,-0.25,1.0")
                for device in ("meta_hip", "meta_wrist"):
                    made.files[f"{group}/accelerometer/{device}/{name}"] = hip_file(40, f"{n / 10_000!r},1.0,0.0")
                    gyr = hip_file(20, "90.0,0.0,-45.0") if group == "young" else watch_file(20, "90.0,0.0,-45.0")
                    made.files[f"{group}/gyroscope/{device}/{name}"] = gyr
                made.files[f"{group}/skeleton/{name}"] = b",".join([b"0.5"] * 96) + b"\n"
    return made


def watch_file(step_ms: int, values: str, n: int = 40) -> bytes:
    """A device that wanders by thousandths; stamps as printed by Python: 26.520 is 26.52."""
    x, rest = values.split(",", 1)
    rows = []
    for i in range(n):
        stamp = f"{SMARTFALLMM_START + timedelta(milliseconds=step_ms * i):%Y-%m-%d %H:%M:%S.%f}"[:-3].rstrip("0")
        rows.append(f"{stamp},{float(x) + (i % 17) * 1e-5!r},{rest}\n")
    return "".join(rows).encode()


def hip_file(step_ms: int, values: str, n: int = 40) -> bytes:
    """Epoch, date and seconds before the values."""
    rows = []
    for i, line in enumerate(watch_file(step_ms, values, n).decode().splitlines()):
        stamp, rest = line.split(",", 1)
        rows.append(f"{1679949593872.0 + step_ms * i},{stamp.replace(' ', 'T')},{step_ms * i / 1000},{rest}\n")
    return "".join(rows).encode()
