"""Parallel robots from files: loops, free bodies, driven joints; against MuJoCo, plain kinematics and P3's tables."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from steelyard._arrays import Array
from steelyard.errors import RobotError
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.toml import read_table
from steelyard.formats.robots.toml_loops import LoopTable
from steelyard.model.loops import AXIS, COMPONENTS, FRAME, POINT, Attachment, FrameLoop, JointLoop
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Robot
from testbed.frames import link_transforms, rot, trans, write

# --- Independent closure: 4×4 matrices and Newton with differences ----------------------------------------------------


def matrix(pose: Pose) -> Array:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = pose.rotation, pose.position
    return out


def placed(robot: Robot, end: Attachment, links: list[Array]) -> Array:
    """World pose of the frame of one end of a loop."""
    index = robot.link_index(end.link)
    return (np.eye(4) if index == BASE else links[index]) @ matrix(end.pose)


def residual(robot: Robot, q: Array) -> Array:
    """Every component that every loop keeps at zero."""
    links = link_transforms(robot.tree, q)
    out: list[float] = []
    for loop in robot.loops:
        if isinstance(loop, JointLoop):
            powers = q[robot.joint_index(loop.other)] ** np.arange(len(loop.polynomial))
            out.append(float(q[robot.joint_index(loop.joint)] - powers @ np.array(loop.polynomial)))
            continue
        a, b = (placed(robot, end, links) for end in loop.ends)
        between = np.linalg.inv(a) @ b
        angles = (-between[1, 2], between[0, 2], -between[0, 1])
        values = dict(zip(COMPONENTS, (*between[:3, 3], *angles), strict=True))
        out += [float(values[component]) for component in loop.components]
    return np.array(out)


def passive_jacobian(robot: Robot, q: Array, step: float = 1e-6) -> Array:
    passive = np.setdiff1d(np.arange(len(q)), robot.axis_index)
    columns = [(residual(robot, q + step * e) - residual(robot, q - step * e)) / (2 * step) for e in np.eye(len(q))]
    return np.column_stack(columns)[:, passive]


def closed(robot: Robot, axes: Array, steps: int = 8) -> Array:
    """All joints with the axes at given positions, followed from home along a straight line."""
    assert robot.home is not None
    passive = np.setdiff1d(np.arange(len(robot.joints)), robot.axis_index)
    q = robot.home.copy()
    start = q[robot.axis_index].copy()
    for share in np.linspace(0.0, 1.0, steps + 1):
        q[robot.axis_index] = start + share * (axes - start)
        for _ in range(8):
            c = residual(robot, q)
            if np.max(np.abs(c)) < 1e-12:
                break
            q[passive] -= np.linalg.lstsq(passive_jacobian(robot, q), c, rcond=None)[0]
    return q


def margin(robot: Robot, q: Array) -> float:
    """Smallest over largest singular value of the passive joints' constraint Jacobian: zero where it is singular."""
    values = np.linalg.svd(passive_jacobian(robot, q), compute_uv=False)
    return float(values[-1] / values[0])


def corners(robot: Robot) -> Array:
    return np.array(list(itertools.product(*((j.limits.lower, j.limits.upper) for j in robot.axes))))


# --- Built-in robots --------------------------------------------------------------------------------------------------

PARALLEL = ("delta", "fivebar", "orthoglide", "stewart")
# The corners of the Stewart platform's limits that come nearest to a singularity, of 64, and one in the open.
HARD = {"stewart": [[1, 0, 0, 0, 0, 1], [0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0], [1, 1, 0, 1, 0, 1]]}


@pytest.mark.parametrize("name", PARALLEL)
def test_builtin_home_closes_and_has_no_idle_freedom(name: str) -> None:
    robot = read_robot(name)
    assert robot.home is not None
    assert robot.actuated is not None
    assert np.max(np.abs(residual(robot, robot.home))) < 1e-6  # six digits are stated
    jacobian = passive_jacobian(robot, robot.home)
    assert np.linalg.matrix_rank(jacobian, 1e-6) == len(robot.joints) - robot.dof
    assert margin(robot, robot.home) > 0.05
    at_home = robot.home[robot.axis_index]
    for joint, position in zip(robot.axes, at_home, strict=True):
        assert joint.limits.lower < position < joint.limits.upper


