"""Arrays: which of the named arrays of a file are channels, and their values in windows of rows.

The rule for MATLAB and HDF5 files: samples run along the longer side of an array. The length with the most samples in
total is taken; arrays of that length are channels, all others (limits, gains, a name) are not. A vector keeps its name,
`t`. The columns of a matrix are `q[0]`, `q[1]`, …, in the order of its other side; with more sides the indices are
`T[0,2]`. Fields of structures and groups are joined by dots, `data.q[0]`; the elements of a structure or cell array are
numbered before the dot, `runs[1].q[0]`. In a structure with the fields `Time` and `Data`, as in MATLAB's time series,
`Data` takes the name of the structure: `tau.Time`, `tau[0]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import DataError
from steelyard.formats.damage import DamagedError
from steelyard.signals.recording import Chunk

WINDOW_CELLS = 1 << 22
# (array, side of the samples, rows) → the array, cut along that side; raises `DamagedError` if it cannot be read.
Read = Callable[[str, int, slice], NDArray[Any]]


class Place(NamedTuple):
    """A channel: an array, the side along which its samples run, and the index on each side (0 on that one)."""

    array: str
    side: int
    place: tuple[int, ...]


@dataclass(frozen=True)
class Arrangement:
    """The channels of a file, their number of rows, and the contents that are not channels."""

    rows: int
    channels: Mapping[str, Place]
    others: tuple[str, ...]

    def blocks(self, columns: Sequence[str], read: Read) -> Iterator[Chunk]:
        """The channels in windows of rows, float64; each array is read once per window."""
        places = [self.channels[name] for name in columns]
        sides = {place.array: place.side for place in places}
        width = sum(place.array in sides for place in self.channels.values())
        window = max(1, WINDOW_CELLS // width)
        for start in range(0, self.rows, window):
            rows = slice(start, min(start + window, self.rows))
            cut, damage = _intact(sides, read, rows)
            if damage is None or damage.rows > start:
                yield {name: _channel(cut[place.array], place) for name, place in zip(columns, places, strict=True)}
            if damage is not None:
                raise damage


def arrange(path: Path, shapes: Mapping[str, tuple[int, ...]], others: Sequence[str]) -> Arrangement:
    """Channels by the rule above; `others` are names of contents that are not arrays of numbers, with their kind."""
    filled = {name: shape or (1,) for name, shape in shapes.items() if 0 not in shape}
    shared: Counter[int] = Counter()
    for shape in filled.values():
        shared[max(shape)] += max(shape)
    if not shared:
        found = ", ".join(others) or "nothing"
        raise DataError(f"'{path}' contains no arrays of numbers, only: {found}. Save the signals as plain arrays.")
    rows = max(shared, key=lambda length: (shared[length], length))
    channels, left = {}, list(others)
    for name, shape in shapes.items():
        if max(filled.get(name, (0,))) == rows:
            channels |= _places(name, filled[name])
        else:
            left.append(f"{name} ({'×'.join(map(str, shape)) or 'one number'})")
    return Arrangement(rows, channels, tuple(left))


def joined(parent: str, field: str, fields: Iterable[str]) -> str:
    """The name of a field of a structure; `Data` next to `Time` has the name of the structure itself."""
    return parent if field == "Data" and "Time" in fields else f"{parent}.{field}" if parent else field


def _intact(sides: Mapping[str, int], read: Read, rows: slice) -> tuple[dict[str, NDArray[Any]], DamagedError | None]:
    """All arrays over the rows before the first damage in any of them, and that damage."""
    try:
        return {array: read(array, side, rows) for array, side in sides.items()}, None
    except DamagedError as damage:
        cut, earlier = _intact(sides, read, slice(rows.start, damage.rows))
        return cut, earlier or damage


def _places(name: str, shape: tuple[int, ...]) -> dict[str, Place]:
    side = shape.index(max(shape))
    across = [1 if k == side else length for k, length in enumerate(shape)]
    out = {}
    for place in np.ndindex(*across):
        shown = ",".join(str(p) for p, length in zip(place, across, strict=True) if length > 1)
        out[f"{name}[{shown}]" if shown else name] = Place(name, side, place)
    return out


def _channel(array: NDArray[Any], place: Place) -> NDArray[np.float64]:
    where = tuple(slice(None) if k == place.side else p for k, p in enumerate(place.place))
    # a copy, so that a chunk that is kept does not keep the whole window in memory
    return array[where].astype(np.float64)
