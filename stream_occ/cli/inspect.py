"""Show what a model file holds, and verify it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_occ.cli._common import JsonOption, write_json

if TYPE_CHECKING:
    from stream_occ.artifacts.card import ModelInfo, SelfTest

# of the card's `calibration`, beside a claim in words
WITH_CLAIM = ("rule", "held_out", "n_folds", "n_recordings", "n_windows", "n_rejected", "n_flagged_windows")
EXAMPLES = (
    "stream-occ inspect model.occ",
    "stream-occ inspect model.occ --verify",
    "stream-occ inspect model.occ --verify --key-file model.key --json -",
)


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL.occ", help="Model file.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Check SHA-256, features and scorer, and re-score the self-test vectors.")
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --verify: the file must be signed with this key.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Show what a model file says of itself.

    Without --verify only the file's structure is checked, and no array is read.
    """
    from stream_occ.artifacts import read_info, read_key, verify_model
    from stream_occ.errors import UsageError

    if key_file is not None and not verify:
        raise UsageError("--key-file", "come with --verify", "it alone", "Add --verify")
    info = read_info(model)
    self_test = None
    if verify:
        self_test = verify_model(model, key=None if key_file is None else read_key(key_file))[1]
    if json is not None:
        write_json(json, _as_json(info, self_test))
    if str(json) != "-":
        _print(info, self_test, is_key_checked=key_file is not None)


def _as_json(info: ModelInfo, self_test: SelfTest | None) -> dict[str, Any]:
    verified = None
    if self_test is not None:
        verified = {
            "n_self_test_rows": self_test.n_rows,
            "max_relative_difference": self_test.max_relative_difference,
            "is_bit_equal": self_test.is_bit_equal,
        }
    card = info.card.model_dump(mode="json")
    digests = card["metadata"].pop("recording_digests", None)  # one a recording: thousands, and of no use to a reader
    if isinstance(digests, list):
        card["metadata"]["n_recording_digests"] = len(digests)
    return {
        "path": info.path,
        "model_id": info.model_id,
        "sha256": info.sha256,
        "is_signed": info.is_signed,
        "n_bytes": info.n_bytes,
        **card,
        "arrays": [{"name": a.name, "dtype": a.dtype.name, "shape": list(a.shape)} for a in info.arrays],
        "verified": verified,
    }


def _print(info: ModelInfo, self_test: SelfTest | None, *, is_key_checked: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from stream_occ.errors import visible

    facts, arrays = Table.grid(padding=(0, 2)), Table("array", "type", "shape", box=None, pad_edge=False)
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(info):
        facts.add_row(Text(visible(name), style="bold"), Text(visible(value)))
    for entry in info.arrays:
        arrays.add_row(Text(visible(entry.name), overflow="fold"), entry.dtype.name, " x ".join(map(str, entry.shape)))
    console = Console(highlight=False)
    console.print(facts)
    console.print()
    console.print(arrays)
    console.print()
    console.print(Text(_verdict(info, self_test, is_key_checked=is_key_checked)))


def _facts(info: ModelInfo) -> list[tuple[str, str]]:
    from stream_occ.alarm_budget import claim_in_words
    from stream_occ.reach import Reach

    card, training = info.card, info.card.metadata.get("training")
    calibration = info.card.metadata.get("calibration", {})
    claim = claim_in_words(calibration) if isinstance(calibration, dict) else []
    of_threshold = {name: calibration[name] for name in WITH_CLAIM if name in calibration} if claim else calibration
    facts = [
        ("model", f"{info.model_id}  ({info.n_bytes / 1e6:.2f} MB, format version {card.format_version})"),
        ("signed", "yes" if info.is_signed else "no"),
        ("detector", f"{card.detector.kind}  {_short(card.detector.params)}"),
        (
            "features",
            f"{card.feature_set.name} version {card.feature_set.version}, {len(card.feature_set.names)} values",
        ),
        ("window", f"{card.window_s:g} s every {card.hop_s:g} s at {card.rate_hz:g} Hz"),
        ("filter", card.filter or "none"),
        ("scaler", card.scaler),
        ("units", ", ".join(f"{name}: {unit}" for name, unit in card.units.items())),
        ("threshold", f"{card.threshold:.6g}  {_short(of_threshold)}"),
        *((f"claim: {name}", text) for name, text in claim),
    ]
    if isinstance(training, dict):
        if "blind" in training:
            facts.insert(0, ("BLIND MODEL", f"it {training['blind']}"))
        facts += [(f"training {name}", _short(v)) for name, v in training.items() if not isinstance(v, dict)]
        tuning = training.get("tuning")
        spreads = tuning.items() if isinstance(tuning, dict) else ()
        facts += [
            (f"fitted {name}", _short([f"{k}: {n}" for k, n in v.items()]))
            for name, v in spreads
            if isinstance(v, dict)
        ]
    if (reach := Reach.of_model(card.metadata)) is not None:
        facts.append(("training range", reach.in_words()))
    adaptation = card.metadata.get("adaptation")
    if isinstance(adaptation, dict):
        facts += [(f"adaptation {name}", _short(value)) for name, value in adaptation.items()]
    facts += [(name, _short(card.metadata[name])) for name in ("placement", "versions") if name in card.metadata]
    return facts


def _short(value: Any) -> str:
    if isinstance(value, dict):
        text = ", ".join(f"{name} {_six_digits(item)}" for name, item in value.items())
    else:
        text = ", ".join(map(_six_digits, value)) if isinstance(value, list) else _six_digits(value)
    return text if len(text) <= 300 else text[:297] + "..."


def _six_digits(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _verdict(info: ModelInfo, self_test: SelfTest | None, *, is_key_checked: bool) -> str:
    if self_test is None:
        return "Not verified: --verify checks every byte and re-scores the self-test vectors."
    equal = "bit for bit" if self_test.is_bit_equal else f"to {self_test.max_relative_difference:.1e} relative"
    signature = ", signature" if is_key_checked else ""
    unchecked = " Its signature was not checked: give --key-file." if info.is_signed and not is_key_checked else ""
    scored = f"{self_test.n_rows} self-test vectors scored again {equal}"
    return f"Verified: SHA-256{signature}, features, scorer; {scored}.{unchecked}"
