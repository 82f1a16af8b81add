"""Validation on motion that was not used in the fit, and tests for a change of the robot.

`validate` scores a result on other logs, `cross_validate` on its own logs left out in turn, `forward_validation` in
simulation. `lack_of_fit` tests the friction law on the fitted rows, `compare` two results for a change of the robot.
`twin` identifies simulated copies of the experiment, whose true parameters are known.
"""

from __future__ import annotations

from steelyard.validation.comparison import Comparison, ParameterChange, Row, compare, compared_rows
from steelyard.validation.cross_validation import (
    CrossValidation,
    Fold,
    cross_validate,
    cross_validate_choice,
    cross_validate_problem,
)
from steelyard.validation.forward import ForwardScore, ForwardValidation, forward_validation
from steelyard.validation.held_out import EffortScore, Validation, validate
from steelyard.validation.lack_of_fit import BinTest, LackOfFit, lack_of_fit
from steelyard.validation.residuals import Bin, Whiteness, whiteness
from steelyard.validation.run_differences import RunDifference, RunDifferences, run_differences
from steelyard.validation.twin import Twin, TwinParameter, twin

__all__ = [
    "Bin",
    "BinTest",
    "Comparison",
    "CrossValidation",
    "EffortScore",
    "Fold",
    "ForwardScore",
    "ForwardValidation",
    "LackOfFit",
    "ParameterChange",
    "Row",
    "RunDifference",
    "RunDifferences",
    "Twin",
    "TwinParameter",
    "Validation",
    "Whiteness",
    "compare",
    "compared_rows",
    "cross_validate",
    "cross_validate_choice",
    "cross_validate_problem",
    "forward_validation",
    "lack_of_fit",
    "run_differences",
    "twin",
    "validate",
    "whiteness",
]
