"""The equations of drive gains, g_j e_j = W_j χ + K_j for every motor, from triangles (P2 eqs 10–13)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.least_squares import CLUSTERS, DATA_TOLERANCE
from steelyard.model.base_parameters import BaseParameters, independent_columns
from steelyard.regression.information import Information, triangular

# A gain is undetermined if its motor's part in the regression of the known torque is below this fraction of the
# largest.
SILENT = 1e-10
# Lower bound of a motor's residual, as a fraction of its effort.
ROUNDING = 1e-12
WEIGH = (
    "declare a [[payload]] of known mass, one run with it and one run without it: one weighed payload determines the "
    "scale of all gains."
)


class GainSolution(NamedTuple):
    """Factors g (n,) of the motors' efforts, and base parameters χ (b,) in SI."""

    factor: Array
    value: Array


@dataclass(frozen=True)
class DriveEquations:
    """Rows g_j e = W χ + K of all motors, stacked; they represent `rows`_j rows of data.

    w (m, b), known (m, L): the torque of the known parameters of every payload, effort (m,), motor (m,): motor of the
    row. rows (n,) and deviation (n,): σ_j of each motor's least squares of e_j on [W_j, K_j], in units of its effort.
    """

    w: Array
    known: Array
    effort: Array
    motor: NDArray[np.int64]
    rows: Array
    deviation: Array

    def by_motor(self, x: Array) -> Array:
        """A column x (m,) as one column per motor, (m, n)."""
        return np.where(self.motor[:, None] == np.arange(len(self.rows)), x[:, None], 0.0)

    def torque(self, value: Array) -> Array:
        """W χ + K (m,) [N·m]."""
        return self.w @ value + self.known.sum(axis=1)

    def on(self, columns: NDArray[np.bool_]) -> DriveEquations:
        """The equations with some of the base parameters only; the others are zero. Deviations are unchanged."""
        return replace(self, w=self.w[:, columns])

    def known_times(self, scale: Array) -> DriveEquations:
        """The equations with the known torque of every payload multiplied by a scale (L,)."""
        return replace(self, known=self.known * scale)

    def jacobian(self, at: GainSolution) -> Array:
        """∂/∂(χ, h) of the predicted efforts h_j (W_j χ + K_j) in units of σ_j, h = 1/g, (m, b + n)."""
        weight = 1.0 / self.deviation[self.motor]
        return np.column_stack(
            [(weight / at.factor[self.motor])[:, None] * self.w, self.by_motor(weight * self.torque(at.value))]
        )

    def balanced(self, at: GainSolution) -> Array:
        """[W | torque of each motor] (m, b + n), every motor's torque of unit norm.

        Its null space is that of the predicted efforts, and its gap in singular values depends neither on the gains nor
        on the noise.
        """
        torque = self.torque(at.value)
        norms = np.sqrt(np.bincount(self.motor, torque**2, len(self.rows)))
        weight = 1.0 / np.where(norms > 0.0, norms, 1.0)[self.motor]
        return np.column_stack([weight[:, None] * self.w, self.by_motor(weight * torque)])

    def residual(self, at: GainSolution) -> Array:
        """e − h (W χ + K) in units of σ_j, (m,)."""
        return (self.effort - self.torque(at.value) / at.factor[self.motor]) / self.deviation[self.motor]


def least_squares(a: Array, y: Array) -> tuple[Array, float]:
    """argmin ‖y − A x‖ with columns of unit norm, the solution of smallest norm if A is rank deficient; and ‖y − A
    x‖²."""
    r = triangular(np.column_stack([a, y]))
    count = a.shape[1]
    w, z = r[:count, :count], r[:count, -1]
    norms = np.linalg.norm(w, axis=0)
    if len(w) == count and np.all(np.abs(np.diagonal(w)) > DATA_TOLERANCE * norms):
        x = np.asarray(solve_triangular(w, z))
    else:
        norms[norms == 0.0] = 1.0
        x = np.linalg.lstsq(w / norms, z, rcond=DATA_TOLERANCE)[0] / norms
    rest = r[:, -1] - r[:, :-1] @ x
    return x, float(rest @ rest)


def regression(equations: DriveEquations) -> GainSolution:
    """Least squares of the known torque on [e | −W]: K ≈ Σ_j g_j e_j − W χ.

    Noise in the efforts makes these gains too small, but of the right sign. A gain of zero cannot be distinguished from
    a missing one.
    """
    a = np.column_stack([-equations.w, equations.by_motor(equations.effort)])
    x, _ = least_squares(a, equations.known.sum(axis=1))
    b = equations.w.shape[1]
    return GainSolution(x[b:], x[:b])


