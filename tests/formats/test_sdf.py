"""SDF: the poses and frames of its versions, the defaults of its inertias, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import RobotError
from steelyard.export.robot_files.sdf.edited import edited_sdf
from steelyard.export.robot_files.sdf.generated import generated_sdf
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.sdf.reader import read_sdf
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Coulomb, Viscous
from testbed.simulated import LIMITS, arm

INERTIAL = """<inertial><pose>0.1 0.02 -0.03 0 0 0.5</pose><mass>2.5</mass>
  <inertia><ixx>0.02</ixx><ixy>0.001</ixy><iyy>0.03</iyy><izz>0.04</izz></inertia></inertial>"""
# two links given in the model's frame, the second joint off its link's origin
MODERN = f"""<?xml version="1.0"?>
<sdf version="1.9"><model name="two">
  <pose>0 0 1 0 0 0</pose>
  <frame name="stand" attached_to="base"><pose>0 0 0.5 0 0 0</pose></frame>
  <link name="base"/>
  <joint name="foot" type="fixed"><parent>world</parent><child>base</child></joint>
  <link name="one"><pose relative_to="stand">0.1 0 0 0 0 1.5707963267948966</pose>{INERTIAL}</link>
  <link name="two"><pose relative_to="elbow">0.3 0 0 0 0 0</pose>{INERTIAL}</link>
  <joint name="shoulder" type="revolute"><parent>base</parent><child>one</child>
    <axis><xyz expressed_in="__model__">0 0 2</xyz><limit><lower>-1</lower><upper>2</upper><effort>-1</effort></limit>
      <dynamics><damping>0.7</damping><friction>0.2</friction></dynamics></axis></joint>
  <joint name="elbow" type="prismatic"><pose relative_to="one">0 0.4 0 0 0 0</pose>
    <parent>one</parent><child>two</child><axis><xyz>0 1 0</xyz></axis></joint>
  <link name="tool"><pose relative_to="two">0 0 0.1 0 0 0</pose></link>
  <joint name="flange" type="fixed"><parent>two</parent><child>tool</child></joint>
