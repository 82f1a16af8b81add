"""What a robot must satisfy as cones, G θ + h ∈ K, and the least norm over them: the only code that knows Clarabel.

A pseudo-inertia is linear in θ: each link is one cone of positive matrices, drive columns and bounds are numbers ≥ 0.
What the solver returns is measured by `violation`, with numpy alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from steelyard.consistency import NONNEGATIVE, link_columns, pseudo_inertia
from steelyard.errors import ModelError, choices
from steelyard.parameters import Array, Layout

_solver: Any = clarabel  # compiled, without types

Bounds = tuple[float, float]
Box = tuple[Sequence[float] | Array, Sequence[float] | Array]


class Scales(NamedTuple):
    """Sizes that make every link look alike to the solver: its mass [kg] and length [m], and every column's own."""

    links: dict[str, tuple[float, float]]
    columns: Array


class Block(NamedTuple):
    """G θ + h in the cone: of numbers ≥ 0, of vectors (t, x) with ‖x‖ ≤ t, or of stacked positive matrices.

    `inward` is the direction in which there is room inside the cone, None where there may be none.
    """

    cone: Literal["nonnegative", "ball", "psd"]
    matrix: Array
    offset: Array
    inward: Array | None = None


# The upper triangle column by column, as Clarabel stacks a symmetric matrix; off the diagonal times √2.
_COLUMN, _ROW = np.tril_indices(4)
_STACK = np.where(_ROW == _COLUMN, 1.0, np.sqrt(2.0))
# svec P(v) = _PSEUDO v
_PSEUDO = np.column_stack([pseudo_inertia(unit)[_ROW, _COLUMN] for unit in np.eye(10)])


def blocks_of(
    layout: Layout,
    scales: Scales,
    *,
    margin: float,
    tolerance: float,
    nonnegative: Sequence[str],
    masses: Mapping[str, Bounds],
    boxes: Mapping[str, Box],
) -> list[Block]:
    """The cones of all links, of the drive columns and of the bounds; the keywords as in `feasibility.Constraints`."""
    links = link_columns(layout)
    for name in (*masses, *boxes):
        if name not in links:
            raise ModelError(choices("link", name, links))
    symbols = dict.fromkeys((*NONNEGATIVE, *(column.symbol for column in layout.columns)))
    for symbol in nonnegative:
        if symbol not in symbols:
            raise ModelError(choices("symbol", symbol, symbols))
    drive = [k for k, column in enumerate(layout.columns) if column.symbol in nonnegative]
    blocks = [_pseudo_inertia_block(layout, links[name], scales.links[name], margin, tolerance) for name in links]
    blocks.append(Block("nonnegative", np.diag(1.0 / scales.columns)[drive], np.zeros(len(drive)), np.ones(len(drive))))
    blocks.append(_bounds_block(layout, links, scales, masses, boxes))
    return [block for block in blocks if len(block.matrix)]


def _pseudo_inertia_block(
    layout: Layout, columns: NDArray[np.int64], scale: tuple[float, float], margin: float, tolerance: float
) -> Block:
    """T (P + t·diag(1,1,1,0) − ε·1) T ⪰ 0 with T = diag(1/l, 1/l, 1/l, 1)/√m: the same cone, and numbers near one."""
    mass, length = scale
    size = np.array([length, length, length, 1.0]) * np.sqrt(mass)
    weight = _STACK / (size[_ROW] * size[_COLUMN])
    shift = tolerance * np.diag([1.0, 1.0, 1.0, 0.0]) - margin * np.eye(4)
    matrix = np.zeros((10, len(layout)))
    matrix[:, columns] = weight[:, None] * _PSEUDO
    return Block("psd", matrix, weight * shift[_ROW, _COLUMN], np.where(_ROW == _COLUMN, 1.0, 0.0))


