"""Frozen scorers: numpy alone, all that the running service imports of a detector."""

from stream_occ.scoring._base import Arrays, Scorer, load_scorer
from stream_occ.scoring._model import Model, Scaler

__all__ = ["Arrays", "Model", "Scaler", "Scorer", "load_scorer"]
