"""The errors that Steelyard raises. Each message names the thing, lists the choices and says the next step."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "DataError",
    "EstimationError",
    "MissingExtraError",
    "ModelError",
    "OutputError",
    "ProjectError",
    "RobotError",
    "SimulationError",
    "SteelyardError",
]


class SteelyardError(Exception):
    """Base of every error that a user can cause and fix."""


class RobotError(SteelyardError):
    """A robot description that cannot be read or contradicts itself."""


class ModelError(SteelyardError):
    """A combination of robot and terms that does not fit together."""


class DataError(SteelyardError):
    """A log whose contents cannot be used: columns, units, clock, NaN, length."""


class ProjectError(SteelyardError):
    """A project file with a wrong key, type or value."""


class EstimationError(SteelyardError):
    """An estimate that cannot be computed from the information given."""


class SimulationError(SteelyardError):
    """A motion that cannot be simulated: a model without laws, an indefinite mass matrix, a loop that diverges."""


class OutputError(SteelyardError):
    """A result that cannot be written: the place, the format or an option is wrong."""


class MissingExtraError(SteelyardError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            f'Install it with: pip install "steelyard[{extra}]"'
        )


def choices(kind: str, given: object, valid: Iterable[str]) -> str:
    """The sentence every "unknown name" error ends in: what was given, the nearest name, all names."""
    names = list(valid)
    near = get_close_matches(str(given), names, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"Unknown {kind} '{given}'.{hint} Valid: {few(names, 40) or '(none)'}."


def few(names: Iterable[str], most: int = 5) -> str:
    """Names for a message, at most `most` of them: "a, b, c, d, e and 12 more"."""
    listed = list(names)
    left = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {left} more" if left > 0 else "")
