"""The errors that Steelyard raises. Each message names the thing, lists the choices and says the next step."""

from __future__ import annotations

import re
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


# Characters that a terminal or a browser obeys instead of showing: controls (also of 8 bits), line separators, those
# that turn the direction of writing round, and halves of characters.
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


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


def printable(text: str, kept: str = "") -> str:
    r"""The text with control characters written out, "\x1b[31m", so that none reaches a terminal or a page; those in
    `kept` stay as they are."""
    return _COMMANDS.sub(lambda found: found[0] if found[0] in kept else _written_out(found[0]), text)


def check_name(kind: str, name: str) -> None:
    """Raises an error if a name contains a control character."""
    if _COMMANDS.search(name):
        raise SteelyardError(f"The name '{printable(name)}' of a {kind} contains a control character: rename it.")


def _written_out(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


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
