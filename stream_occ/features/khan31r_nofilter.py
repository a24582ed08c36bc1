"""Feature set `khan31r-nofilter`: the 31 features of khan31r without its low-pass, for streams of 40 Hz and less."""

from stream_occ.features.khan31r import NAMES, ORIENTATION_FREE, Khan31r

__all__ = ["FEATURE_SET", "NAMES", "ORIENTATION_FREE"]

# A low-pass at 20 Hz needs more than 40 Hz; without it any rate will do.
FEATURE_SET = Khan31r("khan31r-nofilter", lowpass_hz=None, min_rate_hz=0.0, min_stream_hz=0.0)
