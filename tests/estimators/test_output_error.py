"""Output error: the truth from torques, positions or both; sensitivities; halving; error bars; what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

import steelyard.estimators.simulated.output_error as module
from steelyard._arrays import Array
from steelyard.errors import EstimationError, SimulationError
from steelyard.estimators.simulated.base import driven_again
from steelyard.estimators.simulated.didim import DIDIM
from steelyard.estimators.simulated.output_error import OutputErrorMethod, Outputs, unit_steps
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Loop
from testbed.closed_loop import (
    NOMINAL,
    dense,
    exact_problem,
    logged_problem,
    plant_of,
    small,
    the_finding,
    truth_of_base,
)

SHORT = replace(NOMINAL, duration=6.0)


def with_gains(problem: Problem, loop: Loop | None = None) -> Problem:
    """The problem with the controller's gains as numbers, whatever plant is simulated."""
    assert problem.experiment is not None
    gains = problem.experiment.control(plant_of(problem.model))
    experiment = replace(problem.experiment, control=lambda _: gains, loop=loop or problem.experiment.loop)
    return replace(problem, experiment=experiment)


def lighter(model: Model) -> Model:
    """The model of a robot file whose inertias are a fifth too small."""
    links = [replace(x, inertia=None if x.inertia is None else 0.8 * x.inertia) for x in model.robot.links]
    return replace(model, robot=replace(model.robot, links=tuple(links)))


# --- Values -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("on", ["torque", "position", "both"])
def test_the_truth_is_found_from_a_wrong_start(on: str) -> None:
    model = small()
    problem = with_gains(exact_problem(model, SHORT))
    wrong = replace(problem, model=lighter(model))
    result = identify(wrong, OutputErrorMethod(on=on, start="nominal", tolerance=1e-5))
    found = np.isfinite(result.value)
    # the integral of the controller hides offsets where positions alone are compared
    hidden = ["joint1.off", "joint2.off"] if on == "position" else []
    assert [name for name, yes in zip(result.base.names, found, strict=True) if not yes] == hidden
    truth = truth_of_base(model)[found]
    assert np.max(np.abs(result.value[found] - truth) / np.maximum(np.abs(truth), 0.05)) < 1e-3


