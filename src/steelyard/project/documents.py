"""Documents: results as JSON and back, from the types of their fields.

Frozen dataclasses are written field by field by msgspec, arrays as nested lists, and null stands for a number that is
not finite. `restored` reads such data back: numbers have the same bits, null is NaN where the type asks for a number.
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from pathlib import PurePath
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from steelyard._arrays import Array

T = TypeVar("T")

# Characters that JSON allows in a text and a terminal obeys; they are written as escapes.
_UNPRINTED = re.compile("[\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
# Arrays in documents have at most this many axes.
_MOST_AXES = 4


def record(schema: str, data: Any, **more: Any) -> dict[str, Any]:
    """A document: its schema, the fields of a frozen dataclass or the entries of a table, and `more` entries."""
    return {"schema": schema} | plain(data) | plain(more)


def plain(data: Any) -> Any:
    """Dataclasses, arrays, tuples and paths as dictionaries, lists, texts and numbers; null for what is not finite."""
    return msgspec.json.decode(_encoded(data))


def text(data: Any) -> str:
    """JSON text of a document; numbers are written so that they read back to the same bits."""
    return _UNPRINTED.sub(lambda one: f"\\u{ord(one[0]):04x}", msgspec.json.format(_encoded(data), indent=1).decode())


def toml_text(data: Mapping[str, Any]) -> str:
    """TOML text of plain data; entries that are None, {} or [] are left out, and tables stand after numbers and
    texts."""
    stated = {key: value for key, value in data.items() if value is not None and value not in ({}, [])}
    tables = {key: value for key, value in stated.items() if isinstance(value, dict)}
    lists = {
        key: value
        for key, value in stated.items()
        if isinstance(value, list | tuple) and all(isinstance(one, dict) for one in value)
    }
    lines = [f"{key} = {toml_value(value)}" for key, value in stated.items() if key not in tables and key not in lists]
    for key, value in tables.items():
        lines += ["", f"[{key}]", *_entries(value)]
    for key, value in lists.items():
        for one in value:
            lines += ["", f"[[{key}]]", *_entries(one)]
    return "\n".join(lines) + "\n"


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [
        f"{key} = {toml_value(value)}" for key, value in table.items() if value is not None and value not in ({}, [])
    ]


def toml_value(value: Any) -> str:
    """A value of a TOML file on one line."""
    if isinstance(value, dict):
        inner = ", ".join(
            f"{toml_value(key)} = {toml_value(one)}"
            for key, one in value.items()
            if one is not None and one not in ({}, [])
        )
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(one) for one in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def restored(data: Any, kind: type[T]) -> T:
    """An object of type `kind` from plain data; `msgspec.ValidationError` names the entry that does not fit.

    Entries that the type does not have are ignored; fields with a default may be missing.
    """
    return msgspec.convert(_with_nan(data, kind), kind, dec_hook=_array)


def _encoded(data: Any) -> bytes:
    try:
        return msgspec.json.encode(data, enc_hook=_simpler)
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        return msgspec.json.encode(_printable(msgspec.to_builtins(data, enc_hook=_simpler)))


def _printable(data: Any) -> Any:
    r"""Plain data with `\udc80` spelt out in its texts where they hold a byte that is not a character."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {_printable(key): _printable(value) for key, value in data.items()}
    return [_printable(value) for value in data] if isinstance(data, list | tuple) else data


def _simpler(value: Any) -> Any:
    """What msgspec does not know, as something it knows."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"A document cannot hold {type(value).__name__}: give it a frozen dataclass, numbers or texts.")


def _with_nan(data: Any, kind: Any) -> Any:
    """The data with NaN instead of null wherever `kind` asks for a number."""
    if kind is float:
        return math.nan if data is None else data
    inner = get_args(kind)
    if is_dataclass(kind) and isinstance(data, dict):
        wanted = _fields(kind)
        return {key: _with_nan(value, wanted.get(key)) for key, value in data.items()}
    if get_origin(kind) is dict and isinstance(data, dict):
        return {key: _with_nan(value, inner[1]) for key, value in data.items()}
    if get_origin(kind) is tuple and isinstance(data, list):
        every = inner[:1] * len(data) if inner[1:] == (...,) else (*inner, *[None] * len(data))[: len(data)]
        return [_with_nan(value, own) for value, own in zip(data, every, strict=True)]
    if get_origin(kind) in (Union, types.UnionType) and data is not None:
        return _with_nan(data, next(own for own in inner if own is not types.NoneType))
    return data


@cache
def _fields(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _array(kind: Any, data: Any) -> Array:
    """A nested list as an array of numbers, null as NaN."""
    if get_origin(kind) is not np.ndarray:
        raise NotImplementedError(f"No rule reads a field of type {kind}.")
    shape: Any = float | None
    first = data
    for _ in range(_MOST_AXES):
        if isinstance(first, list):
            shape, first = list[shape], first[0] if first else None
    if shape == float | None:
        raise ValueError("Expected a list of numbers")
    try:
        return np.array(msgspec.convert(data, shape), dtype=float)
    except msgspec.ValidationError as error:  # its path starts at the array: a ValueError gets that of the array too
        fault, _, place = str(error).partition(" - at `$")
        raise ValueError(f"{fault} in entry {place.rstrip('`')}") from None
