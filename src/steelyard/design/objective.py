"""The information of motions given by coefficients: criterion and torques as functions of x, with exact gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.design.criteria import CriterionValue
from steelyard.design.families import Family
from steelyard.design.forecast import sample_times
from steelyard.design.gradients import RegressorGradient
from steelyard.design.optimiser import LinearLimits, Slope
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.model import Model
from steelyard.model.terms import Motion
from steelyard.motion.bounds import MotionLimits
from steelyard.motion.clearance import Clearance

# Distance [m] beyond the margin above which a pair of `Clearance` costs nothing.
REACH = 0.1
# Rate at which distances are checked [Hz], even with fewer rows, so that thin obstacles are not missed between samples.
CLEAR_RATE_HZ = 50.0


class _Rows(NamedTuple):
    """A joint's equation in base columns: W_j,base = `mix` · tile[places]; mix is None where it equals those entries.

    `square` are the indices of its columns in a matrix of all base parameters.
    """

    square: tuple[NDArray[np.int64], ...]
    places: NDArray[np.int64]
    mix: Array | None


class Memory(NamedTuple):
    """Arrays of one run that are reused at every step, because allocation costs more than the work.

    tile and weights (E, N): entries of W and their weights in φ; equations: W_j of every joint in its own base columns,
    (c_j, N); back (3, n, N): gradients in q, v and a.
    """

    tile: Array
    equations: tuple[Array, ...]
    weights: Array
    back: Array


@final
@dataclass(frozen=True, eq=False)
class RunInformation:
    """F = Σ_j Σ_s w wᵀ / σ_j² of a run in base columns, and the gradient back to the entries of its regressor."""

    gradient: RegressorGradient
    base: BaseParameters
    noise: Array

    @cached_property
    def rows(self) -> tuple[_Rows, ...]:
        model, kept = self.gradient.model, {column: k for k, column in enumerate(self.base.kept)}
        payload = model.loads.get(self.gradient.load)
        out = []
        for j in range(model.robot.dof):
            places = np.flatnonzero(model.places[:, 0] == j)
            of_place = model.places[places, 1]
            own = [k for k, column in enumerate(of_place) if column in kept]
            columns = [kept[of_place[k]] for k in own]
            if payload is None or not np.isin(payload[2], of_place).any():
                out.append(_Rows(np.ix_(columns, columns), places[own], None))
                continue
            # the payload's columns are the link's times `on_link`
            body, its, link = payload
            loaded = [k for k, column in enumerate(its) if column in kept]
            mix = np.zeros((len(own) + len(loaded), len(places)))
            mix[np.arange(len(own)), own] = 1.0
            seat = [int(np.flatnonzero(of_place == column)[0]) for column in link]
            mix[len(own) :, seat] = body.on_link[:, loaded].T
            columns += [kept[its[k]] for k in loaded]
            out.append(_Rows(np.ix_(columns, columns), places, mix))
        return tuple(out)

    def memory(self, samples: int) -> Memory:
        tile = (len(self.gradient.model.places), samples)
        equations = tuple(np.empty((len(rows.square[0]), samples)) for rows in self.rows)
        return Memory(np.empty(tile), equations, np.zeros(tile), np.empty((3, len(self.noise), samples)))

    def matrix(self, motion: Motion, memory: Memory) -> Array:
        """F (b, b) of a motion (n, N); fills tile and equations."""
        f = np.zeros((len(self.base), len(self.base)))
        self.gradient.fill(motion, memory.tile)
        for rows, w, sigma in zip(self.rows, memory.equations, self.noise, strict=True):
            if rows.mix is None:
                np.take(memory.tile, rows.places, axis=0, out=w, mode="clip")
            else:
                np.matmul(rows.mix, memory.tile[rows.places], out=w)
            f[rows.square] += (w @ w.T) / sigma**2
        return f

    def weigh(self, slope: Array, memory: Memory) -> None:
        """Adds weights u with d objective = Σ u · dW for slope G = ∂objective/∂F: rows 2 G w / σ_j²."""
        for rows, w, sigma in zip(self.rows, memory.equations, self.noise, strict=True):
            u = (2.0 / sigma**2 * slope[rows.square]) @ w
            # the rows of two joints have no entry in common
            memory.weights[rows.places] += u if rows.mix is None else rows.mix.T @ u


@final
@dataclass(frozen=True, eq=False)
class DesignObjective:
    """Several runs of one family, x (runs · n · K,) in units of half of each joint's range about its middle.

    given (b, b) is the existing information; torque (n,) bounds that of the nominal model, infinite where free.
    clearance holds the pairs that must keep a distance, by `spare` [m] more than its margin.
    """

    model: Model
    base: BaseParameters
    loads: Sequence[str]
    family: Family
    duration: float
    rate_hz: float
    noise: Array
    limits: MotionLimits
    score: Callable[[Array], CriterionValue]
    theta: Array | None = None
    given: Array | None = None
    clearance: Clearance | None = None
    spare: float = 0.0

    @cached_property
    def runs(self) -> tuple[RunInformation, ...]:
        return tuple(RunInformation(RegressorGradient(self.model, load), self.base, self.noise) for load in self.loads)

    @cached_property
    def basis(self) -> Array:
        return self.family.basis(self.duration, sample_times(self.duration, self.rate_hz))[:3]

    @cached_property
    def _memories(self) -> tuple[Memory, ...]:
        return tuple(run.memory(self.basis.shape[2]) for run in self.runs)

    @cached_property
    def _torque_rows(self) -> tuple[Array, ...]:
        """For every run (n, E): θ at the entries of each joint's row, so that τ = rows · tile."""
        model, theta = self.model, self.theta
        if theta is None or not np.isfinite(self.limits.torque).any():
            return ()
        out = []
        for run in self.runs:
            rows = np.zeros((model.robot.dof, len(model.places)))
            rows[model.places[:, 0], np.arange(len(model.places))] = run.gradient.torque_weights(theta)
            out.append(rows)
        return tuple(out)

    @property
    def _middle(self) -> Array:
        return 0.5 * (self.limits.lower + self.limits.upper)

    @property
    def _half(self) -> Array:
        return 0.5 * (self.limits.upper - self.limits.lower)

    def numbers(self, x: Array) -> Array:
        """x in the joints' own units, (runs, n, K)."""
        shape = (len(self.loads), self.model.robot.dof, self.family.size)
        return self._middle[:, None] * self.family.constant() + self._half[:, None] * x.reshape(shape)

    def scaled(self, numbers: Array) -> Array:
        """The inverse of `numbers`."""
        return ((numbers - self._middle[:, None] * self.family.constant()) / self._half[:, None]).ravel()

    @cached_property
    def linear(self) -> LinearLimits:
        """Limits of position, velocity, acceleration and jerk that hold for all t, as inequalities of x.

        The rows of a quantity together have the weight of one limit, independent of their number.
        """
        rows, lower, upper, weight = [], [], [], []
        free = np.full_like(self._half, np.inf)
        bounds = (self._half, self.limits.velocity, self.limits.acceleration, self.limits.jerk)
        for guard, bound in zip(self.family.guards(self.duration), bounds, strict=True):
            if np.array_equal(bound, free):
                continue
            side = np.tile((guard.share * bound / self._half)[:, None], (len(self.loads), len(guard.rows)))
            rows.append(guard.rows)
            upper.append(side)
            lower.append(-side)
            weight.append(np.full(len(guard.rows), 1.0 / len(guard.rows)))
        return LinearLimits(
            np.concatenate(rows), np.concatenate(lower, axis=1), np.concatenate(upper, axis=1), np.concatenate(weight)
        )

    def motions(self, x: Array) -> tuple[Motion, ...]:
        return tuple(Motion(*(own @ part for part in self.basis)) for own in self.numbers(x))

    def information(self, x: Array) -> Array:
        """F (b, b), including `given`."""
        return self.information_of(self.motions(x))

    def information_of(self, motions: Sequence[Motion]) -> Array:
        """The same for motions, one per run."""
        parts = zip(self.runs, motions, self._memories, strict=True)
        return self._sum([run.matrix(motion, memory) for run, motion, memory in parts])

    def _sum(self, matrices: Sequence[Array]) -> Array:
        return np.sum(matrices if self.given is None else [self.given, *matrices], axis=0)

    def torques(self, x: Array) -> tuple[Array, ...]:
        """τ (n, N) of the nominal model at the samples of every run; empty where no torque is limited."""
        if not self._torque_rows:
            return ()
        parts = zip(self.runs, self.motions(x), self._torque_rows, self._memories, strict=True)
        return tuple(rows @ run.gradient.fill(motion, memory.tile) for run, motion, rows, memory in parts)

    def torque_share(self, x: Array) -> float:
        """The largest |τ| / limit at the samples; zero where no torque is limited."""
        limit = self.limits.torque[:, None]
        return max((float(np.max(np.abs(tau) / limit)) for tau in self.torques(x)), default=0.0)

    @cached_property
    def _positions(self) -> Array:
        """The part of the basis that gives positions (K, M) at the times when distances are checked."""
        times = sample_times(self.duration, max(self.rate_hz, CLEAR_RATE_HZ))
        return self.family.basis(self.duration, times)[0]

    def _rooms(self, x: Array) -> list[tuple[Array, Array]]:
        """For every run, postures (n, M) and the remaining distance of every pair there, (P, M) [m].

        None without a clearance.
        """
        if self.clearance is None or not len(self.clearance):
            return []
        least = self.clearance.margin + self.spare
        postures = [own @ self._positions for own in self.numbers(x)]
        return [(q, self.clearance.distances(q) - least) for q in postures]

    def room(self, x: Array) -> float:
        """The smallest remaining distance of any pair [m], at most `REACH`."""
        return min((REACH, *(float(room.min()) for _, room in self._rooms(x))))

    def objective(self, x: Array, mu: float) -> Slope:
        """Criterion − μ Σ mean log(1 − (τ/limit)²) + μ Σ mean b(room), and its gradient.

        The first sum is over joints, the second over pairs that must stay apart, with b of `barrier`. One forward and
        one backward pass per run.
        """
        motions = self.motions(x)
        rooms = self._rooms(x)
        if any(room.min() <= 0.0 for _, room in rooms):
            return Slope(np.inf, np.zeros_like(x))
        score = self.score(self.information_of(motions))
        torques = [rows @ memory.tile for rows, memory in zip(self._torque_rows, self._memories, strict=False)]
        used = [tau / self.limits.torque[:, None] for tau in torques]
        if not np.isfinite(score.objective) or any(np.max(np.abs(share)) >= 1.0 for share in used):
            return Slope(np.inf, np.zeros_like(x))
        value, parts = score.objective, []
        for k, (run, motion, memory) in enumerate(zip(self.runs, motions, self._memories, strict=True)):
            if used:
                room = 1.0 - used[k] ** 2
                value -= mu * float(np.mean(np.log(room), axis=1).sum())
                push = 2.0 * mu / room.shape[1] * used[k] / room / self.limits.torque[:, None]
                np.matmul(self._torque_rows[k].T, push, out=memory.weights)
            else:
                memory.weights[:] = 0.0
            run.weigh(score.slope, memory)
            back = run.gradient.back(motion, memory.weights, memory.back)
            slope = sum(g @ part.T for g, part in zip(back, self.basis, strict=True))
            if rooms and self.clearance is not None:
                q, left = rooms[k]
                height, push = barrier(left)
                value += mu * float(np.mean(height, axis=1).sum())
                slope = slope + self.clearance.back(q, mu / q.shape[1] * push) @ self._positions.T
            parts.append(self._half[:, None] * slope)
        return Slope(value, np.concatenate([part.ravel() for part in parts]))


def barrier(room: Array) -> tuple[Array, Array]:
    """b(z) = (z − 1) − (z − 1)²/2 − log z  of z = room / `REACH` below 1, zero above, and its slope in the room.

    It goes to infinity as a logarithm does, and its first two derivatives are zero at 1: distant pairs cost nothing.
    """
    short = np.minimum(room / REACH, 1.0) - 1.0
    return short - 0.5 * short**2 - np.log1p(short), -(short**2) / (1.0 + short) / REACH
