"""The trainer's configuration: file, flags, mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_occ.errors import ConfigError
from stream_occ.training import TrainingConfig, load_training_config


def test_configuration_file_is_read_with_lines(tmp_path: Path) -> None:
    """Paths are relative to the file; flags win over it."""
    file = tmp_path / "train.yaml"
    file.write_text("data:\n  - {dataset: csv, path: walks}\nwindow_s: 4.0\nthreshold:\n  reject_share: 0.02\n")
    loaded = load_training_config(file, {"window_s": 3.0, "detector.params.n_estimators": 5})
    assert loaded.data[0].path == str(tmp_path / "walks")
    assert (loaded.window_s, loaded.threshold.reject_share) == (3.0, 0.02)
    assert loaded.detector.params == {"n_estimators": 5}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("windw_s: 4.0\n", 1, "windw_s must be a known key; got 'windw_s'. The nearest key is window_s."),
        ("seed: 0\nthreshold:\n  reject_share: 0.7\n", 3, "threshold.reject_share must be less than 0.5; got 0.7"),
        ("seed: 0\nhop_s: fast\n", 2, "hop_s must be a valid number; got 'fast'"),
        ("people: [2, 3]\n", 1, "people.0 must be a valid string; got 2. Put it in quotes"),
        ("data:\n  - {dataset: csv}\n", 2, "data.0.path must be given; got nothing"),
        ("- 1\n", 1, "must hold keys and values; got list"),
    ],
)
def test_mistake_in_the_configuration_is_named_by_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    """File, line, key, what must hold."""
    file = tmp_path / "train.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_training_config(file)
    assert str(caught.value).replace(": must", " must").startswith(f"{file}:{line}")
    assert words in str(caught.value).replace(": must", " must")


@pytest.mark.parametrize("text", ["detector: JKNN", "detector: [1]", "detector: null", "detector: {params: 3}"])
def test_flag_over_a_section_that_is_none_names_the_section(tmp_path: Path, text: str) -> None:
    """A flag cannot be put into a text or a list: the file's line is told, as without the flag."""
    file = tmp_path / "train.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"train\.yaml:1: detector.*must be a valid dictionary"):
        load_training_config(file, {"detector.name": "11NN", "detector.params.theta": 1.0})


def test_mistake_in_a_flag_is_named_by_flag() -> None:
    """No file, no line: the flag itself."""
    with pytest.raises(ConfigError, match=r"--reject-share: threshold\.reject_share: must be greater than 0; got 0\.0"):
        load_training_config(None, {"threshold.reject_share": 0.0})


def test_hop_and_window_must_fit() -> None:
    """A hop beyond the window would leave samples that no window sees."""
    with pytest.raises(ConfigError, match=r"hop_s: must be .* at most window_s = 5\.0 s; got 6"):
        load_training_config(None, {"hop_s": 6.0})
    with pytest.raises(ConfigError, match="window_s: must hold at least 4 samples"):
        load_training_config(None, {"window_s": 0.05, "hop_s": 0.05})


def test_example_configuration_is_complete_and_holds_the_defaults() -> None:
    """configs/train.yaml shows every key with its default; only the data are an example."""
    file = Path(__file__).parents[2] / "configs" / "train.yaml"
    loaded = load_training_config(file)
    assert loaded.model_fields_set == set(TrainingConfig.model_fields)
    assert loaded.model_copy(update={"data": ()}) == TrainingConfig()
