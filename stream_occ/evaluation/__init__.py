"""Evaluation with people held out: protocol, figures with intervals, baselines; `report.evaluate` runs it all."""

from stream_occ.evaluation.metrics import Figure
from stream_occ.evaluation.protocol import Method, Trial, Windows
from stream_occ.evaluation.report import Evaluation, Protocol, evaluate

__all__ = ["Evaluation", "Figure", "Method", "Protocol", "Trial", "Windows", "evaluate"]
