"""Survey: the travel of the axes in a stream, and which efforts change, without keeping samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from steelyard._arrays import Array
from steelyard.signals.samples import Piece, Samples, Stretch


@final
@dataclass(frozen=True)
class StreamSurvey:
    """The stream so far: samples `seen`, time of the first [s of the log], ranges (n,) of positions [rad | m] and
    efforts [N·m | N], and top speeds (n,) [rad/s | m/s] of the rows. Ranges are empty (∞ to −∞) before the first."""

    seen: int
    start: float
    lowest: Array
    highest: Array
    effort_low: Array
    effort_high: Array
    top_speed: Array

    @staticmethod
    def empty(axes: int) -> StreamSurvey:
        none, least = np.full(axes, np.inf), np.full(axes, -np.inf)
        return StreamSurvey(0, np.nan, none, least, none, least, np.zeros(axes))

    def with_samples(self, t: Array, x: Array) -> StreamSurvey:
        """The survey after times (m,) and channels q, effort, … (2n or more, m)."""
        if not len(t):
            return self
        n = len(self.lowest)
        q, effort = x[:n], x[n : 2 * n]
        return replace(
            self,
            seen=self.seen + len(t),
            start=self.start if self.seen else float(t[0]),
            lowest=np.minimum(self.lowest, q.min(axis=1)),
            highest=np.maximum(self.highest, q.max(axis=1)),
            effort_low=np.minimum(self.effort_low, effort.min(axis=1)),
            effort_high=np.maximum(self.effort_high, effort.max(axis=1)),
        )

    def with_speeds(self, v: Array) -> StreamSurvey:
        """The survey after filtered velocities (n, m) of rows."""
        return replace(self, top_speed=np.maximum(self.top_speed, np.max(np.abs(v), axis=1)))

    def samples(self, name: str, joints: tuple[str, ...], rate: float, history: tuple[str, ...] = ()) -> Samples:
        """The stream as a run without samples, since none are kept."""
        n, count, known = len(joints), max(self.seen, 1), self.seen > 0
        return Samples(
            name=name,
            joints=joints,
            rate=rate,
            stretches=(Stretch(self.start if known else 0.0, count, (0, count), (0, count)),),
            top_speed=self.top_speed,
            lowest=self.lowest if known else np.zeros(n),
            highest=self.highest if known else np.ones(n),
            constant_effort=self.effort_low == self.effort_high,
            open=_gone,
            history=history,
        )


def _gone() -> Iterator[Piece]:
    """An empty iterator: the samples of a stream are not kept for a second pass."""
    return iter(())
