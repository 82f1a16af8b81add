"""Design of the next motion.

`design_excitation` searches a family of motions for the one that determines the parameters best by a criterion, within
limits. `forecast` gives the expected σ for any motion (its samples: `planned`), also in addition to what is `known`
from earlier runs.
"""

from __future__ import annotations

from steelyard.design.constraints import MotionRules
from steelyard.design.criteria import CRITERIA, ConditionNumber, Criterion, DeviationTargets, DOptimal
from steelyard.design.design import Design, design_excitation
from steelyard.design.families import BSplineFamily, Family, FourierFamily
from steelyard.design.forecast import Forecast, forecast, planned, so_far
from steelyard.design.prior_knowledge import Known, known
from steelyard.design.ramps import ramped

__all__ = [
    "CRITERIA",
    "BSplineFamily",
    "ConditionNumber",
    "Criterion",
    "DOptimal",
    "Design",
    "DeviationTargets",
    "Family",
    "Forecast",
    "FourierFamily",
    "Known",
    "MotionRules",
    "design_excitation",
    "forecast",
    "known",
    "planned",
    "ramped",
    "so_far",
]