@pytest.mark.slow
@pytest.mark.parametrize("name", PARALLEL)
def test_builtin_limits_are_in_reach_and_far_from_singular(name: str) -> None:
    robot = read_robot(name)
    box = np.array([(joint.limits.lower, joint.limits.upper) for joint in robot.axes])
    chosen = corners(robot)
    if name in HARD:
        chosen = np.array([[box[k, side] for k, side in enumerate(sides)] for sides in HARD[name]])
    for axes in chosen:
        q = closed(robot, axes)
        assert np.max(np.abs(residual(robot, q))) < 1e-10, axes
        assert margin(robot, q) > 0.02, axes


@pytest.mark.parametrize("name", PARALLEL)
def test_builtin_bodies_can_exist(name: str) -> None:
    robot = read_robot(name)
    for link in robot.links:
        assert link.inertia is not None
        if link.virtual:
            np.testing.assert_array_equal(link.inertia, np.zeros(10))
            continue
        xx, xy, xz, yy, yz, zz, mx, my, mz, m = link.inertia
        tensor, first = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), np.array([mx, my, mz])
        pseudo = np.full((4, 4), m)
        pseudo[:3, :3], pseudo[:3, 3], pseudo[3, :3] = 0.5 * np.trace(tensor) * np.eye(3) - tensor, first, first
        assert np.linalg.eigvalsh(pseudo)[0] > 0.0, link.name
    for joint in robot.joints:
        drive = (joint.drive.rotor, joint.drive.viscous, joint.drive.coulomb, joint.drive.offset)
        assert drive == (None,) * 4 if joint.bare else None not in drive
    driven = [joint.drive.rotor for joint in robot.axes]
    assert all(rotor is not None and rotor > 0.0 for rotor in driven)


@pytest.mark.parametrize("name", PARALLEL)
def test_builtin_legs_are_alike(name: str) -> None:
    robot = read_robot(name)
    assert len(robot.legs) == len([joint for joint in robot.joints if not joint.bare]) / len(robot.legs[0])
    for leg in robot.legs:
        indices = [robot.joint_index(joint) for joint in leg]
        assert robot.parents[indices[0]] == BASE
        assert [robot.parents[k] for k in indices[1:]] == indices[:-1]
        assert sum(joint in robot.axis_names for joint in leg) == 1


@pytest.mark.slow
def test_orthoglide_moves_as_in_the_paper() -> None:
    """P3 eqs 40 and 41 (with a·δ̄ in the third row) and q5 = −q2, q4 = −q3, the platform never turning."""
    robot = read_robot("orthoglide")
    a, d4, d6 = 0.34, 0.31, 0.03
    assert robot.axis_names == ("joint11", "joint12", "joint13")
    np.testing.assert_allclose(robot.gravity, [0.0, 9.80665, 0.0])
    rng = np.random.default_rng(3)
    for axes in rng.uniform(-0.05, 0.12, (3, 3)):
        q = dict(zip(robot.joint_names, closed(robot, axes), strict=True))
        x, y, z = (q[f"platform.{k}"] for k in "xyz")
        np.testing.assert_allclose([q[f"platform.r{k}"] for k in "xyz"], 0.0, atol=1e-11)
        spheres = [
            x**2 + y**2 + (z - axes[0] - d6) ** 2,
            (x - axes[1] - d6 + a) ** 2 + y**2 + (z - a) ** 2,
            x**2 + (y - axes[2] - d6 + a) ** 2 + (z - a) ** 2,
        ]
        np.testing.assert_allclose(spheres, d4**2, atol=1e-11)
        for i in (1, 2, 3):
            q2, q3, q4, q5 = (q[f"joint{j}{i}"] for j in (2, 3, 4, 5))
            assert (q5, q4) == pytest.approx((-q2, -q3), abs=1e-11)
            along = axes[i - 1] - (a if i > 1 else 0.0) - d4 * np.sin(q2) * np.cos(q3) + d6
            assert along == pytest.approx((z, x, y)[i - 1], abs=1e-11)


