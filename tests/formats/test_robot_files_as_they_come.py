"""Robot files as people have them: what carries no dynamics is read over and said, what cannot be read is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from steelyard.errors import RobotError
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.robot import Limits, Robot
from steelyard.model.terms import Rotor, Viscous
from testbed.finger_arm import ARM


def read(folder: Path, text: str, name: str = "robot.urdf") -> Robot:
    (folder / name).write_text(text, "utf-8")
    return read_robot(folder / name)


def codes(robot: Robot) -> list[str]:
    return [one.code for one in robot.findings]


def torque(robot: Robot, q: np.ndarray) -> np.ndarray:
    model = Model(robot, ())
    assert model.layout.nominal is not None
    rng = np.random.default_rng(1)
    return model.torque(q, rng.normal(size=q.shape), rng.normal(size=q.shape), model.layout.nominal)


# --- URDF -------------------------------------------------------------------------------------------------------------


def test_axis_limit_and_friction_of_a_fixed_joint_mean_nothing(tmp_path: Path) -> None:
    nothing = '<axis xyz="0 0 0"/><limit lower="1" upper="-1"/><dynamics damping="-1"/></joint></robot>'
    fixed = '<link name="t"/><joint name="w" type="fixed"><parent link="f1"/><child link="t"/>' + nothing
    robot = read(tmp_path, ARM.replace("</robot>", fixed))
    assert robot.joint_names == ("j1", "j2", "finger")
    assert [lump.name for lump in robot.links[2].lumps] == ["t"]


def test_a_follower_whose_master_is_missing_is_read_as_independent_and_said(tmp_path: Path) -> None:
    robot = read(tmp_path, ARM.replace('<limit lower="0.01" upper="0.04"/>', '<mimic joint="j_1"/>'))
    assert robot.axis_names == ("j1", "j2", "finger")
    (finding,) = robot.findings
    assert (finding.code, finding.severity, finding.where) == ("mimic-master-missing", "warning", "finger")
    assert "'j_1'" in finding.message
    assert "'j1'" in finding.fix


def test_limits_of_zero_are_placeholders(tmp_path: Path) -> None:
    zeros = '<limit lower="0" upper="0" effort="0" velocity="0"/>'
    robot = read(tmp_path, ARM.replace('<limit lower="0.01" upper="0.04"/>', zeros))
    assert robot.joints[2].limits == Limits()
    (finding,) = robot.findings
    assert (finding.code, finding.severity) == ("placeholder-limits", "info")
    assert finding.message.endswith("is read as no limit: finger")


def test_several_roots_are_fixed_to_the_first_that_carries_a_joint(tmp_path: Path) -> None:
    robot = read(tmp_path, ARM.replace('<link name="base"/>', '<link name="table"/><link name="base"/>'))
    assert robot.base == "base"
    assert set(robot.fixed) == {"base", "table"}
    (finding,) = robot.findings
    assert (finding.code, finding.severity) == ("several-bases", "warning")
    assert "table, base" in finding.message


def test_a_world_that_is_not_declared_is_the_base(tmp_path: Path) -> None:
    world = (
        '<joint name="w" type="fixed"><parent link="world"/><child link="base"/><origin xyz="0 0 1"/></joint></robot>'
    )
    robot = read(tmp_path, ARM.replace("</robot>", world))
    assert robot.base == "world"
    assert robot.findings == ()
    np.testing.assert_allclose(robot.fixed["base"].position, [0, 0, 1])


def test_meshes_of_packages_are_not_needed(tmp_path: Path) -> None:
    mesh = '<visual><geometry><mesh filename="package://a/b.dae"/></geometry></visual>'
    robot = read(tmp_path, ARM.replace('<link name="l1">', f'<link name="l1">{mesh}'))
    assert robot.findings == ()


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match="is empty"):
        read(tmp_path, " \n")
    with pytest.raises(RobotError, match="no <link>"):
        read(tmp_path, '<robot name="r"></robot>')


def test_xacro_is_expanded_where_its_package_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xacro", None)
    with pytest.raises(RobotError, match=r"xacro.*not installed.*pip install xacro.*xacro robot.xacro > robot.urdf"):
        read(tmp_path, "<robot/>", "arm.urdf.xacro")
    document = SimpleNamespace(toxml=lambda: ARM)
    monkeypatch.setitem(sys.modules, "xacro", SimpleNamespace(process_file=lambda _: document))
    assert read(tmp_path, "<robot/>", "arm.xacro").joint_names == ("j1", "j2", "finger")

    def fail(_: str) -> None:
        raise ValueError("undefined\nname")

    monkeypatch.setitem(sys.modules, "xacro", SimpleNamespace(process_file=fail))
    with pytest.raises(RobotError, match=r"cannot expand .*: undefined name"):
        read(tmp_path, "<robot/>", "arm.xacro")


# --- MJCF -------------------------------------------------------------------------------------------------------------

GEOM = '<geom size=".1" pos=".1 .2 .3"/>'


def mjcf(first: str = GEOM, second: str = GEOM, more: str = "", options: str = "") -> str:
    joints = '<joint name="j" axis="0 1 0" range="-1 1"/>', '<joint name="k" axis="1 0 0"/>'
    inner = f'<body name="c" pos="0 0 .5">{joints[1]}{second}<site name="s"/></body>'
    return (
        f'<mujoco><compiler angle="radian"/>{options}<worldbody><site name="w"/><body name="b">{joints[0]}{first}'
        f"{inner}</body></worldbody>{more}</mujoco>"
    )


def matches_mujoco(path: Path, robot: Robot) -> bool:
    """Torques of a file that MuJoCo can compile, without constraints."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(path))  # pyright: ignore[reportAttributeAccessIssue]
    data = mujoco.MjData(model)  # pyright: ignore[reportAttributeAccessIssue]
    data.qpos[:], data.qvel[:], data.qacc[:] = [0.3, -0.8], [1.0, 2.0], [-3.0, 1.0]
    mujoco.mj_inverse(model, data)  # pyright: ignore[reportAttributeAccessIssue]
    ours = Model(robot, (Rotor(), Viscous()))
    assert ours.layout.nominal is not None
    q, v, a = (np.array(x)[:, None] for x in (data.qpos, data.qvel, data.qacc))
    found = ours.torque(q, v, a, ours.layout.nominal)
    return bool(np.allclose(found[:, 0], data.qfrc_inverse, rtol=1e-12, atol=1e-12))


