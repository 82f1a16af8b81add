"""Information: the data compressed once into small triangles, from which every estimator works."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.model.parameters import Layout

# Beyond this many blocks a run, neighbours merge: memory stays flat however long the log is.
MOST_BLOCKS = 128
# The response that holds the torque of what is known beforehand.
KNOWN = "known"


class BlockKey(NamedTuple):
    """Where a triangle comes from: a run, its load case, a block of time (counted in rows), and a joint."""

    run: str
    load: str
    block: int
    joint: int


@dataclass(frozen=True)
class Triangle:
    """Upper triangle R of [W_j | Y] of `rows` rows: RᵀR = [W_j | Y]ᵀ[W_j | Y], diagonal not negative.

    Fewer rows than columns stay as they are: a factorisation would make them no smaller.
    """

    r: Array
    rows: int

    @staticmethod
    def of(matrix: Array, rows: int) -> Triangle:
        return Triangle(triangular(matrix) if matrix.shape[0] > matrix.shape[1] else matrix, rows)

    def __add__(self, other: Triangle) -> Triangle:
        return Triangle.of(np.concatenate([self.r, other.r]), self.rows + other.rows)


def triangular(matrix: Array) -> Array:
    """R of a QR factorisation, min(rows, columns) rows, signs fixed so that the diagonal is not negative."""
    r = np.asarray(np.linalg.qr(matrix, mode="r")) if matrix.shape[0] else matrix
    signs = np.where(np.diagonal(r) < 0.0, -1.0, 1.0)
    return r * signs[:, None]


@dataclass(frozen=True)
class Information:
    """A mergeable square-root information matrix: one triangle for every (run, load case, time block, joint).

    Triangles hold the standard columns that reach the joint (`columns[j]`, indices into the layout), then one column a
    response: the effort, shifted copies of it, and last, where parameters of a payload are known beforehand, the torque
    of these, whose columns are left out. `a + b` is the union of keyed blocks; equal keys are stacked and made
    triangular again.
    """

    layout: Layout
    joints: tuple[str, ...]
    columns: tuple[NDArray[np.int64], ...]
    responses: tuple[str, ...]
    blocks: Mapping[BlockKey, Triangle]
    block_rows: Mapping[str, int]

    def __add__(self, other: Information) -> Information:
        same = (
            self.layout.names == other.layout.names
            and self.joints == other.joints
            and self.responses == other.responses
            and all(np.array_equal(a, b) for a, b in zip(self.columns, other.columns, strict=True))
        )
        if not same:
            raise EstimationError(
                "Only information on the same model can be added: the joints, columns or responses differ."
            )
        clash = [run for run, rows in other.block_rows.items() if self.block_rows.get(run, rows) != rows]
        if clash:
            raise EstimationError(
                f"Run '{clash[0]}' was cut into blocks of another length; observe it with one setting."
            )
        merged = dict(self.blocks)
        for key, triangle in other.blocks.items():
            merged[key] = merged[key] + triangle if key in merged else triangle
        return replace(self, blocks=merged, block_rows={**self.block_rows, **other.block_rows})

    def on(self, layout: Layout) -> Information:
        """The information on a model with fewer columns: those of `layout`, found by name."""
        kept = []
        for own in self.columns:
            names = [self.layout.names[c] for c in own]
            kept.append([k for k, name in enumerate(names) if name in layout])
        missing = [name for name in layout.names if name not in self.layout]
        if missing:
            raise EstimationError(f"The information holds no column {', '.join(missing[:5])}; observe that model.")
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
        """The torque of what is known beforehand, in the rows r of a triangle."""
        return r[:, -1] if KNOWN in self.responses else np.zeros(len(r))

    def without_known(self) -> Information:
        """What is left to explain: the torque of what is known taken off every effort."""
        if KNOWN not in self.responses:
            return self
        blocks = {}
        for key, triangle in self.blocks.items():
            r = triangle.r[:, :-1].copy()
            r[:, len(self.columns[key.joint]) :] -= triangle.r[:, -1:]
            blocks[key] = Triangle.of(r, triangle.rows)
        return replace(self, responses=self.responses[:-1], blocks=blocks)

    def scaled(self, factor: Array) -> Information:
        """The same with every effort of joint j times factor_j (n,): efforts turned into torques by drive gains."""
        blocks = {}
        efforts = len([name for name in self.responses if name != KNOWN])
        for key, triangle in self.blocks.items():
            r, own = triangle.r.copy(), len(self.columns[key.joint])
            r[:, own : own + efforts] *= factor[key.joint]
            blocks[key] = Triangle.of(r, triangle.rows)
        return replace(self, blocks=blocks)

    @cached_property
    def times(self) -> tuple[tuple[str, str, int], ...]:
        """The time blocks (run, load case, block), in order."""
        return tuple(sorted({key[:3] for key in self.blocks}))

    def rows(self) -> NDArray[np.int64]:
        """Rows behind each joint's equations, (n,)."""
        counts = np.zeros(len(self.joints), np.int64)
        for key, triangle in self.blocks.items():
            counts[key.joint] += triangle.rows
        return counts

    def gathered(self, joint: int, times: Iterable[tuple[str, str, int]] | None = None) -> Triangle:
        """A joint's blocks of the given times (default: all) one under another in a fixed order, not yet triangular."""
        chosen = self.times if times is None else sorted(times)
        parts = [self.blocks[key] for time in chosen if (key := BlockKey(*time, joint)) in self.blocks]
        width = len(self.columns[joint]) + len(self.responses)
        stacked = np.concatenate([np.zeros((0, width)), *(part.r for part in parts)])
        return Triangle(stacked, sum(part.rows for part in parts))

    @cached_property
    def joint_triangles(self) -> tuple[Triangle, ...]:
        """One triangle a joint over everything."""
        whole = [self.gathered(j) for j in range(len(self.joints))]
        return tuple(Triangle.of(part.r, part.rows) for part in whole)

    def total(self) -> Information:
        """All blocks of one run and load case summed into one."""
        merged: dict[BlockKey, Triangle] = {}
        for run, load in dict.fromkeys(time[:2] for time in self.times):
            members = [time for time in self.times if time[:2] == (run, load)]
            for j in range(len(self.joints)):
                part = self.gathered(j, members)
                if part.rows:
                    merged[BlockKey(run, load, 0, j)] = Triangle.of(part.r, part.rows)
        return replace(self, blocks=merged, block_rows=dict.fromkeys(self.block_rows, 0))

    def clusters(self, count: int, least_rows: int = 8) -> tuple[tuple[tuple[str, str, int], ...], ...]:
        """Time blocks grouped into about `count` clusters of neighbours with nearly equal rows; none crosses a run.

        A run gets a share of the clusters by its rows, at least one; a cluster has at least `least_rows` rows a joint,
        or it would hold noise rather than a stretch of motion.
        """
        rows = dict.fromkeys(self.times, 0)
        for key, triangle in self.blocks.items():
            rows[key[:3]] += triangle.rows
        total = sum(rows.values())
        out: list[tuple[tuple[str, str, int], ...]] = []
        for run in dict.fromkeys(time[:2] for time in self.times):
            members = [time for time in self.times if time[:2] == run]
            weight = np.array([rows[time] for time in members])
            most = min(len(members), int(weight.sum() / (least_rows * len(self.joints))))
            share = int(np.clip(round(count * weight.sum() / max(total, 1)), 1, max(most, 1)))
            middle = np.cumsum(weight) - 0.5 * weight
            group = np.minimum((middle * share / max(weight.sum(), 1)).astype(int), share - 1)
            for g in range(share):
                cluster = tuple(m for m, k in zip(members, group, strict=True) if k == g)
                if cluster:
                    out.append(cluster)
        return tuple(out)


def stacked(
    information: Information,
    columns: Sequence[int] | NDArray[np.int64],
    weights: Array,
    times: Iterable[tuple[str, str, int]] | None = None,
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
