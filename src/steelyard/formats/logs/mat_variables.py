"""Variables of a MATLAB 5 to 7.2 file: where each one is, and its bytes as a file of their own."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

HEADER = 128
_TAG = 8
_BYTE_ORDERS = {b"IM": "<", b"MI": ">"}
_MATRIX, _COMPRESSED = 14, 15


class Variable(NamedTuple):
    """Position of the bytes of a variable in the file, including its tag."""

    start: int
    stop: int


class BrokenVariableError(Exception):
    """A variable that cannot be decoded, with the reason."""


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
    """A file that holds only this variable, uncompressed, which verifies its checksum."""
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
    return header + content
