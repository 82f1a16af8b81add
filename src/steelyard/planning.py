"""The information of motions that are still numbers: criterion and torques as functions of x, with exact gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from steelyard.base_parameters import BaseParameters
from steelyard.criteria import Score
from steelyard.families import Family
from steelyard.forecast import sample_times
from steelyard.gradients import RegressorGradient
from steelyard.interior import LinearLimits, Slope
from steelyard.limit_proofs import MotionLimits
from steelyard.model import Model
from steelyard.parameters import Array
from steelyard.terms import Motion


class _Rows(NamedTuple):
    """A joint's equation in base columns: W_j,base = `mix` · tile[places]; mix None where it is those places alone."""

    columns: NDArray[np.int64]
    places: NDArray[np.int64]
    mix: Array | None

    def of(self, tile: Array) -> Array:
        own = tile[self.places]
        return own if self.mix is None else self.mix @ own


@final
@dataclass(frozen=True, eq=False)
class RunInformation:
    """F = Σ_j Σ_s w wᵀ / σ_j² of a run in base columns, and the way back to the weights of its regressor's entries."""

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
                out.append(_Rows(np.array(columns, np.int64), places[own], None))
                continue
            # the payload's columns are the link's times `on_link`
            body, its, link = payload
            loaded = [k for k, column in enumerate(its) if column in kept]
            mix = np.zeros((len(own) + len(loaded), len(places)))
            mix[np.arange(len(own)), own] = 1.0
            seat = [int(np.flatnonzero(of_place == column)[0]) for column in link]
            mix[len(own) :, seat] = body.on_link[:, loaded].T
            columns += [kept[its[k]] for k in loaded]
            out.append(_Rows(np.array(columns, np.int64), places, mix))
        return tuple(out)

    def matrix(self, tile: Array) -> Array:
        """F (b, b) of a tile (E, N)."""
        f = np.zeros((len(self.base), len(self.base)))
        for rows, sigma in zip(self.rows, self.noise, strict=True):
            w = rows.of(tile)
            f[np.ix_(rows.columns, rows.columns)] += (w @ w.T) / sigma**2
        return f

    def back(self, tile: Array, slope: Array) -> Array:
        """u (E, N) with d objective = Σ u · dW for slope = ∂objective/∂F: rows 2 G w / σ_j²."""
        out = np.zeros_like(tile)
        for rows, sigma in zip(self.rows, self.noise, strict=True):
            u = (2.0 / sigma**2) * slope[np.ix_(rows.columns, rows.columns)] @ rows.of(tile)
            if rows.mix is None:
                out[rows.places] = u
            else:
                out[rows.places] += rows.mix.T @ u
        return out


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """Several runs of one family, x (runs · n · K,) in halves of each joint's range about its middle.

    given (b, b) is the information there is already; torque (n,) bounds the nominal model's, infinite where free.
    """

    model: Model
    base: BaseParameters
    loads: Sequence[str]
    family: Family
    duration: float
    rate_hz: float
    noise: Array
    limits: MotionLimits
    score: Callable[[Array], Score]
    theta: Array | None = None
    given: Array | None = None

    @cached_property
    def runs(self) -> tuple[RunInformation, ...]:
        return tuple(RunInformation(RegressorGradient(self.model, load), self.base, self.noise) for load in self.loads)

    @cached_property
    def basis(self) -> Array:
        return self.family.basis(self.duration, sample_times(self.duration, self.rate_hz))[:3]

    @cached_property
    def _torque_rows(self) -> tuple[Array, ...]:
        """For every run (n, E): θ at the places of each joint's row, so that τ = rows · tile."""
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

        The rows of a quantity count together for one limit, whatever their number.
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
        """F (b, b), what is given included."""
        return self.information_of(self.motions(x))

    def information_of(self, motions: Sequence[Motion]) -> Array:
        """The same for motions, one a run."""
        return self._sum([r.matrix(r.gradient.fill(m)) for r, m in zip(self.runs, motions, strict=True)])

    def _sum(self, matrices: Sequence[Array]) -> Array:
        return np.sum(matrices if self.given is None else [self.given, *matrices], axis=0)

    def torque_share(self, x: Array) -> float:
        """The largest |τ| / limit at the samples; zero where nothing is limited."""
        if not self._torque_rows:
            return 0.0
        pairs = zip(self.runs, self.motions(x), self._torque_rows, strict=True)
        limit = self.limits.torque[:, None]
        return max(float(np.max(np.abs(rows @ run.gradient.fill(m)) / limit)) for run, m, rows in pairs)

    def objective(self, x: Array, mu: float) -> Slope:
        """Criterion − μ Σ mean log(1 − (τ/limit)²), and its gradient: one pass forward and one back for each run."""
        motions = self.motions(x)
        tiles = [run.gradient.fill(motion) for run, motion in zip(self.runs, motions, strict=True)]
        torques = [rows @ tile for rows, tile in zip(self._torque_rows, tiles, strict=False)]
        used = [tau / self.limits.torque[:, None] for tau in torques]
        if any(np.max(np.abs(share)) >= 1.0 for share in used):
            return Slope(np.inf, np.zeros_like(x))
        score = self.score(self._sum([run.matrix(tile) for run, tile in zip(self.runs, tiles, strict=True)]))
        if not np.isfinite(score.objective):
            return Slope(np.inf, np.zeros_like(x))
        value, parts = score.objective, []
        for k, (run, motion, tile) in enumerate(zip(self.runs, motions, tiles, strict=True)):
            weights = run.back(tile, score.slope)
            if used:
                room = 1.0 - used[k] ** 2
                value -= mu * float(np.mean(np.log(room), axis=1).sum())
                push = 2.0 * mu / room.shape[1] * used[k] / room / self.limits.torque[:, None]
                weights += self._torque_rows[k].T @ push
            back = run.gradient.back(motion, weights)
            parts.append(self._half[:, None] * sum(g @ part.T for g, part in zip(back, self.basis, strict=True)))
        return Slope(value, np.concatenate([part.ravel() for part in parts]))
