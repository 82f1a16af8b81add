"""Constraints of a physical robot as cones, G θ + h ∈ K, and least norm or squares over them, by Clarabel.

A pseudo-inertia is linear in θ: each link is one cone of positive matrices, drive columns and bounds are numbers ≥ 0.
The solver's result is checked by `violation`, with numpy only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from steelyard._arrays import Array
from steelyard.errors import EstimationError, ModelError, choices
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.parameters import Layout
from steelyard.physical.consistency import link_columns, pseudo_inertia
from steelyard.physical.constraints import Constraints, box_corners, ellipsoid_axes, hull_faces, mass_bounds

_solver: Any = clarabel  # compiled, without types


# Upper bound of the scaled residuals of data without noise, as given to the solver.
LARGEST = 1e8
# Bounds of the size of a link [m].
LENGTHS = (0.02, 2.0)


class ConeScales(NamedTuple):
    """Scales that give the solver numbers of order one: a link's mass [kg] and length [m], every column's size."""

    links: dict[str, tuple[float, float]]
    columns: Array


class Block(NamedTuple):
    """G θ + h in the cone: of zeros, of numbers ≥ 0, of vectors (t, x) with ‖x‖ ≤ t, or of stacked positive matrices.

    `inward` is a direction into the interior of the cone, None if the interior may be empty.
    """

    cone: Literal["zero", "nonnegative", "ball", "psd"]
    matrix: Array
    offset: Array
    inward: Array | None = None


def column_scales(base: BaseParameters, chi: Array, reference: Array) -> ConeScales:
    """A link's mass and length from its prior, limited to a range around those suggested by the base values."""

    # the size of a base value is that of its largest term: nearly parallel axes give coefficients of a million
    size = np.nan_to_num(np.abs(chi)) / np.abs(base.map).max(axis=1)

    def largest(unit: str) -> float:
        return max((float(x) for x, u in zip(size, base.units, strict=True) if u == unit), default=0.0)

    inertia, moment = largest("kg.m2"), largest("kg.m")
    length = float(np.clip(inertia / moment, *LENGTHS)) if inertia and moment else 0.3
    mass = max(largest("kg"), moment / length, inertia / length**2) or 1.0
    columns = np.ones(len(base.layout))
    columns[list(base.kept)] = np.maximum(size, 1e-2)
    links = {}
    for name, index in link_columns(base.layout).items():
        own_mass, own_length, spread = mass, length, float(reference[index[[0, 3, 5]]].max())
        if reference[index[9]] > 0.0 and spread > 0.0:
            own_mass = float(np.clip(reference[index[9]], 0.01 * mass, 100.0 * mass))
            own_length = float(np.clip(np.sqrt(spread / own_mass), *LENGTHS))
        links[name] = (own_mass, own_length)
        columns[index] = own_mass * np.array([own_length**2] * 6 + [own_length] * 3 + [1.0])
    return ConeScales(links, columns)


# The upper triangle column by column, as Clarabel stacks a symmetric matrix; off the diagonal times √2.
_COLUMN, _ROW = np.tril_indices(4)
_STACK = np.where(_ROW == _COLUMN, 1.0, np.sqrt(2.0))
# svec P(v) = _PSEUDO v
_PSEUDO = np.column_stack([pseudo_inertia(unit)[_ROW, _COLUMN] for unit in np.eye(10)])


def blocks_of(layout: Layout, scales: ConeScales, constraints: Constraints) -> list[Block]:
    """The cones of all bodies, of the drive columns and of the other constraints, all scaled to order one."""
    links = link_columns(layout)
    for name in constraints.links:
        if name not in links:
            raise ModelError(choices("link", name, links))
    drive = list(constraints.bounded(layout))
    blocks = [
        _pseudo_inertia_block(layout, columns, scales.links[name], constraints.shift(layout, columns))
        for name, columns in links.items()
    ]
    blocks.append(Block("nonnegative", np.diag(1.0 / scales.columns)[drive], np.zeros(len(drive)), np.ones(len(drive))))
    blocks.append(_bounds_block(layout, links, scales, constraints))
    blocks += _ellipsoid_blocks(layout, links, scales, constraints)
    if constraints.total_mass is not None:
        masses = [columns[9] for columns in links.values() if layout.columns[columns[9]].kind == "link"]
        row = np.zeros((1, len(layout)))
        row[0, masses] = 1.0 / constraints.total_mass
        blocks.append(Block("zero", row, np.array([-1.0])))
    return [block for block in blocks if len(block.matrix)]


