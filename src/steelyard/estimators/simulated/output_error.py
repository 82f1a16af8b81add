"""Closed-loop output error: the parameters whose simulation reproduces the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError, SimulationError, choices
from steelyard.estimators.estimator import Estimate
from steelyard.estimators.least_squares import solve
from steelyard.estimators.simulated.base import (
    MOST_HALVINGS,
    Begin,
    Iterated,
    Iteration,
    SimulatingEstimator,
    driven_again,
    largest_change,
)
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import MOST_BLOCKS, BlockKey, Information, Triangle
from steelyard.regression.observe import Progress, row_count, stream_rows
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples

OUTPUTS = ("torque", "position", "both")
# Smallest σ of a position, as a fraction of the joint's travel.
_FINEST = 1e-6
# Relative mass of a heavier robot whose simulation must differ, or positions do not determine the scale.
_HEAVIER = 1.05


@final
@dataclass(frozen=True)
class OutputErrorMethod(SimulatingEstimator):
    """Closed-loop output error by Gauss–Newton: θ̂ = argmin Σ_j ‖y_j − y_j(θ)‖² / σ_j²   (P4 §II.B, eqs 12–15)

    y(θ) is the simulation of the model with θ under the same controller and reference: its torques (`on` = "torque",
    CLIE), its positions as the encoders read them ("position", CLOE), or "both", through the parallel filter of all
    rows. Sensitivities are finite differences of whole simulations, one per parameter, in which that parameter changes
    the torque of some joint by the fraction `step` of its size. Where a step does not lower the sum, or cannot be
    simulated, it is halved. Other options as in `iv`.
    """

    on: str = "torque"
    step: float = 1e-3
    name: ClassVar[str] = "output-error"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on not in OUTPUTS:
            raise EstimationError(choices("output 'on'", self.on, OUTPUTS))
        if not 0.0 < self.step < 1.0:
            raise EstimationError(f"step is a fraction of the torques, above 0 and below 1, not {self.step!r}.")

    def _from(
        self,
        begin: Begin,
        problem: Problem,
        base: BaseParameters,
        information: Information,
        progress: Progress | None,
    ) -> Estimate:
        used, value, std = begin.used, begin.value, begin.std
        steps = np.where(used, self.step * unit_steps(information, base), 0.0)
        outputs = Outputs.of(problem, base, self.on)
        try:
            said = outputs.simulated(value, progress)
        except SimulationError as error:
            raise EstimationError(f"The start '{self.start}' cannot be simulated: {error}") from None
        if not outputs.tells_scale(value, said):
            raise EstimationError(
                "Positions alone do not determine the scale of the inertias: the controller is tuned to them, and a "
                "heavier robot moves the same. State the controller gains, or compare torques too (on = "
                '"both").'
            )
        weights = first = outputs.weights(begin.weights, said)
        done: list[Iteration] = []
        while True:
            linear = outputs.linearised(value, said, outputs.sensitivities(value, said, steps, progress))
            found = solve(linear, base, weights, cancelled=begin.held)
            target = np.where(used & np.isfinite(found.value), found.value, value)
            before, last = value, outputs.residual(said, first)
            value, said, halvings = _descended(outputs, weights, value, target, said, progress)
            # where no part of the step lowers the sum, the size of the step is the distance from the minimum
            stuck = halvings > MOST_HALVINGS
            change, worst = largest_change(target if stuck else value, before, std)
            residual = outputs.residual(said, first)
            done.append(Iteration(before, residual, change, base.names[worst], min(halvings, MOST_HALVINGS)))
            settled = change <= self.tolerance and abs(residual - last) <= self.tolerance * residual
            if stuck or settled or len(done) >= self.most:
                ended = Iterated(linear, value, tuple(done), bool(settled))
                kept = np.where(used & np.isfinite(found.value), value, found.value)
                return replace(found, value=kept).with_findings(ended.findings(self.name, self.tolerance))
            weights = outputs.weights(begin.weights, said)


def unit_steps(information: Information, base: BaseParameters) -> Array:
    """Change of each parameter (b,) that changes the torque of some joint by its own size, and of no joint by more:
    min_j ‖y_j‖ / ‖W_ji‖. Zero where the motion does not excite it."""
    out = np.full(len(base), np.inf)
    for own, triangle in zip(information.columns, information.joint_triangles, strict=True):
        size = np.linalg.norm(triangle.r, axis=0)
        for k, column in enumerate(base.kept):
            (place,) = np.nonzero(own == column)
            if len(place) and size[place[0]] > 0.0:
                out[k] = min(out[k], size[len(own)] / size[place[0]])
    return np.where(np.isfinite(out), out, 0.0)


def _descended(
    outputs: Outputs,
    weights: Array,
    value: Array,
    target: Array,
    said: Sequence[Array],
    progress: Progress | None,
) -> tuple[Array, Sequence[Array], int]:
    """The first point among target and repeated half steps that lowers the sum, its simulation, and the number of
    halvings; the value itself after too many halvings."""
    before = outputs.residual(said, weights)
    for halvings in range(MOST_HALVINGS + 1):
        candidate = value + 0.5**halvings * (target - value)
        try:
            tried = outputs.simulated(candidate, progress)
        except SimulationError:
            continue
        if outputs.residual(tried, weights) <= before:
            return candidate, tried, halvings
    return value, said, MOST_HALVINGS + 1


class _Seen(NamedTuple):
    """A run's rows: the measured outputs (k, m), which of their rows are used, and their block of time (m,)."""

    run: Samples
    measured: Array
    counts: NDArray[np.bool_]
    block: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Outputs:
    """The compared outputs: k per row of every run, the torques of the rows, then the positions of the joints."""

    problem: Problem
    base: BaseParameters
    torques: bool
    positions: bool
    seen: tuple[_Seen, ...]

    @staticmethod
    def of(problem: Problem, base: BaseParameters, on: str) -> Outputs:
        torques, positions = on != "position", on != "torque"
        seen = tuple(_measured(problem, run, torques, positions) for run in problem.runs)
        return Outputs(problem, base, torques, positions, seen)

    @property
    def names(self) -> tuple[str, ...]:
        joints = self.problem.model.robot.axis_names
        places = tuple(f"position of {joint}" for joint in joints)
        return (joints if self.torques else ()) + (places if self.positions else ())

    def simulated(self, value: Array, progress: Progress | None = None) -> list[Array]:
        """The outputs (k, m) of every run with base values (b,)."""
        theta = self.base.theta(value)
        made = driven_again(self.problem, theta, progress)
        return [self._rows(made[seen.run.name], theta) for seen in self.seen]

    def _rows(self, run: Samples, theta: Array) -> Array:
        """Torques Zθ and positions of a simulated run, without delay whatever the delay of the log's efforts."""
        model = self.problem.model
        rows, columns = model.places.T
        torque = np.zeros((model.robot.dof, len(rows)))
        torque[rows, np.arange(len(rows))] = model.bearing(theta, run.load)[columns]
        torque = self.problem.row_shares @ torque
        parts = [np.zeros((len(self.names), 0))]
        for w, q in _with_positions(self.problem, run):
            places = [_as_read(self.problem, q)] * self.positions
            parts.append(np.concatenate([torque @ w] * self.torques + places))
        return np.concatenate(parts, axis=1)

    def sensitivities(
        self, value: Array, said: Sequence[Array], steps: Array, progress: Progress | None = None
    ) -> list[Array]:
        """∂y/∂θ (b, k, m) of every run by forward differences with steps (b,); zero where the step is zero."""
        out = [np.zeros((len(value), *here.shape)) for here in said]
        moved = np.flatnonzero(steps)
        for done, k in enumerate(moved, start=1):
            for run, change in zip(out, self._slopes(value, said, int(k), float(steps[k])), strict=True):
                run[k] = change
            if progress is not None:
                progress("sensitivities", done, len(moved))
        return out

    def _slopes(self, value: Array, said: Sequence[Array], k: int, step: float) -> list[Array]:
        told = ""
        for signed in (step, -step):
            beside = value.copy()
            beside[k] += signed
            try:
                there = self.simulated(beside)
            except SimulationError as error:
                told = str(error)
                continue
            return [(x - here) / signed for x, here in zip(there, said, strict=True)]
        raise EstimationError(
            f"{self.base.names[k]} = {value[k]:.4g} cannot be simulated when changed by {step:.2g} in either "
            f"direction: {told} Use a smaller step, or cancel parameters that the motion does not excite (ratio)."
        )

    def tells_scale(self, value: Array, said: Sequence[Array]) -> bool:
        """Whether the simulation of a robot scaled in mass differs."""
        if self.torques:
            return True
        travel = np.max([run.travel for run in self.problem.runs], axis=0)[:, None]
        other = self.simulated(_HEAVIER * value)
        return any(np.any(np.abs(x - here) > _FINEST * travel) for x, here in zip(other, said, strict=True))

    def weights(self, torque_weights: Array, said: Sequence[Array]) -> Array:
        """1/σ (k,): for torques as given, for positions from the current residual of the simulation."""
        n = self.problem.model.robot.dof
        if not self.positions:
            return torque_weights
        left, rows = np.zeros(n), np.zeros(n)
        for seen, here in zip(self.seen, said, strict=True):
            rest = np.where(seen.counts, seen.measured - here, 0.0)[-n:]
            left += np.sum(rest**2, axis=1)
            rows += seen.counts[-n:].sum(axis=1)
        travel = np.max([run.travel for run in self.problem.runs], axis=0)
        sigma = np.maximum(np.sqrt(left / np.maximum(rows, 1.0)), _FINEST * travel)
        places = np.divide(1.0, sigma, out=np.zeros(n), where=(sigma > 0.0) & (rows > 0.0))
        return np.concatenate([torque_weights, places]) if self.torques else places

    def residual(self, said: Sequence[Array], weights: Array) -> float:
        """‖y − y(θ)‖ in units of σ."""
        total = 0.0
        for seen, here in zip(self.seen, said, strict=True):
            total += float(np.sum(np.where(seen.counts, weights[:, None] * (seen.measured - here), 0.0) ** 2))
        return float(np.sqrt(total))

    def linearised(self, value: Array, said: Sequence[Array], sensitivities: Sequence[Array]) -> Information:
        """Triangles of [J | y − y(θ) + Jθ]: their least squares is the Gauss–Newton step to new values."""
        blocks: dict[BlockKey, Triangle] = {}
        for seen, here, slopes in zip(self.seen, said, sensitivities, strict=True):
            aim = seen.measured - here + np.einsum("bkm,b->km", slopes, value)
            rows = np.concatenate([slopes, aim[None]])
            for k, counts in enumerate(seen.counts):
                for block in np.unique(seen.block[counts]):
                    part = rows[:, k, counts & (seen.block == block)].T
                    key = BlockKey(seen.run.name, seen.run.load, int(block), k)
                    blocks[key] = Triangle.of(np.ascontiguousarray(part), len(part))
        columns = (np.array(self.base.kept),) * len(self.names)
        sizes = {seen.run.name: _block_rows(self.problem, seen.run) for seen in self.seen}
        return Information(self.base.layout, self.names, columns, ("effort",), blocks, sizes)


