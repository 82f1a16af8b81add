"""Values that help texts and shell completion show: the names that an option takes, and defaults.

Each is a copy of the object named above it, because `steelyard X --help` must not import its module (Numba, SciPy).
tests/cli/test_door.py checks that every copy equals its original; what a command accepts is decided by the original.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

# steelyard.estimators.ESTIMATORS
ESTIMATORS = (
    "auto", "ls", "wls", "consistent", "huber", "map", "ridge", "essential", "rls", "recursive", "gains",
    "consistent-gains", "tls-mixed", "tls", "iv", "didim", "output-error",
)  # fmt: skip
# steelyard.model.terms.TERMS
TERMS = (
    "rotor", "viscous", "coulomb", "asymmetric-coulomb", "offset", "stribeck", "power-law", "load", "bearing",
    "dahl", "asymmetric-viscous", "drift", "ripple", "coupling", "compensator", "springs",
)  # fmt: skip
TERMS_HELP = f"Terms of the model, comma-separated: {', '.join(TERMS)}; '' for none. Default: those of the robot."
HOLD_HELP = (
    "Joints that do not move, comma-separated; may be repeated: names or patterns, each with a position [rad or m] if "
    "it is not zero, e.g. 'finger*=0.02'."
)
# steelyard.formats.robots.bases.BASES
BASES = ("fixed", "floating")
BASE_HELP = (
    "The base of the robot, fixed or floating. Default: as the robot file has it (a URDF or SDF without a free joint: "
    "fixed)."
)
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
# steelyard.simulation.controllers.CONTROLLERS
CONTROLLERS = ("pd", "pid", "cascade", "computed-torque")
# steelyard.export.TARGETS
EXPORT_TARGETS = ("urdf", "mjcf", "sdf", "c", "python", "casadi", "latex")
# steelyard.export.motions.FORMATS
MOTION_FILES = (".csv", ".parquet", ".yaml", ".yml", ".script")
# steelyard.identification.weighing.FREE
FREE = ("offset", "friction")
# steelyard.report.printers.PRINTERS
TABLES = ("csv", "parquet", "json", "tex", "html")
# steelyard.project.papers.registry.PAPERS
PAPERS = ("p0", "p1", "p2", "p3", "p4")
# steelyard.project.demos.adapt.RULES
UPDATE_RULES = ("normalised", "published")
# steelyard.validation.twin.RUNS
TWIN_RUNS = 20


def completing(values: Sequence[str]) -> Callable[[str], list[str]]:
    """Shell completion of an option that takes one of these values, or several, comma-separated."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{value}" for value in values if value.startswith(begun)]

    return complete


def listed(values: Sequence[str] | None) -> list[str]:
    """The values of an option that takes several, comma-separated, and may be repeated."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def robots(incomplete: str) -> list[str]:
    """Shell completion of a robot: the built-in names. Where none fits, the shell completes file names."""
    library = Path(__file__).parents[1] / "formats" / "robots" / "library"
    return sorted(file.stem for file in library.glob(f"{incomplete}*.toml"))
