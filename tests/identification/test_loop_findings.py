"""Runs that leave the reach of a robot's legs, or pass a singularity: told, and left out of fits and scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators import WLS
from steelyard.findings import Finding
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.identification.legs import loop_findings
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.terms import Rotor, Viscous
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.validation import validate

RATE = 500.0
# Forearms so short that the legs come to an end within the motion.
FIVE_BAR = """\
name = "short"
convention = "mdh"
gravity = [0, -9.80665, 0]
actuated = ["m1", "m2"]
home = { m1 = "2pi/3", e1 = -1, m2 = "pi/3", e2 = 1 }

[[joint]]
name = "m1"
lower = 2.0
upper = 2.2
[[joint]]
name = "e1"
d = 0.22
[[joint]]
name = "m2"
parent = "base"
d = 0.16
lower = 0.9
upper = 1.1
[[joint]]
name = "e2"
d = 0.22

[[loop]]
kind = "axis"
links = ["link2", "link4"]
points = [[0.25, 0, 0], [0.25, 0, 0]]
"""


@pytest.fixture
def model(tmp_path: Path) -> Model:
    (tmp_path / "short.toml").write_text(FIVE_BAR, "utf-8")
    return Model(read_robot(tmp_path / "short.toml"), [Rotor(), Viscous()])


def swing(
    model: Model, size: float, name: str = "run", seconds: float = 12.0
) -> tuple[Samples, Array, NDArray[np.bool_]]:
    """A run of the true robot with exact derivatives, the truth, and where (N,) its loops do not close; its efforts
    there are nonsense."""
    assert model.looped is not None
    home = model.looped.closure.home[model.robot.axis_index][:, None]
    t = np.arange(int(RATE * seconds)) / RATE
    q, v, a = home + np.zeros((2, len(t))), np.zeros((2, len(t))), np.zeros((2, len(t)))
    rng = np.random.default_rng(1)
    for f in (0.3, 0.7, 1.1):
        w, amount, phase = 2.0 * np.pi * f, size * rng.uniform(0.5, 1.0, (2, 1)), rng.uniform(0.0, 6.0, (2, 1))
        # starts at home, both ways
        q += amount * (np.sin(w * t + phase) - np.sin(phase))
        v += amount * w * np.cos(w * t + phase)
        a -= amount * w**2 * np.sin(w * t + phase)
    truth = np.random.default_rng(2).uniform(0.5, 1.5, len(model.layout))
    effort = model.torque(q, v, a, truth)
    lost: NDArray[np.bool_] = np.asarray(np.isnan(effort).any(axis=0))
    effort[:, lost] = 1e3
    return Samples.from_arrays(name, model.robot.axis_names, RATE, q, v, a, effort), truth, lost


def told(findings: tuple[Finding, ...], code: str) -> list[str]:
    return [finding.message for finding in findings if finding.code == code]


def test_a_motion_within_reach_has_nothing_to_tell(model: Model) -> None:
    run, _, lost = swing(model, 0.05)
    assert not lost.any()
    assert list(loop_findings(model, [run])) == []


@pytest.mark.slow
def test_lost_samples_are_told_and_left_out_of_the_fit(model: Model) -> None:
    run, truth, lost = swing(model, 0.5)
    assert 0.05 < lost.mean() < 0.6
    problem = Problem(model, [run], lowpass_hz=10.0, decimate=10, rest=0.0)
    result = identify(problem, WLS())
    (message,) = told(result.findings, "loop-not-closed")
    assert f"at {lost.sum()} samples, first at t = {np.argmax(lost) / RATE:.4g} s" in message
    # one row that such a sample reaches, 1e3 N·m off, would spoil this
    expected = base_parameters(model).map @ truth
    # filtering in parallel commutes with all but rounding
    np.testing.assert_allclose(result.value, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert result.relative_error.total < 1e-8
    assert sum(result.relative_error.rows.values()) < 2 * (len(lost) / 10) * (1.0 - lost.mean())


@pytest.mark.slow
def test_lost_samples_are_left_out_of_scores(model: Model) -> None:
    fitted, _, _ = swing(model, 0.05, "fitted")
    unseen, _, lost = swing(model, 0.5, "unseen", 9.0)
    assert lost.any()
    problem = Problem(model, [fitted], lowpass_hz=10.0, decimate=10, rest=0.0)
    judged = validate(identify(problem, WLS()), problem, [unseen])
    for score in (judged.raw, judged.filtered):
        assert score.relative_error["total"] < 1e-4
        assert 0 < score.rows["total"] < 2 * len(lost)


@pytest.mark.slow
def test_a_run_wholly_out_of_reach_has_no_rows(model: Model) -> None:
    q = np.full((2, 2000), 3.1) + 0.01 * np.sin(np.arange(2000) / 50.0)
    q[1] -= 3.1
    run = Samples.from_arrays("far", model.robot.axis_names, RATE, q, np.gradient(q, 1 / RATE, axis=1), 0 * q, q)
    with pytest.raises(EstimationError, match="check that its postures are within reach"):
        identify(Problem(model, [run], lowpass_hz=10.0, decimate=10, rest=0.0), WLS())


def test_a_motion_to_the_edge_of_the_workspace_is_near_a_singularity(model: Model) -> None:
    assert model.looped is not None
    closure = model.looped.closure
    home = closure.home[model.robot.axis_index][:, None]

    def outward(part: Array) -> Array:
        """Both cranks outward, until the forearms are in line."""
        return home + np.array([[1.0], [-1.0]]) * part

    near, far = 0.0, 1.0
    for _ in range(40):
        middle = np.array([0.5 * (near + far)])
        q = outward(middle)
        near, far = (
            (float(middle[0]), far) if closure.close(q, 0 * q, 0 * q).fault[0] == 0 else (near, float(middle[0]))
        )
    assert 0.1 < near < 0.9
    q = outward(near * (1.0 - np.logspace(0.0, -9.0, 400)))
    closed = closure.close(q, 0 * q, 0 * q)
    assert closed.margin.min() < 1e-3
    run = Samples.from_arrays("edge", model.robot.axis_names, RATE, q, 0 * q, 0 * q, q)
    (message,) = told(tuple(loop_findings(model, [run])), "loop-singular")
    assert f"at t = {np.nanargmin(np.where(closed.fault == 0, closed.margin, np.nan)) / RATE:.4g} s" in message
    part = q[:, :100]
    half = Samples.from_arrays("half", model.robot.axis_names, RATE, part, 0 * part, 0 * part, part)
    assert list(loop_findings(model, [half])) == []