def test_orthoglide_has_the_values_of_table_3() -> None:
    """The regroupings of P3 section 5.2, written out (gravity leaves off13 = 0 out of m13R and ia13R)."""
    robot = read_robot("orthoglide")

    def body(link: str) -> dict[str, float]:
        inertia = robot.links[robot.link_index(link)].inertia
        assert inertia is not None
        symbols = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
        return dict(zip(symbols, inertia.tolist(), strict=True))

    def drive(kind: str, joint: str) -> float:
        value = getattr(robot.joints[robot.joint_index(joint)].drive, kind)
        assert value is not None
        return value

    foot = [
        body(f"link1{i}")["M"] + body(f"link2{i}")["M"] + body(f"link3{i}")["M"] - body(f"link3{i}")["MX"] / 0.31
        for i in (1, 2, 3)
    ]
    rotor = [drive("rotor", f"joint1{i}") for i in (1, 2, 3)]
    assert [foot[0] + rotor[0], foot[1] + rotor[1], foot[2], rotor[2]] == pytest.approx([9.40, 8.95, 0.87, 8.05])
    legs = sum(body(f"link3{i}")["MX"] / 0.31 + body(f"link4{i}")["M"] + body(f"link5{i}")["M"] for i in (1, 2, 3))
    assert body("link6")["M"] + legs == pytest.approx(0.92)
    assert [body(f"link2{i}")["MX"] for i in (1, 2, 3)] == pytest.approx([-0.12, 0.0, 0.0])
    assert [drive("viscous", f"joint1{i}") for i in (1, 2, 3)] == [85.7, 86.7, 84.0]
    assert [drive("coulomb", f"joint1{i}") for i in (1, 2, 3)] == [35.2, 41.7, 24.1]
    coulomb3 = [drive("coulomb", f"joint3{i}") + drive("coulomb", f"joint4{i}") for i in (1, 2, 3)]
    assert coulomb3 == pytest.approx([1.76, 1.61, 1.35])
    assert drive("viscous", "joint21") + drive("viscous", "joint51") == pytest.approx(5.57)
    offset2 = [drive("offset", f"joint2{i}") - drive("offset", f"joint5{i}") for i in (1, 2, 3)]
    assert offset2 == pytest.approx([0.96, 0.0, -0.47])


@pytest.mark.slow
def test_delta_platform_never_turns() -> None:
    robot = read_robot("delta")
    for axes in ([0.1, 0.7, 0.4], [0.9, 0.0, 0.3]):
        q = dict(zip(robot.joint_names, closed(robot, np.array(axes)), strict=True))
        np.testing.assert_allclose([q[f"platform.r{k}"] for k in "xyz"], 0.0, atol=1e-10)
        assert q["joint51"] == pytest.approx(-q["joint11"] - q["joint21"], abs=1e-10)


# --- Tables -----------------------------------------------------------------------------------------------------------

FREE = """
name = "platform"
convention = "mdh"
base_xyz = [0.1, 0.2, 0.3]
base_rpy = [0.1, -0.2, "pi/3"]
actuated = ["slide"]
[home]
slide = 0.25
disc.z = 0.5
"disc.ry" = "pi/6"
[[joint]]
name = "slide"
kind = "prismatic"
alpha = 0.4
[[joint]]
name = "tip"
kind = "fixed"
link = "tip"
d = 0.2
theta = "pi/2"
[[joint]]
name = "disc"
link = "plate"
parent = "base"
kind = "free"
alpha = "pi/2"
r = 0.7
inertia = { M = 2.0, MX = 0.1, ZZ = 0.3, XX = 0.2, YY = 0.2 }
[[joint]]
name = "tool"
link = "tool"
kind = "fixed"
r = 0.1
mass = 1.0
com = [0, 0, 0]
inertia_com = [1e-3, 0, 0, 1e-3, 0, 1e-3]
[[loop]]
kind = "frame"
links = ["tip", "plate"]
points = [[0.1, 0, 0], [0, 0.2, 0]]
rpy = [[0, 0, "pi/2"], [0.3, 0, 0]]
[[loop]]
name = "rail"
components = ["z", "rx"]
links = ["base", "tool"]
points = [[0, 0, 1], [0, 0, 0]]
"""


