"""The parts of a robot that share no parameter are tried alone, with the result of the whole robot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.project.checks.channel_map.edits import Edit, exchange, scaling
from steelyard.project.checks.channel_map.trial import Branch, Trial
from steelyard.project.checks.tracks import Trace
from steelyard.signals.channels import ChannelMap, Signal, resolve

FINGER = """
  <link name="f{k}a"><inertial><origin xyz="0.05 0 0.01"/><mass value="0.2"/>
    <inertia ixx="1e-4" iyy="2e-4" izz="2e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="f{k}b"><inertial><origin xyz="0.04 0 0"/><mass value="0.1"/>
    <inertia ixx="5e-5" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j{k}a" type="revolute"><parent link="palm"/><child link="f{k}a"/><axis xyz="0 1 0"/>
    <origin xyz="0 {k} 0"/><limit lower="-1.5" upper="1.5" velocity="9" effort="9"/></joint>
  <joint name="j{k}b" type="revolute"><parent link="f{k}a"/><child link="f{k}b"/><axis xyz="0 1 0"/>
    <origin xyz="0.1 0 0"/><limit lower="-1.5" upper="1.5" velocity="9" effort="9"/></joint>"""


def trial_of(folder: Path) -> Trial:
    """A hand of three fingers with two joints each, the last two efforts of a wrong size."""
    file = folder / "hand.urdf"
    fingers = "".join(FINGER.format(k=k) for k in range(3))
    file.write_text(f'<robot name="hand"><link name="palm"/>{fingers}</robot>', "utf-8")
    robot = read_robot(file)
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset")))
    rng = np.random.default_rng(4)
    q, v, a = random_fourier(robot, 5, 0.2, 10.0, rng).at(np.arange(0.0, 10.0, 0.01))
    theta = np.array([column.nominal or 0.01 for column in model.layout.columns])
    tau = model.torque(q, v, a, theta)
    tau = (1.0 + 0.7 * (np.arange(6) > 3))[:, None] * (tau + 0.003 * rng.normal(size=tau.shape))
    names = [f"c{k}" for k in range(6)]
    channels = resolve(ChannelMap("t", Signal(names, "rad"), Signal([f"e{k}" for k in range(6)], "N.m")), robot)
    return Trial(model, channels, [Trace(100.0, q, v, a, tau)], 8.0)


def test_the_parts_are_the_fingers_and_score_as_the_whole_robot(tmp_path: Path) -> None:
    trial = trial_of(tmp_path)
    assert [part.joints.tolist() for part in trial.parts] == [[0, 1], [2, 3], [4, 5]]
    whole = replace(trial)
    vars(whole)["parts"] = (Branch(np.arange(6), np.arange(len(trial.model.layout))),)
    edits: list[Edit | None] = [
        None,
        Edit((3,), effort=scaling(6, {3: -1.0})),
        Edit((0, 4), exchange(6, 0, 4), exchange(6, 0, 4)),
        Edit((5,), q=scaling(6, {5: 1.3})),
    ]
    for edit in edits:
        ours, theirs = trial.verdict(edit), whole.verdict(edit)
        pairs: list[tuple[Array, Array]] = [(ours.error, theirs.error), (ours.effort, theirs.effort)]
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-6)
    assert trial.verdict(edits[1]).total > 1.5 * trial.baseline.total
