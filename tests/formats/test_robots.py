"""Robots from files: geometry against independent compositions and oracles, and files that must be refused."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import MissingExtraError, RobotError
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.formats.robots.toml import read_table
from steelyard.model.model import Model
from steelyard.model.parameters import inertial_vector, transformed_inertia
from steelyard.model.robot import BASE, Robot
from steelyard.model.terms import named_terms
from testbed.frames import joint_transform, link_transforms, rot, trans, write

SHARED_DATA = Path(__file__).parents[3] / "shared" / "data"


def nominal_torque(robot: Robot, q: Array, v: Array, a: Array) -> Array:
    """τ (n,) of the rigid bodies at one state, with the nominal inertias."""
    theta = np.concatenate([np.zeros(10) if link.inertia is None else link.inertia for link in robot.links])
    return Model(robot).torque(q[:, None], v[:, None], a[:, None], theta)[:, 0]


def states(dof: int, count: int = 5) -> list[tuple[Array, Array, Array]]:
    rng = np.random.default_rng(7)
    return [(rng.uniform(-3, 3, dof), rng.normal(size=dof), rng.normal(size=dof)) for _ in range(count)]


def shared(name: str) -> Path:
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"the shared data folder with {name} is not beside this repository")
    return path


# --- Built-in robots --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", builtin_robots())
def test_builtin_robot_reads(name: str) -> None:
    robot = read_robot(name)
    assert robot.name == name
    assert name in robot.source
    assert robot.terms is not None
    for joint in robot.joints:
        assert np.isclose(np.linalg.norm(joint.axis), 1)
    Model(robot, named_terms(robot.terms))


def test_builtin_robots_are_the_documented_ones() -> None:
    serial = ("kr270", "kr300", "panda", "planar2r", "tx40", "ur10e")
    parallel = ("delta", "fivebar", "orthoglide", "stewart")
    assert builtin_robots() == tuple(sorted(serial + parallel))


@pytest.mark.parametrize(
    ("name", "standard", "base"),
    [("tx40", 86, 60), ("kr270", 86, 60), ("planar2r", 20, 4)],
)
def test_number_of_base_parameters(name: str, standard: int, base: int) -> None:
    robot = read_robot(name)
    model = Model(robot, named_terms(robot.terms or ()))
    rng = np.random.default_rng(1)
    q, v, a = (rng.uniform(-2, 2, (robot.dof, 200)) for _ in range(3))
    w = model.regressor(q, v, a)
    assert len(model.layout) == standard
    w = np.moveaxis(w, 1, 2).reshape(-1, standard) if w.ndim == 3 else w
    norms = np.linalg.norm(w, axis=0)
    w = w[:, norms > 1e-9] / norms[norms > 1e-9]
    singular = np.linalg.svd(w, compute_uv=False)
    assert np.count_nonzero(singular > 1e-9 * singular[0]) == base


def test_tx40_carries_the_values_of_the_paper() -> None:
    robot = read_robot("tx40")
    assert robot.nominal == {"joint6.Fvm": 0.592, "joint6.Fcm": 1.88}
    expected = np.eye(6)
    expected[5, 4] = 1
    np.testing.assert_array_equal(robot.motor_map, expected)
    values = [x for link in robot.links if link.inertia is not None for x in link.inertia]
    drives = [x for j in robot.joints for x in (j.drive.rotor, j.drive.viscous, j.drive.coulomb, j.drive.offset)]
    norm = np.linalg.norm([*values, *(x or 0.0 for x in drives), *robot.nominal.values()])
    assert norm == pytest.approx(17.2429, abs=1e-4)  # norm of column chi_ref of Table II


def test_tx40_geometry_equals_the_urdf() -> None:
    urdf = read_robot(shared("staubli_tx40/tx40.urdf"))
    table = read_robot("tx40")
    for q, _, _ in states(6):
        a, b = link_transforms(urdf, q)[5], link_transforms(table, q)[5]
        b[2, 3] += 0.320  # the paper's frame 0 lies in the shoulder
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_planar2r_has_the_base_parameters_of_its_comment() -> None:
    robot = read_robot("planar2r")
    p1, p2, p3, p5 = 22.0, 5.0, 3.0, 0.1
    for q, v, a in states(2):
        c, s = math.cos(q[1]), math.sin(q[1])
        u1 = p1 * a[0] + p2 * (a[0] + a[1]) + p3 * (2 * c * a[0] + c * a[1] - 2 * s * v[0] * v[1] - s * v[1] ** 2)
        u1 += p5 * (-2 * s * a[0] - s * a[1] - 2 * c * v[0] * v[1] - c * v[1] ** 2)
        u2 = p2 * (a[0] + a[1]) + p3 * (c * a[0] + s * v[0] ** 2) + p5 * (-s * a[0] + c * v[0] ** 2)
        np.testing.assert_allclose(nominal_torque(robot, q, v, a), [u1, u2], rtol=1e-12, atol=1e-12)


def test_ur10e_torques_equal_the_urdf_with_its_rounded_lengths(tmp_path: Path) -> None:
    text = shared("ur10e/ur10e.urdf").read_text()
    exact = text.replace("1.57079632679", repr(math.pi / 2)).replace("3.14159265359", repr(math.pi))
    urdf = read_robot(write(tmp_path, "ur10e.urdf", exact))
    table = (Path(__file__).parents[2] / "src/steelyard/formats/robots/library/ur10e.toml").read_text()
    head, rows = table.split("[[joint]]", 1)
    for published, rounded in (
        ("0.1807", "0.181"), ("0.6127", "0.613"), ("0.57155", "0.571"),
        ("0.17415", "0.174"), ("0.11985", "0.12"), ("0.11655", "0.117"),
    ):  # fmt: skip
        assert rows.count(f"{published}\n") == 1
        rows = rows.replace(f"{published}\n", f"{rounded}\n")
    rounded_table = read_robot(write(tmp_path, "ur10e.toml", f"{head}[[joint]]{rows}"))
    assert rounded_table.joint_names == urdf.joint_names
    for q, v, a in states(6):
        expected = nominal_torque(urdf, q, v, a)
        np.testing.assert_allclose(nominal_torque(rounded_table, q, v, a), expected, atol=1e-9)
        published_torque = nominal_torque(read_robot("ur10e"), q, v, a)
        np.testing.assert_allclose(published_torque, expected, rtol=0.02, atol=0.5)


def test_kr300_stands_upright_and_carries_its_rotors() -> None:
    robot = read_robot("kr300")
    tip = link_transforms(robot, np.array([0.0, -math.pi / 2, math.pi / 2, 0, 0, 0]))
    assert tip[0][2, 3] == pytest.approx(0.675)  # shoulder above the floor
    assert tip[1][2, 3] == pytest.approx(0.675 + 1.15)  # arm up
    assert robot.joints[0].drive.rotor == pytest.approx(0.00923 * 256.85714285714283**2, rel=1e-5)


# --- Tables -----------------------------------------------------------------------------------------------------------

MDH = """
name = "leg"
convention = "mdh"
base_xyz = [0.1, 0.2, 0.3]
base_rpy = [0.1, -0.2, "pi/3"]
[[joint]]
name = "turns"
gamma = 0.3
b = -0.2
alpha = "-pi/2"
d = 0.4
theta = 0.7
r = -0.5
[[joint]]
name = "slides"
kind = "prismatic"
gamma = 1.1
alpha = 0.4
d = 0.1
theta = "3pi/4"
r = 0.6
"""
DH = MDH.replace('"mdh"', '"dh"').replace("gamma = 0.3\nb = -0.2\n", "").replace("gamma = 1.1\n", "")
DH = DH.replace("r = -0.5", "a = -0.5").replace("r = 0.6", "a = 0.6")


def test_mdh_is_the_khalil_kleinfinger_transform(tmp_path: Path) -> None:
    robot = read_robot(write(tmp_path, "leg.toml", MDH))
    base = trans(0.1, 0.2, 0.3) @ rot("z", math.pi / 3) @ rot("y", -0.2) @ rot("x", 0.1)
    for q in (0.0, 0.9, -2.5):
        first = rot("z", 0.3) @ trans(0, 0, -0.2) @ rot("x", -math.pi / 2) @ trans(0.4, 0, 0)
        first = base @ first @ rot("z", 0.7 + q) @ trans(0, 0, -0.5)
        second = rot("z", 1.1) @ rot("x", 0.4) @ trans(0.1, 0, 0) @ rot("z", 3 * math.pi / 4) @ trans(0, 0, 0.6 + q)
        np.testing.assert_allclose(joint_transform(robot.joints[0], q), first, atol=1e-14)
        np.testing.assert_allclose(joint_transform(robot.joints[1], q), second, atol=1e-14)


def test_dh_is_the_distal_transform(tmp_path: Path) -> None:
    robot = read_robot(write(tmp_path, "leg.toml", DH))
    base = trans(0.1, 0.2, 0.3) @ rot("z", math.pi / 3) @ rot("y", -0.2) @ rot("x", 0.1)
    for q in (0.0, 0.9, -2.5):
        first = base @ rot("z", 0.7 + q) @ trans(0, 0, 0.4) @ trans(-0.5, 0, 0) @ rot("x", -math.pi / 2)
        second = rot("z", 3 * math.pi / 4) @ trans(0, 0, 0.1 + q) @ trans(0.6, 0, 0) @ rot("x", 0.4)
        np.testing.assert_allclose(joint_transform(robot.joints[0], q), first, atol=1e-14)
        np.testing.assert_allclose(joint_transform(robot.joints[1], q), second, atol=1e-14)


def test_dh_and_mdh_tables_of_one_arm_give_the_same_torques() -> None:
    """planar2r has distal frames; the same bodies in proximal frames must need the same torques."""
    distal = read_robot("planar2r")
    rows = ""
    for i, link in enumerate(distal.links):
        assert link.inertia is not None
        moved = transformed_inertia(link.inertia, np.eye(3), np.array([1.0, 0, 0]))
        entries = ", ".join(
            f"{k} = {x!r}"
            for k, x in zip(("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M"), moved.tolist(), strict=True)
        )
        rows += f'[[joint]]\nname = "j{i}"\nd = {float(i)}\ninertia = {{ {entries} }}\n'
    proximal = read_table(f'name = "p"\nconvention = "mdh"\n{rows}'.encode(), "p.toml")
    for q, v, a in states(2):
        np.testing.assert_allclose(nominal_torque(proximal, q, v, a), nominal_torque(distal, q, v, a), atol=1e-12)


def test_table_tree_lumps_fixed_links_and_keeps_silence(tmp_path: Path) -> None:
    text = """