def test_free_joint_is_six_bare_ones_and_its_inertia_is_on_the_last() -> None:
    robot = read_table(FREE.encode(), "free.toml")
    names = ("x", "y", "z", "rx", "ry", "rz")
    assert robot.joint_names == ("slide", *(f"disc.{k}" for k in names))
    assert [link.name for link in robot.links] == ["link1", *(f"plate.{k}" for k in names[:-1]), "plate"]
    assert [joint.bare for joint in robot.joints] == [False] + [True] * 6
    assert [link.virtual for link in robot.links] == [False] + [True] * 5 + [False]
    assert robot.parents == (BASE, BASE, 1, 2, 3, 4, 5)
    assert robot.bodies.tolist() == [0, 6]
    assert (robot.dof, robot.axis_names, robot.legs) == (1, ("slide",), ())
    plate = robot.links[-1].inertia
    assert plate is not None
    assert plate[9] == 3.0  # with the tool on its fixed joint
    assert robot.home is not None
    np.testing.assert_allclose(robot.home, [0.25, 0, 0, 0.5, 0, np.pi / 6, 0])
    x, y, z, rx, ry, rz = q = np.array([0.1, -0.2, 0.3, 0.4, -0.5, 0.6])
    base = trans(0.1, 0.2, 0.3) @ rot("z", np.pi / 3) @ rot("y", -0.2) @ rot("x", 0.1)
    expected = base @ rot("x", np.pi / 2) @ trans(0, 0, 0.7) @ trans(x, y, z)
    expected = expected @ rot("x", rx) @ rot("y", ry) @ rot("z", rz)
    np.testing.assert_allclose(link_transforms(robot.tree, np.array([0.0, *q]))[-1], expected, atol=1e-14)


def test_loop_ends_are_carried_by_moving_links_and_the_base_is_the_world() -> None:
    first, second = read_table(FREE.encode(), "free.toml").loops
    assert isinstance(first, FrameLoop)
    assert isinstance(second, FrameLoop)
    assert (first.name, first.components) == ("loop1", FRAME)
    assert (second.name, second.components) == ("rail", ("z", "rx"))
    assert [end.link for end in first.ends] == ["link1", "plate"]
    carried = trans(0.2, 0, 0) @ rot("z", np.pi / 2) @ trans(0.1, 0, 0) @ rot("z", np.pi / 2)
    np.testing.assert_allclose(matrix(first.ends[0].pose), carried, atol=1e-15)
    np.testing.assert_allclose(matrix(first.ends[1].pose), trans(0, 0.2, 0) @ rot("x", 0.3), atol=1e-15)
    assert [end.link for end in second.ends] == ["base", "plate"]
    np.testing.assert_allclose(second.ends[0].pose.position, [0, 0, 1])  # not moved by base_xyz
    np.testing.assert_allclose(second.ends[1].pose.position, [0, 0, 0.1])


FOURBAR = """
name = "fourbar"
convention = "mdh"
actuated = ["a"]
[[joint]]
name = "a"
[[joint]]
name = "b"
d = 0.3
[[joint]]
name = "c"
parent = "base"
d = 0.4
"""
POINT_LOOP = '[[loop]]\nkind = "point"\nlinks = ["link2", "link3"]\n'
FOLLOWS = '[[loop]]\nkind = "joint"\njoint = "c"\nother = "a"\n'


def test_kinds_of_loops_and_their_defaults() -> None:
    robot = read_table((FOURBAR + POINT_LOOP + POINT_LOOP.replace("point", "axis") + FOLLOWS).encode(), "f.toml")
    assert [loop.name for loop in robot.loops] == ["loop1", "loop2", "loop3"]
    point, axis, follows = robot.loops
    assert isinstance(point, FrameLoop)
    assert isinstance(axis, FrameLoop)
    assert (point.components, axis.components) == (POINT, AXIS)
    assert all(np.array_equal(matrix(end.pose), np.eye(4)) for end in point.ends)
    assert follows == JointLoop("loop3", "c", "a", (0.0, 1.0))
    assert robot.home is None
    text = FOURBAR + FOLLOWS + 'polynomial = ["pi/2", -2, 0.5]\n'
    (bent,) = read_table(text.encode(), "f.toml").loops
    assert bent == JointLoop("loop1", "c", "a", (np.pi / 2, -2.0, 0.5))


