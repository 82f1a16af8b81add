"""Lack of fit: whether the residual along the motion depends on speed or load, as it does for a wrong friction law.

With the right law the residual times the direction of motion, e sign(v), has mean zero in every bin of |v| and of the
torque |τ̂|. Its mean in a bin is tested by Student's t over blocks of time,

    μ = Σ_g s_g / Σ_g r_g,   σ² = G/(G − 1) Σ_g (s_g − μ r_g)² / (Σ_g r_g)²

with s_g the sum and r_g the number of rows of the bin in block g, over the G blocks that have any, and corrected for
the number of tests by Holm's rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.identification.prediction import Prediction
from steelyard.regression.statistics import holm

# Blocks of time over all runs, and the fewest with rows of a bin for a test of it.
BLOCKS, FEWEST_BLOCKS = 16, 8
# Bins of equal numbers of rows, of |v| and of |τ̂|.
SPEED_BINS, LOAD_BINS = 5, 3
# Probability of any false alarm in a log.
FALSE_ALARM = 0.02
# A mean below this fraction of the residual of its joint is too small to matter, however certain it is.
LEAST_SHARE = 0.15
# Seconds of motion below which blocks are too short to be independent.
SHORTEST_S = 10.0
SPEED, LOAD = "speed", "load"


@dataclass(frozen=True)
class BinTest:
    """One bin of one joint: mean of e sign(v) ± σ [N·m | N] for `low` ≤ |x| < `high`, x the speed or the torque.

    `p` is corrected for the number of tests, `share` the mean relative to the deviation of the joint's residual.
    """

    joint: str
    by: str
    low: float
    high: float
    mean: float
    std: float
    blocks: int
    p: float
    share: float

    @property
    def alarms(self) -> bool:
        return self.p < FALSE_ALARM and abs(self.share) > LEAST_SHARE


@dataclass(frozen=True)
class LackOfFit:
    """All tests, and the seconds of motion they are made of; no tests where these are too few."""

    tests: tuple[BinTest, ...]
    seconds: float

    @property
    def findings(self) -> tuple[Finding, ...]:
        if self.seconds < SHORTEST_S:
            message = (
                f"{self.seconds:.3g} s of motion are too short to test the friction law; {SHORTEST_S:g} s are needed"
            )
            return (Finding("friction-untested", "info", message),)
        return tuple(self._misfits())

    def _misfits(self) -> Iterator[Finding]:
        for joint in dict.fromkeys(test.joint for test in self.tests):
            bad = [test for test in self.tests if test.joint == joint and test.alarms]
            if not bad:
                continue
            worst = max(bad, key=lambda test: abs(test.share))
            what = "a speed" if worst.by == SPEED else "a load"
            unit = "rad/s or m/s" if worst.by == SPEED else "N·m or N"
            others = "" if len(bad) == 1 else f" ({len(bad)} bins of speed or load differ)"
            yield Finding(
                "friction-misfit",
                "warning",
                f"{joint}: the friction law does not fit: at {what} of {worst.low:.3g} to {worst.high:.3g} {unit} the "
                f"residual against the motion is {worst.mean:+.3g} ± {worst.std:.2g} N·m or N{others}. Other "
                "parameters absorb a part of it, which their error bars may not contain",
                joint,
            )


def lack_of_fit(predictions: Sequence[Prediction]) -> LackOfFit:
    """Tests of the fitted rows of every run, joint by joint."""
    found: list[BinTest] = []
    seconds = sum(_seconds(one) for one in predictions)
    if not predictions or seconds < SHORTEST_S:
        return LackOfFit((), seconds)
    block = _blocks(predictions)
    for j, joint in enumerate(predictions[0].joints):
        scored = np.concatenate([one.scored[j] for one in predictions])
        v, torque, measured = (
            np.concatenate([getattr(one, name)[j] for one in predictions])[scored]
            for name in ("v", "predicted", "measured")
        )
        residual, group = measured - torque, block[scored]
        size = float(np.sqrt(np.mean(residual**2))) if len(residual) else 0.0
        if size <= 0.0:
            continue
        for by, x, count in ((SPEED, np.abs(v), SPEED_BINS), (LOAD, np.abs(torque), LOAD_BINS)):
            found += _tests(joint, by, x, residual * np.sign(v), group, count, size)
    corrected = holm([test.p for test in found])
    return LackOfFit(tuple(_with_p(test, float(p)) for test, p in zip(found, corrected, strict=True)), seconds)


def _tests(
    joint: str, by: str, x: Array, along: Array, group: NDArray[np.int64], count: int, size: float
) -> Iterator[BinTest]:
    """The bins with rows in enough blocks."""
    edges = np.quantile(x, np.linspace(0.0, 1.0, count + 1))
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, count - 1)
    for k in range(count):
        own = place == k
        rows = np.bincount(group[own])
        sums = np.bincount(group[own], along[own])[rows > 0]
        rows = rows[rows > 0]
        blocks = len(rows)
        if blocks < FEWEST_BLOCKS:
            continue
        mean = float(sums.sum() / rows.sum())
        std = float(np.sqrt(blocks / (blocks - 1) * np.sum((sums - mean * rows) ** 2)) / rows.sum())
        p = float(2.0 * student.sf(abs(mean) / std, blocks - 1)) if std > 0.0 else 1.0
        yield BinTest(joint, by, float(edges[k]), float(edges[k + 1]), mean, std, blocks, p, mean / size)


def _with_p(test: BinTest, p: float) -> BinTest:
    return BinTest(test.joint, test.by, test.low, test.high, test.mean, test.std, test.blocks, p, test.share)


def _seconds(one: Prediction) -> float:
    """Seconds of a run in which any joint is scored."""
    if len(one.t) < 2:
        return 0.0
    return float(np.median(np.diff(one.t)) * np.count_nonzero(one.scored.any(axis=0)))


def _blocks(predictions: Sequence[Prediction]) -> NDArray[np.int64]:
    """The block of every row: BLOCKS in all, of equal numbers of rows, none across a run."""
    total = sum(len(one.t) for one in predictions)
    out, first = [], 0
    for one in predictions:
        count = max(1, round(BLOCKS * len(one.t) / max(total, 1)))
        out.append(first + np.arange(len(one.t)) * count // max(len(one.t), 1))
        first += count
    return np.concatenate(out)
