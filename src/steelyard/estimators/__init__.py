"""One estimator per file: a frozen bag of options with one method, `estimate(base, information)`.

`named_estimator` makes one by the name that project files and the command line use. `closest`, `closest_on_essential`
and `minimum_norm` choose standard parameters for base values; `durbin_wu_hausman` tests whether the regressor is
exogenous.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from steelyard.errors import EstimationError, ModelError, choices
from steelyard.estimators.consistent.consistent import Consistent
from steelyard.estimators.consistent.consistent_gains import ConsistentGains
from steelyard.estimators.essential import Essential
from steelyard.estimators.estimator import Certificate, Estimate, Estimator, GainEstimate, options_of
from steelyard.estimators.gains.gains import Gains
from steelyard.estimators.gains.tls import TLS
from steelyard.estimators.gains.tls_mixed import TLSMixed
from steelyard.estimators.gradient.recursive import Recursive
from steelyard.estimators.huber import Huber
from steelyard.estimators.ls import LS
from steelyard.estimators.regularised.map import MAP
from steelyard.estimators.regularised.ridge import Ridge
from steelyard.estimators.rls import RLS
from steelyard.estimators.simulated.didim import DIDIM
from steelyard.estimators.simulated.exogeneity import Exogeneity, durbin_wu_hausman
from steelyard.estimators.simulated.iv import IV
from steelyard.estimators.simulated.output_error import OutputErrorMethod
from steelyard.estimators.standard_set import closest, closest_on_essential, minimum_norm
from steelyard.estimators.wls import WLS
from steelyard.physical.constraints import Constraints
from steelyard.physical.prior import Widths

__all__ = [
    "DIDIM",
    "ESTIMATORS",
    "IV",
    "LS",
    "MAP",
    "RLS",
    "TLS",
    "WLS",
    "Certificate",
    "Consistent",
    "ConsistentGains",
    "Essential",
    "Estimate",
    "Estimator",
    "Exogeneity",
    "GainEstimate",
    "Gains",
    "Huber",
    "OutputErrorMethod",
    "Recursive",
    "Ridge",
    "TLSMixed",
    "closest",
    "closest_on_essential",
    "durbin_wu_hausman",
    "minimum_norm",
    "named_estimator",
    "options_of",
]

ESTIMATORS: dict[str, type[Estimator]] = {
    kind.name: kind
    for kind in (
        LS, WLS, Consistent, Huber, MAP, Ridge, Essential, RLS, Recursive, Gains, ConsistentGains, TLSMixed, TLS, IV,
        DIDIM, OutputErrorMethod,
    )
}  # fmt: skip
# Options that are tables of their own.
TABLES = {"widths": Widths, "constraints": Constraints}


def named_estimator(name: str, options: Mapping[str, Any] | None = None) -> Estimator:
    """An estimator by name, with options by the names of its fields."""
    if name not in ESTIMATORS:
        raise EstimationError(choices("estimator", name, ESTIMATORS))
    kind = ESTIMATORS[name]
    given = dict(options or {})
    valid = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for key, value in given.items():
        if key not in valid:
            raise EstimationError(f"Estimator '{name}': " + choices("option", key, valid))
        if key in TABLES:
            try:
                given[key] = TABLES[key](**value)
            except (TypeError, ValueError):
                raise EstimationError(
                    f"Estimator '{name}': {key} takes {', '.join(vars(TABLES[key]()))}, not {value!r}."
                ) from None
            except ModelError as error:
                raise EstimationError(f"Estimator '{name}': {error}") from None
    try:
        return kind(**given)
    except TypeError:
        raise EstimationError(f"Estimator '{name}': an option has a value of the wrong type: {given!r}.") from None
