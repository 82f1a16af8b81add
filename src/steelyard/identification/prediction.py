"""Prediction: measured and predicted effort per row, from a second pass for figures and whiteness."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array, single_threaded
from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.regression.observe import stream_rows
from steelyard.regression.problem import Problem
from steelyard.regression.statistics import positive_autocorrelation
from steelyard.signals.samples import Samples


@dataclass(frozen=True)
class Prediction:
    """One run's rows: t (m,) [s]; measured, predicted, nominal (n, m) [N·m | N]; scored (n, m) by the mask."""

    run: str
    joints: tuple[str, ...]
    t: Array
    v: Array
    measured: Array
    predicted: Array
    nominal: Array | None
    scored: NDArray[np.bool_]
    complete: bool


def as_identified(problem: Problem, result: Identification) -> Problem:
    """The problem with the other values found by a result: drive gains, and the inertias for load friction."""
    if result.gains is not None:
        problem = replace(problem, factor=tuple(result.gains.factor.tolist()))
    if result.carried is not None and result.carried is not problem.model.carried:
        problem = replace(problem, model=replace(problem.model, carried=result.carried))
    return problem


@single_threaded
def predict(problem: Problem, run: Samples, theta: Array, most_rows: int = 4000) -> Prediction:
    """The first `most_rows` rows of the run's window with theta (C,), and with the nominal model if there is one."""
    model = problem.model
    n = model.robot.dof
    thetas = [theta] if model.layout.nominal is None else [theta, model.layout.nominal]
    thetas = [model.bearing(values, run.load) for values in thetas]
    rows, columns = model.places.T
    empty = np.zeros((n, 0))
    # a run too short for its filters still has an (empty) prediction
    parts: list[tuple[Array, ...]] = [(np.zeros(0), empty, empty, empty, *[empty] * len(thetas))]
    got, complete = 0, True
    for batch in stream_rows(problem, run):
        keep = np.flatnonzero(batch.inside)[: most_rows - got]
        if len(keep):
            torques = np.zeros((len(thetas), n, len(keep)))
            for k, values in enumerate(thetas):
                np.add.at(torques[k], rows, values[columns][:, None] * batch.w[:, keep])
            parts.append((batch.t[keep], batch.v[:, keep], batch.still[:, keep], batch.y[0][:, keep], *torques))
            got += len(keep)
        if got >= most_rows:
            complete = False
            break
    t, v, still, y, *torques = (np.concatenate(x, axis=-1) for x in zip(*parts, strict=True))
    scored = problem.moving(v, still)
    scored[list(problem.without_rows)] = False
    return Prediction(
        run.name, run.joints, t, v, y, torques[0], torques[1] if len(torques) > 1 else None, scored, complete
    )


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
