"""From a problem to its information: rows, filters, triangles, scores."""

from __future__ import annotations

from steelyard.regression.forgetting import Forgetting
from steelyard.regression.information import BlockKey, Information, Triangle
from steelyard.regression.observe import observe
from steelyard.regression.outliers import OutlyingBlock, outlying_blocks
from steelyard.regression.problem import Problem
from steelyard.regression.scores import Score, score

__all__ = [
    "BlockKey",
    "Forgetting",
    "Information",
    "OutlyingBlock",
    "Problem",
    "Score",
    "Triangle",
    "observe",
    "outlying_blocks",
    "score",
]