def test_coupling_of_a_looped_robot_is_between_its_axes() -> None:
    text = FOURBAR.replace('["a"]', '["c", "a"]') + '[[loop]]\nkind = "joint"\njoint = "b"\nother = "a"\n'
    robot = read_table((text + "[coupling]\na = { c = 0.5 }\n").encode(), "f.toml")
    np.testing.assert_array_equal(robot.motor_map, [[1.0, 0.0], [0.5, 1.0]])
    np.testing.assert_array_equal(robot.tree.motor_map, [[1, 0, 0.5], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(RobotError, match=r"coupling.*'b'.*Valid: c, a"):
        read_table((text + "[coupling]\na = { b = 0.5 }\n").encode(), "f.toml")


ADRIFT = '[[joint]]\nname = "f"\nlink = "g"\nparent = "base"\nkind = "free"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            FOURBAR + POINT_LOOP.replace('"point"', '"pin"'),
            ["loop1", "kind 'pin'", "point, axis, frame, joint"],
        ),
        (FOURBAR + POINT_LOOP.replace('kind = "point"', ""), ["loop1", "either a kind", "components"]),
        (FOURBAR + POINT_LOOP + 'components = ["x"]\n', ["loop1", "either a kind"]),
        (FOURBAR + POINT_LOOP.replace('kind = "point"', 'components = ["w"]'), ["component 'w'", "x, y, z, rx"]),
        (FOURBAR + POINT_LOOP.replace('kind = "point"', "components = []"), ["loop1", "component"]),
        (FOURBAR + POINT_LOOP.replace('kind = "point"', 'components = ["x", "x"]'), ["loop1", "once"]),
        (FOURBAR + POINT_LOOP + "pionts = [[0, 0, 0], [0, 0, 0]]\n", ["pionts", "Did you mean 'points'"]),
        (FOURBAR + POINT_LOOP + 'joint = "a"\n', ["loop1", "'point'", "Unknown key 'joint'", "links, points, rpy"]),
        (FOURBAR + FOLLOWS + 'links = ["link1", "link2"]\n', ["Unknown key 'links'", "joint, other, polynomial"]),
        (FOURBAR + '[[loop]]\nname = "shut"\nkind = "axis"\n', ["'shut'", "lacks links"]),
        (FOURBAR + '[[loop]]\nkind = "joint"\njoint = "b"\n', ["loop1", "lacks other"]),
        (FOURBAR + FOLLOWS + "polynomial = []\n", ["loop1", "polynomial is empty"]),
        (FOURBAR + FOLLOWS.replace('"c"', '"d"'), ["loop1", "Unknown joint 'd'", "a, b, c"]),
        (FOURBAR + FOLLOWS.replace('"c"', '"a"'), ["loop1", "cannot follow itself"]),
        (FOURBAR + POINT_LOOP.replace("link3", "link9"), ["loop1", "Unknown link 'link9'", "'base' is the"]),
        (FOURBAR + POINT_LOOP.replace("link3", "link2"), ["loop1", "both ends are on 'link2'"]),
        (FOURBAR + POINT_LOOP + 'rpy = [["pi/0", 0, 0], [0, 0, 0]]\n', ["loop1", "rpy", "pi/0"]),
        (FOURBAR + POINT_LOOP + "points = [[0, 0, nan], [0, 0, 0]]\n", ["loop number 1", "nan", "finite"]),
        (FOURBAR + POINT_LOOP + "points = [[0, 0, 0]]\n", ["loop number 1", "points"]),
        (FOURBAR + POINT_LOOP + 'name = "l"\n' + FOLLOWS + 'name = "l"\n', ["Two loops", "'l'"]),
        (FOURBAR.replace('actuated = ["a"]', "") + POINT_LOOP, ["actuated", "a, b, c"]),
        (FOURBAR.replace('["a"]', '["z"]') + POINT_LOOP, ["actuated", "Unknown joint 'z'"]),
        (FOURBAR, ["actuated", "no loops"]),
        ("home = { a = 1 }\n" + FOURBAR.replace('actuated = ["a"]', ""), ["home", "no [[loop]]"]),
        ("home = { z = 1 }\n" + FOURBAR + POINT_LOOP, ["home", "Unknown joint 'z'"]),
        ("home = { a = nan }\n" + FOURBAR + POINT_LOOP, ["home", "a", "finite"]),
        ('home = { a = "quarter" }\n' + FOURBAR + POINT_LOOP, ["home, a", "quarter"]),
        ('home = { "a.b" = 1, a.b = 2 }\n' + FOURBAR + POINT_LOOP, ["home gives 'a.b' twice"]),
        ('legs = [["a"], ["b", "a"]]\n' + FOURBAR + POINT_LOOP, ["legs: joint 'a' is listed in legs 1 and 2"]),
        ('legs = [["a"], ["z"]]\n' + FOURBAR + POINT_LOOP, ["legs", "'z'"]),
        (FOURBAR + ADRIFT + POINT_LOOP, ["'f'", "'g'", "free", "is not part of a loop"]),
        (FOURBAR.replace('actuated = ["a"]', "") + ADRIFT, ["'f'", "'g'", "free", "is not part of a loop"]),
        (FOURBAR + ADRIFT + "viscous = 1\nupper = 2\n" + POINT_LOOP, ["'f'", "free", "Remove upper, viscous"]),
        (FOURBAR.replace('["a"]', '["f.x"]') + ADRIFT + POINT_LOOP, ["'f.x'", "free body"]),
    ],
)
def test_bad_loops_are_refused_by_name(text: str, words: list[str]) -> None:
    with pytest.raises(RobotError) as caught:
        read_table(text.encode(), "bad.toml")
    for word in ("bad.toml", *words):
        assert word in str(caught.value)