@pytest.mark.slow
def test_exact_sensitivities_give_what_didim_gives() -> None:
    """Input error with (14)–(15) against the approximation (17) of DIDIM."""
    problem = exact_problem(small(), SHORT, noise=0.05)
    exact, approximate = identify(problem, OutputErrorMethod(tolerance=1e-4)), identify(problem, DIDIM(tolerance=1e-4))
    assert np.max(np.abs(exact.value - approximate.value) / exact.std) < 0.1
    np.testing.assert_allclose(exact.std, approximate.std, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("bandwidths", [(10.0, 30.0), (2.0, 6.0)])
def test_sensitivities_of_torques_are_nearly_the_columns_of_the_simulated_motion(
    bandwidths: tuple[float, float],
) -> None:
    """∂τ_s/∂θ ≈ Φ(q_s, q̇_s, q̈_s) (P4 eq. 17): the better, the tighter the loop."""
    model = small()
    setting = replace(SHORT, position_hz=bandwidths[0], velocity_hz=bandwidths[1])
    problem = exact_problem(model, setting)
    base, truth = base_parameters(model), truth_of_base(model)
    outputs = Outputs.of(problem, base, "torque")
    steps = 1e-3 * unit_steps(observe(problem), base)
    (exact,) = outputs.sensitivities(truth, outputs.simulated(truth), steps)
    z, _ = dense(problem, driven_again(problem, base.theta(truth))["run"])
    columns = z[:, :, list(base.kept)].transpose(2, 0, 1)
    difference = np.linalg.norm(exact - columns, axis=(1, 2)) / np.linalg.norm(columns, axis=(1, 2))
    tight = bandwidths[0] > 5.0
    assert np.median(difference) < (0.02 if tight else 0.3)
    assert np.median(difference) > (1e-4 if tight else 0.02)


@pytest.mark.slow
def test_sensitivities_do_not_hang_on_the_step() -> None:
    model = small()
    problem = exact_problem(model, SHORT)
    base, truth = base_parameters(model), truth_of_base(model)
    outputs = Outputs.of(problem, base, "both")
    said, unit = outputs.simulated(truth), unit_steps(observe(problem), base)
    (coarse,), (fine,) = (outputs.sensitivities(truth, said, step * unit) for step in (1e-3, 1e-4))
    size = np.linalg.norm(fine, axis=2)
    assert np.all(np.linalg.norm(coarse - fine, axis=2) <= 0.01 * size + 1e-6 * size.max())


def test_the_step_of_a_parameter_is_told_by_its_torque() -> None:
    model = small()
    problem = exact_problem(model, SHORT)
    base = base_parameters(model)
    w, y = dense(problem, problem.runs[0])
    sizes = np.linalg.norm(w[:, :, list(base.kept)], axis=1)
    with np.errstate(divide="ignore"):
        expected = np.min(np.linalg.norm(y, axis=1)[:, None] / sizes, axis=0)
    np.testing.assert_allclose(unit_steps(observe(problem), base), expected, rtol=1e-9)


def test_encoder_errors_of_the_loop_are_read_like_the_log() -> None:
    """With an encoder ratio in the simulator the joints go elsewhere, the readings do not."""
    model = small()
    problem = with_gains(exact_problem(model, SHORT), Loop(encoder_ratio=0.9, encoder_offset=0.05))
    base = base_parameters(model)
    outputs = Outputs.of(problem, base, "position")
    (said,) = outputs.simulated(truth_of_base(model))
    assert np.max(np.abs(said - outputs.seen[0].measured)) < 0.02
    run = driven_again(problem, base.theta(truth_of_base(model)))["run"]
    (piece,), (logged,) = run.open(), problem.runs[0].open()
    assert np.max(np.abs(piece.q - logged.q)) > 0.1


def test_late_efforts_and_rows_of_a_delay_are_compared_on_time() -> None:
    model = small()
    problem = exact_problem(model, SHORT)
    (piece,) = problem.runs[0].open()
    late = np.roll(piece.effort, 5, axis=1)
    run = Samples.from_arrays("run", problem.runs[0].joints, SHORT.rate_hz, piece.q, piece.v, piece.a, late)
    delayed = replace(problem, runs=[run], delay=[5.0 / SHORT.rate_hz] * 2)
    outputs = Outputs.of(delayed, base_parameters(model), "both")
    (said,) = outputs.simulated(truth_of_base(model))
    (seen,) = outputs.seen
    difference = (said - seen.measured)[:, 5:-5]
    assert np.max(np.abs(difference)) < 1e-6 * np.max(np.abs(seen.measured))


# --- Error bars -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_intervals_cover() -> None:
    model = small()
    truth = truth_of_base(model)
    held = []
    for seed in range(8):
        result = identify(exact_problem(model, SHORT, noise=0.1, seed=seed), OutputErrorMethod())
        reach = student.ppf(0.975, result.clusters - 1) * result.std
        held.append(np.abs(result.value - truth) <= reach)
    assert 0.88 <= np.mean(held) <= 1.0


@pytest.mark.slow
def test_positions_beside_torques_help_where_they_are_good() -> None:
    # simulated commands are held like those of the log
    problem = replace(with_gains(logged_problem(small(), replace(SHORT, torque_noise=0.1), 1)), delay=())
    alone, beside = identify(problem, OutputErrorMethod()), identify(problem, OutputErrorMethod(on="both"))
    assert np.median(beside.std / alone.std) < 1.0
    assert "position of" not in " ".join(beside.base.names)


@pytest.mark.slow
def test_ratio_cancels_what_is_uncertain() -> None:
    result = identify(exact_problem(small(), SHORT, noise=0.1), OutputErrorMethod(ratio=15.0))
    gone = np.isin(result.base.names, result.cancelled)
    assert gone.any()
    np.testing.assert_array_equal(result.value[gone], 0.0)
    assert np.all(np.isfinite(result.std[~gone]))


# --- Iterations -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_step_that_cannot_be_simulated_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    problem = with_gains(exact_problem(model, SHORT, noise=0.02))
    driven, asked = module.driven_again, []
    count = 1 + len(base_parameters(model))

    def failing(problem: Problem, theta: Array, *rest: object) -> dict[str, Samples]:
        asked.append(theta)
        if count < len(asked) <= count + 2:
            raise SimulationError("no inertia left")
        return driven(problem, theta)

    monkeypatch.setattr(module, "driven_again", failing)
    result = identify(replace(problem, model=lighter(model)), OutputErrorMethod(start="nominal"))
    first = asked[0]
    np.testing.assert_allclose(asked[count + 1] - first, 0.5 * (asked[count] - first), atol=1e-12)
    np.testing.assert_allclose(asked[count + 2] - first, 0.25 * (asked[count] - first), atol=1e-12)
    assert "halved 2×" in the_finding(result.findings, "iterations").message


@pytest.mark.slow
def test_the_sum_never_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    problem = with_gains(exact_problem(model, SHORT, noise=0.02))
    overshooting = module.solve
    # three times the step of Gauss and Newton lands further away than it began
    start = base_parameters(model).map @ np.asarray(lighter(model).layout.nominal)
    calls = []

    def wild(*args: object, **options: object) -> object:
        found = overshooting(*args, **options)  # type: ignore[arg-type]
        calls.append(1)
        return replace(found, value=start + 3.0 * (found.value - start)) if len(calls) == 1 else found

    monkeypatch.setattr(module, "solve", wild)
    result = identify(replace(problem, model=lighter(model)), OutputErrorMethod(start="nominal"))
    told = the_finding(result.findings, "iterations").message
    assert "halved" in told.split(";")[0]


def test_a_sensitivity_is_taken_backwards_where_forwards_cannot_be_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    problem = exact_problem(model, SHORT)
    base, truth = base_parameters(model), truth_of_base(model)
    outputs = Outputs.of(problem, base, "torque")
    said, steps = outputs.simulated(truth), np.zeros(len(base))
    k = base.names.index("joint2.Fv")
    steps[k] = 0.01
    (forwards,) = outputs.sensitivities(truth, said, steps)
    driven = module.driven_again

    def failing(problem: Problem, theta: Array, *rest: object) -> dict[str, Samples]:
        if theta[base.kept[k]] > truth[k]:
            raise SimulationError("too much")
        return driven(problem, theta)

    monkeypatch.setattr(module, "driven_again", failing)
    (backwards,) = outputs.sensitivities(truth, said, steps)
    np.testing.assert_allclose(backwards[k], forwards[k], atol=0.02 * np.max(np.abs(forwards[k])))

    def hopeless(*_: object) -> dict[str, Samples]:
        raise SimulationError("nothing moves.")

    monkeypatch.setattr(module, "driven_again", hopeless)
    with pytest.raises(
        EstimationError, match=r"joint2\.Fv = 1.5 cannot be simulated when changed by 0.01 .* nothing moves\."
    ):
        outputs.sensitivities(truth, said, steps)


def test_too_few_iterations_are_a_warning() -> None:
    problem = with_gains(exact_problem(small(), SHORT, noise=0.02))
    wrong = replace(problem, model=lighter(problem.model))
    result = identify(wrong, OutputErrorMethod(start="nominal", most=1))
    assert the_finding(result.findings, "not-converged").severity == "warning"


# --- What is refused --------------------------------------------------------------------------------------------------


def test_positions_alone_do_not_weigh_a_robot_whose_controller_is_tuned_to_it() -> None:
    with pytest.raises(EstimationError, match="the scale of the inertias"):
        identify(exact_problem(small(), SHORT), OutputErrorMethod(on="position"))


def test_a_start_that_cannot_be_simulated_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> dict[str, Samples]:
        raise SimulationError("no inertia left to move.")

    monkeypatch.setattr(module, "driven_again", failing)
    with pytest.raises(EstimationError, match=r"start 'wls' cannot be simulated: no inertia left"):
        identify(exact_problem(small(), SHORT), OutputErrorMethod())


def test_without_an_experiment_it_is_asked_for() -> None:
    with pytest.raises(EstimationError, match="add an experiment"):
        identify(replace(exact_problem(small(), SHORT), experiment=None), OutputErrorMethod())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on": "velocity"}, "torque, position, both"),
        ({"step": 0.0}, "step is a fraction"),
        ({"most": 0}, "most must be"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(EstimationError, match=said):
        OutputErrorMethod(**options)  # type: ignore[arg-type]
