"""Whatever topics and messages a broker carries, the doctor ends with a report and a good configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_occ.codecs import load_codec
from stream_occ.config import adjusted_config, check_config
from stream_occ.doctor import configuration, diagnose, report
from tests.property.test_codecs_fuzz import near_csv, near_messages
from tests.property.test_device_codecs_fuzz import sketches
from tests.unit.test_doctor import heard_of, in_batches, in_units, turning
from tests.unit.test_doctor_devices import phyphox_parts

good = in_batches(turning(40), load_codec("json").encode, 4)
bare = in_batches(turning(40), in_units(0.1, 57.3), 4)
payloads = st.lists(
    st.binary(max_size=40) | near_messages | near_csv | sketches.map(lambda message: json.dumps(message).encode()),
    max_size=6,
)
levels = st.text(max_size=6) | st.sampled_from(
    ["w1", "w2", "imu", "acc", "gyr", "$share", "{device}", "a b", "bridge", "stream_occ"]
)
names = st.lists(levels, min_size=1, max_size=4).map("/".join)
topics = st.dictionaries(names, payloads | st.sampled_from([good, bare, *phyphox_parts(turning(40), 4)]), max_size=5)


@pytest.mark.filterwarnings("error")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=topics)
def test_any_topics_end_with_a_report_and_a_good_configuration(found: dict[str, Any], tmp_path: Path) -> None:
    """No exception, no control character for the terminal, and `config check` takes what is printed."""
    diagnosis = diagnose(heard_of(*found.items()))
    text = report(diagnosis)
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    settings_ = adjusted_config(None, inputs=[{"pattern": "{device}"}])
    written = configuration(diagnosis, settings_, has_file=False)
    if diagnosis.inputs:
        (tmp_path / "found.yaml").write_text(written, encoding="utf-8")
        assert check_config(tmp_path / "found.yaml", {})[1] == [], written
