"""One estimator per file: a frozen dataclass of options that declares its `needs` and has one method, `estimate`.

`named_estimator` makes one by the name used in project files and on the command line; `register` adds your own.
`closest`, `closest_on_essential` and `minimum_norm` choose standard parameters for base values; `durbin_wu_hausman`
tests whether the regressor is exogenous.
"""

from __future__ import annotations

from steelyard.estimators.auto import Auto
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
from steelyard.estimators.registry import ESTIMATORS, named_estimator, register, unregister
from steelyard.estimators.regularised.map import MAP
from steelyard.estimators.regularised.ridge import Ridge
from steelyard.estimators.rls import RLS
from steelyard.estimators.simulated.didim import DIDIM
from steelyard.estimators.simulated.exogeneity import Exogeneity, durbin_wu_hausman
from steelyard.estimators.simulated.iv import IV
from steelyard.estimators.simulated.output_error import OutputErrorMethod
from steelyard.estimators.standard_set import closest, closest_on_essential, minimum_norm
from steelyard.estimators.wls import WLS

__all__ = [
    "DIDIM",
    "ESTIMATORS",
    "IV",
    "LS",
    "MAP",
    "RLS",
    "TLS",
    "WLS",
    "Auto",
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
    "register",
    "unregister",
]
