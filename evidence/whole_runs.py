"""Runs read whole: the samples of every stretch as arrays, for logs that fit in memory."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.signals.samples import Samples


class Whole(NamedTuple):
    """All samples of a stretch: q, v, a and effort (n, N)."""

    q: Array
    v: Array
    a: Array
    effort: Array

    def between(self, first: int, stop: int) -> Whole:
        return Whole(*(x[:, first:stop] for x in self))


def whole(run: Samples) -> tuple[Whole, ...]:
    """The samples of every stretch of a run."""
    out = []
    for _, pieces in groupby(run.open(), key=attrgetter("stretch")):
        held = list(pieces)
        out.append(Whole(*(np.concatenate([piece[k] for piece in held], axis=1) for k in range(2, 6))))
    if [part.q.shape[1] for part in out] != [stretch.length for stretch in run.stretches]:
        raise AssertionError(f"run '{run.name}' did not give all samples of its stretches")
    return tuple(out)