class _MotorBlocks(NamedTuple):
    """One motor's rows: its triangle R with the independent columns first, then the effort, then the others.

    `places` are the indices of R's columns among the b base parameters, the L known torques and the effort. `grams` (G,
    k, k) are Q_gᵀQ_g of the clusters' rows Q_g R: they sum to the identity. rows (G,): rows of data in every cluster.
    """

    r: Array
    places: NDArray[np.int64]
    grams: Array
    independent: int
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class DriveBlocks:
    """The equations of all clusters of time, which can be summed with any weights without another pass over the data.

    motors: the joints whose gain has a scale; excited (b,): base parameters excited by this motion; loads: payloads
    with known parameters; cases: the load case of every cluster.
    """

    motors: tuple[int, ...]
    excited: NDArray[np.bool_]
    loads: tuple[str, ...]
    cases: tuple[str, ...]
    _motors: tuple[_MotorBlocks, ...]

    @property
    def whole(self) -> DriveEquations:
        return self.weighted(np.ones(len(self.cases)))

    def weighted(self, weights: Array) -> DriveEquations:
        """The equations with the rows of cluster g weighted by weights_g, e.g. 0 for one left out.

        Σ_g w_g (Q_g R)ᵀ(Q_g R) = (U R)ᵀ(U R) with UᵀU = Σ_g w_g Q_gᵀQ_g, which is well conditioned for any R.
        """
        b = int(self.excited.sum())
        width = b + len(self.loads)
        parts, motor, deviation = [], [], []
        plain = bool(np.all(weights == 1.0))
        for k, own in enumerate(self._motors):
            r = own.r if plain else _root(np.tensordot(weights, own.grams, 1), own.r)
            wide = np.zeros((len(r), width + 1))
            wide[:, own.places] = r
            parts.append(wide)
            motor.append(np.full(len(r), k))
            rest = abs(r[own.independent, own.independent]) if len(r) > own.independent else 0.0
            # a motor that fits to rounding must not get an infinite weight
            floor = max(ROUNDING * float(np.linalg.norm(wide[:, -1])), 1e-300)
            deviation.append(max(rest, floor) / np.sqrt(max(weights @ own.rows - own.independent, 1.0)))
        x = np.concatenate(parts)
        return DriveEquations(
            x[:, :b],
            x[:, b:width],
            x[:, -1],
            np.concatenate(motor),
            np.array([weights @ own.rows for own in self._motors]),
            np.array(deviation),
        )


def _root(gram: Array, r: Array) -> Array:
    """U R, upper triangular, with UᵀU = gram."""
    try:
        return np.linalg.cholesky(gram).T @ r
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(gram)
        return triangular(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T @ r)


def drive_blocks(base: BaseParameters, information: Information, without: Collection[int] = ()) -> DriveBlocks:
    """The equations of the drive gains; raises an error that says what is missing for the scale of the gains.

    Motors without a scale, and those in `without`, are left out: their rows carry no information on the others.
    """
    layout = information.layout
    loads = tuple(dict.fromkeys(c.owner for c in layout.columns if c.known))
    if not loads:
        raise EstimationError(
            "The scale of the drive gains is not determined: no payload has known parameters, and efforts alone "
            f"determine gains only relative to each other. Next: {WEIGH}"
        )
    motors = [
        j
        for j, triangle in enumerate(information.joint_triangles)
        if j not in without and triangle.rows and np.any(triangle.r[:, len(information.columns[j])])
    ]
    if not motors:
        raise EstimationError("No motor has rows with an effort, so no gain can be identified. Check the log.")
    clusters = _clusters(information)
    parts = {j: _rows(base, information, loads, j, clusters) for j in motors}
    whole, excited = _stacked(parts, len(base), len(loads))
    rows = sum(int(own.rows.sum()) for own in parts.values())
    unknowns = int(excited.sum()) + len(motors)
    if rows <= unknowns:
        raise EstimationError(
            f"{rows} rows are too few for {unknowns} gains and base parameters: the log is too short. Record longer or "
            "decimate less."
        )
    _check_scale(whole, loads, information)
    reached = np.abs(regression(whole).factor) * np.sqrt(np.bincount(whole.motor, whole.effort**2))
    scaled = tuple(j for j, torque in zip(motors, reached, strict=True) if torque > SILENT * reached.max())
    if len(scaled) < len(motors):
        parts = {j: parts[j] for j in scaled}
        _, excited = _stacked(parts, len(base), len(loads))
    place = np.full(len(base) + len(loads) + 1, -1)
    chosen = np.concatenate([excited, np.ones(len(loads) + 1, bool)])
    place[chosen] = np.arange(chosen.sum())
    blocks = tuple(_motor_blocks(own, place, information.joints[j]) for j, own in parts.items())
    return DriveBlocks(scaled, excited, loads, tuple(times[0][1] for times in clusters), blocks)