def test_every_key_of_a_loop_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "robots.md").read_text("utf-8")
    rows = page.split("| key of `[[loop]]` |")[1].split("\n\n")[0]
    documented = {key for row in rows.splitlines()[2:] for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert documented == set(LoopTable.__struct_fields__)


# --- URDF -------------------------------------------------------------------------------------------------------------

GRIPPER = """<robot name="gripper"><link name="base"/><link name="a"/><link name="b"/><link name="c"/>
<joint name="ja" type="revolute"><parent link="base"/><child link="a"/></joint>
<joint name="jb" type="prismatic"><parent link="a"/><child link="b"/><mimic joint="ja" multiplier="-0.5" offset="0.1"/>
</joint><joint name="jc" type="fixed"><parent link="a"/><child link="c"/><mimic joint="ja"/></joint></robot>"""


def test_urdf_mimic_is_a_passive_joint_that_follows(tmp_path: Path) -> None:
    robot = read_robot(write(tmp_path, "gripper.urdf", GRIPPER))
    assert robot.loops == (JointLoop("jb_mimic", "jb", "ja", (0.1, -0.5)),)
    assert (robot.axis_names, robot.joint_names) == (("ja",), ("ja", "jb"))
    plain = GRIPPER.replace(' multiplier="-0.5" offset="0.1"', "")
    assert read_robot(write(tmp_path, "gripper.urdf", plain)).loops == (JointLoop("jb_mimic", "jb", "ja", (0.0, 1.0)),)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('joint="ja" multi', 'joint="jc" multi', ["'jb'", "'jc'", "which is fixed", "remove <mimic>"]),
        ('joint="ja" multi', "multi", ["'jb'", "mimic", "the joint that it follows"]),
        ('joint="ja" multi', 'joint="jb" multi', ["jb → jb", "mimic"]),
        ('<child link="a"/>', '<child link="a"/><mimic joint="jb"/>', ["ja → jb → ja", "no motor"]),
        ('"-0.5"', '"half"', ["'jb'", "multiplier", "half"]),
    ],
)
def test_bad_mimic_is_refused(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    assert old in GRIPPER
    with pytest.raises(RobotError) as caught:
        read_robot(write(tmp_path, "gripper.urdf", GRIPPER.replace(old, new, 1)))
    for word in words:
        assert word in str(caught.value)


# --- MJCF -------------------------------------------------------------------------------------------------------------

GEOM = '<geom size="0.05" mass="1"/>'
LOOPED = f"""<mujoco model="looped"><worldbody>
  <body name="a" pos=".1 .2 .3" euler="10 20 30"><joint name="j" axis="0 0 1" ref="20"/>{GEOM}
    <body name="flange" pos="0 .3 0" euler="0 50 0">{GEOM}<site name="s1" pos=".1 0 .2" euler="5 6 7"/></body></body>
  <body name="b" pos="-.1 .2 .5" euler="40 20 30"><joint name="k" type="slide" axis="0 1 0" ref=".2"/>{GEOM}
    <body name="c" pos="0 .1 .2"><joint name="ball" type="ball" pos=".1 .2 .3"/>{GEOM}
      <site name="s2" pos=".1 .3 .2" euler="9 6 7"/></body></body>
  <body name="stand" pos="1 0 0" euler="0 0 45"/>
  <body name="f" pos="1 2 3" euler="40 0 30"><freejoint name="free"/>{GEOM}</body>
</worldbody><equality>EQUALITY</equality>
<actuator><motor joint="k"/><motor joint="j"/><motor joint="j"/></actuator></mujoco>"""
EQUALITIES = {
    "connect": ('<connect body1="flange" body2="c" anchor=".1 .2 .3"/>', POINT),
    "connect to the world": ('<connect body1="c" anchor=".1 .2 .3"/>', POINT),
    "connect to a fixed body": ('<connect body1="stand" body2="c" anchor=".1 .2 .3"/>', POINT),
    "connect of sites": ('<connect site1="s1" site2="s2"/>', POINT),
    "weld": ('<weld body1="flange" body2="c"/>', FRAME),
    "weld with anchor": ('<weld body1="flange" body2="c" anchor=".1 .2 .3"/>', FRAME),
    "weld with relpose": ('<weld body1="a" body2="c" anchor=".1 .2 .3" relpose="1 2 3 .5 -.5 .5 .5"/>', FRAME),
    "weld to the world": ('<weld body1="c" relpose="1 2 3 .9 .1 .2 .3"/>', FRAME),
    "weld of sites": ('<weld site1="s1" site2="s2"/>', FRAME),
    "weld without torque": ('<weld body1="a" body2="c" relpose="1 2 3 1 0 0 0" torquescale="0"/>', POINT),
}
HOLD = '<weld name="hold" body1="f" body2="c"/>'


def euler_quaternion(rx: float, ry: float, rz: float) -> Array:
    """(w, x, y, z) of Rx(rx) Ry(ry) Rz(rz), by half angles."""
    quaternion = np.array([1.0, 0.0, 0.0, 0.0])
    for axis, angle in enumerate((rx, ry, rz)):
        w, v = quaternion[0], quaternion[1:]
        u, s = np.sin(angle / 2) * np.eye(3)[axis], np.cos(angle / 2)
        quaternion = np.array([w * s - v @ u, *(w * u + s * v + np.cross(v, u))])
    return quaternion


@pytest.mark.parametrize("kind", EQUALITIES)
def test_mjcf_loops_are_what_mujoco_holds_together(tmp_path: Path, kind: str) -> None:
    """Positions of all bodies, and the residual of the constraint, at random postures of all joints."""
    mujoco = pytest.importorskip("mujoco")
    equality, components = EQUALITIES[kind]
    path = write(tmp_path, "looped.xml", LOOPED.replace("EQUALITY", HOLD + equality))
    robot = read_robot(path)
    loop = robot.loops[1]
    assert isinstance(loop, FrameLoop)
    assert loop.components == components
    assert robot.joint_names == ("j", "k", "ball.rx", "ball.ry", "ball.rz", *(f"free.{c}" for c in COMPONENTS))
    assert robot.axis_names == ("j", "k")
    assert [joint.bare for joint in robot.joints] == [False] * 2 + [True] * 9
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(5)
    assert robot.home is not None
    for q in (robot.home, *rng.uniform(-1.2, 1.2, (4, 11))):
        reference = np.array(model.qpos0[-7:])
        turned = euler_quaternion(*q[8:])
        free, at = np.zeros(4), np.zeros(3)
        mujoco.mju_mulQuat(free, reference[3:], turned)
        mujoco.mju_rotVecQuat(at, q[5:8], reference[3:])
        data.qpos[:] = [*q[:2], *euler_quaternion(*q[2:5]), *(reference[:3] + at), *free]
        mujoco.mj_forward(model, data)
        links = link_transforms(robot.tree, q)
        for link, pose in zip(robot.links, links, strict=True):
            if not link.virtual:
                body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, link.name)
                np.testing.assert_allclose(pose[:3, 3], data.xpos[body], atol=1e-12)
                np.testing.assert_allclose(pose[:3, :3], data.xmat[body].reshape(3, 3), atol=1e-12)
        held = np.array(data.efc_pos[data.efc_id == 1][: 6 if "weld" in kind else 3])
        a, b = (placed(robot, end, links) for end in loop.ends)
        np.testing.assert_allclose(a[:3, 3] - b[:3, 3], held[:3], atol=1e-12)
        if components == FRAME:  # MuJoCo: vector part of the quaternion from B to A, i.e. axis · sin(angle / 2)
            turn = b[:3, :3].T @ a[:3, :3]
            half = Rotation.from_matrix(turn).as_quat()[:3]
            assert np.linalg.norm(held[3:]) == pytest.approx(np.linalg.norm(half), abs=1e-9)
    if "relpose" not in equality and "site" not in equality:
        assert np.max(np.abs(residual(robot, robot.home))) < 1e-12