def _block_rows(problem: Problem, run: Samples) -> int:
    return max(1, -(-row_count(problem, run) // MOST_BLOCKS))


def _measured(problem: Problem, run: Samples, torques: bool, positions: bool) -> _Seen:
    """The rows of a log, with the same mask per joint as for every other estimator."""
    shares = problem.row_shares
    awake = np.ones(len(shares), bool)
    awake[list(problem.still)] = False
    k = len(shares) * (torques + positions)
    # a run too short for its filters has no rows to compare
    numbers, measured, counts = [np.zeros(0, np.int64)], [np.zeros((len(shares), 0))], [np.zeros((k, 0), bool)]
    for batch in stream_rows(problem, run):
        moving = problem.moving(batch.v, batch.still) & awake[:, None] & batch.inside
        live = moving & ~run.constant_effort[:, None]
        rows = np.array([live[share != 0.0].all(axis=0) for share in shares])
        numbers.append(batch.number)
        measured.append(shares @ batch.y[0])
        counts.append(np.concatenate([rows] * torques + [moving] * positions))
    outputs = [np.concatenate(measured, axis=1)] * torques
    if positions:
        outputs.append(np.concatenate([measured[0], *(q for _, q in _with_positions(problem, run))], axis=1))
    block = np.concatenate(numbers) // _block_rows(problem, run)
    return _Seen(run, np.concatenate(outputs), np.concatenate(counts, axis=1), block)


def _with_positions(problem: Problem, run: Samples) -> Iterator[tuple[Array, Array]]:
    """Columns (E, m) and positions (n, m) in the rows of a run: positions replace efforts in the filter, undelayed."""
    furthest = max(map(abs, problem.delay), default=0.0)
    plain = replace(problem, delay=(), factor=())
    placed = replace(run, open=lambda: (piece._replace(effort=piece.q) for piece in run.open()))
    for batch in stream_rows(plain, placed, shifts=(furthest,) if furthest else ()):
        yield batch.w, batch.y[0]


def _as_read(problem: Problem, q: Array) -> Array:
    """Joint positions (n, m) as a log would give them, C⁻¹ (ρ ∘ C_e q + offset) of the loop, without noise or rounding.

    The map is linear, so it may be applied after the filter.
    """
    experiment, robot = problem.experiment, problem.model.robot
    assert experiment is not None
    loop = experiment.loop
    believed = robot.motor_map if loop.side == "motor" else np.eye(robot.dof)
    coupling = believed if loop.encoder_coupling is None else loop.encoder_coupling
    ratio = np.broadcast_to(np.asarray(loop.encoder_ratio, float), robot.dof)[:, None]
    offset = np.broadcast_to(np.asarray(loop.encoder_offset, float), robot.dof)[:, None]
    return np.asarray(np.linalg.solve(believed, ratio * (coupling @ q) + offset), float)
