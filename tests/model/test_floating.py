"""Robots on a floating base against Pinocchio's free flyer and MuJoCo, and which robots look as if they were ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from steelyard._arrays import Array
from steelyard.errors import ModelError, RobotError
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.model.base_parameters import base_parameters, independent_columns
from steelyard.model.floating.appearance import signs_of_a_free_base
from steelyard.model.floating.base_motion import at_origin, coordinates, of_pose, random_base
from steelyard.model.model import Model
from steelyard.model.pose import Pose
from steelyard.model.robot import Robot
from testbed.floating import mujoco_case, padded, pinocchio_case, quadruped_urdf, with_base_rows
from testbed.places import ROOT, SHARED_ZOO
from testbed.trees import relative

FLOATING = (
    "anybotics_anymal_b/anymal_b", "anybotics_anymal_c/anymal_c", "apptronik_apollo/apptronik_apollo",
    "berkeley_humanoid/berkeley_humanoid", "booster_t1/t1", "boston_dynamics_spot/spot_arm", "fourier_n1/n1",
    "google_barkour_v0/barkour_v0", "google_barkour_vb/barkour_vb", "pal_tiago_dual/tiago_dual",
    "pndbotics_adam_lite/adam_lite", "robotis_op3/op3", "unitree_a1/a1", "unitree_g1/g1_with_hands",
    "unitree_go1/go1", "unitree_go2/go2", "unitree_h1/h1",
)  # fmt: skip
# Robots that stand on the ground: arms, hands, grippers, and torsos with two arms.
STANDING = (
    "aloha", "franka_emika_panda", "leap_hand", "robotiq_2f85", "robotiq_2f85_v4", "shadow_dexee", "shadow_hand",
    "trossen_wxai", "ufactory_xarm7", "umi_gripper", "wonik_allegro", "kuka_iiwa_14", "agilex_piper",
)  # fmt: skip


def written(folder: Path, text: str) -> Path:
    file = folder / "robot.urdf"
    file.write_text(text)
    return file


@pytest.fixture
def quadruped(tmp_path: Path) -> Robot:
    return read_robot(written(tmp_path, quadruped_urdf()), base="floating")


def rank(rows: Array) -> int:
    return len(independent_columns(rows.reshape(-1, rows.shape[-1]), 1e-8).kept)


# --- Dynamics ---------------------------------------------------------------------------------------------------------


def check_against_pinocchio(file: Path, robot: Robot) -> None:
    """Torque, regressor, and the number of base parameters: all rows, those of the base alone, the limbs' alone."""
    bodies = 10 * (len(robot.joints) - 5)
    case = pinocchio_case(file, robot, bodies // 2)
    model, limbs = with_base_rows(robot), Model(robot)
    theta = model.layout.nominal
    assert theta is not None
    motion = (padded(case.q), padded(case.v), padded(case.a))
    assert relative(model.torque(*motion, theta, base=case.base), case.tau) < 1e-12
    w = model.regressor(*motion, base=case.base)
    assert relative(np.einsum("jcs,c->js", w, theta), case.tau) < 1e-12
    assert relative(limbs.torque(case.q, case.v, case.a, theta, base=case.base), case.tau[6:]) < 1e-12
    whole = len(base_parameters(model))
    assert whole == rank(case.regressor) == rank(case.regressor[:, :6])
    assert rank(w[:6].transpose(2, 0, 1)) == whole
    assert len(base_parameters(limbs)) == rank(case.regressor[:, 6:])


def test_equal_to_pinocchio_and_as_many_base_parameters(tmp_path: Path) -> None:
    pytest.importorskip("pinocchio")
    file = written(tmp_path, quadruped_urdf())
    robot = read_robot(file, base="floating")
    check_against_pinocchio(file, robot)
    assert (len(base_parameters(with_base_rows(robot))), len(base_parameters(Model(robot)))) == (94, 84)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["solo12", "anymal", "go2", "bolt", "laikago", "icub_reduced"])
def test_urdfs_of_a_collection_are_equal_to_pinocchio(name: str) -> None:
    pytest.importorskip("pinocchio")
    files = sorted((ROOT / ".venv-zoo").glob(f"lib/**/{name}.urdf"))
    if not files:
        pytest.skip("No environment .venv-zoo with example-robot-data.")
    robot = read_robot(files[0], base="floating")
    check_against_pinocchio(files[0], robot)


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOATING)
def test_mjcfs_of_a_collection_are_equal_to_mujoco(name: str) -> None:
    pytest.importorskip("mujoco")
    file = SHARED_ZOO / f"{name}.xml"
    if not file.is_file():
        pytest.skip("No collection of robot files beside the repository.")
    robot = read_robot(file)
    assert robot.floats
    case, model = mujoco_case(file, robot, 4), with_base_rows(robot)
    theta = model.layout.nominal
    assert theta is not None
    motion = (padded(case.q), padded(case.v), padded(case.a))
    assert relative(model.torque(*motion, theta, base=case.base), case.tau) < 1e-12
    assert relative(np.einsum("jcs,c->js", model.regressor(*motion, base=case.base), theta), case.tau) < 1e-12


