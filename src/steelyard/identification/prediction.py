"""Prediction: measured and predicted effort per row with a band, from a second pass over the rows.

The band holds 95 % of the efforts that are measured and filtered like those of the fit. Its half width is

    h² = (1.96 s_j)² + t² w C wᵀ

with s_j the deviation of a row from the true parameters (`residual_std`), w C wᵀ the variance of the prediction by the
error bars of the parameters (leave-one-block-out), and t the quantile of Student's distribution for their clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from steelyard._arrays import Array, single_threaded
from steelyard.identification.result import Identification
from steelyard.model.parameters import Layout
from steelyard.regression.observe import stream_rows
from steelyard.regression.problem import Problem
from steelyard.regression.scores import covariance_factor
from steelyard.signals.samples import Samples

# The fraction of unseen rows that a band holds.
LEVEL = 0.95
# Symbol of the inertia of a rotor.
ROTOR = "Ia"


@dataclass(frozen=True)
class Prediction:
    """One run's rows: t (m,) [s]; v (n, m); measured, predicted, nominal (n, m) [N·m | N]; scored (n, m) by the mask.

    q       positions (n, m) [rad | m] of the axes at t
    other   the part (n, m) of `predicted` that is not of bodies, rotors, payloads or springs: friction and offsets
    half    half width (n, m) [N·m | N] of the 95 % band around `predicted`, for rows that are scored: stiction, at
            rest, is not a function of speed. NaN for joints without rows in the fit; None without error bars
    effect  RMS (n, C) of the effort of each joint per unit of each column, over its scored rows
    role    "identify" or "validate"
    """

    run: str
    joints: tuple[str, ...]
    t: Array
    v: Array
    measured: Array
    predicted: Array
    nominal: Array | None
    scored: NDArray[np.bool_]
    complete: bool
    q: Array | None = None
    other: Array | None = None
    half: Array | None = None
    effect: Array | None = None
    role: str = "identify"

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which measured efforts lie in the band (n, m); none where there is no band."""
        if self.half is None:
            return np.zeros_like(self.scored)
        return self.scored & (np.abs(self.measured - self.predicted) <= self.half)


def as_identified(problem: Problem, result: Identification) -> Problem:
    """The problem with the other values found by a result: drive gains, and the inertias for load friction."""
    if result.gains is not None:
        problem = replace(problem, factor=tuple(result.gains.factor.tolist()))
    if result.carried is not None and result.carried is not problem.model.carried:
        problem = replace(problem, model=replace(problem.model, carried=result.carried))
    return problem


@dataclass(frozen=True)
class Band:
    """What makes a band: h² = noise_j² + Σ_k (w l_k)² of a row w of joint j.

    noise (n,) [N·m | N] is 1.96 s_j, `spreads` (k, C) are t times l_k, with Σ_k l_k l_kᵀ the covariance of the base
    parameters on their columns.
    """

    noise: Array
    spreads: Array


def band_of(result: Identification) -> Band | None:
    """The band of a result; None if its deviation of rows is not known (result.json of an earlier version)."""
    if result.residual_std is None:
        return None
    factor = covariance_factor(result.covariance, result.covariance_classical)
    spreads = np.zeros((factor.shape[1], len(result.base.layout)))
    spreads[:, list(result.base.kept)] = factor.T
    two_sided = 0.5 + 0.5 * LEVEL
    reach = student.ppf(two_sided, result.clusters - 1 if result.clusters else np.inf)
    return Band(norm.ppf(two_sided) * result.residual_std, reach * spreads)


def predict(result: Identification, problem: Problem, run: Samples, most_rows: int | None = None) -> Prediction:
    """The rows of the run's window, or the first `most_rows`, by a result and by the nominal model if there is one.

    The problem gives the model, the filters and the mask; drive gains and the load of the gears are the result's.
    """
    return predict_rows(as_identified(problem, result), run, result.theta, most_rows, band_of(result))


