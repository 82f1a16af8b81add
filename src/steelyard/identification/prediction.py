"""Prediction: measured and predicted effort per row, from a second pass for figures and whiteness."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array, single_threaded
from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.model.parameters import Layout
from steelyard.regression.observe import stream_rows
from steelyard.regression.problem import Problem
from steelyard.regression.statistics import positive_autocorrelation
from steelyard.signals.samples import Samples

# Symbol of the inertia of a rotor.
ROTOR = "Ia"


@dataclass(frozen=True)
class Prediction:
    """One run's rows: t (m,) [s]; measured, predicted, nominal (n, m) [N·m | N]; scored (n, m) by the mask.

    q       positions (n, m) [rad | m] of the axes at t
    other   the part (n, m) of `predicted` that is not of bodies, rotors, payloads or springs: friction and offsets
    half    half the width (n, m) of the 95 % band of one row: 2 √(σ_j² + w Σ wᵀ), with the RMSE σ_j of the fit and the
            covariance Σ of the base parameters
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


def as_identified(problem: Problem, result: Identification) -> Problem:
    """The problem with the other values found by a result: drive gains, and the inertias for load friction."""
    if result.gains is not None:
        problem = replace(problem, factor=tuple(result.gains.factor.tolist()))
    if result.carried is not None and result.carried is not problem.model.carried:
        problem = replace(problem, model=replace(problem.model, carried=result.carried))
    return problem


@single_threaded
def predict(
    problem: Problem, run: Samples, theta: Array, most_rows: int = 4000, result: Identification | None = None
) -> Prediction:
    """The first `most_rows` rows of the run's window with theta (C,), and with the nominal model if there is one.

    `result` adds the band of a prediction.
    """
    model = problem.model
    n = model.robot.dof
    thetas = [theta] if model.layout.nominal is None else [theta, model.layout.nominal]
    thetas = [model.bearing(values, run.load) for values in thetas]
    thetas.append(np.where(_is_friction(model.layout), thetas[0], 0.0))
    rows, columns = model.places.T
    empty = np.zeros((n, 0))
    squares, counts = np.zeros(len(rows)), np.zeros(n)
    # a run too short for its filters still has an (empty) prediction
    parts: list[tuple[Array, ...]] = [(np.zeros(0), empty, empty, empty, empty, *[empty] * len(thetas))]
    got, complete = 0, True
    for batch in stream_rows(problem, run):
        keep = np.flatnonzero(batch.inside)[: most_rows - got]
        if len(keep):
            torques = np.zeros((len(thetas), n, len(keep)))
            for k, values in enumerate(thetas):
                np.add.at(torques[k], rows, values[columns][:, None] * batch.w[:, keep])
            v, still = batch.v[:, keep], batch.still[:, keep]
            moving = problem.moving(v, still)
            squares += np.sum(batch.w[:, keep] ** 2 * moving[rows], axis=1)
            counts += moving.sum(axis=1)
            spread = np.zeros((n, len(keep))) if result is None else _spread(result, rows, columns, batch.w[:, keep])
            parts.append((batch.t[keep], v, still, spread, batch.y[0][:, keep], *torques))
            got += len(keep)
        if got >= most_rows:
            complete = False
            break
    t, v, still, spread, y, *torques = (np.concatenate(x, axis=-1) for x in zip(*parts, strict=True))
    scored = problem.moving(v, still)
    scored[list(problem.without_rows)] = False
    effect = np.zeros((n, len(model.layout)))
    effect[rows, columns] = np.sqrt(squares / np.maximum(counts, 1.0)[rows])
    rmse = None if result is None else np.nan_to_num([result.relative_error.rmse.get(j, 0.0) for j in run.joints])
    return Prediction(
        run.name, run.joints, t, v, y, torques[0], torques[1] if len(torques) > 2 else None, scored, complete,
        q=_positions(run, t), other=torques[-1], effect=effect, role=run.role,
        half=None if rmse is None else 2.0 * np.sqrt(rmse[:, None] ** 2 + spread),
    )  # fmt: skip


def _is_friction(layout: Layout) -> NDArray[np.bool_]:
    """Columns (C,) of friction and offsets: not of bodies, payloads, springs or rotors."""
    return np.array([column.kind == "term" and column.symbol != ROTOR for column in layout.columns])


def _spread(result: Identification, rows: NDArray[np.int64], columns: NDArray[np.int64], w: Array) -> Array:
    """w Σ wᵀ (n, m): the variance of each prediction that comes from the parameters; zero for those without one."""
    place = np.full(len(result.base.layout), -1)
    place[list(result.base.kept)] = np.arange(len(result.base))
    covariance = np.nan_to_num(result.covariance, posinf=0.0, neginf=0.0)
    out = np.zeros((int(rows.max()) + 1, w.shape[1]))
    for j in range(len(out)):
        own = (rows == j) & (place[columns] >= 0)
        kept = place[columns[own]]
        out[j] = np.sum((covariance[np.ix_(kept, kept)] @ w[own]) * w[own], axis=0)
    return np.maximum(out, 0.0)


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


def correlation_rows(residual: Array) -> float:
    """Integrated correlation time in rows, 1 + 2 Σ ρ_k over the initial positive part of the autocorrelation."""
    return 1.0 if len(residual) < 8 else float(1.0 + 2.0 * positive_autocorrelation(residual).sum())


def correlation_finding(predictions: tuple[Prediction, ...], clusters: int) -> tuple[Finding, ...]:
    """A finding when residuals stay correlated for longer than a third of a left-out block."""
    if not clusters or not predictions:
        return ()
    rows = sum(len(p.t) for p in predictions)
    block = rows / clusters
    worst, joint = 0.0, ""
    for p in predictions:
        for j, name in enumerate(p.joints):
            if p.scored[j].sum() > 8:
                length = correlation_rows((p.measured - p.predicted)[j, p.scored[j]])
                worst, joint = max((worst, joint), (length, name))
    if worst <= block / 3 or not all(p.complete for p in predictions):
        return ()
    return (
        Finding(
            "long-correlation",
            "warning",
            f"residuals of {joint} are correlated over {worst:.0f} rows, and a block of time has {block:.0f}: error "
            "bars are too narrow",
            joint,
            "record longer, or add the terms that the residual shows",
        ),
    )