@pytest.mark.slow
@given(st.lists(st.floats(-2, 2), min_size=5, max_size=5), st.floats(-60, 60), st.floats(-1, 1), st.floats(-1.5, 1.5))
def test_mjcf_joint_equality_counts_from_the_references(
    tmp_path_factory: pytest.TempPathFactory, coefficients: list[float], ref_j: float, ref_k: float, q: float
) -> None:
    pytest.importorskip("mujoco")
    text = " ".join(repr(c) for c in coefficients)
    equality = f'<joint name="cam" joint1="j" joint2="k" polycoef="{text}"/>'
    content = LOOPED.replace("EQUALITY", HOLD + equality).replace('ref="20"', f'ref="{ref_j!r}"')
    content = content.replace('ref=".2"', f'ref="{ref_k!r}"').replace('<motor joint="j"/>', "")
    robot = read_robot(write(tmp_path_factory.getbasetemp(), "cam.xml", content))
    loop = robot.loops[1]
    assert isinstance(loop, JointLoop)
    assert (loop.name, loop.joint, loop.other, robot.axis_names) == ("cam", "j", "k", ("k",))
    expected = np.deg2rad(ref_j) + sum(c * (q - ref_k) ** n for n, c in enumerate(coefficients))
    assert np.polyval(loop.polynomial[::-1], q) == pytest.approx(expected, abs=1e-9)
    assert robot.home is not None
    np.testing.assert_allclose(robot.home[:2], [np.deg2rad(ref_j), ref_k], atol=1e-12)


