"""Text to numbers: clean rows exactly, damaged rows refused and counted, the others kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import Column, decode_text, keep_possible, natural_key, parse_rows, stamps_ns

COLUMNS = (Column("t", int), Column("x", float))


def parse(*lines: str) -> tuple[list[int], list[float], dict[str, int]]:
    report = LoadReport("test")
    table = parse_rows(lines, COLUMNS, file="f", report=report)
    return table["t"].tolist(), table["x"].tolist(), report.by_reason()


def test_byte_order_mark_is_no_part_of_the_first_name() -> None:
    """Excel writes one in front of the header."""
    assert decode_text(b"\xef\xbb\xbft_ms", "f", LoadReport()) == "t_ms"


def test_bytes_that_are_no_text_spoil_their_row_alone() -> None:
    """Binary rubbish in a text file never stops the load."""
    report = LoadReport()
    lines = decode_text(b"1,2.5\n\xff\xfe,\x003\n2,3.5\n", "f", report).splitlines()
    table = parse_rows(lines, COLUMNS, file="f", report=report)
    assert table["t"].tolist() == [1, 2]
    assert report.by_reason() == {"not a number": 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1", "wrong number of fields"),
        ("1,2,3", "wrong number of fields"),
        ("1,2,5", "wrong number of fields"),  # a decimal comma is not guessed at
        ("1,", "not a number"),
        ("x,2", "not a number"),
        ("1,2.5.1", "not a number"),
        ("1.012.598,2", "not a number"),
        ("1.5,2", "not a number"),
        ("1e3,2", "not a number"),  # a stamp by way of a float could lose digits
        ("1_000,2", "not a number"),
        ("٣,2", "not a number"),
        ("99999999999999999999,2", "not a number"),
        ('"1,2', "wrong number of fields"),
    ],
)
def test_damaged_row_is_refused_and_the_others_kept(line: str, reason: str) -> None:
    """A row that does not hold one whole stamp and one number is counted under its reason."""
    assert parse("1,0.5", line, "2,1.5") == ([1, 2], [0.5, 1.5], {reason: 1})


def test_quoted_numbers_are_numbers() -> None:
    """CSV may quote any field."""
    assert parse('"1","2.5"', "2,3.5") == ([1, 2], [2.5, 3.5], {})


def test_blank_lines_and_blanks_around_fields_are_no_damage() -> None:
    """MobiFall has blanks after its commas, UMAFall blank lines."""
    assert parse("1, 2.5", "", "   ", " 2 ,3.5 ") == ([1, 2], [2.5, 3.5], {})


def test_no_line_gives_an_empty_table() -> None:
    """A file that ends after its header is no error here."""
    assert parse() == ([], [], {})


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)), max_size=20))
def test_numbers_read_back_bit_for_bit_on_both_paths(rows: list[tuple[int, float]]) -> None:
    """The C parser and the careful one give the very same numbers, those that were written."""
    lines = [f"{t},{x!r}" for t, x in rows]
    fast = parse(*lines)
    slow = parse(*lines, "damaged")
    assert fast[:2] == slow[:2] == ([t for t, _ in rows], [x for _, x in rows])
    assert np.array(fast[1]).tobytes() == np.array([x for _, x in rows]).tobytes()
    assert slow[2] == {"wrong number of fields": 1}


def test_whole_stamps_stay_exact_and_impossible_ones_are_marked() -> None:
    """Epoch nanoseconds exceed a float's 53 bits: they go through integers alone."""
    t_ns, good = stamps_ns(np.array([1_657_533_977_813_000_123, 2**63 - 1, -(2**63)]), 1)
    assert t_ns.tolist()[0] == 1_657_533_977_813_000_123
    assert good.tolist() == [True, False, False]


def test_epoch_milliseconds_with_fraction_keep_their_microseconds() -> None:
    """Whole part and fraction are converted apart: 1657533977813.25 ms is exact in a float."""
    t_ns, good = stamps_ns(np.array([1_657_533_977_813.25, np.nan, 1e300]), 1_000_000)
    assert t_ns.tolist()[0] == 1_657_533_977_813_250_000
    assert good.tolist() == [True, False, False]


def test_relative_seconds_round_to_the_nanosecond() -> None:
    """0.1 s, which no float holds, is 100 ms sharp."""
    assert stamps_ns(np.array([0.1, 12.1, -0.36]), 10**9)[0].tolist() == [100_000_000, 12_100_000_000, -360_000_000]


def test_values_no_sensor_gives_are_refused_by_reason() -> None:
    """Not finite, beyond the bound and without a stamp are three different counters."""
    report = LoadReport()
    values = np.array([[1.0], [np.nan], [-6e10], [2.0], [np.inf]])
    good = np.array([True, True, True, False, True])
    t_ns, kept = keep_possible(np.arange(5), good, values, np.array([2000.0]), file="f", report=report)
    assert (t_ns.tolist(), kept.tolist()) == ([0], [[1.0]])
    assert report.by_reason() == {"not finite": 2, "impossible value": 1, "impossible stamp": 1}


def test_names_sort_as_people_count() -> None:
    """sub2 comes before sub10, and mixed names do not raise."""
    names = ["sub10/a", "sub2/b", "a", "10", "9", "sub2/a", ""]
    assert sorted(names, key=natural_key) == ["", "9", "10", "a", "sub2/a", "sub2/b", "sub10/a"]


def test_report_names_the_worst_files_and_counts_the_rest() -> None:
    """People see totals, then files by rows lost, then how many more there are."""
    report = LoadReport("demo", n_recordings=2, n_samples=30)
    for i in range(3):
        report.refuse(f"f{i}", "not a number", i + 1)
    report.refuse("f9", "not finite", 0)
    report.note("f7", "no @DATA line, passed over")
    assert report.lines(max_files=2) == [
        "demo: 2 recordings, 30 samples, 6 rows not used",
        "6 rows not used: not a number (in 3 files)",
        "  f2: 3 rows, not a number",
        "  f1: 2 rows, not a number",
        "  ... and 1 more files",
        "note: f7: no @DATA line, passed over",
    ]
    assert "  f0: 1 rows, not a number" in report.lines(max_files=None)
