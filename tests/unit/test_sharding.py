"""Shares of a fleet: each device has one owner, by a figure that every process and every year gives alike."""

from __future__ import annotations

import binascii
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.config import adjusted_config
from stream_occ.errors import ConfigError, DataError
from stream_occ.sharding import Shard, own_file

IDS = st.text("abcxyzABC0189._-", min_size=1, max_size=64)


@given(IDS, st.integers(1, 256))
def test_each_device_has_exactly_one_owner(device_id: str, of: int) -> None:
    """By CRC-32 modulo the number of processes: no device is anybody's twice, or nobody's."""
    owners = [number for number in range(1, of + 1) if Shard(number, of).owns(device_id)]
    assert owners == [1 + binascii.crc32(device_id.encode("ascii")) % of]


def test_the_owner_is_that_of_the_published_check_value() -> None:
    """CRC-32 of 123456789 is CBF43926 in every catalogue: 3,421,780,262, which is 2 modulo 4."""
    assert [Shard(number, 4).owns("123456789") for number in (1, 2, 3, 4)] == [False, False, True, False]


@pytest.mark.parametrize("text", ["0of4", "5of4", "1of257", "2/4", "", "of", "1of", "01of4", "1of4 ", "-1of4", "٢of٤"])
def test_what_names_no_share_is_refused_in_one_line(text: str) -> None:
    """From the command line or the file alike."""
    with pytest.raises(ConfigError, match=r"shard: must be one of several processes such as 2of4"):
        adjusted_config(None, inputs=[{"pattern": "w/{device}/imu"}], shard=text)


def test_each_share_has_names_of_its_own() -> None:
    """Topics of the bridge and files are by instance; a detector that is whole keeps the name it always had."""
    inputs = [{"pattern": "w/{device}/imu"}]
    assert adjusted_config(None, inputs=inputs).instance == "edge"
    assert adjusted_config(None, inputs=inputs, shard="1of1").instance == "edge"
    assert adjusted_config(None, inputs=inputs, shard="2of12").instance == "edge-2of12"


def test_state_of_another_division_is_not_left_behind_unseen(tmp_path: Path) -> None:
    """More or fewer processes than before would leave devices' open alerts in files that nobody reads."""
    base = tmp_path / "stream_occ-edge.db"
    assert own_file(base, Shard()) == base
    assert own_file(base, Shard(2, 4)).name == "stream_occ-edge-2of4.db"
    (tmp_path / "stream_occ-edge2-1of3.db").touch()
    (tmp_path / "stream_occ-edge-1of4.db").touch()
    assert own_file(base, Shard(2, 4)).name == "stream_occ-edge-2of4.db"
    for shard in (Shard(), Shard(1, 3)):
        with pytest.raises(DataError, match=r"edge-1of4\.db: must .*got that of 4 processes.*until no alert is open"):
            own_file(base, shard)
    (tmp_path / "stream_occ-edge-1of4.db").unlink()
    base.touch()
    with pytest.raises(DataError, match=r"edge\.db: must be of 4 processes; got that of 1 process\. "):
        own_file(base, Shard(2, 4))
