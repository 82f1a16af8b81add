"""Shared by the estimators that simulate: simulation of the runs with an estimate, and iterations that end (P4 §II)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError, SimulationError, choices
from steelyard.estimators.essential import eliminate
from steelyard.estimators.estimator import SIMULATION, Estimate, Estimator, estimated, problem_to_simulate
from steelyard.estimators.least_squares import DATA_TOLERANCE, joint_deviations
from steelyard.estimators.wls import WLS
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters, independent_columns
from steelyard.regression.information import Information, stacked
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Piece, Samples
from steelyard.simulation.closed_loop import simulate
from steelyard.simulation.controllers import Controller
from steelyard.simulation.plant import Plant

# Number of times that an estimate which cannot be simulated is moved half way back to the one before.
MOST_HALVINGS = 8
STARTS = ("wls", "nominal")
# A parameter with a smaller relative σ is never cancelled.
CERTAIN = 0.01
# The change of a parameter below this many standard deviations is measured relative to these, not to its value.
_NOISE = 3.0


class Begin(NamedTuple):
    """Start of a fit that simulates: 1/σ_j (n,), which base parameters the measured motion excites and which of these
    take part, both (b,), the first values (b,), and the weighted least squares on the measured motion."""

    weights: Array
    shown: NDArray[np.bool_]
    used: NDArray[np.bool_]
    value: Array
    plain: Estimate

    @property
    def held(self) -> NDArray[np.bool_]:
        """Excited, and cancelled."""
        return self.shown & ~self.used

    @property
    def std(self) -> Array:
        return np.sqrt(np.nan_to_num(np.diagonal(self.plain.covariance)))


@dataclass(frozen=True)
class SimulatingEstimator(Estimator):
    """An estimator that simulates the runs of the problem under its experiment.

    It simulates and solves until values and residual change by less than `tolerance`, at most `most` times; `start` is
    "nominal" or "wls"; `ratio` cancels uncertain parameters first, as `essential` does.
    """

    tolerance: float = 0.025
    most: int = 20
    start: str = "wls"
    ratio: float | None = None
    name: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset({SIMULATION})

    def __post_init__(self) -> None:
        if self.ratio is not None and not (isinstance(self.ratio, int | float) and 1.0 <= self.ratio < np.inf):
            raise EstimationError(f"ratio must be at least 1 (the papers use 10 to 30), not {self.ratio!r}.")
        if not 0.0 < self.tolerance < 1.0:
            raise EstimationError(f"tolerance must be between 0 and 1 (the papers use 0.025), not {self.tolerance!r}.")
        if isinstance(self.most, bool) or not (isinstance(self.most, int) and self.most >= 1):
            raise EstimationError(f"most must be a whole number of at least 1, not {self.most!r}.")
        if self.start not in STARTS:
            raise EstimationError(choices("start", self.start, STARTS))

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        """The estimate from the problem's runs and their information on the measured motion."""
        problem = problem_to_simulate(self, problem)
        weights = weights_of(information, base)
        shown, used = _part_taking(information, base, weights, self.ratio)
        plain = estimated(WLS(), problem, base, information)
        start, nominal = np.nan_to_num(plain.value), nominal_values(problem, base)
        if self.start == "nominal":
            if nominal is None:
                raise EstimationError(
                    'The robot file gives no nominal inertias to start a simulation from: use start = "wls".'
                )
            start = nominal
        begin = Begin(weights, shown, used, np.where(used, start, 0.0), plain)
        return self._from(begin, problem, base, information, progress)

    @abstractmethod
    def _from(
        self,
        begin: Begin,
        problem: Problem,
        base: BaseParameters,
        information: Information,
        progress: Progress | None,
    ) -> Estimate:
        """The estimate, from its start."""


class Iteration(NamedTuple):
    """One step: the simulated values, the residual ‖y − Wθ‖ or ‖y − Zθ‖ after it in units of σ, the largest relative
    change and its parameter, and the number of times the step was halved."""

    value: Array
    residual: float
    change: float
    worst: str
    halvings: int


@dataclass(frozen=True)
class Iterated:
    """A finished iteration: the last information with instruments, its values, and every step."""

    information: Information
    value: Array
    steps: tuple[Iteration, ...]
    converged: bool

    def findings(self, name: str, tolerance: float) -> tuple[Finding, ...]:
        told = "; ".join(
            f"{k}: {step.change:.2%} ({step.worst}), residual {step.residual:.5g}"
            + (f", halved {step.halvings}×" if step.halvings else "")
            for k, step in enumerate(self.steps, start=1)
        )
        if self.converged:
            return (Finding("iterations", "info", f"{name} converged in {len(self.steps)} iterations. {told}"),)
        return (
            Finding(
                "not-converged",
                "warning",
                f"{name} did not converge to {tolerance:.2%} in {len(self.steps)} iterations. {told}",
                fix="check the controller, the reference and the start; or allow more iterations",
            ),
        )