def _pseudo_inertia_block(
    layout: Layout, columns: NDArray[np.int64], scale: tuple[float, float], shift: Array
) -> Block:
    """T (P + shift) T ⪰ 0 with T = diag(1/l, 1/l, 1/l, 1)/√m: the same cone, numbers of order one."""
    mass, length = scale
    size = np.array([length, length, length, 1.0]) * np.sqrt(mass)
    weight = _STACK / (size[_ROW] * size[_COLUMN])
    matrix = np.zeros((10, len(layout)))
    matrix[:, columns] = weight[:, None] * _PSEUDO
    return Block("psd", matrix, weight * shift[_ROW, _COLUMN], np.where(_ROW == _COLUMN, 1.0, 0.0))


def _bounds_block(
    layout: Layout, links: Mapping[str, NDArray[np.int64]], scales: ConeScales, constraints: Constraints
) -> Block:
    """m⁻ ≤ M ≤ m⁺, c⁻ M ≤ mc ≤ c⁺ M without infinite bounds, and n·mc + d M ≤ 0 for the faces of a hull."""
    unit = np.eye(len(layout))
    rows: list[tuple[Array, float]] = []
    for name, bounds in constraints.masses.items():
        low, high = mass_bounds(name, bounds)
        mass, size = unit[links[name][9]], scales.links[name][0]
        rows += [(sign * mass / size, -sign * x / size) for sign, x in ((1.0, low), (-1.0, high)) if np.isfinite(x)]
    for name, box in constraints.boxes.items():
        mass, size = unit[links[name][9]], scales.links[name][0] * scales.links[name][1]
        for column, *pair in zip(links[name][6:9], *box_corners(name, box), strict=True):
            both = zip((1.0, -1.0), pair, strict=True)
            rows += [(sign * (unit[column] - x * mass) / size, 0.0) for sign, x in both if np.isfinite(x)]
    for name, points in constraints.hulls.items():
        mass, size = unit[links[name][9]], scales.links[name][0] * scales.links[name][1]
        moment = unit[links[name][6:9]]
        rows += [(-(n @ moment + d * mass) / size, 0.0) for n, d in zip(*hull_faces(name, points), strict=True)]
    matrix = np.array([row for row, _ in rows]).reshape(-1, len(layout))
    return Block("nonnegative", matrix, np.array([offset for _, offset in rows]))


def _ellipsoid_blocks(
    layout: Layout, links: Mapping[str, NDArray[np.int64]], scales: ConeScales, constraints: Constraints
) -> list[Block]:
    """‖A⁻¹(mc − c₀ M)‖ ≤ M of every ellipsoid."""
    unit, blocks = np.eye(len(layout)), []
    for name, ellipsoid in constraints.ellipsoids.items():
        centre, axes = ellipsoid_axes(name, ellipsoid)
        mass, moment = unit[links[name][9]], unit[links[name][6:9]]
        inverse = np.linalg.inv(axes)
        rows = np.vstack([mass, inverse @ (moment - np.outer(centre, mass))])
        size = scales.links[name][0] * max(1.0, scales.links[name][1] * float(np.abs(inverse).max()))
        blocks.append(Block("ball", np.asarray(rows / size, float), np.zeros(4), np.eye(4)[0]))
    return blocks


def _unstacked(value: Array) -> Array:
    matrix = np.empty((4, 4))
    matrix[_ROW, _COLUMN] = matrix[_COLUMN, _ROW] = value / _STACK
    return matrix


def violation(theta: Array, blocks: Sequence[Block]) -> float:
    """Largest violation of the scaled constraints by theta, computed by numpy; 0 where all hold."""
    return max((_lack(block.cone, block.matrix @ theta + block.offset) for block in blocks), default=0.0)


def _lack(cone: str, value: Array) -> float:
    if cone == "psd":
        room = np.linalg.eigvalsh(_unstacked(value))[0]
    elif cone == "ball":
        room = value[0] - np.linalg.norm(value[1:])
    else:
        room = value.min() if cone == "nonnegative" else -np.abs(value).max()
    return max(0.0, -float(room))


def clipped(theta: Array, blocks: Sequence[Block], floor: float, held: NDArray[np.bool_]) -> Array:
    """theta with rounding errors moved inside the cones that have an interior, eigenvalues clipped at `floor` ≈ 0.

    Cones that depend on `held` columns (C,) are not clipped, since it would change these; nor are ellipsoids.
    """
    theta = theta.copy()
    for block in blocks:
        if block.inward is None or block.cone == "ball" or block.matrix[:, held].any():
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


