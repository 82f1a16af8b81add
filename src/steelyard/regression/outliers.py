"""Outlying blocks: stretches of time that a joint's model explains far worse than the rest, and when they occurred.

Collisions, cable snags and wrong rows stand out. Friction at reversals, and a model that fits fast motion less well, do
not, because a block is compared with the spread of the other blocks of the same joint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.regression.information import BlockKey, Information, Triangle
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples

# Probability of any false alarm in a log without outliers, if the blocks' log RMS were normal.
FALSE_ALARM = 0.01
# A block below five times the usual RMS is never outlying (friction that no term explains reaches four in a few
# blocks), nor is a residual below a tenth of the block's effort, since model errors grow with the effort.
LEAST_RATIO, LEAST_SHARE = 5.0, 0.1
# Smallest number of blocks per joint whose spread is meaningful.
FEWEST_BLOCKS = 16
# Number of stretches reported individually.
MOST_REPORTED = 10
# Residuals below this fraction of the joint's effort are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class BlockResiduals:
    """Residuals of every block for given parameters: `keys` in order, `rows` (m,), `rms` and `effort` (m,), the root
    mean square of the residual and of the effort [N·m | N]."""

    keys: tuple[BlockKey, ...]
    rows: NDArray[np.int64]
    rms: Array
    effort: Array

    @cached_property
    def joint(self) -> NDArray[np.int64]:
        return np.array([key.joint for key in self.keys], np.int64)

    @cached_property
    def usual(self) -> Array:
        """Median RMS of the blocks of the same joint, (m,) [N·m | N]; at least the rounding of its effort.

        The median is robust to up to half of a joint's blocks being corrupted.
        """
        out = np.zeros(len(self.keys))
        for j in np.unique(self.joint):
            own = self.joint == j
            size = np.sqrt(np.sum(self.rows[own] * self.effort[own] ** 2) / self.rows[own].sum())
            out[own] = max(float(np.median(self.rms[own])), ROUNDING * float(size), np.finfo(float).tiny)
        return out


def block_residuals(information: Information, theta: Array) -> BlockResiduals:
    """RMS of y − Wθ and of y for each block, with standard parameters theta (C,) or base values on their columns."""
    keys = tuple(sorted(information.blocks))
    rest, size = np.zeros(len(keys)), np.zeros(len(keys))
    rows = np.array([information.blocks[key].rows for key in keys], np.int64)
    values = [theta[columns] for columns in information.columns]
    for k, key in enumerate(keys):
        r, own = information.blocks[key].r, values[key.joint]
        y = r[:, len(own)]
        rest[k] = np.linalg.norm(y - r[:, : len(own)] @ own)
        size[k] = np.linalg.norm(y)
    return BlockResiduals(keys, rows, rest / np.sqrt(rows), size / np.sqrt(rows))


def weighted(information: Information, weights: Mapping[BlockKey, float]) -> Information:
    """The information with the squares of some blocks weighted: their triangles times √w. Others keep weight 1."""
    scaled = {
        key: Triangle(np.sqrt(weight) * information.blocks[key].r, information.blocks[key].rows)
        for key, weight in weights.items()
    }
    return replace(information, blocks={**information.blocks, **scaled})


@dataclass(frozen=True)
class OutlyingBlock:
    """A block of one joint with its residual `rms`, the `usual` one of the joint, and its `effort` [N·m | N].

    `surprise` is its distance from the usual in standard deviations of the joint's log RMS.
    """

    key: BlockKey
    rms: float
    usual: float
    effort: float
    surprise: float

    @property
    def ratio(self) -> float:
        return self.rms / self.usual


def outlying_blocks(information: Information, theta: Array) -> tuple[OutlyingBlock, ...]:
    """Blocks whose residual is far above that of the other blocks of their joint, in order of time.

    For joint j, z = (log rms − median) / s_j with s_j = (third quartile − median) / 0.674 of its log RMS: the upper
    half alone, since blocks of few rows are often small by chance. A block is outlying when Φ(−z) · blocks <
    FALSE_ALARM, rms ≥ LEAST_RATIO · usual and rms ≥ LEAST_SHARE · effort. Theta (C,) should come from a fit that the
    outlying blocks do not affect (`robust_fit`).
    """
    found = block_residuals(information, theta)
    limit = norm.isf(FALSE_ALARM / max(len(found.keys), 1))
    with np.errstate(divide="ignore"):
        distance = np.log(found.rms) - np.log(found.usual)
    surprise = np.zeros(len(found.keys))
    for j in np.unique(found.joint):
        own = found.joint == j
        spread = float(np.quantile(distance[own], 0.75)) / norm.ppf(0.75)
        if np.sum(own) >= FEWEST_BLOCKS and spread > 0.0:
            surprise[own] = distance[own] / spread
    out = (surprise > limit) & (found.rms >= LEAST_RATIO * found.usual) & (found.rms >= LEAST_SHARE * found.effort)
    return tuple(
        OutlyingBlock(
            found.keys[k], float(found.rms[k]), float(found.usual[k]), float(found.effort[k]), float(surprise[k])
        )
        for k in np.flatnonzero(out)
    )


def block_seconds(problem: Problem, run: Samples, block: int, size: int, furthest: float = 0.0) -> tuple[float, float]:
    """Time interval [s] of a block of `size` rows in its run: its rows, extended by half the row spacing at both ends.

    Rows are counted through all stretches, masked or not; row k of a stretch is centred on sample kD + (L − 1)/2 of its
    clean part. `furthest` [s] is that of the shifts with which the rows were observed.
    """
    decimator = problem.decimator(run, furthest)
    counts = [decimator.rows(stretch.clean[1] - stretch.clean[0]) for stretch in run.stretches]
    ends = np.cumsum(counts)
    numbers = np.clip([block * size, (block + 1) * size - 1], 0, ends[-1] - 1)
    times = []
    for number, edge in zip(numbers, (-0.5, 0.5), strict=True):
        k = int(np.searchsorted(ends, number, side="right"))
        stretch, local = run.stretches[k], number - (ends[k] - counts[k]) + edge
        times.append(stretch.start + (stretch.clean[0] + local * decimator.factor + decimator.half) / run.rate)
    first, last = run.used
    return max(times[0], first), min(times[1], last)


def outlying_findings(
    problem: Problem, information: Information, blocks: Iterable[OutlyingBlock]
) -> tuple[Finding, ...]:
    """One finding per stretch of neighbouring outlying blocks, the worst first, described by its worst joint."""
    events = sorted(_events(blocks), key=lambda event: -max(block.ratio for block in event))
    reported = [_finding(problem, information, event) for event in events[:MOST_REPORTED]]
    if len(events) > MOST_REPORTED:
        reported.append(
            Finding(
                "outlying-block",
                "warning",
                f"{len(events) - MOST_REPORTED} more stretches of time have a residual far above the usual one",
                fix="many of them indicate an incomplete model: check the channel map, and add the terms that the "
                "residual shows",
            )
        )
    return tuple(reported)


def _events(blocks: Iterable[OutlyingBlock]) -> list[tuple[OutlyingBlock, ...]]:
    """Outlying blocks of the same run and load case, of any joint, grouped where their times touch."""
    out: list[list[OutlyingBlock]] = []
    for _, members in groupby(sorted(blocks, key=lambda b: b.key), key=lambda b: b.key[:2]):
        last = -2
        for block in members:
            if block.key.block > last + 1:
                out.append([])
            out[-1].append(block)
            last = block.key.block
    return [tuple(event) for event in out]


def _finding(problem: Problem, information: Information, event: Sequence[OutlyingBlock]) -> Finding:
    worst = max(event, key=lambda block: block.ratio)
    run = next(run for run in problem.runs if run.name == worst.key.run)
    size = information.block_rows[run.name]
    start = block_seconds(problem, run, event[0].key.block, size)[0]
    stop = block_seconds(problem, run, event[-1].key.block, size)[1]
    joint = problem.model.robot.axes[worst.key.joint]
    unit = "N" if joint.is_prismatic else "N.m"
    others = dict.fromkeys(information.joints[b.key.joint] for b in event if b.key.joint != worst.key.joint)
    return Finding(
        "outlying-block",
        "warning",
        f"{joint.name} of '{run.name}' has a residual of {worst.rms:.3g} {unit} between "
        f"{start:.2f} s and {stop:.2f} s, {worst.ratio:.0f} times its usual {worst.usual:.2g}"
        + (f" (also {', '.join(others)})" if others else "")
        + ": a contact, a cable that catches, wrong rows, or rows next to a standstill",
        joint.name,
        "look at that time in the report; if something touched the robot, exclude that time (one [[run]] with "
        "'seconds' before it, one after) or use the estimator huber; if the joint had just started or stopped, raise "
        "'rest'",
    )
