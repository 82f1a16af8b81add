"""Joints that do not move: the robot with them held has the torques of the whole robot with them still."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import RobotError
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.holding import hold
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Springs
from testbed.finger_arm import ARM

BRANCHES = """<mujoco><compiler angle="radian"/><worldbody><site name="w" pos="0 0 1"/>
<body name="a"><joint name="j1" axis="0 1 0"/><geom size=".1" pos=".1 0 .2"/><site name="s" pos=".2 0 0"/>
<body name="b" pos="0 0 .4"><joint name="j2" axis="1 0 0" stiffness="3"/><geom size=".1" pos="0 .1 .2"/><site name="t"/>
<body name="c" pos=".1 0 .3"><joint name="j3" type="slide" axis="0 1 1"/><geom size=".05"/><site name="u"/></body>
<body name="d" pos=".2 0 .3" quat="1 1 0 0"><joint name="j4" axis="1 1 0"/><geom size=".05" pos="0 0 .1"/></body>
</body></body></worldbody>
<tendon><spatial name="k1" stiffness="40" springlength=".1"><site site="w"/><site site="u"/></spatial>
<spatial name="k2" stiffness="40" springlength=".1"><site site="t"/><site site="u"/></spatial></tendon></mujoco>"""


def torques(robot: Robot, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    model = Model(robot, (Springs(),) if robot.springs else ())
    assert model.layout.nominal is not None
    return model.torque(q, v, a, model.layout.nominal)


def of_both(whole: Robot, held: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Torques of the joints that move: of the robot with the others held, and of the whole one with them still."""
    rng = np.random.default_rng(4)
    part = hold(whole, held)
    own = [whole.axis_names.index(name) for name in part.axis_names]
    q, v, a = (np.zeros((whole.dof, 5)) for _ in range(3))
    for name, value in held.items():
        q[whole.axis_names.index(name)] = value
    q[own], v[own], a[own] = (rng.uniform(-0.5, 0.5, (len(own), 5)) for _ in range(3))
    return torques(part, q[own], v[own], a[own]), torques(whole, q, v, a)[own]


@pytest.mark.parametrize(
    "held", [{"j1": 0.3}, {"j2": -0.7}, {"j3": 0.2}, {"j4": 1.0}, {"j2": 0.4, "j3": -0.1}, {"j1": 0.2, "j4": -2.0}]
)
def test_held_joints_give_the_torques_of_still_ones(tmp_path: Path, held: dict[str, float]) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "r.xml").write_text(BRANCHES)
    whole = read_robot(tmp_path / "r.xml")
    ours, theirs = of_both(whole, held)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    part = hold(whole, held)
    assert part.held == held
    assert set(part.joint_names) == set(whole.joint_names) - set(held)


def test_patterns_positions_and_the_default(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM)
    for text, value in (("finger", 0.01), ("fing*", 0.01), ("*ger=0.03", 0.03), ("finger = 2e-2", 0.02)):
        robot = read_robot(tmp_path / "arm.urdf", held=[text])
        assert robot.held == {"finger": value}
        assert robot.joint_names == ("j1", "j2")
        (finding,) = robot.findings
        assert (finding.code, finding.severity) == ("joints-held", "info")
        assert f"finger at {value:g} m" in finding.message
    assert read_robot(tmp_path / "arm.urdf", held=["j*=0.1", "j2=0.4"]).held == {"j1": 0.1, "j2": 0.4}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("thumb", ["'thumb'", "Valid: j1, j2, finger"]),
        ("inge", ["'*inge*' would match"]),
        ("finger=0.5", ["0.5", "'finger'", "0.01 to 0.04"]),
        ("finger=open", ["JOINT=POSITION", "'finger=open'"]),
        ("=0.1", ["JOINT=POSITION"]),
        ("finger=nan", ["JOINT=POSITION"]),
        ("*", ["all 3 joints", "leave out those that move"]),
    ],
)
def test_what_cannot_be_held_is_refused(tmp_path: Path, asked: str, words: list[str]) -> None:
    (tmp_path / "arm.urdf").write_text(ARM)
    with pytest.raises(RobotError) as caught:
        read_robot(tmp_path / "arm.urdf", held=[asked])
    for word in ("hold", *words):
        assert word in str(caught.value)


def test_a_follower_is_held_with_its_master_and_not_alone(tmp_path: Path) -> None:
    follower = '<mimic joint="j2" multiplier="0.05" offset="0.01"/></joint>'
    text = ARM.replace('<limit lower="0.01" upper="0.04"/></joint>', follower)
    (tmp_path / "arm.urdf").write_text(text)
    robot = read_robot(tmp_path / "arm.urdf", held=["j2=0.4"])
    assert robot.held == pytest.approx({"j2": 0.4, "finger": 0.03})
    assert robot.loops == ()
    with pytest.raises(RobotError, match=r"'finger' has no motor.*Hold j2 instead"):
        read_robot(tmp_path / "arm.urdf", held=["finger"])


def test_coupled_motors_are_held_together() -> None:
    with pytest.raises(RobotError, match="'joint6' and 'joint5' are coupled, so both are held or none"):
        read_robot("tx40", held=["joint6"])
    assert read_robot("tx40", held=["joint5", "joint6"]).dof == 4


def test_a_gripper_whose_range_leaves_out_zero_is_held_at_the_nearer_end(tmp_path: Path) -> None:
    """Also with a loop between its fingers, which gives the robot a home at zero; the text says so."""
    pytest.importorskip("mujoco")
    (tmp_path / "gripper.xml").write_text("""<mujoco><compiler angle="radian"/><worldbody>
<body name="a"><joint name="j1" axis="0 1 0"/><geom size=".1" pos=".1 0 .2"/>
<body name="l"><joint name="left" type="slide" axis="1 0 0" range="-.0081 -.00001"/><geom size=".05"/></body>
<body name="r"><joint name="right" type="slide" axis="1 0 0" range=".00001 .0081"/><geom size=".05"/></body>
</body></worldbody><actuator><motor joint="j1"/><motor joint="left"/></actuator>
<equality><joint joint1="left" joint2="right" polycoef="0 -1 0 0 0"/></equality></mujoco>""")
    robot = read_robot(tmp_path / "gripper.xml", held=["left"])
    assert robot.held == pytest.approx({"left": -1e-5, "right": 1e-5})
    assert "left at -1e-05 m (the end of its range that is nearer to zero" in robot.findings[-1].message
    with pytest.raises(RobotError, match="hold: 0 is outside the range of 'left'"):  # a position that the user stated
        read_robot(tmp_path / "gripper.xml", held=["left=0"])
