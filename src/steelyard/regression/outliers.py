"""Outlying blocks: stretches of time that a joint's model explains far worse than the rest, and when they were.

Collisions, cable snags and wrong rows stand out; friction at reversals and a model that fits fast motion less well do
not, because blocks are compared with the spread of the other blocks of the same joint.
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

# Chance that a log without an accident raises any alarm, if the blocks' log RMS were normal.
FALSE_ALARM = 0.01
# However even the blocks are, less than five times the usual is not called an accident (friction that no term explains
# reaches four in a few blocks); nor is a residual below a tenth of the block's effort, with which model errors grow.
LEAST_RATIO, LEAST_SHARE = 5.0, 0.1
# Blocks a joint must have before their spread means something.
FEWEST_BLOCKS = 16
# Stretches told one by one.
MOST_TOLD = 10
# Residuals below this fraction of the joint's effort are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class BlockResiduals:
    """What parameters leave of every block: `keys` in order, `rows` (m,), `rms` and `effort` (m,), the root mean square
    of the residual and of the effort [N·m | N]."""

    keys: tuple[BlockKey, ...]
    rows: NDArray[np.int64]
    rms: Array
    effort: Array

    @cached_property
    def joint(self) -> NDArray[np.int64]:
        return np.array([key.joint for key in self.keys], np.int64)

    @cached_property
    def usual(self) -> Array:
        """Median RMS of the blocks of the same joint, (m,) [N·m | N]; never below the rounding of its effort.

        Half of a joint's blocks may be spoilt before it follows them.
        """
        out = np.zeros(len(self.keys))
        for j in np.unique(self.joint):
            own = self.joint == j
            size = np.sqrt(np.sum(self.rows[own] * self.effort[own] ** 2) / self.rows[own].sum())
            out[own] = max(float(np.median(self.rms[own])), ROUNDING * float(size), np.finfo(float).tiny)
        return out


def block_residuals(information: Information, theta: Array) -> BlockResiduals:
    """RMS of y − Wθ and of y block by block, with standard (or base values on their columns) parameters theta (C,)."""
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
    """The same information with the squares of some blocks weighted: their triangles times √w. Others keep weight 1."""
    scaled = {
        key: Triangle(np.sqrt(weight) * information.blocks[key].r, information.blocks[key].rows)
        for key, weight in weights.items()
    }
    return replace(information, blocks={**information.blocks, **scaled})


@dataclass(frozen=True)
class OutlyingBlock:
    """A block of one joint with its residual `rms`, what is `usual` for the joint, and its `effort` [N·m | N].

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
    """Blocks whose residual has nothing to do with the others of their joint, in order of time.

    Of joint j, z = (log rms − median) / s_j with s_j = (third quartile − median) / 0.674 of its log RMS: the upper half
    alone, since blocks of few rows are often small by chance. A block is outlying when Φ(−z) · blocks < FALSE_ALARM,
    rms ≥ LEAST_RATIO · usual and rms ≥ LEAST_SHARE · effort. Theta (C,) should come from a fit that the blocks in
    question cannot drag along (`robust_fit`).
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
    """When a block of `size` rows lies in its run: half a row before its first to half a row after its last [s].

    Rows are counted through all stretches, masked or not; row k of a stretch is centred on sample kD + (L − 1)/2 of
    its clean part. `furthest` [s] is that of the shifts the rows were observed with.
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
    """One finding a stretch of neighbouring outlying blocks, the worst first, told by its worst joint."""
    events = sorted(_events(blocks), key=lambda event: -max(block.ratio for block in event))
    told = [_told(problem, information, event) for event in events[:MOST_TOLD]]
    if len(events) > MOST_TOLD:
        told.append(
            Finding(
                "outlying-block",
                "warning",
                f"{len(events) - MOST_TOLD} more stretches of time are explained far worse than the rest",
                fix="so many are no accidents: check the channel map, and add the terms that the residual shows",
            )
        )
    return tuple(told)


def _events(blocks: Iterable[OutlyingBlock]) -> list[tuple[OutlyingBlock, ...]]:
    """Outlying blocks of the same run and load case whose times touch, whatever the joint."""
    out: list[list[OutlyingBlock]] = []
    for _, members in groupby(sorted(blocks, key=lambda b: b.key), key=lambda b: b.key[:2]):
        last = -2
        for block in members:
            if block.key.block > last + 1:
                out.append([])
            out[-1].append(block)
            last = block.key.block
    return [tuple(event) for event in out]


def _told(problem: Problem, information: Information, event: Sequence[OutlyingBlock]) -> Finding:
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
        + ": a collision, a snag, wrong rows, or rows beside a standstill",
        joint.name,
        "look at that time in the report; if something touched the robot, leave it out (one [[run]] with 'seconds' "
        "before it, one after) or use estimator huber; if the joint had just started or stopped, raise 'rest'",
    )