FIXED = '<tendon><fixed name="cable"{}><joint joint="j" coef="1"/><joint joint="k" coef="2"/></fixed></tendon>'
SPATIAL = '<tendon><spatial name="cable"{}><site site="w"/><site site="s"/></spatial></tendon>'


@pytest.mark.parametrize("tendon", [FIXED, SPATIAL])
def test_a_tendon_that_exerts_nothing_is_read_over_and_said(tmp_path: Path, tendon: str) -> None:
    pytest.importorskip("mujoco")
    robot = read(tmp_path, mjcf(more=tendon.format("")), "robot.xml")
    (finding,) = robot.findings
    assert (finding.code, finding.severity) == ("tendon-not-read", "info")
    assert "cable" in finding.message
    assert matches_mujoco(tmp_path / "robot.xml", robot)


@pytest.mark.parametrize("effect", ["stiffness", "damping", "frictionloss", "armature"])
def test_a_tendon_that_exerts_a_force_is_refused_with_the_way_out(tmp_path: Path, effect: str) -> None:
    pytest.importorskip("mujoco")
    with pytest.raises(RobotError, match=f"cable.*{effect}.*Remove") as caught:
        read(tmp_path, mjcf(more=FIXED.format(f' {effect}="1"')), "robot.xml")
    assert "\n" not in str(caught.value)


def test_a_path_that_an_actuator_pulls_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    more = SPATIAL.format("") + '<actuator><motor tendon="cable"/></actuator>'
    with pytest.raises(RobotError, match=r"cable.*not measured.*give every joint a motor"):
        read(tmp_path, mjcf(more=more), "robot.xml")


