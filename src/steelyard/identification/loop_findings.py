"""Findings on postures of a run at which the loops of a robot do not close or are nearly singular."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.model.loop_closure import Closure
from steelyard.model.model import Model
from steelyard.signals.samples import Samples

# Below this margin the passive joints move a thousand times as fast as elsewhere, and their errors grow as much.
NEAR = 1e-3
_REASONS = {1: "a singular posture", 2: "out of reach of the legs"}


def loop_findings(model: Model, runs: Iterable[Samples]) -> Iterator[Finding]:
    """Findings on the postures of every run of a robot with loops; none for other robots."""
    if model.looped is not None:
        for run in runs:
            yield from posture_findings(model.looped.closure, run.name, _postures(run))


def posture_findings(closure: Closure, name: str, postures: Iterable[tuple[Array, Array, bool]]) -> Iterator[Finding]:
    """One finding for samples at which the loops do not close, one for the posture nearest to a singularity.

    `postures` are consecutive parts of a run: times (B,) [s], positions of the axes (n, B), and whether a part starts a
    new stretch. The pass uses positions only; rows that use such samples are left out of every fit and score.
    """
    lost, first, why = 0, np.nan, ""
    least, when = np.inf, np.nan
    past: dict[str, Any] = {}
    for t, q, restarts in postures:
        past = {} if restarts else past
        still = np.zeros_like(q)
        closed = closure.close(q, still, still, past)
        bad = np.flatnonzero(closed.fault)
        if len(bad) and not lost:
            first, why = float(t[bad[0]]), _REASONS[int(closed.fault[bad[0]])]
        lost += len(bad)
        margin = np.where(closed.fault == 0, closed.margin, np.inf)
        k = int(np.argmin(margin))
        if margin[k] < least:
            least, when = float(margin[k]), float(t[k])
    if lost:
        yield Finding(
            "loop-not-closed",
            "warning",
            f"the loops of '{name}' cannot be closed at {lost} samples, first at t = {first:.4g} s ({why}): rows "
            "affected by them are left out",
            name,
            "check unit, sign and zero of the positions, the geometry in the robot file, and 'home'",
        )
    if least < NEAR:
        yield Finding(
            "loop-singular",
            "warning",
            f"'{name}' passes near a singularity of the loops at t = {when:.4g} s (margin {least:.2g}): passive joints "
            "move fast there and amplify position errors",
            name,
            "exclude that part of the motion with 'seconds' in its [[run]]",
        )


def _postures(run: Samples) -> Iterator[tuple[Array, Array, bool]]:
    before = -1
    for piece in run.open():
        t = run.stretches[piece.stretch].start + (piece.first + np.arange(piece.q.shape[1])) / run.rate
        yield t, piece.q, piece.stretch != before
        before = piece.stretch
