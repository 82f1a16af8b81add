"""Information: the data compressed once into small triangles, which are the input of every estimator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.model.parameters import Layout

# Blocks per run; beyond this number, neighbours are merged, so that memory stays constant for long logs.
MOST_BLOCKS = 128
# With this many runs, each is a cluster.
RUNS_AS_CLUSTERS = 10
# Name of the response that holds the torque of the parameters known beforehand.
KNOWN = "known"
# A time block: run, load case, index.
Time = tuple[str, str, int]


class BlockKey(NamedTuple):
    """Origin of a triangle: a run, its load case, a block of time (counted in rows), and a joint."""

    run: str
    load: str
    block: int
    joint: int


@dataclass(frozen=True)
class Triangle:
    """Upper triangle R of [W_j | Y] of `rows` rows: RᵀR = [W_j | Y]ᵀ[W_j | Y], with a non-negative diagonal.

    Fewer rows than columns are stored as they are: a factorisation would not make them smaller.
    """

    r: Array
    rows: int

    @staticmethod
    def of(matrix: Array, rows: int) -> Triangle:
        return Triangle(triangular(matrix) if matrix.shape[0] > matrix.shape[1] else matrix, rows)

    def __add__(self, other: Triangle) -> Triangle:
        return Triangle.of(np.concatenate([self.r, other.r]), self.rows + other.rows)


def triangular(matrix: Array) -> Array:
    """R of a QR factorisation, min(rows, columns) rows, with signs such that the diagonal is non-negative."""
    r = np.asarray(np.linalg.qr(matrix, mode="r")) if matrix.shape[0] else matrix
    signs = np.where(np.diagonal(r) < 0.0, -1.0, 1.0)
    return r * signs[:, None]


@dataclass(frozen=True)
class Information:
    """A mergeable square-root information matrix: one triangle for every (run, load case, time block, joint).

    A triangle holds the standard columns that affect the joint (`columns[j]`, indices into the layout), then one column
    per response: the effort, shifted copies of it, and last, where parameters of a payload are known beforehand, the
    torque of these, whose columns are left out. `a + b` is the union of keyed blocks; blocks with equal keys are
    stacked and reduced to a triangle again. `starts` is the time of the first row of every time block [s], `periods`
    the period [s] of runs whose motion repeats itself; rows closer than `guard` [s] resemble each other, since the
    parallel filter spreads what they hold (`folds.guarded_folds`).
    """

    layout: Layout
    joints: tuple[str, ...]
    columns: tuple[NDArray[np.int64], ...]
    responses: tuple[str, ...]
    blocks: Mapping[BlockKey, Triangle]
    block_rows: Mapping[str, int]
    starts: Mapping[Time, float] = field(default_factory=dict)
    guard: float = 0.0
    periods: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: Information) -> Information:
        same = (
            self.layout.names == other.layout.names
            and self.joints == other.joints
            and self.responses == other.responses
            and all(np.array_equal(a, b) for a, b in zip(self.columns, other.columns, strict=True))
        )
        if not same:
            raise EstimationError(
                "Only information about the same model can be added: the joints, columns or responses differ."
            )
        clash = [run for run, rows in other.block_rows.items() if self.block_rows.get(run, rows) != rows]
        if clash:
            raise EstimationError(
                f"Run '{clash[0]}' was divided into blocks of another length; observe all parts with the same settings."
            )
        merged = dict(self.blocks)
        for key, triangle in other.blocks.items():
            merged[key] = merged[key] + triangle if key in merged else triangle
        starts, periods = {**other.starts, **self.starts}, {**other.periods, **self.periods}
        rows, guard = {**self.block_rows, **other.block_rows}, max(self.guard, other.guard)
        return replace(self, blocks=merged, block_rows=rows, starts=starts, guard=guard, periods=periods)

    def on(self, layout: Layout) -> Information:
        """The information on a model with fewer columns: those of `layout`, matched by name."""
        kept = []
        for own in self.columns:
            names = [self.layout.names[c] for c in own]
            kept.append([k for k, name in enumerate(names) if name in layout])
        missing = [name for name in layout.names if name not in self.layout]
        if missing:
            raise EstimationError(
                f"The information has no column {', '.join(missing[:5])}: call observe with this model."
            )
        columns = tuple(
            np.array([layout.index(self.layout.names[own[k]]) for k in places], np.int64)
            for own, places in zip(self.columns, kept, strict=True)
        )
        blocks = {}
        for key, triangle in self.blocks.items():
            responses = range(len(self.columns[key.joint]), triangle.r.shape[1])
            blocks[key] = Triangle.of(triangle.r[:, [*kept[key.joint], *responses]], triangle.rows)
        return replace(self, layout=layout, columns=columns, blocks=blocks)

    def known(self, r: Array) -> Array:
        """The torque of the parameters known beforehand, in the rows r of a triangle."""
        return r[:, -1] if KNOWN in self.responses else np.zeros(len(r))

    def without_known(self) -> Information:
        """The information with the torque of the known parameters subtracted from every effort."""
        if KNOWN not in self.responses:
            return self
        blocks = {}
        for key, triangle in self.blocks.items():
            r = triangle.r[:, :-1].copy()
            r[:, len(self.columns[key.joint]) :] -= triangle.r[:, -1:]
            blocks[key] = Triangle.of(r, triangle.rows)
        return replace(self, responses=self.responses[:-1], blocks=blocks)

    def scaled(self, factor: Array) -> Information:
        """The information with every effort of joint j multiplied by factor_j (n,), e.g. drive gains."""
        blocks = {}
        efforts = len([name for name in self.responses if name != KNOWN])
        for key, triangle in self.blocks.items():
            r, own = triangle.r.copy(), len(self.columns[key.joint])
            r[:, own : own + efforts] *= factor[key.joint]
            blocks[key] = Triangle.of(r, triangle.rows)
        return replace(self, blocks=blocks)

    @cached_property
    def times(self) -> tuple[Time, ...]:
        """The time blocks (run, load case, block), in order."""
        return tuple(sorted({key[:3] for key in self.blocks}))

    def at(self, times: Iterable[Time]) -> Information:
        """The information of the given time blocks only."""
        chosen = set(times)
        return replace(self, blocks={key: part for key, part in self.blocks.items() if key[:3] in chosen})

    def rows(self) -> NDArray[np.int64]:
        """Number of rows of each joint, (n,)."""
        counts = np.zeros(len(self.joints), np.int64)
        for key, triangle in self.blocks.items():
            counts[key.joint] += triangle.rows
        return counts

    def gathered(self, joint: int, times: Iterable[Time] | None = None) -> Triangle:
        """A joint's blocks of the given times (default: all), stacked in a fixed order, not yet triangular."""
        chosen = self.times if times is None else sorted(times)
        parts = [self.blocks[key] for time in chosen if (key := BlockKey(*time, joint)) in self.blocks]
        width = len(self.columns[joint]) + len(self.responses)
        stacked = np.concatenate([np.zeros((0, width)), *(part.r for part in parts)])
        return Triangle(stacked, sum(part.rows for part in parts))

    @cached_property
    def joint_triangles(self) -> tuple[Triangle, ...]:
        """One triangle per joint over all blocks."""
        whole = [self.gathered(j) for j in range(len(self.joints))]
        return tuple(Triangle.of(part.r, part.rows) for part in whole)

    def total(self) -> Information:
        """The information with all blocks of each run and load case merged into one."""
        merged: dict[BlockKey, Triangle] = {}
        for run, load in dict.fromkeys(time[:2] for time in self.times):
            members = [time for time in self.times if time[:2] == (run, load)]
            for j in range(len(self.joints)):
                part = self.gathered(j, members)
                if part.rows:
                    merged[BlockKey(run, load, 0, j)] = Triangle.of(part.r, part.rows)
        return replace(self, blocks=merged, block_rows=dict.fromkeys(self.block_rows, 0))

    def clusters(self, count: int, least_rows: int = 8) -> tuple[tuple[Time, ...], ...]:
        """Time blocks grouped into about `count` clusters of neighbours with nearly equal rows; none crosses a run.

        A run gets a number of clusters in proportion to its rows, at least one; with RUNS_AS_CLUSTERS runs or more,
        each run is a cluster, since runs may differ. A cluster has at least `least_rows` rows per joint, so that it
        represents a stretch of motion and not noise.
        """
        rows = dict.fromkeys(self.times, 0)
        for key, triangle in self.blocks.items():
            rows[key[:3]] += triangle.rows
        total = sum(rows.values())
        out: list[tuple[Time, ...]] = []
        whole_runs = len({time[0] for time in self.times}) >= RUNS_AS_CLUSTERS
        for run in dict.fromkeys(time[:2] for time in self.times):
            members = [time for time in self.times if time[:2] == run]
            weight = np.array([rows[time] for time in members])
            most = min(len(members), int(weight.sum() / (least_rows * len(self.joints))))
            share = int(np.clip(round(count * weight.sum() / max(total, 1)), 1, max(most, 1)))
            share = 1 if whole_runs else share
            middle = np.cumsum(weight) - 0.5 * weight
            group = np.minimum((middle * share / max(weight.sum(), 1)).astype(int), share - 1)
            for g in range(share):
                cluster = tuple(m for m, k in zip(members, group, strict=True) if k == g)
                if cluster:
                    out.append(cluster)
        return tuple(out)

    def phases(self, count: int, fewest: int = 5) -> tuple[tuple[tuple[str, str, int], ...], ...]:
        """Time blocks in about `count` groups of equal phase in the period of their run, at least `fewest` per run; a
        run that does not repeat itself is grouped by `clusters`.

        Empty if no run repeats itself, or the blocks of one are longer than 1/`fewest` of its period.
        """
        if not self.periods:
            return ()
        out: list[tuple[tuple[str, str, int], ...]] = []
        clusters = self.clusters(count)
        for run in dict.fromkeys(time[0] for time in self.times):
            own = [group for group in clusters if group[0][0] == run]
            members = [time for time in self.times if time[0] == run]
            if run not in self.periods or len(members) < 2:
                out += own
                continue
            period, start = self.periods[run], self.starts[members[0]]
            length = float(np.median(np.diff([self.starts[time] for time in members])))
            parts = min(max(len(own), fewest), int(period / length))
            if parts < fewest:
                return ()
            phase = [int(parts * ((self.starts[time] - start) / period % 1.0)) for time in members]
            found = [tuple(t for t, k in zip(members, phase, strict=True) if k == g) for g in range(parts)]
            out += [group for group in found if group]
        return tuple(out)


def stacked(
    information: Information,
    columns: Sequence[int] | NDArray[np.int64],
    weights: Array,
    times: Iterable[Time] | None = None,
    response: int = 0,
) -> Array:
    """Triangle of the rows [w_j W_j | w_j y_j] of all joints over the chosen layout columns, (<= c + 1, c + 1)."""
    place = np.full(len(information.layout), -1)
    place[np.asarray(columns)] = np.arange(len(columns))
    chosen = None if times is None else tuple(times)
    parts = []
    for j, own in enumerate(information.columns):
        part = information.joint_triangles[j] if chosen is None else information.gathered(j, chosen)
        kept = np.flatnonzero(place[own] >= 0)
        wide = np.zeros((len(part.r), len(columns) + 1))
        wide[:, place[own[kept]]] = part.r[:, kept]
        wide[:, -1] = part.r[:, len(own) + response]
        parts.append(weights[j] * wide)
    return triangular(np.concatenate(parts))