# Solver status → text for messages.
_STATUS_TEXTS = {
    "Own": "the result's own set",
    "Closed form": "solved in closed form",
    "Far": "no set near the prior was found",
    "Solved": "solved",
    "AlmostSolved": "solved to reduced accuracy",
    "PrimalInfeasible": "nothing satisfies the constraints",
    "AlmostPrimalInfeasible": "nothing seems to satisfy the constraints",
    "DualInfeasible": "no minimum exists",
    "AlmostDualInfeasible": "no minimum seems to exist",
    "NumericalError": "numerical error",
    "InsufficientProgress": "insufficient progress",
    "MaxIterations": "too many iterations",
    "MaxTime": "too long",
    "CallbackTerminated": "interrupted",
    "Unsolved": "not solved",
}


def status_text(status: str) -> str:
    """The status of a solution as text; AlmostSolved: accurate to 5e-5, as where a cone has no interior."""
    return _STATUS_TEXTS.get(status, status)


def minimise(
    norm: tuple[Array, Array], blocks: Sequence[Block], start: Array, span: Array, inside: float = 0.0
) -> Answer:
    """min t over (x, t) with ‖F θ + f‖ ≤ t and all blocks, θ = start + span x, `inside` those with an interior.

    A norm, not its square: the minimum is accurate also where the distance is zero.
    """
    matrix, offset = norm
    scale = max(float(np.abs(matrix @ span).max()), 1e-12)
    rows = [np.zeros((1, span.shape[1])), matrix @ span / scale, *(block.matrix @ span for block in blocks)]
    right = [np.zeros(1), (matrix @ start + offset) / scale, *(_offset(block, start, inside) for block in blocks)]
    cones = [_solver.SecondOrderConeT(1 + len(matrix)), *map(_cone, blocks)]
    stacked, size = np.vstack(rows), span.shape[1]
    height = np.zeros((len(stacked), 1))
    height[0] = 1.0
    linear = np.concatenate([np.zeros(size), [1.0]])
    nothing = sparse.csc_matrix((size + 1, size + 1))
    return _solved(nothing, linear, np.hstack([stacked, height]), np.concatenate(right), cones, start, span)


class Entropy(NamedTuple):
    """weight · D(P ‖ P₀) with D = tr(P₀⁻¹P) − log det(P₀⁻¹P) − 4, the Bregman divergence of two pseudo-inertias.

    `columns` (10,) of the body in θ; `whiten` (4, 4) = P₀^(−½).
    """

    columns: NDArray[np.int64]
    whiten: Array
    weight: float


def least_squares(
    rows: tuple[Array, Array],
    blocks: Sequence[Block],
    start: Array,
    span: Array,
    entropies: Sequence[Entropy] = (),
    inside: float = 0.0,
) -> Answer:
    """min ½‖F θ + f‖² + Σ entropies over θ = start + span x and all blocks, `inside` those that have an interior.

    `rows` F (m, C), f (m,). The residual is a separate variable: squaring F would square its condition number.
    """
    matrix, offset = rows
    residual = matrix @ span
    count, size = residual.shape
    scale = max(float(np.abs(residual).max(initial=0.0)) / LARGEST, 1.0)
    stacks = [
        [residual / scale, -sparse.identity(count), None],
        [np.vstack([np.zeros((0, size)), *(block.matrix @ span for block in blocks)]), None, None],
    ]
    right = [(matrix @ start + offset) / scale, *(_offset(block, start, inside) for block in blocks)]
    cones = [_solver.ZeroConeT(count), *map(_cone, blocks)]
    linear = [np.zeros(size), np.zeros(count)]
    if entropies:
        forms = [_stacked_link(e.whiten) for e in entropies]
        stacks.append([np.vstack([f @ span[e.columns] for f, e in zip(forms, entropies, strict=True)]), None, None])
        right += [f @ start[e.columns] for f, e in zip(forms, entropies, strict=True)]
        cones += [_solver.PSDTriangleConeT(8)] * len(forms) + [_solver.ExponentialConeT()] * 4 * len(forms)
        stacks[-1][2] = sparse.block_diag([_ROOT] * len(forms))
        stacks.append([None, None, sparse.block_diag([_LOGS] * len(forms))])
        right += [_ONES] * len(forms)
        weights = [e.weight / scale**2 for e in entropies]
        for form, e, weight in zip(forms, entropies, weights, strict=True):
            linear[0] = linear[0] + weight * (_TRACE @ form @ span[e.columns])
            linear.append(np.concatenate([np.zeros(10), np.full(4, -weight)]))
    unknowns = size + count + 14 * len(entropies)
    diagonal = np.zeros(unknowns)
    diagonal[size : size + count] = 1.0
    stacked = sparse.block_array([row if entropies else row[:2] for row in stacks])
    square, tolerance = sparse.diags(diagonal), 1e-11 if entropies else 1e-9
    return _solved(square, np.concatenate(linear), stacked, np.concatenate(right), cones, start, span, tolerance)


