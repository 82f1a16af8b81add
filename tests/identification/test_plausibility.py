"""Statements that the data contradict are findings: a payload's mass, a nominal model, a motion called unseen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.estimators import WLS
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.payload import Payload
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.simulated import arm, model_of, motion_of, samples_of, truth_of

TOOL = inertial_vector(2.5, np.array([0.05, -0.12, 0.2]), np.diag([0.03, 0.04, 0.05]))
FILTERS = {"lowpass_hz": 8.0, "decimate": 6}


def with_tool(stated: Array) -> Identification:
    """Two runs without and two with the tool, whose parameters are stated as `stated`."""
    robot = arm(3)
    known: dict[str, float] = dict(zip(INERTIAL, stated.tolist(), strict=True))
    tool = Payload("tool", robot.links[-1].name, known=known)
    model = Model(robot, model_of(robot).terms, payloads=(tool,))
    theta = truth_of(model).copy()
    theta[[model.layout.index(f"tool.{symbol}") for symbol in INERTIAL]] = TOOL
    runs = []
    for seed, load in enumerate(("none", "tool", "none", "tool"), 1):
        motion = motion_of(robot, 3000, 200.0, seed)
        effort = model.torque(*motion[:3], theta, load=load)
        effort = effort + 0.3 * np.random.default_rng(seed).standard_normal(effort.shape)
        runs.append(Samples.from_arrays(f"run{seed}", robot.joint_names, 200.0, *motion[:3], effort, load=load))
    return identify(Problem(model, runs, **FILTERS), WLS())


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_a_payload_stated_with_a_wrong_mass_is_contradicted(factor: float) -> None:
    told = [finding for finding in with_tool(factor * TOOL).findings if finding.code == "payload-contradicted"]
    if factor == 1.0:
        assert told == []
        return
    (finding,) = told
    assert (finding.severity, finding.where) == ("error", "tool")
    assert float(finding.message.split("fit with ")[1].split(" ")[0]) == pytest.approx(1.0 / factor, rel=0.05)


def runs_of(model: Model, *seeds: int) -> list[Samples]:
    return [samples_of(model, 3000, seed=seed, noise=0.3, name=f"run{k}") for k, seed in enumerate(seeds)]


def test_a_repeated_motion_is_not_called_unseen() -> None:
    model = model_of(arm(2))
    fitted, again, other = runs_of(model, 1, 1, 2)
    again = replace(again, source="another log", sha256="b")
    problem = Problem(model, [replace(fitted, source="a log", sha256="a")], **FILTERS)
    seen = identify(problem, WLS(), held_out=problem.with_runs([replace(again, role="validate")]))
    assert "on a repetition of the fitted motion" in seen.verdict
    assert [f.where for f in seen.findings if f.code == "same-motion"] == [again.name]
    new = identify(problem, WLS(), held_out=problem.with_runs([replace(other, role="validate")]))
    assert "on unseen motion" in new.verdict
    assert not [f for f in new.findings if f.code == "same-motion"]


def test_a_nominal_model_that_explains_nothing_is_a_finding() -> None:
    model = model_of(arm(2))
    (run,) = runs_of(model, 1)
    result = identify(Problem(model, [run], **FILTERS), WLS())
    assert not [f for f in result.findings if f.code == "nominal-contradicted"]
    pieces = next(iter(run.open()))
    reversed_run = Samples.from_arrays("run", run.joints, run.rate, pieces.q, pieces.v, pieces.a, -pieces.effort)
    wrong = identify(Problem(model, [reversed_run], **FILTERS), WLS())
    assert [f for f in wrong.findings if f.code == "nominal-contradicted"]