@single_threaded
def predict_rows(
    problem: Problem, run: Samples, theta: Array, most_rows: int | None = None, band: Band | None = None
) -> Prediction:
    """The rows of the run's window, or the first `most_rows`, with standard parameters theta (C,)."""
    got, complete = 0, True
    parts = []
    for part in predicted_parts(problem, run, theta, band):
        room = len(part.t) if most_rows is None else most_rows - got
        parts.append(part if room >= len(part.t) else _of_parts([part], slice(room)))
        got += len(parts[-1].t)
        if most_rows is not None and got >= most_rows:
            complete = False
            break
    # the effect of a column is its mean square over all parts
    counts = np.array([part.scored.sum(axis=1) for part in parts])[:, :, None]
    squares = np.array([np.zeros_like(counts[0]) if part.effect is None else part.effect**2 for part in parts])
    effect = np.sqrt(np.sum(counts * squares, axis=0) / np.maximum(counts.sum(axis=0), 1))
    whole = _of_parts(parts, slice(None))
    return replace(whole, complete=complete, q=_positions(run, whole.t), effect=effect)


def _is_friction(layout: Layout) -> NDArray[np.bool_]:
    """Columns (C,) of friction and offsets: not of bodies, payloads, springs or rotors."""
    return np.array([column.kind == "term" and column.symbol != ROTOR for column in layout.columns])


def _positions(run: Samples, t: Array) -> Array:
    """Positions (n, m) of a run at times t (m,) [s]; the log is read only as far as they go."""
    times, values = [np.zeros(0)], [np.zeros((len(run.joints), 0))]
    for piece in run.open() if len(t) else ():
        start = run.stretches[piece.stretch].start + piece.first / run.rate
        times.append(start + np.arange(piece.q.shape[1]) / run.rate)
        values.append(piece.q)
        if times[-1][-1] > t[-1]:
            break
    at, q = np.concatenate(times), np.concatenate(values, axis=1)
    return np.stack([np.interp(t, at, one) for one in q]) if len(t) else values[0]


def predicted_parts(problem: Problem, run: Samples, theta: Array, band: Band | None = None) -> Iterator[Prediction]:
    """The prediction of a run part by part, without positions; the first part is empty."""
    model = problem.model
    rows, columns = model.places.T
    own = [np.flatnonzero(rows == j) for j in range(model.robot.dof)]
    nominal = model.layout.nominal
    friction = np.where(_is_friction(model.layout), theta, 0.0)
    vectors = [theta, friction, *([] if nominal is None else [nominal]), *([] if band is None else band.spreads)]
    first = 2 if nominal is None else 3
    whole = np.column_stack([model.bearing(vector, run.load) for vector in vectors])
    # the payload that a bearing adds belongs to bodies
    whole[:, 1] = np.where(_is_friction(model.layout), whole[:, 0], 0.0)

    def part(t: Array, v: Array, still: Array, y: Array, w: Array) -> Prediction:
        torques = np.stack([whole[columns[e]].T @ w[e] for e in own], axis=1)
        scored = problem.moving(v, still)
        scored[list(problem.without_rows)] = False
        effect = np.zeros((len(own), len(model.layout)))
        counts = np.maximum(scored.sum(axis=1), 1)[rows]
        effect[rows, columns] = np.sqrt(np.sum(w**2 * scored[rows], axis=1) / counts)
        half = None
        if band is not None:
            half = np.sqrt(band.noise[:, None] ** 2 + np.sum(torques[first:] ** 2, axis=0))
        return Prediction(
            run.name, run.joints, t, v, y, torques[0], None if nominal is None else torques[2], scored, True,
            other=torques[1], half=half, effect=effect, role=run.role,
        )  # fmt: skip

    # a run too short for its filters still has an (empty) prediction
    none = np.zeros((len(own), 0))
    yield part(np.zeros(0), none, none, none, np.zeros((len(rows), 0)))
    for batch in stream_rows(problem, run):
        keep = batch.inside
        yield part(batch.t[keep], batch.v[:, keep], batch.still[:, keep], batch.y[0][:, keep], batch.w[:, keep])


def _of_parts(parts: Sequence[Prediction], rows: slice) -> Prediction:
    """The arrays of several parts one after the other, `rows` of each."""

    def joined(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate([x[..., rows] for x in arrays], axis=-1)

    names = ("t", "v", "measured", "predicted", "nominal", "scored", "other", "half")
    return replace(parts[0], **{name: joined(name) for name in names})
