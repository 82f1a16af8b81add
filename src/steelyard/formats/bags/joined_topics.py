"""Channels of other sources interpolated linearly on the clock of the first.

An effort that is published separately from the positions has its own times. A row of the first source gets the value
interpolated between the messages before and after it. Nothing is extrapolated: rows before the first and after the last
message are left out, and in a gap of the other source the value is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.signals.recording import Chunk, Opener

# Neighbours further apart than this many usual steps have a gap between them.
HOLE_STEPS = 5.0


@dataclass(frozen=True)
class JoinedTopic:
    """A source whose channels are interpolated on another clock: their names there and here."""

    name: str
    opener: Opener
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Joined:
    """Rows of the leader with the followers' channels; `clock` is a column common to all, on one time scale."""

    name: str
    leader: Opener
    clock: str
    followers: tuple[JoinedTopic, ...]

    def digest(self) -> str:
        return self.leader.digest()

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        foreign = {column for follower in self.followers for column in follower.columns}
        own = [column for column in columns if column not in foreign]
        lines = [
            _Line(follower, columns, self.clock) for follower in self.followers if {*columns} & {*follower.columns}
        ]
        last = -np.inf
        for block in self.leader.blocks(tuple(dict.fromkeys((*own, self.clock)))):
            t = block[self.clock]
            if lines:
                _refuse_backwards(self.name, self.clock, last, t)
                last = t[-1]
            found, inside = {column: block[column] for column in own}, np.ones(t.size, dtype=bool)
            for line in lines:
                values, covered = line.at(t)
                found |= values
                inside &= covered
            yield {column: found[column][inside] for column in columns}


class _Line:
    """Linear interpolation of a follower's samples, of which only the part around the last request is held."""

    def __init__(self, follower: JoinedTopic, asked: Sequence[str], clock: str) -> None:
        self._name, self._clock = follower.name, clock
        self._columns = {here: there for here, there in follower.columns.items() if here in asked}
        self._blocks = follower.opener.blocks((clock, *self._columns.values()))
        self._t, self._x = np.empty(0), np.empty((len(self._columns), 0))
        self._hole = np.inf

    def at(self, t: Array) -> tuple[Chunk, NDArray[np.bool_]]:
        """Values at increasing times `t`, and a mask of the times with samples on both sides."""
        while (not self._t.size or self._t[-1] < t[-1]) and (block := next(self._blocks, None)) is not None:
            self._append(block)
        if not self._t.size:
            return {here: np.full(t.size, np.nan) for here in self._columns}, np.zeros(t.size, dtype=bool)
        covered = (t >= self._t[0]) & (t <= self._t[-1])
        after = np.clip(np.searchsorted(self._t, t), 1, max(1, self._t.size - 1))
        before = np.minimum(after, self._t.size) - 1
        in_hole = (self._t[np.minimum(after, self._t.size - 1)] - self._t[before] > self._hole) & ~np.isin(t, self._t)
        values = {here: np.interp(t, self._t, x) for here, x in zip(self._columns, self._x, strict=True)}
        for x in values.values():
            x[in_hole] = np.nan
        needed = max(0, int(np.searchsorted(self._t, t[-1])) - 1)
        self._t, self._x = self._t[needed:], self._x[:, needed:]
        return values, covered

    def _append(self, block: Chunk) -> None:
        t = block[self._clock]
        _refuse_backwards(self._name, self._clock, self._t[-1] if self._t.size else -np.inf, t)
        if np.isinf(self._hole) and t.size > 2:
            self._hole = HOLE_STEPS * float(np.median(np.diff(t)))
        self._t = np.concatenate([self._t, t])
        self._x = np.concatenate([self._x, [block[there] for there in self._columns.values()]], axis=1)


def _refuse_backwards(name: str, clock: str, last: float, t: Array) -> None:
    if np.any(np.diff(t, prepend=last) < 0):
        raise DataError(
            f"{name}: '{clock}' goes backwards, so other topics cannot be interpolated onto it. Split the log there."
        )