name = "tree"
convention = "mdh"
gravity = [0, 9.81, 0]
[[joint]]
name = "a"
inertia = { ZZ = 0.1, M = 2 }
[[joint]]
name = "tool"
kind = "fixed"
r = 0.5
mass = 3.0
com = [0, 0, 0.1]
inertia_com = [0.1, 0, 0, 0.1, 0, 0.1]
[[joint]]
name = "b"
parent = "link2"
d = 0.25
velocity = 2
[[joint]]
name = "c"
parent = "base"
alpha = "pi/2"
kind = "continuous"
"""
    robot = read_robot(write(tmp_path, "tree.toml", text))
    assert robot.joint_names == ("a", "b", "c")
    assert robot.parents == (BASE, 0, BASE)
    np.testing.assert_allclose(robot.gravity, [0, 9.81, 0])
    np.testing.assert_allclose(robot.joints[1].pose.position, [0.25, 0, 0.5])
    (lump,) = robot.links[0].lumps
    assert (lump.name, lump.joint) == ("link2", "tool")
    assert robot.links[0].inertia is not None
    tool = inertial_vector(3.0, np.array([0, 0, 0.6]), np.eye(3) * 0.1)
    np.testing.assert_allclose(robot.links[0].inertia, tool + np.array([0, 0, 0, 0, 0, 0.1, 0, 0, 0, 2]), atol=1e-14)
    assert robot.links[1].inertia is None
    assert robot.joints[1].limits.velocity == 2
    assert robot.joints[1].limits.lower == -np.inf
    assert robot.terms is None
    assert read_robot(tmp_path / "tree.toml", gravity=[0, 0, 1]).gravity.tolist() == [0, 0, 1]


ROW = '[[joint]]\nname = "j1"\n'
HEAD = 'name = "r"\nconvention = "mdh"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "gravty = [0, 0, 1]\n" + ROW, ["gravty", "Did you mean 'gravity'"]),
        (HEAD + ROW + "alhpa = 1\n", ["j1", "alhpa", "Did you mean 'alpha'", "gamma"]),
        (HEAD + ROW + "a = 1\nr = 2\n", ["j1", "'a'", "'r'", "Khalil", "Craig"]),
        (HEAD + ROW + "inertia = { XX = 1 }\n", ["j1", "M"]),
        (HEAD + ROW + "inertia = { M = 1, IXX = 1 }\n", ["j1", "IXX"]),
        (HEAD + ROW + "inertia = { M = -1 }\n", ["j1", "negative"]),
        (HEAD + ROW + "mass = 1\n", ["j1", "com", "together"]),
        (HEAD + ROW + "inertia = { M = 1 }\nmass = 1\n", ["j1", "twice"]),
        (HEAD + ROW + 'alpha = "__import__(1)"\n', ["j1", "alpha", "__import__"]),
        (HEAD + ROW + 'alpha = "pi/0"\n', ["j1", "pi/0"]),
        (HEAD + ROW + "alpha = nan\n", ["j1", "alpha", "finite"]),
        (HEAD + ROW + "inertia = { M = 1, XX = inf }\n", ["j1", "XX", "finite"]),
        (HEAD + ROW + "d = 1e400\n", ["j1", "d", "finite"]),
        (HEAD + "gravity = [0, nan, 0]\n" + ROW, ["gravity", "finite"]),
        (HEAD + "gravity = [0, 0]\n" + ROW, ["gravity"]),
        (HEAD + ROW + 'd = "long"\n', ["j1", "d"]),
        (HEAD + ROW + 'kind = "ball"\n', ["j1", "ball", "prismatic"]),
        (HEAD + ROW + 'parent = "link9"\n', ["j1", "link9", "base"]),
        (HEAD + ROW + "lower = 1\nupper = -1\n", ["j1", "lower"]),
        (HEAD + ROW + "velocity = -1\n", ["j1", "velocity"]),
        (HEAD + ROW + ROW, ["j1", "Two joints"]),
        (HEAD + ROW + 'link = "base"\n', ["base", "Two links"]),
        (HEAD + ROW + 'kind = "fixed"\n', ["moving joint"]),
        (HEAD + ROW + "[coupling]\nj1 = { j2 = 1.0 }\n", ["coupling", "j2", "j1"]),
        (HEAD + ROW + "[coupling]\nj1 = { j1 = 1.0 }\n", ["coupling", "j1"]),
        (HEAD + ROW + "[nominal]\nFvm = 1.0\n", ["nominal", "Fvm"]),
        (HEAD + ROW + '[nominal]\njoint6.Fvm = "big"\n', ["nominal"]),
        ('name = "r"\nconvention = "craig"\n' + ROW, ["craig", "mdh"]),
        ('convention = "mdh"\n' + ROW, ["name"]),
        (HEAD, ["joint"]),
        (HEAD + "joint = []\n", ["r", "moving joint"]),
        (HEAD + "joint = 3\n", ["joint"]),
        (HEAD + "joint = [1]\n", ["joint"]),
        ("name = ", ["TOML"]),
        ("a = " + "[" * 5000, ["TOML"]),
        ("a = " + "9" * 5000, ["TOML"]),
        (HEAD + ROW + "d = " + "9" * 400 + "\n", ["j1"]),
    ],
)
def test_bad_table_is_refused_by_name(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path, "bad.toml", text)
    with pytest.raises(RobotError) as caught:
        read_robot(path)
    assert "bad.toml" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


# --- Files in general -------------------------------------------------------------------------------------------------


def test_missing_file_lists_the_builtins(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=r"nowhere\.urdf.*tx40"):
        read_robot(tmp_path / "nowhere.urdf")
    with pytest.raises(RobotError, match=r"tx41.*tx40"):
        read_robot("tx41")


@pytest.mark.parametrize("suffix", [".toml", ".urdf", ".xml", ".mjcf"])
@pytest.mark.parametrize("content", [b"", b"  \n", bytes(range(256)) * 4, b"\x7fELF\x00\x00\x01", b"\xff\xfe\x00"])
def test_empty_and_binary_files_are_refused(tmp_path: Path, suffix: str, content: bytes) -> None:
    with pytest.raises(RobotError, match="robot"):
        read_robot(write(tmp_path, f"robot{suffix}", content))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match="not a file"):
        read_robot(tmp_path)
    with pytest.raises(RobotError, match=r"\.step.*\.urdf"):
        read_robot(write(tmp_path, "arm.step", "x"))
    with pytest.raises(RobotError, match=r"expand the file first|xacro cannot expand"):
        read_robot(write(tmp_path, "arm.xacro", "x"))
    with pytest.raises(RobotError, match="<svg>"):
        read_robot(write(tmp_path, "arm.xml", "<svg/>"))
    for name in ("x" * 5000, "a\0b", ""):
        with pytest.raises(RobotError):
            read_robot(name)


def test_gravity_must_be_three_numbers() -> None:
    with pytest.raises(RobotError, match="Gravity"):
        read_robot("tx40", gravity=[1, 2])


# --- URDF -------------------------------------------------------------------------------------------------------------

URDF = """<?xml version="1.0"?>
<!-- an arm whose file is not in order -->
<robot name="arm">
  <link name="hand"><inertial><origin xyz="0.1 0 0.02" rpy="0.3 -0.4 0.5"/><mass value="0.7"/>
    <inertia ixx="0.01" ixy="0.001" ixz="-0.002" iyy="0.02" iyz="0.003" izz="0.015"/></inertial></link>
  <joint name="wrist" type="fixed"><origin xyz="0 0.1 0.2" rpy="0.1 0.2 0.3"/>
    <parent link="fore"/><child link="hand"/></joint>
  <joint name="slide" type="prismatic"><origin xyz="0.3 0 0" rpy="0 1 0"/><parent link="hand"/><child link="finger"/>
    <axis xyz="1 2 2"/><limit lower="0" upper="0.04" velocity="0.2" effort="20"/></joint>
  <link name="world"/>
  <link name="base"><inertial><mass value="9"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <joint name="ground" type="fixed"><origin xyz="0 0 1"/><parent link="world"/><child link="base"/></joint>
  <joint name="elbow" type="revolute"><origin xyz="0 0 0.5" rpy="0 0.5 0"/><parent link="upper"/><child link="fore"/>
    <axis xyz="0 -3 0"/><limit lower="-1" upper="2" velocity="3" effort="40"/>
    <dynamics damping="0.5" friction="0.25"/></joint>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/>
    <limit lower="0" upper="0" effort="5"/></joint>
  <link name="upper"><inertial><origin xyz="0 0.01 0.2"/><mass value="3"/>
    <inertia ixx="0.2" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.02"/></inertial></link>
  <link name="fore"/>
  <link name="finger"><inertial><mass value="0.1"/><inertia ixx="0.001" iyy="0.001" izz="0.001"/></inertial></link>
  <transmission name="t"><joint name="shoulder"/></transmission>
