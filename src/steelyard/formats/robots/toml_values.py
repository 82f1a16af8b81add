"""Checked values of TOML tables: known keys and words, finite numbers, angles as multiples of π."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from steelyard.errors import RobotError, choices
from steelyard.formats.contents import check_contents

T = TypeVar("T", bound=msgspec.Struct)
Angle = float | str
Vector = tuple[float, float, float]
# A multiple of π: pi, -pi/2, 3pi/4, 2*pi. Anything more is a number.
MULTIPLE_OF_PI = re.compile(r"([+-]?)([0-9]{1,3})?\*?pi(?:/([1-9][0-9]{0,2}))?")


def typed(raw: dict[str, Any], kind: type[T], what: str, words: Mapping[str, Iterable[str]] | None = None) -> T:
    """`raw` as a Struct; the error for a wrong key, type or number lists the valid keys, or the `words` of a key."""
    for given in raw:
        if given not in kind.__struct_fields__:
            raise RobotError(f"{what}: {choices('key', given, kind.__struct_fields__)}")
    for key, valid in (words or {}).items():
        if isinstance(raw.get(key), str) and raw[key] not in valid:
            raise RobotError(f"{what}: {choices(key, raw[key], valid)}")
    check_contents(raw, what, RobotError)
    _refuse_infinite(raw, what)
    try:
        return msgspec.convert(raw, kind)
    except (msgspec.ValidationError, OverflowError) as problem:
        raise RobotError(f"{what}: {problem}.") from problem


def _refuse_infinite(value: Any, what: str) -> None:
    """Raises an error for nan and inf, which TOML allows."""
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_infinite(item, f"{what}, {key}")
    elif isinstance(value, list):
        for item in value:
            if not isinstance(item, dict):  # rows of joints are checked one by one, under their own names
                _refuse_infinite(item, what)
    elif isinstance(value, float) and not math.isfinite(value):
        raise RobotError(f"{what}: {value} is not a finite number. Remove the key if the value is unknown.")


def row_name(what: str, row: dict[str, Any], i: int) -> str:
    return f"{what} '{row['name']}'" if isinstance(row.get("name"), str) else f"{what} number {i + 1}"


def radians(value: Angle, what: str) -> float:
    """An angle [rad]: a number, or a multiple of π as text."""
    if not isinstance(value, str):
        return float(value)
    match = MULTIPLE_OF_PI.fullmatch(value.replace(" ", ""))
    if match is None:
        raise RobotError(f"{what}: '{value}' is not an angle. Give radians, or a multiple of pi such as \"-pi/2\".")
    sign, times, divisor = match.groups()
    return (-1.0 if sign == "-" else 1.0) * float(times or 1) * math.pi / float(divisor or 1)