def _bounds_block(
    layout: Layout,
    links: Mapping[str, NDArray[np.int64]],
    scales: Scales,
    masses: Mapping[str, Bounds],
    boxes: Mapping[str, Box],
) -> Block:
    """m⁻ ≤ M ≤ m⁺ and c⁻ M ≤ mc ≤ c⁺ M, without the infinite ones."""
    unit = np.eye(len(layout))
    rows: list[tuple[Array, float]] = []
    for name, (low, high) in masses.items():
        mass, size = unit[links[name][9]], scales.links[name][0]
        rows += [(sign * mass / size, -sign * x / size) for sign, x in ((1.0, low), (-1.0, high)) if np.isfinite(x)]
    for name, corners in boxes.items():
        mass, size = unit[links[name][9]], scales.links[name][0] * scales.links[name][1]
        for column, *pair in zip(links[name][6:9], *corners, strict=True):
            both = zip((1.0, -1.0), pair, strict=True)
            rows += [(sign * (unit[column] - x * mass) / size, 0.0) for sign, x in both if np.isfinite(x)]
    matrix = np.array([row for row, _ in rows]).reshape(-1, len(layout))
    return Block("nonnegative", matrix, np.array([offset for _, offset in rows]))


def _unstacked(value: Array) -> Array:
    matrix = np.empty((4, 4))
    matrix[_ROW, _COLUMN] = matrix[_COLUMN, _ROW] = value / _STACK
    return matrix


def violation(theta: Array, blocks: Sequence[Block]) -> float:
    """How far theta misses the worst of the scaled constraints, by numpy; 0 where it meets all."""
    worst = 0.0
    for block in blocks:
        value = block.matrix @ theta + block.offset
        if block.cone == "psd":
            value = np.linalg.eigvalsh(_unstacked(value))
        worst = max(worst, -float(value.min()))
    return worst


def clipped(theta: Array, blocks: Sequence[Block], floor: float, held: NDArray[np.bool_]) -> Array:
    """theta with the solver's last digits brought inside the cones that have room, eigenvalues cut at `floor` ≈ 0.

    A cone that depends on `held` columns (C,) is left as it is: a cut would move them.
    """
    theta = theta.copy()
    for block in blocks:
        if block.inward is None or block.matrix[:, held].any():
            continue
        value = block.matrix @ theta + block.offset
        if block.cone == "psd":
            eigenvalues, vectors = np.linalg.eigh(_unstacked(value))
            value = ((vectors * np.maximum(eigenvalues, floor)) @ vectors.T)[_ROW, _COLUMN] * _STACK
        else:
            value = np.maximum(value, floor)
        columns = np.flatnonzero(block.matrix.any(axis=0))
        theta[columns] = np.linalg.solve(block.matrix[:, columns], value - block.offset)
    return theta


# --- Clarabel ---------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    theta: Array
    status: str
    iterations: int


def minimise(
    norm: tuple[Array, Array], blocks: Sequence[Block], start: Array, span: Array, inside: float = 0.0
) -> Answer:
    """min t over (x, t) with ‖F θ + f‖ ≤ t and all blocks, θ = start + span x, `inside` the cones that have room.

    A cone, not a square: its minimum is sharp where the distance is zero.
    """
    matrix, offset = norm
    scale = max(float(np.abs(matrix @ span).max()), 1e-12)
    rows = [np.zeros((1, span.shape[1])), matrix @ span / scale]
    right = [np.zeros(1), (matrix @ start + offset) / scale]
    cones = [_solver.SecondOrderConeT(1 + len(matrix))]
    for block in blocks:
        rows.append(block.matrix @ span)
        right.append(block.matrix @ start + block.offset - (0.0 if block.inward is None else inside * block.inward))
        cones.append(_cone(block))
    stacked = np.vstack(rows)
    height = np.zeros((len(stacked), 1))
    height[0] = 1.0
    size = span.shape[1]
    # Clarabel: A x + s = b with s in the cones
    solver = _solver.DefaultSolver(
        sparse.csc_matrix((size + 1, size + 1)),
        np.concatenate([np.zeros(size), [1.0]]),
        sparse.csc_matrix(-np.hstack([stacked, height])),
        np.concatenate(right),
        cones,
        _settings(),
    )
    solution = solver.solve()
    x = np.array(solution.x)[:size]
    theta = start + span @ x if np.all(np.isfinite(x)) else start
    return Answer(theta, str(solution.status), int(solution.iterations))


def _cone(block: Block) -> Any:
    if block.cone == "psd":
        return _solver.PSDTriangleConeT(4)
    kind = _solver.NonnegativeConeT if block.cone == "nonnegative" else _solver.SecondOrderConeT
    return kind(len(block.matrix))


def _settings() -> Any:
    settings = _solver.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_feas = 1e-10
    settings.tol_gap_abs = settings.tol_gap_rel = 1e-9
    return settings
