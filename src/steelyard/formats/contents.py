"""Contents of a file from outside that no table may hold: numbers beyond any unit, control characters in texts."""

from __future__ import annotations

from typing import Any

from steelyard._arrays import LARGEST
from steelyard.errors import SteelyardError, printable


def check_contents(data: Any, what: str, error: type[SteelyardError] = SteelyardError) -> None:
    """Raises an error for a finite number beyond `LARGEST`, and for a control character in a name or text."""
    if isinstance(data, dict):
        for key, value in data.items():
            check_contents(str(key), what, error)
            check_contents(value, f"{what}, {printable(str(key))}", error)
    elif isinstance(data, list | tuple):
        for value in data:
            name = value.get("name") if isinstance(value, dict) else None
            check_contents(value, f"{what} '{printable(name)}'" if isinstance(name, str) else what, error)
    elif isinstance(data, str):
        if printable(data) != data:
            raise error(f"{what}: '{printable(data)}' contains a control character. Remove it.")
    elif isinstance(data, int | float) and LARGEST < abs(data) < float("inf"):
        raise error(f"{what}: a number beyond {LARGEST:g} is in no unit. Correct it.")
