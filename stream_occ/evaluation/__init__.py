"""Evaluation with people held out: protocol, figures with intervals, baselines; `report.evaluate` runs it all."""

from stream_occ.evaluation.metrics import Figure
from stream_occ.evaluation.protocol import Method, Trial, Windows
from stream_occ.evaluation.report import Evaluation, Protocol, evaluate
from stream_occ.evaluation.transfer import TrainingSet

__all__ = ["Evaluation", "Figure", "Method", "Protocol", "TrainingSet", "Trial", "Windows", "evaluate"]
