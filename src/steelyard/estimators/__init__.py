"""Estimators by the names project files and the command line use."""

from __future__ import annotations

from steelyard.errors import EstimationError, choices
from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.ls import LS
from steelyard.estimators.map import MAP
from steelyard.estimators.wls import WLS

__all__ = ["ESTIMATORS", "LS", "MAP", "WLS", "Estimate", "Estimator", "named_estimator"]

ESTIMATORS: dict[str, type[Estimator]] = {kind.name: kind for kind in (LS, WLS, MAP)}


def named_estimator(name: str) -> Estimator:
    """An estimator with its default options."""
    if name not in ESTIMATORS:
        raise EstimationError(choices("estimator", name, ESTIMATORS))
    return ESTIMATORS[name]()