def _stacked(parts: Mapping[int, _MotorRows], b: int, loads: int) -> tuple[DriveEquations, NDArray[np.bool_]]:
    """The equations of all rows over the base parameters that this motion excites, and the mask of these."""
    wide = [own.wide(b + loads + 1, triangular(np.concatenate(own.r))) for own in parts.values()]
    x = np.concatenate(wide)
    if not np.all(np.isfinite(x)):
        raise EstimationError(
            "Numerical overflow: positions or efforts are implausibly large. Check units, ratio and gain."
        )
    excited = np.zeros(b, bool)
    excited[list(independent_columns(x[:, :b], DATA_TOLERANCE).kept)] = True
    motor = np.repeat(np.arange(len(wide)), [len(part) for part in wide])
    rows = np.array([float(own.rows.sum()) for own in parts.values()])
    return DriveEquations(x[:, :b][:, excited], x[:, b:-1], x[:, -1], motor, rows, np.ones(len(rows))), excited


def _clusters(information: Information) -> tuple[tuple[tuple[str, str, int], ...], ...]:
    """Clusters of time of every load case: a payload has few runs, which must not all be left out at once."""
    out = []
    for load in dict.fromkeys(time[1] for time in information.times):
        own = {key: triangle for key, triangle in information.blocks.items() if key.load == load}
        out += replace(information, blocks=own).clusters(CLUSTERS)
    return tuple(out)


class _MotorRows(NamedTuple):
    """A motor's triangles of [W | K of every payload | e], one per cluster, and their numbers of rows, (G,).

    `places` are the indices of the columns among the b base parameters, the L known torques and the effort, which is
    last.
    """

    r: tuple[Array, ...]
    places: NDArray[np.int64]
    rows: NDArray[np.int64]

    def wide(self, width: int, r: Array) -> Array:
        """Rows r with zeros in the columns that do not affect the motor."""
        out = np.zeros((len(r), width))
        out[:, self.places] = r
        return out


def _rows(
    base: BaseParameters,
    information: Information,
    loads: Sequence[str],
    joint: int,
    clusters: Sequence[Sequence[tuple[str, str, int]]],
) -> _MotorRows:
    own = information.columns[joint]
    place = np.full(len(information.layout), -1)
    place[list(base.kept)] = np.arange(len(base))
    kept = np.flatnonzero(place[own] >= 0)
    triangles, rows = [], []
    for times in clusters:
        part = information.gathered(joint, times)
        known = np.zeros((len(part.r), len(loads)))
        if times[0][1] in loads:
            known[:, loads.index(times[0][1])] = information.known(part.r)
        triangles.append(triangular(np.column_stack([part.r[:, kept], known, part.r[:, len(own)]])))
        rows.append(part.rows)
    places = np.concatenate([place[own[kept]], len(base) + np.arange(len(loads) + 1)])
    return _MotorRows(tuple(triangles), places, np.array(rows))


def _motor_blocks(own: _MotorRows, place: NDArray[np.int64], name: str) -> _MotorBlocks:
    """A motor's clusters as one triangle over the chosen columns (place >= 0), and the contributions of the clusters to
    it."""
    stacked = np.concatenate(own.r)
    live = np.flatnonzero((place[own.places] >= 0) & np.any(stacked != 0.0, axis=0))[:-1]
    free = independent_columns(stacked[:, live], DATA_TOLERANCE)
    rows = int(own.rows.sum())
    if rows <= len(free.kept):
        raise EstimationError(
            f"{name} has {rows} rows for {len(free.kept)} parameters of its own: the log is too short. Record longer, "
            "decimate less, or remove terms."
        )
    order = np.array([*live[list(free.kept)], stacked.shape[1] - 1, *live[list(free.dropped)]])
    q, r = np.linalg.qr(stacked[:, order])
    ends = np.cumsum([len(part) for part in own.r])[:-1]
    grams = np.array([piece.T @ piece for piece in np.split(q, ends)])
    return _MotorBlocks(np.asarray(r), place[own.places[order]], grams, len(free.kept), own.rows)


def _check_scale(equations: DriveEquations, loads: Sequence[str], information: Information) -> None:
    """Raises an error unless the known torque can be distinguished from that of the unknown parameters."""
    missing = "The scale of the drive gains is not determined: "
    named = ", ".join(f"'{load}'" for load in loads)
    known = equations.known.sum(axis=1)
    if not np.any(known):
        carried = sorted({f"'{key.load}'" for key in information.blocks})
        raise EstimationError(
            f"{missing}no row contains a torque of the known parameters of payload {named} (the rows have the load "
            f"case {', '.join(carried)}). Next: {WEIGH}"
        )
    if equations.w.shape[1] in independent_columns(np.column_stack([equations.w, known]), DATA_TOLERANCE).dropped:
        if any(key.load not in loads for key in information.blocks):
            raise EstimationError(
                f"{missing}the unknown parameters of payload {named}, or those of the robot, compensate the known ones "
                "in this motion. Next: state its centre of mass (com) too, or move more joints, further and together."
            )
        raise EstimationError(
            f"{missing}the known parameters of payload {named} cannot be separated from the link that carries it, e.g. "
            "because every run carries it. Next: add a run of the same robot without it, or with another known "
            "payload."
        )