# --- log det X ≥ Σ t_i  where  [X Z; Zᵀ diag Z] ⪰ 0, Z lower triangular, t_i ≤ log Z_ii -----------------------------

_COLUMN_8, _ROW_8 = np.tril_indices(8)
_STACK_8 = np.where(_ROW_8 == _COLUMN_8, 1.0, np.sqrt(2.0))
_LOWER = tuple(zip(*np.tril_indices(4), strict=True))


def _stacked_8(matrix: Array) -> Array:
    return matrix[_ROW_8, _COLUMN_8] * _STACK_8


def _stacked_link(whiten: Array) -> Array:
    """(36, 10): the ten parameters of a body as the upper left quarter, whitened."""
    out = np.zeros((8, 8))
    columns = []
    for unit in np.eye(10):
        out[:4, :4] = whiten @ pseudo_inertia(unit) @ whiten
        columns.append(_stacked_8(out))
    return np.column_stack(columns)


def _stacked_root() -> Array:
    """(36, 14): Z as the upper right quarter and its transpose, its diagonal as the lower right one; t is not used."""
    columns = []
    for i, j in _LOWER:
        out = np.zeros((8, 8))
        out[i, 4 + j] = out[4 + j, i] = 1.0
        if i == j:
            out[4 + i, 4 + i] = 1.0
        columns.append(_stacked_8(out))
    return np.hstack([np.column_stack(columns), np.zeros((36, 4))])


_ROOT = _stacked_root()
_TRACE = _stacked_8(np.diag([1.0] * 4 + [0.0] * 4))
# rows (t_i, 1, Z_ii) of an exponential cone, exp(t_i) ≤ Z_ii, over Z (10) and t (4)
_ONES = np.tile([0.0, 1.0, 0.0], 4)
_LOGS = np.zeros((12, 14))
_LOGS[np.arange(0, 12, 3), 10 + np.arange(4)] = 1.0
_LOGS[np.arange(2, 12, 3), [_LOWER.index((i, i)) for i in range(4)]] = 1.0


def _solved(
    square: Any,
    linear: Array,
    rows: Any,
    right: Array,
    cones: list[Any],
    start: Array,
    span: Array,
    tolerance: float = 1e-9,
) -> Answer:
    """min ½ xᵀ S x + cᵀx with A x + b in the cones, θ = start + span x[:F]. Clarabel: −A x + s = b, s in the cones."""
    upper, signed = sparse.csc_matrix(sparse.triu(square)), sparse.csc_matrix(-rows)
    try:
        solution = _solver.DefaultSolver(upper, linear, signed, right, cones, _settings(tolerance)).solve()
    except BaseException as error:
        # the solver's own exception derives from BaseException and cannot be imported
        if type(error).__name__ != "PanicException":
            raise
        raise EstimationError(
            f"The solver failed ({error}): some numbers are implausibly large. Check the constraints, the prior and "
            "the units."
        ) from None
    x = np.array(solution.x)[: span.shape[1]]
    theta = start + span @ x if np.all(np.isfinite(x)) else start
    return Answer(theta, str(solution.status), int(solution.iterations))


def _offset(block: Block, start: Array, inside: float) -> Array:
    return block.matrix @ start + block.offset - (0.0 if block.inward is None else inside * block.inward)


def _cone(block: Block) -> Any:
    if block.cone == "psd":
        return _solver.PSDTriangleConeT(4)
    kinds = {"zero": _solver.ZeroConeT, "ball": _solver.SecondOrderConeT}
    return kinds.get(block.cone, _solver.NonnegativeConeT)(len(block.matrix))


def _settings(tolerance: float) -> Any:
    settings = _solver.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_feas = 1e-10
    settings.tol_gap_abs = settings.tol_gap_rel = tolerance
    return settings
