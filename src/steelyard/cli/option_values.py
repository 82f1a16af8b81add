"""Values that help texts show: the names an option takes, and defaults.

Each is a copy of what the room named next to it holds, because `steelyard X --help` must not load that room (Numba,
SciPy). tests/cli/test_door.py holds every copy equal to its original; what a command accepts is decided by the
original alone.
"""

from __future__ import annotations

# steelyard.estimators.ESTIMATORS
ESTIMATORS = (
    "ls", "wls", "consistent", "huber", "map", "ridge", "essential", "rls", "recursive", "gains", "consistent-gains",
    "tls-mixed", "tls", "iv", "didim", "output-error",
)  # fmt: skip
# steelyard.model.terms.TERMS
TERMS = (
    "rotor", "viscous", "coulomb", "asymmetric-viscous", "asymmetric-coulomb", "offset", "power-law", "stribeck",
    "load", "dahl", "ripple", "drift", "coupling", "compensator", "springs",
)  # fmt: skip
# steelyard.model.payload.UNLOADED
UNLOADED = "none"
# steelyard.regression.forgetting.RULES
FORGETTING = ("none", "exponential", "directional")
# steelyard.online.online.WATCH
LEARN_S, FALSE_ALARMS_PER_HOUR = 30.0, 0.1
# steelyard.project.watch.FOLLOWED_FILES
FOLLOWED_FILES = ("result.json", "report.html", "convergence.html")
# steelyard.project.excite.FAMILIES
FAMILIES = ("fourier", "b-spline")
# steelyard.design.criteria.CRITERIA
CRITERIA = ("d-optimal", "condition", "targets")
# steelyard.export.motions.FORMATS
MOTION_FILES = (".csv", ".parquet", ".yaml", ".yml", ".script")
# steelyard.identification.weighing.FREE
FREE = ("offset", "friction")
# steelyard.validation.twin.RUNS
TWIN_RUNS = 20