def driven_again(problem: Problem, theta: Array, progress: Progress | None = None) -> dict[str, Samples]:
    """The runs simulated by the model with theta (C,), on the runs' own clocks and stretches."""
    experiment = problem.experiment
    assert experiment is not None
    plants: dict[str, Plant] = {run.load: Plant(problem.model, theta, run.load) for run in problem.runs}
    controllers = {load: experiment.control(plant) for load, plant in plants.items()}
    return {run.name: _driven(problem, run, plants[run.load], controllers[run.load], progress) for run in problem.runs}


def _driven(problem: Problem, run: Samples, plant: Plant, controller: Controller, progress: Progress | None) -> Samples:
    experiment = problem.experiment
    assert experiment is not None
    pieces = []
    for k, reference in enumerate(experiment.references[run.name]):
        made = simulate(plant, controller, reference, run.rate, experiment.loop, progress)
        pieces.append(Piece(k, 0, made.q, made.v, made.a, made.tau))
    return replace(run, open=lambda: iter(pieces), history=("simulated",))


def instrument_columns(base: BaseParameters, kept: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """The columns of the simulated motion that correspond to the layout columns `kept`."""
    return len(base.layout) + np.asarray(kept)


def weights_of(information: Information, base: BaseParameters) -> Array:
    """1/σ_j of each joint's own least squares on the measured motion, zero for joints without rows, (n,)."""
    return np.nan_to_num(1.0 / joint_deviations(information.without_known(), base), posinf=0.0)


def _part_taking(
    information: Information, base: BaseParameters, weights: Array, ratio: float | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which base parameters (b,) the measured motion excites, and which take part: with a ratio, the essential ones."""
    whole = stacked(information.without_known(), base.kept, weights)
    free = list(independent_columns(whole[:, :-1], DATA_TOLERANCE).kept)
    shown = np.zeros(len(base), bool)
    shown[free] = True
    used = shown.copy()
    if ratio is not None:
        rows = int(information.rows()[weights > 0].sum())
        used[[step.parameter for step in eliminate(whole, free, rows, ratio, CERTAIN)]] = False
        # a light joint without rotor inertia has too little inertia to be simulated
        used |= shown & [base.layout.columns[k].symbol == "Ia" for k in base.kept]
    return shown, used


def nominal_values(problem: Problem, base: BaseParameters) -> Array | None:
    """The robot file's base parameters (b,), None where it gives no inertias."""
    nominal = problem.model.layout.nominal
    return None if nominal is None else base.map @ nominal


def largest_change(value: Array, before: Array, std: Array) -> tuple[float, int]:
    """The largest relative change of values (b,), and its parameter; a value below three σ is compared with three σ."""
    size = np.maximum(np.abs(value), _NOISE * std)
    moved = np.divide(np.abs(value - before), size, out=np.zeros_like(value), where=size > 0.0)
    return float(moved.max()), int(np.argmax(moved))


def iterate(
    problem: Problem,
    base: BaseParameters,
    begin: Begin,
    step: Callable[[Information], tuple[Array, float]],
    tolerance: float,
    most: int,
    progress: Progress | None = None,
) -> Iterated:
    """Simulate, observe both motions, `step` to new values (b,) and their residual, until both settle.

    They have settled when no value changes by more than `tolerance` relative to itself (or to three σ, where it is less
    than that), nor the residual. An estimate that cannot be simulated is moved back towards the last that could, at the
    first step towards the robot file's nominal values. Parameters that the motion does not excite are simulated with
    their nominal values.
    """
    nominal = nominal_values(problem, base)
    value = begin.value
    before = value if nominal is None else np.where(begin.used, nominal, 0.0)
    unseen = np.zeros(len(base)) if nominal is None else np.where(begin.shown, 0.0, nominal)
    steps: list[Iteration] = []
    last = np.inf
    while True:
        simulated, value, halvings = _simulated(problem, base, value, before, unseen, progress)
        information = observe(problem, progress=progress, instruments=simulated).without_known()
        before = value
        value, residual = step(information)
        change, worst = largest_change(value, before, begin.std)
        steps.append(Iteration(before, residual, change, base.names[worst], halvings))
        settled = change <= tolerance and abs(residual - last) <= tolerance * residual
        if settled or len(steps) >= most:
            return Iterated(information, value, tuple(steps), bool(settled))
        last = residual


def _simulated(
    problem: Problem, base: BaseParameters, value: Array, before: Array, unseen: Array, progress: Progress | None
) -> tuple[dict[str, Samples], Array, int]:
    """The runs simulated with a value, or with one nearer to that of the step before if it cannot be simulated."""
    told = ""
    for halvings in range(MOST_HALVINGS + 1):
        try:
            return driven_again(problem, base.theta(value + unseen), progress), value, halvings
        except SimulationError as error:
            told = str(error)
            value = 0.5 * (value + before)
    raise EstimationError(
        f"The estimate cannot be simulated, nor can {MOST_HALVINGS} values between it and the previous one: {told} Try "
        "the other start, check the bandwidth of the controller, or cancel parameters that the motion does not excite "
        "(ratio)."
    )