</robot>
"""


def test_urdf_is_read_and_lumped(tmp_path: Path) -> None:
    robot = read_robot(write(tmp_path, "arm.urdf", URDF))
    assert (robot.name, robot.base) == ("arm", "world")
    assert robot.joint_names == ("shoulder", "elbow", "slide")
    assert robot.parents == (BASE, 0, 1)
    shoulder, elbow, slide = robot.joints
    np.testing.assert_allclose(shoulder.pose.position, [0, 0, 1])
    np.testing.assert_allclose(shoulder.axis, [1, 0, 0])
    np.testing.assert_allclose(elbow.axis, [0, -1, 0])
    np.testing.assert_allclose(slide.axis, np.array([1, 2, 2]) / 3)
    assert (shoulder.limits.lower, shoulder.limits.velocity, shoulder.limits.effort) == (-np.inf, np.inf, 5)
    assert (elbow.limits.lower, elbow.limits.upper, elbow.limits.velocity) == (-1, 2, 3)
    assert (elbow.drive.viscous, elbow.drive.coulomb, elbow.drive.rotor) == (0.5, 0.25, None)
    assert shoulder.drive.viscous is None
    fore = robot.links[1]
    (lump,) = fore.lumps
    assert (lump.name, lump.joint) == ("hand", "wrist")
    assert lump.inertia is not None
    assert fore.inertia is not None
    np.testing.assert_allclose(fore.inertia, transformed_inertia(lump.inertia, lump.pose.rotation, lump.pose.position))
    # Independent: the inertial frame of the hand, its mass and its tensor, carried to the forearm's frame.
    hand = trans(0, 0.1, 0.2) @ rot("z", 0.3) @ rot("y", 0.2) @ rot("x", 0.1)
    inertial = hand @ trans(0.1, 0, 0.02) @ rot("z", 0.5) @ rot("y", -0.4) @ rot("x", 0.3)
    tensor = np.array([[0.01, 0.001, -0.002], [0.001, 0.02, 0.003], [-0.002, 0.003, 0.015]])
    turned = inertial[:3, :3] @ tensor @ inertial[:3, :3].T
    np.testing.assert_allclose(fore.inertia, inertial_vector(0.7, inertial[:3, 3], turned), atol=1e-14)


def test_urdf_without_inertials_is_silent_not_weightless(tmp_path: Path) -> None:
    text = f'<robot name="r">{LINKS}{JOINT}</robot>'
    assert read_robot(write(tmp_path, "r.urdf", text)).links[0].inertia is None


def test_xml_suffix_is_sniffed_for_urdf(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-16", "latin-1"):
        text = URDF.replace("?>", f' encoding="{encoding}"?>')
        assert read_robot(write(tmp_path, "arm.xml", text.encode(encoding))).joint_names[0] == "shoulder"


def assert_equals_pinocchio(path: Path) -> None:
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(str(path))
    data = model.createData()
    robot = read_robot(path, gravity=[0, 0, -9.81])
    model.gravity.linear = robot.gravity
    columns = [model.joints[model.getJointId(name)] for name in robot.joint_names]
    for q, v, a in states(robot.dof):
        full_q, full_v, full_a = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for joint, qi, vi, ai in zip(columns, q, v, a, strict=True):
            full_q[joint.idx_q : joint.idx_q + joint.nq] = (math.cos(qi), math.sin(qi)) if joint.nq == 2 else (qi,)
            full_v[joint.idx_v], full_a[joint.idx_v] = vi, ai
        pin.framesForwardKinematics(model, data, full_q)
        for link, pose in zip(robot.links, link_transforms(robot, q), strict=True):
            frame = data.oMf[model.getFrameId(link.name)]
            np.testing.assert_allclose(pose, frame.homogeneous, atol=1e-10)
            for lump in link.lumps:
                frame = data.oMf[model.getFrameId(lump.name)]
                position = pose[:3, :3] @ lump.pose.position + pose[:3, 3]
                np.testing.assert_allclose(position, frame.translation, atol=1e-10)
                np.testing.assert_allclose(pose[:3, :3] @ lump.pose.rotation, frame.rotation, atol=1e-10)
        torque = pin.rnea(model, data, full_q, full_v, full_a)
        expected = [torque[joint.idx_v] for joint in columns]
        np.testing.assert_allclose(nominal_torque(robot, q, v, a), expected, rtol=1e-9, atol=1e-9)
    moving = sum(float(link.inertia[9]) for link in robot.links if link.inertia is not None)
    assert moving == pytest.approx(sum(inertia.mass for inertia in model.inertias[1:]))


def test_urdf_equals_pinocchio(tmp_path: Path) -> None:
    # The parser behind Pinocchio wants every attribute written.
    complete = URDF.replace('upper="0" effort="5"', 'upper="0" velocity="9" effort="5"')
    complete = complete.replace('ixx="0.001" iyy', 'ixx="0.001" ixy="0" ixz="0" iyz="0" iyy')
    assert_equals_pinocchio(write(tmp_path, "arm.urdf", complete))


@pytest.mark.parametrize("name", ["staubli_tx40/tx40.urdf", "ur10e/ur10e.urdf"])
def test_shared_urdf_equals_pinocchio(name: str) -> None:
    assert_equals_pinocchio(shared(name))


JOINT = '<joint name="j" type="revolute"><parent link="a"/><child link="b"/></joint>'
LINKS = '<link name="a"/><link name="b"/>'
INERTIAL = '<inertial><mass value="{}"/><inertia ixx="{}" iyy="1" izz="1"/></inertial>'
HUGE = INERTIAL.format(1, 1).replace("<mass", '<origin xyz="1e200 0 0"/><mass')


def changed(old: str, new: str) -> str:
    assert old in LINKS + JOINT
    return f'<robot name="r">{(LINKS + JOINT).replace(old, new)}</robot>'


def with_more(text: str) -> str:
    return f'<robot name="r">{LINKS}{JOINT}{text}</robot>'


BACK = '<joint name="{}" type="revolute"><parent link="{}"/><child link="{}"/></joint>'
ISLAND = '<link name="c"/><link name="d"/>' + BACK.format("k", "c", "d") + BACK.format("l", "d", "c")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (changed("revolute", "floating"), ["'j'", "a free joint that nothing drives", "carries every other joint"]),
        (changed("revolute", "planar"), ["'j'", "planar", "not supported"]),
        (changed("revolute", "spherical"), ["'j'", "spherical", "prismatic"]),
        (changed(' type="revolute"', ""), ["'j'", "joint type"]),
        (changed("</joint>", '<axis xyz="0 0 0"/></joint>'), ["'j'", "zero axis"]),
        (changed("</joint>", '<axis xyz="0 1"/></joint>'), ["'j'", "axis", "three numbers"]),
        (changed("</joint>", '<origin xyz="0 nan 0"/></joint>'), ["'j'", "xyz", "nan"]),
        (changed("</joint>", '<origin rpy="0 1e999 0"/></joint>'), ["'j'", "rpy", "1e999"]),
        (changed("</joint>", '<origin xyz="0 1_0 0"/></joint>'), ["'j'", "xyz", "1_0"]),
        (changed("</joint>", '<origin xyz="${x} 0 0"/></joint>'), ["'j'", "xyz", "${x}"]),
        (changed("</joint>", '<limit lower="2" upper="1"/></joint>'), ["'j'", "lower"]),
        (changed("</joint>", '<limit velocity="-2"/></joint>'), ["'j'", "velocity"]),
        (changed("</joint>", '<dynamics damping="-1"/></joint>'), ["'j'", "damping", "negative"]),
        (changed('<parent link="a"/>', ""), ["'j'", "parent"]),
        (changed('<child link="b"/>', '<child link="c"/>'), ["'j'", "child", "'c'"]),
        (changed('name="j" ', ""), ["<joint>", "name"]),
        (changed('<link name="b"/>', '<link name="a"/>'), ["link", "'a'"]),
        (changed('<link name="b"/>', f'<link name="b">{INERTIAL.format(-1, 1)}</link>'), ["'b'", "mass", "negative"]),
        (changed('<link name="b"/>', f'<link name="b">{INERTIAL.format("inf", 1)}</link>'), ["'b'", "mass", "inf"]),
        (changed('<link name="b"/>', f'<link name="b">{INERTIAL.format(1, "x")}</link>'), ["'b'", "ixx", "'x'"]),
        (changed('<link name="b"/>', '<link name="b"><inertial><mass value="1"/></inertial></link>'), ["'b'", "both"]),
        (changed('<link name="b"/>', f'<link name="b">{HUGE}</link>'), ["'b'", "too large"]),
        (with_more(BACK.format("j", "a", "b")), ["'j'", "Two joints"]),
        (with_more(BACK.format("k", "a", "b")), ["'b'", "two parents", "'k'"]),
        (with_more(BACK.format("k", "b", "a")), ["'r'", "cycle"]),
        (with_more(ISLAND), ["k, l", "cycle"]),
        (with_more('<xacro:macro name="m"/>'), ["xacro"]),
        ('<robot name="r"><link name="a"/></robot>', ["'r'", "moving joints"]),
        ("<robot name='r'/>", ["no <link>"]),
        ("<sdf/>", ["<sdf>"]),
        ("<robot><link", ["well-formed"]),
        ("<robot></robot><robot/>", ["well-formed"]),
        ("<?xml version='1.0' encoding='klingon'?><robot/>", ["well-formed"]),
        ("<robot>&undefined;</robot>", ["well-formed"]),
        ("no xml at all", ["well-formed"]),
        (f"<!--{'> ' * 40_000}--><robot/>", ["first 65536 bytes"]),
    ],
)  # fmt: skip
def test_bad_urdf_is_refused_by_name(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path, "bad.urdf", text)
    with pytest.raises(RobotError) as caught:
        read_robot(path)
    assert "bad.urdf" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


LAUGHS = '<!DOCTYPE robot [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(12)
)
HOSTILE = {
    "plain": "<!DOCTYPE robot><robot/>",
    "billion laughs": f"{LAUGHS}]><robot name='&m;'><link name='&m;'/>&m;</robot>",
    "external entity": '<!DOCTYPE robot [<!ENTITY x SYSTEM "secret.txt">]><robot><link name="l">&x;</link></robot>',
    "external subset": '<!DOCTYPE robot SYSTEM "secret.dtd"><robot/>',
    "parameter entity": '<!DOCTYPE robot [<!ENTITY % p SYSTEM "secret.dtd"> %p;]><robot/>',
    "after a comment": "<!-- hello --><?go on?>\n<!DOCTYPE\nrobot\n[\n]>\n<robot/>",
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("suffix", [".urdf", ".xml", ".mjcf"])
def test_doctype_is_refused_before_anything_is_declared(tmp_path: Path, kind: str, encoding: str, suffix: str) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    (tmp_path / "secret.dtd").write_text('<!ENTITY y "the secret">')
    declared = "utf-16" if encoding.startswith("utf-16") else "utf-8"
    text = f"<?xml version='1.0' encoding='{declared}'?>{HOSTILE[kind]}"
    with pytest.raises(RobotError, match="DOCTYPE") as caught:
        read_robot(write(tmp_path, f"bad{suffix}", text.encode(encoding)))
    assert "secret" not in str(caught.value)


# --- MJCF -------------------------------------------------------------------------------------------------------------

MJCF = """
<mujoco model="cell">
  <option gravity="0.5 0 -9.7"/>
  <worldbody>
    <body name="stand" pos="0 0 0.4" euler="0 0 30"><geom size="0.1" mass="5"/>
      <body name="arm" pos="0.1 0 0.2" euler="10 20 30">
        <joint name="x" type="slide" axis="1 0 0" range="-1 1" ref="0.2" damping="3"/>
        <joint name="yaw" type="hinge" axis="0 1 1" pos="0.1 -0.2 0.3" ref="40" armature="0.3" frictionloss="0.7"/>
        <inertial pos="0.1 0.2 0.3" mass="2" fullinertia="0.3 0.4 0.5 0.01 0.02 -0.03"/>
        <body name="flange" pos="0 0 0.3" euler="0 90 0">
          <inertial pos="0 0 0.1" mass="0.5" diaginertia="0.01 0.02 0.03" euler="30 0 0"/>
          <body pos="0.2 0 0">
            <joint type="hinge" axis="0 0 1" pos="0 0.1 0" range="-90 45" actuatorfrcrange="-8 9"/>
            <geom type="box" size="0.1 0.05 0.02" pos="0.05 0 0" euler="0 0 20" mass="1.5"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_mjcf_equals_mujoco(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = write(tmp_path, "cell.xml", MJCF)
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    robot = read_robot(path)
    assert robot.name == "cell"
    assert robot.joint_names == ("x", "yaw", "joint2")
    assert [link.name for link in robot.links] == ["arm_x", "arm", "body4"]
    for q, v, a in states(3):
        data.qpos[:], data.qvel[:], data.qacc[:] = q, v, a
        mujoco.mj_forward(model, data)
        for i, pose in enumerate(link_transforms(robot, q)):
            if i == 0:
                continue  # the massless link between two joints of one body has no twin in MuJoCo
            body = {"arm": 2, "body4": 4}[robot.links[i].name]
            np.testing.assert_allclose(pose[:3, 3], data.xpos[body], atol=1e-12)
            np.testing.assert_allclose(pose[:3, :3], data.xmat[body].reshape(3, 3), atol=1e-12)
        bias = np.array(data.qfrc_bias)  # Coriolis and gravity, without damping and friction
        mass = np.zeros((3, 3))
        for k in range(3):
            mass[:, k] = nominal_torque(robot, q, np.zeros(3), np.eye(3)[k])
            mass[:, k] -= nominal_torque(robot, q, np.zeros(3), np.zeros(3))
        expected = np.zeros(3)
        mujoco.mj_mulM(model, data, expected, np.array(a))
        rotor = np.array([joint.drive.rotor for joint in robot.joints])
        np.testing.assert_allclose(mass @ a + rotor * a, expected, atol=1e-10)
        np.testing.assert_allclose(nominal_torque(robot, q, v, np.zeros(3)), bias, atol=1e-10)


def test_mjcf_joints_and_lumps(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    robot = read_robot(write(tmp_path, "cell.mjcf", MJCF))
    x, yaw, last = robot.joints
    assert (x.kind, yaw.kind, last.kind) == ("prismatic", "continuous", "revolute")
    assert (x.drive.viscous, yaw.drive.rotor, yaw.drive.coulomb) == (3, 0.3, 0.7)
    np.testing.assert_allclose(yaw.axis, np.array([0, 1, 1]) / math.sqrt(2))
    np.testing.assert_allclose(yaw.point, [0.1, -0.2, 0.3])
    assert last.limits.lower == pytest.approx(-math.pi / 2)
    assert last.limits.effort == 8
    assert [lump.name for lump in robot.links[1].lumps] == ["flange"]
    np.testing.assert_allclose(robot.gravity, [0.5, 0, -9.7])
    assert read_robot(tmp_path / "cell.mjcf", gravity=[0, 0, -1]).gravity.tolist() == [0, 0, -1]


def mjcf(body: str, more: str = "") -> str:
    geom = '<geom size="0.1"/>'
    other = f'<body name="c"><joint name="k"/>{geom}</body>'
    return f'<mujoco><worldbody><body name="b">{body}{geom}{other}</body></worldbody>{more}</mujoco>'


HINGE = '<joint name="j"/>'
BOX = '<body name="d"><freejoint name="g"/><geom size="0.1"/></body>'
TWO_FREE = mjcf('<freejoint name="f"/>').replace("</worldbody>", f"{BOX}</worldbody>")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TWO_FREE, ["'f'", "'b'", "free joint that nothing drives", "carries every other joint"]),
        (mjcf('<joint name="s" type="ball"/>'), ["'s'", "'b'", "ball"]),
        (
            mjcf(HINGE, '<tendon><fixed name="cable" stiffness="1"><joint joint="j" coef="1"/></fixed></tendon>'),
            ["cable", "tendon", "stiffness", "Remove"],
        ),
        (mjcf("<jiont/>"), ["MuJoCo", "jiont"]),
        (mjcf('<joint name="j" axis="0 0 1" pos="nan 0 0"/>'), ["'j'", "not finite"]),
        (mjcf(HINGE, '<option gravity="0 nan 0"/>'), ["Gravity"]),
        ("<mujoco/>", ["moving joint"]),
    ],
)
def test_bad_mjcf_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: list[str]
) -> None:
    pytest.importorskip("mujoco")
    path = write(tmp_path, "bad.xml", text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RobotError) as caught:
        read_robot(path)
    assert "bad.xml" in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.xml"]  # MuJoCo left no log
    for word in words:
        assert word in str(caught.value)


def test_mjcf_without_mujoco_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingExtraError, match=r'pip install "steelyard\[mjcf\]"'):
        read_robot(write(tmp_path, "cell.xml", MJCF))