def looped(equality: str, actuator: str = '<motor joint="j"/>', extra: str = "") -> str:
    second = f'<body name="c" pos="0 0 1"><joint name="k"/>{GEOM}</body>'
    body = f'<body name="b"><joint name="j"/>{GEOM}<site name="s"/>{second}</body>'
    return (
        f"<mujoco><worldbody>{body}{extra}</worldbody><equality>{equality}</equality>"
        f"<actuator>{actuator}</actuator></mujoco>"
    )


SAME = '<joint name="e" joint1="j" joint2="k"/>'
LOOSE = f'<body name="f"><freejoint name="free"/>{GEOM}</body>'
BALL = f'<body name="f"><joint name="s" type="ball" stiffness="2"/>{GEOM}</body>'


def test_mjcf_inactive_equalities_are_ignored(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    robot = read_robot(write(tmp_path, "r.xml", looped(SAME.replace("/>", ' active="false"/>'), "")))
    assert robot.loops == ()
    assert robot.axis_names == ("j", "k")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (looped(SAME, '<motor name="m" site="s"/>'), ["'m'", "site", "put it on a joint"]),
        (looped(SAME, extra=LOOSE), ["'free'", "'f'", "is not part of a loop"]),
        (looped("", extra=LOOSE), ["'free'", "'f'", "is not part of a loop"]),
        (looped('<connect body1="f" anchor="0 0 1"/>', extra=BALL), ["'s'", "ball", "stiffness"]),
        (
            looped('<connect body1="f" anchor="0 0 1"/>', '<motor name="m" joint="s"/>', BALL.replace("2", "0")),
            ["'m'", "'s'", "neither a hinge nor a slide"],
        ),
        (
            looped('<tendon tendon1="t"/>').replace(
                "<equality>", '<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon><equality>'
            ),
            ["tendon", "not supported"],
        ),
        (looped('<weld body1="b" body2="c"/>', '<motor joint="j"/>').replace('<joint name="k"/>', ""), ["both ends"]),
    ],
)
def test_bad_mjcf_loops_are_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    pytest.importorskip("mujoco")
    with pytest.raises(RobotError) as caught:
        read_robot(write(tmp_path, "bad.xml", text))
    for word in ("bad.xml", *words):
        assert word in str(caught.value)


def test_what_an_mjcf_switches_off_is_not_read(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    body = """
<mujoco><option><flag %s/></option><worldbody>
 <body name="a"><joint name="a" axis="0 0 1" damping="0.2" frictionloss="0.3"/><geom size="0.1" mass="1"/>
  <body name="b" pos="1 0 0"><joint name="b" axis="0 0 1"/><geom size="0.1" mass="1"/></body></body></worldbody>
 <equality><joint joint1="b" joint2="a"/></equality><actuator><motor joint="a"/></actuator></mujoco>"""
    file = tmp_path / "arm.xml"
    file.write_text(body % "")
    assert len(read_robot(str(file)).loops) == 1
    file.write_text(body % 'equality="disable" frictionloss="disable" damper="disable"')
    robot = read_robot(str(file))
    assert (len(robot.loops), robot.joints[0].drive.viscous, robot.joints[0].drive.coulomb) == (0, 0.0, 0.0)
