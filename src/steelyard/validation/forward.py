"""Forward validation: the identified robot simulated with unseen references, compared with the measurement."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.errors import DataError, ModelError
from steelyard.estimators.simulated.base import driven_again
from steelyard.identification.prediction import as_identified
from steelyard.identification.result import Identification
from steelyard.regression.decimation import DecimationStream
from steelyard.regression.observe import TILE, Progress
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples


@dataclass(frozen=True)
class ForwardScore:
    """Errors of one joint: root mean square and largest, of position [rad | m] and torque [N·m | N], and the torque's
    ‖τ − τ_s‖/‖τ‖."""

    position_rms: float
    position_max: float
    torque_rms: float
    torque_max: float
    torque_relative: float


@dataclass(frozen=True)
class ForwardValidation:
    """Difference between the simulated and the measured robot under the same references and controller, by joint.

    Position and torque are compared after the problem's parallel filter, including rest; `torque_relative` pools the
    squares of all joints. `approximate` says why the references are not the commanded ones.
    """

    robot: str
    joints: dict[str, ForwardScore]
    torque_relative: float
    rows: int
    approximate: str = ""

    @property
    def verdict(self) -> str:
        position = max(one.position_rms for one in self.joints.values())
        doubt = f" ({self.approximate})" if self.approximate else ""
        return (
            f"Simulated with unseen references, the identified robot deviates by {position:.2g} rad (m) RMS from the "
            f"measured positions and by {self.torque_relative:.1%} of the torque{doubt}."
        )


@single_threaded
def forward_validation(result: Identification, problem: Problem, progress: Progress | None = None) -> ForwardValidation:
    """Simulate the problem's runs, which the fit has not used, with the result's parameters under its experiment, and
    compare."""
    experiment = problem.experiment
    if experiment is None:
        raise DataError(
            "Forward validation simulates the robot: the problem needs an experiment, i.e. references ([channels] "
            "reference) and a [controller]."
        )
    if result.base.layout.names != problem.model.layout.names:
        raise ModelError("The result and the problem have different columns: use the same robot and terms.")
    problem = as_identified(problem, result)
    driven = driven_again(problem, np.nan_to_num(result.theta), progress)
    rows = [_compared(problem, run, driven[run.name]) for run in problem.runs]
    position, torque, effort = (np.concatenate(x, axis=1) for x in zip(*rows, strict=True))
    if not position.shape[1]:
        raise DataError("No rows are left to compare after filtering: record longer, or raise lowpass_hz.")

    def rms(x: Array) -> Array:
        return np.sqrt(np.mean(x**2, axis=1))

    size = rms(effort)
    relative = np.divide(rms(torque), size, out=np.full(len(size), np.nan), where=size > 0.0)
    columns = (rms(position), np.max(np.abs(position), axis=1), rms(torque), np.max(np.abs(torque), axis=1), relative)
    scores = (ForwardScore(*map(float, one)) for one in zip(*columns, strict=True))
    return ForwardValidation(
        result.robot,
        dict(zip(problem.model.robot.axis_names, scores, strict=True)),
        float(np.linalg.norm(torque) / max(np.linalg.norm(effort), np.finfo(float).tiny)),
        position.shape[1],
        experiment.approximate,
    )


def _compared(problem: Problem, run: Samples, driven: Samples) -> tuple[Array, Array, Array]:
    """Filtered rows (n, m) of a run: errors of position and torque, and the measured torque."""
    n, decimator = len(run.joints), problem.decimator(run)
    simulated = {piece.stretch: piece for piece in driven.open()}
    found = [np.empty((3 * n, 0))]
    for k, pieces in groupby(run.open(), key=attrgetter("stretch")):
        stretch, made = run.stretches[k], simulated[k]
        parts = [(piece.q, problem.torque(piece.effort)) for piece in pieces]
        q, effort = (np.concatenate(x, axis=1) for x in zip(*parts, strict=True))
        both = np.concatenate([q - made.q, effort - made.effort, effort])[:, slice(*stretch.clean)]
        stream = DecimationStream(decimator)
        for first in range(0, both.shape[1], TILE):
            for number, rows in stream.push(both[:, first : first + TILE]):
                at = stretch.clean[0] + (number + np.arange(rows.shape[1])) * decimator.factor + decimator.half
                found.append(rows[:, (at >= stretch.window[0]) & (at < stretch.window[1])])
    position, torque, effort = np.split(np.concatenate(found, axis=1), 3)
    return position, torque, effort
