"""Do the parameters explain motion they were not fitted to, and is the robot still the one that was weighed?"""

from __future__ import annotations

from steelyard.validation.comparison import Comparison, ParameterChange, Row, compare, compared_rows
from steelyard.validation.cross_validation import (
    CrossValidation,
    Fold,
    cross_validate,
    cross_validate_choice,
    cross_validate_problem,
)
from steelyard.validation.forward import ForwardValidation, forward_validation
from steelyard.validation.held_out import EffortScore, Validation, validate
from steelyard.validation.residuals import Bin, Whiteness, whiteness

__all__ = [
    "Bin",
    "Comparison",
    "CrossValidation",
    "EffortScore",
    "Fold",
    "ForwardValidation",
    "ParameterChange",
    "Row",
    "Validation",
    "Whiteness",
    "compare",
    "compared_rows",
    "cross_validate",
    "cross_validate_choice",
    "cross_validate_problem",
    "forward_validation",
    "validate",
    "whiteness",
]
