"""No figure of the verdict that a script of its own cannot find from result.json and the logs."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from steelyard.formats.robots import read_robot
from steelyard.motion.random import random_fourier
from steelyard.project.project import read_project
from steelyard.project.run import RunResult, run
from testbed import verdict_again
from testbed.simulated import coloured
from testbed.trees import Pinocchio, State

LINK = """
<link name="link{k}"><inertial><origin xyz="0.02 0.01 {z}"/><mass value="{m}"/>
<inertia ixx="0.05" ixy="0.002" ixz="0.001" iyy="0.06" iyz="-0.003" izz="0.02"/></inertial></link>
<joint name="joint{k}" type="revolute"><parent link="{parent}"/><child link="link{k}"/><origin xyz="0 {y} 0.3"/>
<axis xyz="{axis}"/><limit lower="-2" upper="2" velocity="3" effort="200"/></joint>"""
PROJECT = """
robot = "arm.urdf"
gravity = [0.0, 0.0, -9.81]
terms = ["rotor", "viscous", "coulomb", "offset"]
estimator = "wls"
[prepare]
derivatives = "differences"
delay = "none"
cutoff_hz = 12.0
lowpass_hz = 8.0
decimate = 8
rest = [0.05, 0.05, 0.05]
[channels]
time = {{ column = "t", unit = "s" }}
q = {{ columns = ["q1", "q2", "q3"], unit = "rad" }}
effort = {{ columns = ["tau1", "tau2", "tau3"], unit = "N.m" }}
{runs}
"""


def urdf() -> str:
    axes = ("0 0 1", "0 1 0", "1 0 0")
    parts = (
        LINK.format(k=k, parent=f"link{k - 1}" if k > 1 else "base", y=0.1 * k, z=0.1 + 0.05 * k, m=6.0 - k, axis=axis)
        for k, axis in enumerate(axes, 1)
    )
    return '<robot name="arm"><link name="base"/>' + "".join(parts) + "</robot>"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """An arm whose third joint has more noise than effort, with two fitted logs and an unseen one."""
    folder = tmp_path_factory.mktemp("verdict")
    (folder / "arm.urdf").write_text(urdf(), "utf-8")
    robot, t = read_robot(folder / "arm.urdf"), np.arange(4000) / 200.0
    oracle = Pinocchio(robot)
    for name, seed in (("one", 1), ("two", 2), ("unseen", 3)):
        rng = np.random.default_rng(seed)
        state = State(*random_fourier(robot, 5, 0.1, 20.0, rng).at(t))
        noise = np.array([[0.5], [0.5], [12.0]]) * coloured(rng, state.q.shape, 0.9)
        effort = oracle.torque(state) + 2.0 * np.sign(state.v) + 3.0 * state.v + 0.2 + noise
        head = "t," + ",".join(f"{label}{j}" for label in ("q", "tau") for j in (1, 2, 3))
        table = np.column_stack([t, state.q.T, effort.T])
        np.savetxt(folder / f"{name}.csv", table, "%.9g", ",", header=head, comments="")
    runs = "\n".join(f'[[run]]\nlog = "{name}.csv"' for name in ("one", "two", "unseen")) + '\nrole = "validate"'
    (folder / "project.toml").write_text(PROJECT.format(runs=runs), "utf-8")
    return run(read_project(folder / "project.toml"), folder / "out")


def test_every_figure_of_the_verdict_is_found_again(done: RunResult) -> None:
    again, said = verdict_again.figures(done.folder), done.identification.verdict
    bad = "joint3"
    wanted = (
        f"Explains {again['explained']:.1f}% of the effort on unseen motion (error {again['error']:.3g} N·m; fitted "
        f"{again['fitted']:.1f}%, nominal model {max(again['nominal'], 0.0):.1f}%), but not that of {bad} (error "
        f"{again['joint errors'][bad]:.3g} N·m, {again['joint shares'][bad]:.0f}%). {again['known']} of "
        f"{again['parameters']} base parameters are known to better than half their value"
    )
    assert said.startswith(wanted)
    few = re.search(r"; ([0-9.]+) rows per parameter are few", said)
    assert (few is None) == (again["rows per parameter"] >= 10.0)


def test_the_figures_per_joint_agree_to_rounding(done: RunResult) -> None:
    again, judged = verdict_again.figures(done.folder), done.document["judged"]
    for joint in judged["joints"]:
        assert again["joint errors"][joint["joint"]] == pytest.approx(joint["error"], rel=1e-6)
        assert again["joint shares"][joint["joint"]] == pytest.approx(100.0 * joint["relative"], rel=1e-6)
    assert again["rows per parameter"] == pytest.approx(judged["rows_each"], rel=1e-12)


def test_the_script_owes_nothing_to_steelyard() -> None:
    module: ModuleType = verdict_again
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in names if name.split(".")[0] in ("steelyard", "testbed")}