</model></sdf>"""


def modern() -> Robot:
    return read_sdf(MODERN.encode(), "two.sdf")


def test_poses_are_relative_to_named_frames() -> None:
    robot = modern()
    assert robot.joint_names == ("shoulder", "elbow")
    shoulder, elbow = robot.joints
    assert np.allclose(shoulder.pose.position, [0.1, 0.0, 1.5])
    assert np.allclose(shoulder.axis, [0.0, 0.0, 1.0])
    assert (shoulder.limits.lower, shoulder.limits.upper, shoulder.limits.effort) == (-1.0, 2.0, np.inf)
    assert (shoulder.drive.viscous, shoulder.drive.coulomb) == (0.7, 0.2)
    assert np.allclose(elbow.pose.position, [0.3, 0.4, 0.0])
    assert elbow.is_prismatic
    assert robot.links[0].inertia is not None
    assert robot.links[0].inertia[9] == 2.5
    # a link without <inertial> weighs 1 kg to Gazebo
    assert robot.links[1].inertia is not None
    assert robot.links[1].inertia[9] == pytest.approx(3.5)


def test_an_axis_of_an_old_file_is_that_of_the_model() -> None:
    """Before SDF 1.5 the axis is given in the model's frame, later in the joint's; a flag of 1.5 and 1.6 says so."""
    turned = MODERN.replace(' expressed_in="__model__"', "").replace("0 0 2</xyz>", "1 0 0</xyz>")
    assert np.allclose(read_sdf(turned.encode(), "x.sdf").joints[0].axis, [1.0, 0.0, 0.0])
    old = turned.replace('version="1.9"', 'version="1.4"')
    flagged = turned.replace("1 0 0</xyz>", "1 0 0</xyz><use_parent_model_frame>1</use_parent_model_frame>")
    for text in (old, flagged):
        assert np.allclose(read_sdf(text.encode(), "x.sdf").joints[0].axis, [0.0, -1.0, 0.0], atol=1e-12)


def test_angles_in_degrees_and_quaternions() -> None:
    plain = 'relative_to="stand">0.1 0 0 0 0 1.5707963267948966'
    half = np.sqrt(0.5)
    degrees = MODERN.replace(plain, 'relative_to="stand" degrees="1">0.1 0 0 0 0 90')
    quaternion = MODERN.replace(
        plain, f'relative_to="stand" rotation_format="quat_xyzw">0.1 0 0 0 0 {half:.17g} {half:.17g}'
    )
    for text in (degrees, quaternion):
        pose = read_sdf(text.encode(), "x.sdf").joints[0].pose
        assert np.allclose(pose.rotation, modern().joints[0].pose.rotation, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('type="prismatic"', 'type="screw"'), "joint 'elbow': Unknown joint type 'screw'"),
        (("<mass>2.5</mass>", "<mass>heavy</mass>"), "<mass>: 'heavy' is not 1 numbers"),
        (('relative_to="two"', 'relative_to="tow"'), "Unknown frame 'tow'. Did you mean 'two'"),
        (('relative_to="stand"', 'relative_to="two"'), "in a circle"),
        (("<parent>one</parent>", "<parent>uno</parent>"), "Unknown link 'uno'"),
        (("<damping>0.7</damping>", "<spring_stiffness>3</spring_stiffness>"), "has a spring, which is not read"),
        (('<link name="base"/>', '<link name="base"/><include><uri>model://x</uri></include>'), "Expand it first"),
        (("<model ", "<world name='w'><model name='b'><link name='x'/><joint name='j'/></model></world><model "),
         "needs exactly one <model> with joints; this one has"),
    ],
)  # fmt: skip
def test_what_is_refused(change: tuple[str, str], said: str) -> None:
    assert change[0] in MODERN
    with pytest.raises(RobotError) as refusal:
        read_sdf(MODERN.replace(*change).encode(), "two.sdf")
    assert said in str(refusal.value)


def test_a_new_file_reads_back_equal() -> None:
    robot = arm(4)
    model = Model(robot, (Viscous(), Coulomb()))
    theta = model.layout.nominal
    assert theta is not None
    made = generated_sdf(model, theta)
    assert made.parity is not None
    assert made.parity.relative < 1e-12
    (content,) = made.files.values()
    back = read_sdf(content, "arm.sdf")
    assert back.joint_names == robot.joint_names
    for ours, theirs in zip(robot.links, back.links, strict=True):
        assert np.allclose(ours.inertia, theirs.inertia, rtol=1e-12, atol=1e-14)  # type: ignore[arg-type]
    for ours, theirs in zip(robot.joints, back.joints, strict=True):
        assert (theirs.limits.lower, theirs.limits.upper, theirs.limits.velocity) == (LIMITS.lower, LIMITS.upper, 4.0)
        assert (theirs.drive.viscous, theirs.drive.coulomb) == (ours.drive.viscous, ours.drive.coulomb)


def test_only_the_numbers_of_the_users_file_change(tmp_path: Path) -> None:
    source = tmp_path / "two.sdf"
    source.write_text(MODERN.replace('<link name="base"/>', '<!-- mine --><link name="base"/>'), "utf-8")
    model = Model(read_robot(source), (Viscous(), Coulomb()))
    nominal = model.layout.nominal
    assert nominal is not None
    theta = 1.25 * nominal
    theta[model.layout.index("elbow.Fv")] = 3.0
    made = edited_sdf(model, theta, source)
    (content,) = made.files.values()
    back = read_sdf(content, "two.sdf")
    for ours, theirs in zip(model.robot.links, back.links, strict=True):
        assert np.allclose(1.25 * ours.inertia, theirs.inertia, rtol=1e-12, atol=1e-14)  # type: ignore[operator]
    assert back.joints[0].drive.viscous == 1.25 * 0.7
    assert back.joints[1].drive.viscous == 3.0
    assert b"<!-- mine -->" in content
    same = edited_sdf(model, nominal, source)
    (unchanged,) = same.files.values()
    added = b"<dynamics><damping>0</damping><friction>0</friction></dynamics>"
    assert b"".join(unchanged.split()) == b"".join(source.read_bytes().split()).replace(
        b"<xyz>010</xyz>", b"<xyz>010</xyz>" + added
    )


def test_drake_reads_the_same_torques(tmp_path: Path) -> None:
    """Drake reads SDF by Gazebo's own parser. It is large, and installed by hand where this is to be checked."""
    plants = pytest.importorskip("pydrake.multibody.plant")
    parsing, tree = pytest.importorskip("pydrake.multibody.parsing"), pytest.importorskip("pydrake.multibody.tree")
    model = Model(arm(4), (Viscous(),))
    theta = model.layout.nominal
    assert theta is not None
    (content,) = generated_sdf(model, theta).files.values()
    (tmp_path / "arm.sdf").write_bytes(content)
    plant = plants.MultibodyPlant(0.0)
    parsing.Parser(plant).AddModels(str(tmp_path / "arm.sdf"))
    plant.mutable_gravity_field().set_gravity_vector(model.robot.gravity)
    plant.Finalize()
    context, rng = plant.CreateDefaultContext(), np.random.default_rng(0)
    for _ in range(5):
        q, v, a = rng.normal(size=(3, 4))
        plant.SetPositions(context, q)
        plant.SetVelocities(context, v)
        forces = tree.MultibodyForces(plant)
        plant.CalcForceElementsContribution(context, forces)
        own = model.torque(q[:, None], v[:, None], a[:, None], theta)[:, 0]
        assert np.allclose(plant.CalcInverseDynamics(context, a, forces), own, rtol=1e-10, atol=1e-12)
