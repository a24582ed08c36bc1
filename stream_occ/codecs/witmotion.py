"""CSV of WitMotion sensors, as loggers of their Bluetooth stream write it: columns time (s since 1970), ax.., wx...

Other columns are left out. The header names no units (the sensor sends g and deg/s), so the profile must. Samples that
came in one burst have one stamp, that of their arrival: they are spread back over the time before it at the profile's
nominal_rate_hz.
"""

from __future__ import annotations

import numpy as np

from stream_occ.codecs._common import refuse, to_block, whole_ns
from stream_occ.codecs._sensors import spread
from stream_occ.codecs._table import column_names, stamp_cell, table_lines, table_rows, three_columns
from stream_occ.samples import DeviceProfile, SampleBlock

_ACC, _GYR = ["ax", "ay", "az"], ["wx", "wy", "wz"]


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not this table."""
    lines = table_lines(payload, device_id)
    names = column_names(lines[0], ",", device_id)
    for reason, wanted in (("stamp_missing", ["time"]), ("missing_acc", _ACC), ("missing_gyro", _GYR)):
        if not set(wanted) <= set(names):
            refuse(device_id, reason, f"have columns {', '.join(wanted)}", lines[0], "Send the header too")
    rows = table_rows(lines[1:], ",", len(names), device_id)
    arrived = whole_ns([stamp_cell(row[names.index("time")]) for row in rows], "s", device_id)
    ends = np.flatnonzero(np.append(arrived[1:] != arrived[:-1], True))
    t_ns = spread(arrived[ends], np.diff(ends, prepend=-1).tolist(), profile.nominal_rate_hz, device_id, is_last=True)
    acc, gyr = (three_columns(rows, [names.index(name) for name in wanted], device_id) for wanted in (_ACC, _GYR))
    return [to_block(device_id, profile, t_ns, acc, gyr, (None, None))]