def test_a_base_at_rest_is_a_base_that_is_bolted_down(quadruped: Robot) -> None:
    bolted = replace(quadruped, joints=tuple(fixed_joints(quadruped)), links=quadruped.links[6:])
    rng = np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, bolted.dof, 5))
    fixed, floating = Model(bolted), Model(quadruped)
    theta = floating.layout.nominal
    assert theta is not None
    rest = np.zeros((9, 5))
    rest[:3] = -quadruped.gravity[:, None]
    assert relative(floating.torque(q, v, a, theta, base=rest), fixed.torque(q, v, a, theta[10:])) < 1e-13


def fixed_joints(robot: Robot) -> Iterator[object]:
    """The limbs' joints on the ground instead of the base."""
    for joint in robot.joints[6:]:
        yield replace(joint, parent=joint.parent - 6 if joint.parent > 5 else -1)


def test_the_base_needs_the_model_to_know_its_motion(quadruped: Robot) -> None:
    model, still = Model(quadruped), np.zeros((12, 3))
    with pytest.raises(ModelError, match="floats: give its motion"):
        model.regressor(still, still, still)
    with pytest.raises(ModelError, match="Forward dynamics is not defined"):
        model.forward(still, still, still, np.ones(len(model.layout)))
    with pytest.raises(ModelError, match="mass matrix"):
        model.mass_matrix(still, np.ones(len(model.layout)))


def test_limbs_alone_do_not_tell_the_base_and_the_total_mass(quadruped: Robot) -> None:
    base = base_parameters(Model(quadruped))
    zero = {base.layout.names[k] for k in base.zero}
    assert {name for name in zero if name.startswith("trunk.")} == {n for n in base.layout.names if n[:6] == "trunk."}
    lost = np.array([name.endswith(".M") for name in base.layout.names], float)
    # the total mass is no combination of base parameters
    assert np.linalg.norm(np.linalg.lstsq(base.map.T, lost, rcond=None)[0] @ base.map - lost) > 0.5


# --- Motion of the base -----------------------------------------------------------------------------------------------


def test_coordinates_turn_the_base_as_it_turns() -> None:
    """ω and α of the six joints at q = 0, by differentiating R(q(t)) = Rx Ry Rz twice."""
    base = random_base(np.random.default_rng(3), 1)
    _, v, a = coordinates(base)
    step, times = 1e-4, np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) * 1e-4
    angles = v[3:] * times + 0.5 * a[3:] * times**2
    turned = Rotation.from_euler("XYZ", angles.T).as_matrix()
    rates = [Rotation.from_matrix(turned[k - 1].T @ turned[k + 1]).as_rotvec() / (2.0 * step) for k in (1, 2, 3)]
    assert np.allclose(rates[1], base[3:6, 0], atol=1e-6)
    assert np.allclose((rates[2] - rates[0]) / (2.0 * step), base[6:, 0], atol=1e-4)
    assert np.array_equal(a[:3], base[:3])


def test_a_sensor_and_a_pose_tell_the_same_base() -> None:
    """A frame on a body that turns about a moving point: its attitude and path, and what an IMU there measures."""
    rng = np.random.default_rng(4)
    gravity, sensor = np.array([0.0, 0.0, -9.81]), Pose(Rotation.random(rng=rng).as_matrix(), rng.normal(size=3))
    base = random_base(rng, 6)
    attitude = Rotation.random(6, rng=rng)
    q = attitude.as_quat(scalar_first=True).T
    w, alpha = base[3:6], base[6:]

    def product(p: Array, x: Array) -> Array:
        return np.vstack([-np.sum(p[1:] * x, axis=0), p[0] * x + np.cross(p[1:], x, axis=0)])

    dq = 0.5 * product(q, w)
    ddq = 0.5 * product(q, alpha) - 0.25 * np.sum(w**2, axis=0) * q
    acceleration = np.einsum("sij,js->is", attitude.as_matrix(), base[:3]) + gravity[:, None]
    assert np.allclose(of_pose((q, dq, ddq), acceleration, gravity), base, atol=1e-12)
    # what the sensor measures at its own place, by the same law in the other direction
    r = np.tile(sensor.position[:, None], (1, 6))
    there = base[:3] + np.cross(alpha, r, axis=0) + np.cross(w, np.cross(w, r, axis=0), axis=0)
    back = sensor.rotation.T
    assert np.allclose(at_origin(back @ there, back @ w, back @ alpha, sensor), base, atol=1e-12)


