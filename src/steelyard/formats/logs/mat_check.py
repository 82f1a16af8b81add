"""Elements of a MATLAB 5 to 7.2 file: the positions of its variables, and whether one can be decoded safely.

SciPy trusts the tags inside a variable, and invalid ones can crash the whole process. So each variable is unpacked,
which verifies its checksum, and its tags are followed to the end before SciPy reads it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

HEADER = 128
_TAG = 8
_BYTE_ORDERS = {b"IM": "<", b"MI": ">"}
_MATRIX, _COMPRESSED = 14, 15
# Some writers store dimensions as unsigned and names as UTF-8.
_NAMES, _FLAGS, _WHOLE = (1, 16), (6,), (5, 6)
# Bytes per number of each type of element; the text encodings 16 to 18 have no fixed size
_NUMBERS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
_TEXTS = (1, 2, 4, 16, 17, 18)
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 16, 17
_ARRAYS = range(6, 16)
_COMPLEX = 0x0800


class Variable(NamedTuple):
    """Position of the bytes of a variable in the file, including its tag."""

    start: int
    stop: int


class BrokenVariableError(Exception):
    """A variable that cannot be decoded, with the reason."""


class _Element(NamedTuple):
    kind: int
    data: memoryview


def variables(path: Path, size: int) -> tuple[list[Variable], list[str]]:
    """The complete variables of a file, and its damage as parts of a sentence.

    A file without the header of version 5 is treated as one of version 4, which is read as a whole.
    """
    found: list[Variable] = []
    with path.open("rb") as stream:
        order = _BYTE_ORDERS.get(stream.read(HEADER)[126:])
        if order is None:
            return [Variable(0, size)], []
        start = HEADER
        while start < size:
            stream.seek(start)
            tag = stream.read(_TAG)
            kind, length = np.frombuffer(tag, f"{order}u4").tolist() if len(tag) == _TAG else (_MATRIX, size)
            stop = start + _TAG + length
            if kind not in (_MATRIX, _COMPRESSED):
                return found, [f"byte {start} is not the start of a variable, after {len(found)} complete ones"]
            if stop > size:
                return found, [f"it ends early at byte {size}, after {len(found)} complete variables"]
            found.append(Variable(start, stop))
            start = stop
    return found, []


def unpacked(path: Path, variable: Variable) -> bytes:
    """A file that holds only this variable, uncompressed and checked."""
    with path.open("rb") as stream:
        header = stream.read(min(HEADER, variable.start))
        stream.seek(variable.start)
        content = stream.read(variable.stop - variable.start)
    if not header:
        return content
    order = _BYTE_ORDERS[header[126:]]
    if np.frombuffer(content, f"{order}u4", 1)[0] == _COMPRESSED:
        try:
            content = zlib.decompress(memoryview(content)[_TAG:])
        except zlib.error as error:
            raise BrokenVariableError(str(error)) from None
    elements = _elements(memoryview(content), order)
    if len(elements) != 1:
        raise BrokenVariableError("its length is wrong")
    _check_matrix(elements[0], order)
    return header + content


def _elements(data: memoryview, order: str) -> list[_Element]:
    """The elements that fill a range of bytes, each a tag and data up to a multiple of eight bytes."""
    out, start = [], 0
    while start < len(data):
        if len(data) - start < _TAG:
            raise BrokenVariableError("a tag is incomplete")
        kind, length = np.frombuffer(data[start : start + _TAG], f"{order}u4").tolist()
        first, padded = start + _TAG, -(-length // 8) * 8
        if kind >> 16:  # up to four bytes are stored inside the tag
            kind, length, first, padded = kind & 0xFFFF, kind >> 16, start + 4, 4
            if length > 4:
                raise BrokenVariableError("a tag is invalid")
        if first + length > len(data):
            raise BrokenVariableError("an element is longer than the variable")
        out.append(_Element(kind, data[first : first + length]))
        start = first + padded
    return out


def _check_matrix(matrix: _Element, order: str) -> None:
    """Check flags, dimensions, name, and the contents required by the class of the array; raises an error otherwise."""
    if matrix.kind != _MATRIX:
        raise BrokenVariableError("it is not an array")
    if not len(matrix.data):
        return
    parts = _elements(matrix.data, order)
    _expect(parts, 0, _FLAGS, 8)
    flags = int(np.frombuffer(parts[0].data, f"{order}u4")[0])
    kind, is_complex = flags & 0xFF, bool(flags & _COMPLEX)
    if kind == _OPAQUE:
        for k in (1, 2, 3):
            _expect(parts, k, _NAMES)
        _check_matrices(parts[4:], len(parts) - 4, order)
        return
    _expect(parts, 1, _WHOLE)
    _expect(parts, 2, _NAMES)
    sides = np.frombuffer(parts[1].data, f"{order}i4").tolist() if len(parts[1].data) % 4 == 0 else []
    if len(sides) < 2 or min(sides) < 0:
        raise BrokenVariableError("the dimensions of an array are invalid")
    rest, count = parts[3:], prod(sides)
    if kind in _ARRAYS:
        _check_numbers(rest, 2 if is_complex else 1, count)
    elif kind == _CHAR:
        if len(rest) != 1 or rest[0].kind not in _TEXTS:
            raise BrokenVariableError("a text is invalid")
    elif kind == _CELL:
        _check_matrices(rest, count, order)
    elif kind in (_STRUCT, _OBJECT):
        if kind == _OBJECT:
            _expect(rest, 0, _NAMES)
            rest = rest[1:]
        _expect(rest, 0, _WHOLE, 4)
        _expect(rest, 1, _NAMES)
        length = int(np.frombuffer(rest[0].data, f"{order}i4")[0])
        if length < 1 or len(rest[1].data) % length:
            raise BrokenVariableError("the fields of a structure are invalid")
        _check_matrices(rest[2:], count * (len(rest[1].data) // length), order)
    elif kind == _SPARSE:
        if len(rest) not in (3, 4) or any(part.kind not in _NUMBERS for part in rest):
            raise BrokenVariableError("a sparse matrix is incomplete")
    elif kind == _FUNCTION:
        _check_matrices(rest, 1, order)
    else:
        raise BrokenVariableError(f"class {kind} is unknown")


def _check_matrices(parts: Sequence[_Element], count: int, order: str) -> None:
    if len(parts) != count:
        raise BrokenVariableError(f"{len(parts)} elements instead of {count}")
    for part in parts:
        _check_matrix(part, order)


def _check_numbers(parts: Sequence[_Element], count: int, numbers: int) -> None:
    if len(parts) != count or any(len(p.data) != numbers * _NUMBERS.get(p.kind, -1) for p in parts):
        raise BrokenVariableError("the number of values of an array does not match its dimensions")


def _expect(parts: Sequence[_Element], place: int, kinds: Sequence[int], size: int | None = None) -> None:
    if place >= len(parts) or parts[place].kind not in kinds or size not in (None, len(parts[place].data)):
        raise BrokenVariableError("an element is missing or of the wrong type")