def test_muscles_are_refused_with_at_most_a_few_names(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    muscles = "".join(f'<muscle name="m{k}" joint="j" lengthrange="0 1"/>' for k in range(9))
    with pytest.raises(RobotError, match=r"muscles \(m0, m1, m2, m3, m4 and 4 more\).*Remove"):
        read(tmp_path, mjcf(more=f"<actuator>{muscles}</actuator>"), "robot.xml")


MESHES = '<asset><mesh file="{}.stl"/><mesh name="other" file="o.stl"/></asset>'
SHAPE = '<geom type="mesh" mesh="{}"/>'
MASS = '<inertial pos=".1 0 0" mass="2" diaginertia=".1 .1 .1"/>'


def test_a_missing_mesh_does_not_matter_where_inertias_are_stated(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    shapes = MASS + SHAPE.format("a") + SHAPE.format("other")
    robot = read(tmp_path, mjcf(shapes, MASS + GEOM, options=MESHES.format("a")), "robot.xml")
    (finding,) = robot.findings
    assert (finding.code, finding.severity) == ("mesh-missing", "info")
    assert "2 mesh or image files were not found (a.stl, o.stl)" in finding.message
    plain = read(tmp_path, mjcf(MASS, MASS + GEOM), "plain.xml")
    assert matches_mujoco(tmp_path / "plain.xml", plain)
    q = np.array([[0.1, 0.5], [0.2, -0.4]])
    np.testing.assert_array_equal(torque(robot, q), torque(plain, q))


def test_a_body_whose_inertia_needs_a_missing_mesh_is_unknown_and_said(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    robot = read(tmp_path, mjcf(GEOM + SHAPE.format("a"), MASS, options=MESHES.format("a")), "robot.mjcf")
    assert [link.inertia is None for link in robot.links] == [True, False]
    (finding,) = robot.findings
    assert (finding.code, finding.severity) == ("mesh-missing", "warning")
    assert "the inertia of b is unknown" in finding.message


def test_a_mesh_without_mass_leaves_the_inertia_known(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    shape = '<geom type="mesh" mesh="a" mass="0"/>'
    robot = read(tmp_path, mjcf(GEOM + shape, options=MESHES.format("a")), "robot.xml")
    plain = read(tmp_path, mjcf(GEOM), "plain.xml")
    np.testing.assert_array_equal(robot.links[0].inertia, plain.links[0].inertia)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("actuator", "effort"),
    [
        ('<motor joint="j" forcerange="-20 30" gear="2"/>', 40.0),
        ('<motor joint="j" ctrlrange="-1 1" gear="50"/>', 50.0),
        ('<position joint="j" kp="9" ctrlrange="-1 1"/>', np.inf),
        ('<motor joint="j" forcerange="-5 5"/><motor joint="j" forcerange="-7 7"/>', 12.0),
    ],
)
def test_the_force_range_of_actuators_limits_the_effort(tmp_path: Path, actuator: str, effort: float) -> None:
    pytest.importorskip("mujoco")
    robot = read(tmp_path, mjcf(more=f"<actuator>{actuator}</actuator>"), "robot.xml")
    assert [joint.limits.effort for joint in robot.joints] == [effort, np.inf]


def test_an_equality_that_fixes_a_joint_holds_it(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    robot = read(tmp_path, mjcf(more='<equality><joint joint1="k" polycoef=".3 0 0 0 0"/></equality>'), "robot.xml")
    assert robot.held == {"k": 0.3}
    assert robot.axis_names == ("j",)
    assert codes(robot) == ["joints-held"]


def test_joints_that_loops_leave_free_without_an_actuator_are_axes_and_said(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    robot = read(tmp_path, mjcf(more='<equality><joint joint1="k" joint2="j"/></equality>'), "robot.xml")
    assert len(robot.axis_names) == 1
    (finding,) = robot.findings
    assert (finding.code, finding.severity) == ("axes-assumed", "warning")


# --- Modified DH tables -----------------------------------------------------------------------------------------------

KHALIL = """name = "r"
convention = "mdh"
[[joint]]
name = "j1"
r = 0.4
[[joint]]
name = "j2"
alpha = "-pi/2"
d = 0.1
theta = 0.3
[[joint]]
name = "j3"
d = 0.5
r = -0.2
"""
CRAIG = KHALIL.replace("d = ", "a = ").replace("r = ", "d = ")


def test_letters_of_craig_and_khalil_describe_the_same_robot(tmp_path: Path) -> None:
    ours, theirs = (read(tmp_path, text, "r.toml") for text in (KHALIL, CRAIG))
    for one, other in zip(ours.joints, theirs.joints, strict=True):
        np.testing.assert_array_equal(one.pose.rotation, other.pose.rotation)
        np.testing.assert_array_equal(one.pose.position, other.pose.position)
    assert ours.findings == theirs.findings == ()


def test_a_table_that_mixes_letters_is_refused_with_both_readings(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=r"'a'.*'r'.*d and r \(Khalil\).*a and d \(Craig\)"):
        read(tmp_path, KHALIL.replace("d = 0.5", "a = 0.5"), "r.toml")


@pytest.mark.parametrize(("factor", "word"), [(1000.0, "metres"), (1e-3, "")])
def test_a_reach_that_no_robot_has_is_questioned(tmp_path: Path, factor: float, word: str) -> None:
    lengths = {x: str(float(x) * factor) for x in ("0.4", "0.1", "0.5", "-0.2")}
    text = "\n".join(
        f"{key} = {lengths.get(value, value)}" if (key := line.partition(" = ")[0]) in ("d", "r") else line
        for line in KHALIL.splitlines()
        if (value := line.partition(" = ")[2]) or True
    )
    (finding,) = read(tmp_path, text, "r.toml").findings
    assert (finding.code, finding.severity) == ("table-questioned", "warning")
    assert f"{1.2 * factor:.4g} m" in finding.message
    assert word in finding.fix