# --- What files say ---------------------------------------------------------------------------------------------------


def test_a_floating_joint_of_a_file_floats(tmp_path: Path) -> None:
    text = quadruped_urdf().replace(
        '<link name="trunk">',
        '<link name="world"/><joint name="float" type="floating"><parent link="world"/><child link="trunk"/></joint>'
        '<link name="trunk">',
    )
    robot = read_robot(written(tmp_path, text))
    assert robot.floats
    assert robot.joint_names[0] == "float.x"
    assert robot.axis_names[0] == "FL_haa"
    bolted = read_robot(written(tmp_path, text), base="fixed")
    assert (bolted.dof, bolted.floats, bolted.findings) == (12, False, ())
    held = read_robot(written(tmp_path, text), held=["HR_*"])
    assert held.floats
    assert held.dof == 9


def test_a_world_that_carries_the_robot_is_let_go(tmp_path: Path) -> None:
    fixed = '<link name="world"/><joint name="on" type="fixed"><parent link="world"/><child link="trunk"/></joint>'
    text = quadruped_urdf().replace('<link name="trunk">', fixed + '<link name="trunk">')
    assert read_robot(written(tmp_path, text), base="floating").joint_names[0] == "on.x"
    assert not read_robot(written(tmp_path, text)).findings  # bolted down on purpose


def test_a_table_floats_by_a_free_joint(tmp_path: Path) -> None:
    file = tmp_path / "hopper.toml"
    file.write_text(
        'name = "hopper"\nconvention = "mdh"\n[[joint]]\nname = "free"\nkind = "free"\nlink = "trunk"\n'
        "mass = 3.0\ncom = [0, 0, 0.1]\ninertia_com = [0.1, 0, 0, 0.1, 0, 0.1]\n"
        '[[joint]]\nname = "knee"\nalpha = "-pi/2"\nmass = 1.0\ncom = [0.1, 0, 0]\n'
        "inertia_com = [0, 0, 0, 0.1, 0, 0.1]\n"
    )
    robot = read_robot(file)
    assert robot.floats
    assert (robot.axis_names, robot.links[5].name) == (("knee",), "trunk")


def test_a_base_that_cannot_float_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=r"fixes its base.*<freejoint/>"):
        read_robot("tx40", base="floating")
    with pytest.raises(RobotError, match="Did you mean 'floating'"):
        read_robot("tx40", base="floatin")  # type: ignore[arg-type]
    mimic = quadruped_urdf().replace(
        '<child link="FL_lower"/>', '<child link="FL_lower"/><mimic joint="FL_hfe" multiplier="-2"/>'
    )
    with pytest.raises(ModelError, match="floats and its joints form loops"):
        Model(read_robot(written(tmp_path, mimic), base="floating"))
    assert Model(read_robot(written(tmp_path, mimic), None, ["FL_*"], "floating")).robot.dof == 9


# --- What robots look like --------------------------------------------------------------------------------------------


def test_legs_and_an_imu_are_signs_and_fingers_are_not(tmp_path: Path) -> None:
    def signs(text: str) -> str:
        return signs_of_a_free_base(read_robot(written(tmp_path, text), base="fixed"))

    assert "4 of them named as legs" in signs(quadruped_urdf(imu=False))
    assert "an IMU on the base ('imu_link')" in signs(quadruped_urdf())
    arms = quadruped_urdf(imu=False, names="shoulder elbow wrist")
    assert signs(arms) == ""
    assert signs(quadruped_urdf(imu=False, legs=("FL",))) == ""
    found = read_robot(written(tmp_path, quadruped_urdf())).findings
    assert [(one.code, one.severity) for one in found] == [("base-assumed-fixed", "warning")]
    assert read_robot(written(tmp_path, quadruped_urdf()), base="fixed").findings == ()
    assert read_robot(written(tmp_path, quadruped_urdf()), base="floating").findings == ()


def test_no_robot_of_ours_looks_free() -> None:
    """Not even those with legs: loops join them."""
    assert {name: signs_of_a_free_base(read_robot(name)) for name in builtin_robots()} == dict.fromkeys(
        builtin_robots(), ""
    )


@pytest.mark.slow
@pytest.mark.parametrize("folder", STANDING)
def test_no_robot_that_stands_on_the_ground_looks_free(folder: str) -> None:
    pytest.importorskip("mujoco")
    files = [f for f in sorted((SHARED_ZOO / folder).glob("*.xml")) if "<worldbody" in f.read_text()]
    if not files:
        pytest.skip("No collection of robot files beside the repository.")
    for file in files:
        try:
            robot = read_robot(file)
        except RobotError:
            continue
        assert signs_of_a_free_base(robot) == "", file
