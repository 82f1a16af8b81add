"""Positions of the numbers in a ROS message, so that thousands of messages are read at once.

The messages of a topic nearly always have the same layout: same names, same array lengths. The first of a kind is
parsed field by field. Any other message that agrees with it in length, and in every byte that decides the layout, has
its numbers at the same positions, and a stack of such messages is read column by column.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.formats.bags.types import SEQUENCE, Types

Stack = NDArray[np.uint8]
Rows = NDArray[np.intp]

_CODES = {
    "bool": "u1", "byte": "i1", "char": "u1", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2",
    "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8", "float32": "f4", "float64": "f8",
}  # fmt: skip
# Plain CDR; the parameter lists and the second version of CDR, which ROS does not write, start differently.
_CDR_ORDERS = {b"\x00\x00": ">", b"\x00\x01": "<"}
_CDR_PADDING = 3


class LayoutError(ValueError):
    """Bytes that are not a message of the stated type."""


class Numbers(NamedTuple):
    """A number, or an array of them, in a message: first byte, data type, count."""

    offset: int
    dtype: np.dtype
    size: int
    is_array: bool


@dataclass(frozen=True, eq=False)
class MessageLayout:
    """Positions of the numbers and the texts of interest, by path (`header.stamp.sec`, `interface_values[0].values`).

    `fixed` are the bytes that decide the layout (lengths, texts of interest), `pattern` their required values.
    """

    length: int
    numbers: dict[str, Numbers]
    texts: dict[str, tuple[str, ...]]
    fixed: Rows = field(repr=False)
    pattern: Stack = field(repr=False)

    def matches(self, stack: Stack) -> NDArray[np.bool_]:
        return (stack[:, self.fixed] == self.pattern).all(axis=1)


def read_numbers(stack: Stack, numbers: Numbers) -> Array:
    """(messages, size) values as float64."""
    return _read(stack, numbers).astype(np.float64)


def read_integers(stack: Stack, numbers: Numbers) -> NDArray[np.int64]:
    """(messages,) values of a single integer."""
    return _read(stack, numbers)[:, 0].astype(np.int64)


def _read(stack: Stack, numbers: Numbers) -> NDArray:
    end = numbers.offset + numbers.dtype.itemsize * numbers.size
    return np.ascontiguousarray(stack[:, numbers.offset : end]).view(numbers.dtype)


class Layouts:
    """The layouts found so far on a channel; texts whose field is in `named` are of interest."""

    def __init__(self, types: Types, kind: str, encoding: str, named: frozenset[str]) -> None:
        self._types, self._kind, self._encoding, self._named = types, kind, encoding, named
        self._known: dict[int, list[MessageLayout]] = defaultdict(list)

    def stacked(self, messages: Sequence[bytes]) -> Iterator[tuple[MessageLayout | None, Rows, Stack]]:
        """Messages of one layout at a time: the layout, their indices in `messages`, their bytes.

        The layout is None for bytes that are not such a message.
        """
        by_length: dict[int, list[int]] = defaultdict(list)
        for row, data in enumerate(messages):
            by_length[len(data)].append(row)
        for length, listed in by_length.items():
            rows = np.array(listed, dtype=np.intp)
            stack = np.frombuffer(b"".join([messages[row] for row in listed]), np.uint8).reshape(len(listed), length)
            known = self._known[length]
            tried = 0
            while rows.size:
                if tried == len(known):
                    try:
                        known.append(_walked(stack[0].tobytes(), self._types, self._kind, self._encoding, self._named))
                    except LayoutError:
                        yield None, rows[:1], stack[:1]
                        rows, stack = rows[1:], stack[1:]
                        continue
                hit = known[tried].matches(stack)
                if hit.all():
                    yield known[tried], rows, stack
                    break
                if hit.any():
                    yield known[tried], rows[hit], stack[hit]
                    rows, stack = rows[~hit], stack[~hit]
                tried += 1


def _walked(data: bytes, types: Types, kind: str, encoding: str, named: frozenset[str]) -> MessageLayout:
    walk = _Walk(data, types, encoding, named)
    try:
        walk.message(kind, "")
    except (struct.error, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise LayoutError(str(error)) from None
    if not walk.position <= len(data) <= walk.position + (_CDR_PADDING if encoding == "cdr" else 0):
        raise LayoutError(f"{len(data)} bytes where {walk.position} were expected")
    fixed = np.array(walk.fixed, dtype=np.intp)
    return MessageLayout(len(data), walk.numbers, walk.texts, fixed, np.frombuffer(data, np.uint8)[fixed])


class _Walk:
    """One pass over the fields of a message. CDR aligns every number to its own size, ROS 1 does not align."""

    def __init__(self, data: bytes, types: Types, encoding: str, named: frozenset[str]) -> None:
        self.data, self.types, self.named = data, types, named
        self.cdr = encoding == "cdr"
        self.order, self.position = "<", 0
        self.numbers: dict[str, Numbers] = {}
        self.texts: dict[str, tuple[str, ...]] = {}
        self.fixed: list[int] = []
        if self.cdr:
            if data[:2] not in _CDR_ORDERS:
                raise LayoutError(f"the message encoding {data[:2].hex()} is not supported; only plain CDR is")
            self.order, self.position = _CDR_ORDERS[data[:2]], 4
            self.fixed += [0, 1]

    def message(self, kind: str, path: str) -> None:
        for name, inner, nested, length in self.types[kind]:
            where = f"{path}{name}"
            if length is None and nested:
                self.message(inner, f"{where}.")
            elif inner == "string":
                count = self._count(length)
                texts = tuple(self._text(name in self.named) for _ in range(count))
                if name in self.named:
                    self.texts[where] = texts
            elif nested:
                for index in range(self._count(length)):
                    self.message(inner, f"{where}[{index}].")
            elif inner in _CODES:
                self._place(where, np.dtype(f"{self.order}{_CODES[inner]}"), length)
            else:
                raise LayoutError(f"field '{where}' is a {inner}")

    def _count(self, length: int | None) -> int:
        count = self._length() if length == SEQUENCE else 1 if length is None else length
        # An element takes at least one byte: a larger count is invalid and would loop for ever.
        if count > len(self.data):
            raise LayoutError(f"{count} elements in {len(self.data)} bytes")
        return count

    def _place(self, where: str, dtype: np.dtype, length: int | None) -> None:
        count = self._count(length)
        if count:
            self._align(dtype.itemsize)
        self.numbers[where] = Numbers(self.position, dtype, count, length is not None)
        self._advance(dtype.itemsize * count)

    def _text(self, of_interest: bool) -> str:
        length = self._length()
        start = self.position
        self._advance(length)
        if not of_interest:
            return ""
        self.fixed += range(start, self.position)
        body = self.data[start : self.position]
        return (body[:-1] if self.cdr else body).decode()

    def _length(self) -> int:
        self._align(4)
        (length,) = struct.unpack_from(f"{self.order}I", self.data, self.position)
        self.fixed += range(self.position, self.position + 4)
        self.position += 4
        return length

    def _align(self, size: int) -> None:
        if self.cdr:
            self.position += (4 - self.position) % size

    def _advance(self, size: int) -> None:
        self.position += size
        if self.position > len(self.data):
            raise LayoutError("the message ends too early")
