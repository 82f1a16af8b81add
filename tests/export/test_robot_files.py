"""URDF and MJCF: what is written holds the identified model for us, Pinocchio and MuJoCo, and changes nothing else."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import MissingExtraError, ModelError, OutputError, RobotError
from steelyard.export.export import Export
from steelyard.export.parity import checked_parity, parity, random_states
from steelyard.export.robot_files.changes import FileChange
from steelyard.export.robot_files.fixed_bodies import split
from steelyard.export.robot_files.friction_line import POSTURES, SPEED
from steelyard.export.robot_files.inertial import inertial, number
from steelyard.export.robot_files.mjcf import edited_mjcf, mjcf_robot
from steelyard.export.robot_files.mjcf_new import generated_mjcf
from steelyard.export.robot_files.urdf import edited_urdf
from steelyard.export.robot_files.urdf_new import generated_urdf
from steelyard.export.robot_files.xml_edit import XmlText
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.assembly import lumped
from steelyard.formats.robots.urdf import read_urdf
from steelyard.model.model import Model
from steelyard.model.parameters import inertial_vector, transformed_inertia
from steelyard.model.payload import Payload
from steelyard.model.robot import STANDARD_GRAVITY, Link, Lump
from steelyard.model.terms import (
    AsymmetricCoulomb,
    AsymmetricViscous,
    Coulomb,
    Coupling,
    Dahl,
    Drift,
    LoadFriction,
    Motion,
    Offset,
    PowerLaw,
    Rotor,
    Springs,
    Stribeck,
    Term,
    Viscous,
    named_terms,
    on_joints,
    plain_terms,
)
from steelyard.physical.consistency import check_body
from testbed.trees import (
    random_inertia,
    random_pose,
    random_tree,
    relabelled,
    relative,
    rigid_model,
    with_base,
    with_link_frame,
)

seeds = st.integers(0, 2**20)


def drawn(model: Model, seed: int = 0, share: float = 1.0) -> Array:
    """Parameters of robots that can exist; with a small `share`, near the file's."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(0.1, 1.0, len(model.layout))
    bodies = np.array([random_inertia(rng) for _ in model.robot.bodies])
    if share < 1.0:
        nominal = np.array([model.robot.links[i].inertia for i in model.robot.bodies])
        bodies = nominal + share * bodies  # a body and a little of another is a body
    theta[model.inertial_index] = bodies
    return theta


def rigid(model: Model, theta: Array) -> tuple[Model, Array]:
    """The links alone, which is what the oracles compute."""
    bare = Model(model.robot)
    return bare, np.concatenate([theta[row] for row in model.inertial_index])


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def content(export: Export) -> bytes:
    (only,) = export.files.values()
    return only


# --- The oracles ------------------------------------------------------------------------------------------------------


def pinocchio_error(urdf: str, model: Model, theta: Array) -> float:
    """Largest relative difference of torques between a URDF in Pinocchio and the links of a model."""
    pin = pytest.importorskip("pinocchio")
    oracle = pin.buildModelFromXML(urdf)
    data = oracle.createData()
    oracle.gravity.linear = model.robot.gravity
    joints = [oracle.joints[oracle.getJointId(name)] for name in model.robot.joint_names]
    bare, values = rigid(model, theta)
    states = random_states(bare, 6)
    wanted, got = bare.torque(*states, values), np.empty_like(states.q)
    for s in range(states.q.shape[1]):
        q, v, a = pin.neutral(oracle), np.zeros(oracle.nv), np.zeros(oracle.nv)
        for k, joint in enumerate(joints):
            x = states.q[k, s]
            q[joint.idx_q : joint.idx_q + joint.nq] = (math.cos(x), math.sin(x)) if joint.nq == 2 else (x,)
            v[joint.idx_v], a[joint.idx_v] = states.v[k, s], states.a[k, s]
        torque = pin.rnea(oracle, data, q, v, a)
        got[:, s] = [torque[joint.idx_v] for joint in joints]
    return relative(got, wanted)


def _dof(oracle: Any, joint: str) -> int:
    """The row of a joint; one without a name is joint1 to us."""
    return int(oracle.joint(1 if joint == "joint1" and b"joint1" not in oracle.names else joint).dofadr[0])


def mujoco_error(oracle: Any, model: Model, theta: Array) -> float:
    """The same of a compiled MuJoCo model, rotors included where it has armatures: M q̈ and the bias, friction apart."""
    import mujoco

    data = mujoco.MjData(oracle)
    bare, values = rigid(model, theta)
    states = random_states(bare, 6)
    rotors = np.array([theta[model.layout.index(f"{n}.Ia")] if f"{n}.Ia" in model.layout else 0.0
                       for n in model.robot.joint_names])  # fmt: skip
    rotors *= bool(oracle.dof_armature.any())
    wanted, got = bare.torque(*states, values) + rotors[:, None] * states.a, np.empty_like(states.q)
    place = [_dof(oracle, name) for name in model.robot.joint_names]
    oracle.opt.gravity = model.robot.gravity
    for s in range(states.q.shape[1]):
        data.qpos[place], data.qvel[place] = states.q[:, s], states.v[:, s]
        mujoco.mj_forward(oracle, data)
        acceleration, force = np.zeros(oracle.nv), np.zeros(oracle.nv)
        acceleration[place] = states.a[:, s]
        mujoco.mj_mulM(oracle, data, force, acceleration)
        got[:, s] = (force + data.qfrc_bias)[place]
    return relative(got, wanted)


# --- URDF in place ----------------------------------------------------------------------------------------------------

INERTIA = '<inertia ixx="0.2" ixy="0.01" ixz="0" iyy="0.2" iyz="-0.02" izz="0.1"/>'
ARM = f"""<?xml version="1.0"?>
<!-- an arm: a flange and a camera on fixed joints, a rail, no dynamics at the wrist -->
<robot name="arm" xmlns:xacro="http://ros.org/wiki/xacro">
  <link name="world"/>
  <link name="upper">
    <!-- weighed -->
    <inertial>
      <mass   value = '3.0' /><!-- with cables -->
      <origin xyz="0 0.01 0.2" rpy="0.3 -0.4 0.5"/>
      {INERTIA}
    </inertial>
    <visual><geometry><mesh filename="package://arm/upper.stl"/></geometry></visual>
  </link>
  <joint name="shoulder" type="continuous">
    <parent link="world"/><child link="upper"/>
    <origin xyz="0 0 0.3" rpy="0 0 0"/>
    <axis xyz="0 0 1"/>
    <dynamics friction="0.1" damping="0.2"/>
  </joint>
  <joint name="elbow" type="revolute">
    <parent link="upper"/>
    <child link="fore"/>
    <origin xyz="0 0 0.5" rpy="0 0.5 0"/>
    <axis xyz="0 -3 0"/>
    <limit lower="-1" upper="2" velocity="3" effort="40"/>
  </joint>
  <link name="fore"/>
  <joint name="wrist" type="fixed">
    <origin xyz="0 0.1 0.2" rpy="0.1 0.2 0.3"/><parent link="fore"/><child link="flange"/>
  </joint>
  <link name="flange">
    <inertial><origin xyz="0.1 0 0.02" rpy="0.3 -0.4 0.5"/><mass value="0.7"/>
      <inertia ixx="0.01" ixy="0.001" ixz="-0.002" iyy="0.02" iyz="0.003" izz="0.015"/></inertial>
  </link>
  <joint name="mount" type="fixed"><parent link="flange"/><child link="camera"/><origin xyz="0 0 0.1"/></joint>
  <link name="camera"><inertial><mass value="0.1"/>
    <inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="1e-4"/></inertial></link>
  <joint name="rail" type="prismatic"><origin xyz="0.3 0 0" rpy="0 1 0"/><parent link="flange"/><child link="slider"/>
    <axis xyz="1 2 2"/><limit lower="0" upper="0.4" velocity="0.2" effort="20"/></joint>
  <link name="slider"><inertial><mass value="0.4"/>{INERTIA}</inertial></link>
  <gazebo reference="upper"><material>Gazebo/Grey</material></gazebo>
</robot>
"""
PLAIN = ARM.replace("    <origin xyz", "\t<origin xyz").replace("\n", "\r\n")
SILENT = re.sub(r"\s*<inertial>.*?</inertial>", "", ARM, flags=re.DOTALL)
ONE_LINE = re.sub(r"\s*\n\s*", " ", ARM)
MIMIC = ARM.replace('<limit lower="0"', '<mimic joint="elbow" multiplier="0.1" offset="0.05"/><limit lower="0"')
UMLAUT = ARM.replace("weighed", "gewogen, für März").replace("1.0", '1.0" encoding="ENCODING')

FILES = {
    "commented": ARM.encode(),
    "crlf and tabs": PLAIN.encode(),
    "no inertial": SILENT.encode(),
    "one line": ONE_LINE.encode(),
    "mimic": MIMIC.encode(),
    "latin-1": UMLAUT.replace("ENCODING", "iso-8859-1").encode("latin-1"),
    "utf-16": UMLAUT.replace("ENCODING", "utf-16").encode("utf-16"),
    "utf-16 without mark": UMLAUT.replace("ENCODING", "utf-16").encode("utf-16-be"),
    "utf-8 mark": UMLAUT.replace("ENCODING", "utf-8").encode("utf-8-sig"),
}
TERMS: tuple[Term, ...] = (Rotor(), Viscous(), Coulomb(), Offset())


def model_of(path: Path, terms: tuple[Term, ...] = TERMS) -> Model:
    return Model(read_robot(path), terms)


def without_values(text: str) -> str:
    """A URDF without its inertials and dynamics; an element left empty is written as one without content."""
    text = re.sub(r"\s*<inertial>.*?</inertial>|\s*<dynamics[^>]*/>", "", text, flags=re.DOTALL)
    return re.sub(r"<link name=\"([^\"]*)\">\s*</link>", r'<link name="\1"/>', text)


def as_text(raw: bytes, kind: str) -> str:
    return raw.decode(
        {"latin-1": "latin-1", "utf-16": "utf-16", "utf-16 without mark": "utf-16-be", "utf-8 mark": "utf-8-sig"}.get(
            kind, "utf-8"
        )
    )


@pytest.mark.parametrize("kind", FILES)
def test_urdf_holds_the_model_and_nothing_else_changes(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, "arm.urdf", FILES[kind])
    model = model_of(path)
    theta = drawn(model)
    export = edited_urdf(model, theta, path)
    assert set(export.files) == {"arm.urdf"}
    assert path.read_bytes() == FILES[kind]  # the writer writes nothing itself
    assert export.parity is not None
    assert export.parity.relative < 1e-12
    text = as_text(content(export), kind)
    assert without_values(text) == without_values(as_text(FILES[kind], kind))
    assert "weighed" in text or "gewogen, für März" in text
    back = read_urdf(content(export), "back")
    for joint in back.joints:
        assert joint.drive.viscous == theta[model.layout.index(f"{joint.name}.Fv")]
        assert joint.drive.coulomb == theta[model.layout.index(f"{joint.name}.Fc")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["commented", "crlf and tabs", "no inertial", "one line"])
def test_urdf_equals_pinocchio_and_mujoco(tmp_path: Path, kind: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = write(tmp_path, "arm.urdf", FILES[kind])
    model = model_of(path)
    theta = drawn(model, seed=1)
    text = content(edited_urdf(model, theta, path)).decode()
    assert pinocchio_error(text, model, theta) < 1e-9
    shapeless = re.sub(r"<visual>.*?</visual>", "", text, flags=re.DOTALL)
    assert mujoco_error(mujoco.MjModel.from_xml_string(shapeless), model, theta) < 1e-9


def test_the_nominal_model_leaves_every_byte(tmp_path: Path) -> None:
    path = write(tmp_path, "arm.urdf", ARM)
    model = model_of(path, (on_joints(Viscous(), ["shoulder"]), on_joints(Coulomb(), ["shoulder"])))
    assert model.layout.nominal is not None
    export = edited_urdf(model, model.layout.nominal, path)
    assert content(export) == ARM.encode()
    assert export.changes == ()
    assert export.left_out == ()


def test_inserted_elements_stand_as_the_file_indents(tmp_path: Path) -> None:
    path = write(tmp_path, "arm.urdf", ARM)
    model = model_of(path)
    lines = content(edited_urdf(model, drawn(model), path)).decode().splitlines()
    at = lines.index('  <link name="fore">')
    assert [line[: len(line) - len(line.lstrip())] for line in lines[at + 1 : at + 7]] == [
        "    ", "      ", "      ", "      ", "    ", "  ",
    ]  # fmt: skip
    elbow = lines.index('  <joint name="elbow" type="revolute">')
    assert lines[elbow + 6].startswith("    <dynamics damping=")
    assert lines[elbow + 7] == "  </joint>"


def test_friction_that_the_model_lacks_is_not_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "arm.urdf", ARM)
    model = model_of(path, (on_joints(Viscous(), ["elbow"]),))
    export = edited_urdf(model, drawn(model), path)
    back = read_urdf(content(export), "back")
    shoulder, elbow, rail = back.joints
    # a reader would add it to the identified efforts
    assert (shoulder.drive.viscous, shoulder.drive.coulomb) == (0.0, 0.0)
    assert (elbow.drive.viscous, elbow.drive.coulomb) == (drawn(model)[model.layout.index("elbow.Fv")], None)
    assert rail.drive.viscous is None


def test_what_urdf_cannot_hold_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "arm.urdf", ARM)
    payload = Payload("gripper", "slider")
    model = Model(read_robot(path), [Rotor(), AsymmetricCoulomb(width=0.01), Offset()], payloads=[payload])
    theta = drawn(model)
    theta[-10:] = random_inertia(np.random.default_rng(3))
    theta[model.layout.index("elbow.off")] = 0.0
    export = edited_urdf(model, theta, path)
    told = " ".join(export.left_out)
    assert "rotor inertia Ia of shoulder, elbow, rail" in told
    assert "offset of shoulder, rail:" in told
    assert "payload gripper is not part of the robot" in told
    assert "Fcp − Fcn" in told
    assert "width" in told
    p, n = (theta[model.layout.index(f"elbow.{symbol}")] for symbol in ("Fcp", "Fcn"))
    assert read_urdf(content(export), "back").joints[1].drive.coulomb == pytest.approx((p + n) / 2, rel=1e-15)


def test_changes_are_the_numbers_that_differ(tmp_path: Path) -> None:
    path = write(tmp_path, "arm.urdf", ARM)
    model = model_of(path, (Viscous(),))
    theta = model.layout.nominal
    assert theta is not None
    theta = theta.copy()
    upper = model.inertial_index[0]
    theta[upper] = transformed_inertia(1.5 * theta[upper], np.eye(3), np.zeros(3))
    theta[model.layout.index("shoulder.Fv")] = 0.25
    changes = {(c.owner, c.quantity): c for c in edited_urdf(model, theta, path).changes}
    assert changes["upper", "mass"] == FileChange("upper", "mass", "kg", 3.0, 4.5)
    assert changes["shoulder", "damping"] == FileChange("shoulder", "damping", "N.m.s", 0.2, 0.25)
    assert changes["rail", "damping"] == FileChange("rail", "damping", "N.s/m", None, 0.0)
    assert {owner for owner, _ in changes} == {"upper", "shoulder", "elbow", "rail"}
    assert ("upper", "com x") not in changes  # 1.5 times the body has its centre where it was


def test_values_of_a_table_go_into_a_urdf_with_other_frames_and_names(shared_data) -> None:
    """P0's TX40 in modified DH frames, into the manufacturer's frames; a UR10e with rounded lengths is another arm."""
    robot = read_robot("tx40")
    model = Model(robot, named_terms(plain_terms(robot)))
    export = edited_urdf(model, drawn(model), shared_data("staubli_tx40", "tx40.urdf"))
    assert export.parity is not None
    assert export.parity.relative < 1e-9
    other = read_robot("ur10e")
    with pytest.raises(OutputError, match=r"ur10e\.urdf' was not written.*geometry"):
        edited_urdf(Model(other), drawn(Model(other)), shared_data("ur10e", "ur10e.urdf"))


@settings(max_examples=15)
@given(seeds, st.integers(1, 5))
def test_values_go_into_a_file_with_other_frames_names_and_base(tmp_path_factory: Any, seed: int, joints: int) -> None:
    """The same mechanism, described twice; the file had other bodies. Gravity is the file's own."""
    rng = np.random.default_rng(seed)
    robot = replace(random_tree(rng, joints), gravity=np.array(STANDARD_GRAVITY))
    other = replace(robot, links=tuple(Link(link.name, random_inertia(rng)) for link in robot.links))
    model, theta = rigid_model(other)
    path = write(tmp_path_factory.mktemp("frames"), "other.urdf", content(generated_urdf(model, theta)))
    moved = with_link_frame(with_base(robot, random_pose(rng)), int(rng.integers(joints)), random_pose(rng))
    export = edited_urdf(*rigid_model(relabelled(moved, rng)), path)
    assert export.parity is not None
    assert export.parity.relative < 1e-9
    assert "(0, 0, -9.80665) in the file's world" in export.notes[-1]
    written, wanted = Model(read_urdf(content(export), "back")), Model(robot)
    assert written.layout.nominal is not None
    assert wanted.layout.nominal is not None
    states = random_states(wanted, 8)
    assert (
        relative(written.torque(*states, written.layout.nominal), wanted.torque(*states, wanted.layout.nominal)) < 1e-9
    )


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (ARM.replace("</robot>", '<xacro:include filename="x"/></robot>'), RobotError, "xacro robot.xacro"),
        (ARM.replace('<link name="fore"/>', '<link name="fore"/><link name="upper"/>'), RobotError, "'upper'"),
        ("<mujoco><worldbody/></mujoco>", OutputError, "not URDF: its root is <mujoco>"),
        (ARM.replace("elbow", "knee"), OutputError, "shoulder, knee, rail"),
        (ARM.replace('0 0 0.5" rpy="0 0.5 0', '0.1 0 0.5" rpy="0 0.5 0'), OutputError, "geometry"),
    ],
)
def test_files_that_cannot_be_edited_are_refused(tmp_path: Path, text: str, error: type[Exception], words: str) -> None:
    model = model_of(write(tmp_path, "arm.urdf", ARM))
    with pytest.raises(error, match=re.escape(words)):
        edited_urdf(model, drawn(model), write(tmp_path, "other.urdf", text))


def test_values_that_no_robot_has_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "arm.urdf", ARM)
    model = model_of(path)
    theta = drawn(model)
    theta[model.layout.index("elbow.Fv")] = -0.1
    with pytest.raises(ModelError, match=r"elbow\.Fv = -0\.1.*consistent"):
        edited_urdf(model, theta, path)
    theta = drawn(model)
    theta[model.layout.index("fore.M")] = -1.0
    for write_new in (edited_urdf, edited_mjcf):
        with pytest.raises((ModelError, OutputError), match=r"fore|not MJCF"):
            write_new(model, theta, path)
    with pytest.raises(ModelError, match=r"'fore'.*consistent"):
        generated_urdf(model, theta)
    with pytest.raises(RobotError, match="Cannot read"):
        edited_urdf(model, theta, tmp_path / "missing.urdf")


# --- Friction that is more than a line --------------------------------------------------------------------------------


def friction_at(model: Model, theta: Array, joint: int, speeds: Array) -> Array:
    """Friction (speeds,) of a joint that moves alone from the same posture, by the model itself."""
    v = np.zeros((model.robot.dof, len(speeds)))
    v[joint] = speeds
    still = np.zeros_like(v)
    bare = theta.copy()
    bare[model.inertial_index] = 0.0  # no centrifugal torque
    return (model.torque(still, v, still, bare) - model.torque(still, still, still, bare))[joint]


def both_ways(top: float) -> Array:
    one_way = np.linspace(0.0, top, 301)[1:]
    return np.concatenate([one_way, -one_way])


@pytest.mark.slow
@settings(max_examples=20)
@given(seeds)
def test_written_friction_is_the_line_nearest_to_the_whole_curve(seed: int) -> None:
    robot = read_robot("planar2r")
    model = Model(robot, [Viscous(), Coulomb(), PowerLaw(), Stribeck(0.2), AsymmetricViscous(), Offset()])
    theta = drawn(model, seed)
    export = generated_urdf(model, theta)
    back = read_urdf(content(export), "back")
    for j, (joint, told) in enumerate(zip(back.joints, export.friction, strict=True)):
        assert joint.drive.viscous is not None
        assert joint.drive.coulomb is not None
        speeds = both_ways(robot.joints[j].limits.velocity)
        curve = friction_at(model, theta, j, speeds)
        basis = np.stack([speeds, np.sign(speeds)], axis=1)
        best = np.linalg.lstsq(basis, curve, rcond=None)[0]
        np.testing.assert_allclose([joint.drive.viscous, joint.drive.coulomb], best, rtol=0.05, atol=0.03)
        lost = curve - basis @ [joint.drive.viscous, joint.drive.coulomb]
        plain = curve - basis @ [theta[model.layout.index(f"{joint.name}.{symbol}")] for symbol in ("Fv", "Fc")]
        assert np.std(lost) < np.std(plain)
        assert told.joint == joint.name
        assert told.lost == pytest.approx(float(np.sqrt(np.mean(lost**2))), rel=0.05)
        assert told.rms == pytest.approx(float(np.sqrt(np.mean(curve**2))), rel=0.05)
        at = float(friction_at(model, theta, j, np.array([told.worst_at]))[0])
        line = joint.drive.viscous * told.worst_at + joint.drive.coulomb * np.sign(told.worst_at)
        assert told.worst == pytest.approx(abs(at - line), rel=1e-9)


def test_load_friction_counts_at_the_mean_load_and_dahl_as_sliding() -> None:
    """Both are Coulomb's at a constant load: nothing of the curve is lost, and Fc alone would be far too small."""
    robot = read_robot("planar2r", gravity=[0.0, -9.81, 0.0])
    model = Model(robot, [Viscous(), Coulomb(), LoadFriction(), on_joints(Dahl(), [robot.joint_names[0]])])
    theta = drawn(model)
    q = model.random_positions(np.random.default_rng(7), 4000)
    mean = np.abs(model.load(Motion(q, 0.0 * q, 0.0 * q))).mean(axis=1)
    export = generated_urdf(model, theta)

    def value(name: str) -> float:
        return float(theta[model.layout.index(name)]) if name in model.layout.names else 0.0

    for j, joint in enumerate(read_urdf(content(export), "back").joints):
        loaded = value(f"{joint.name}.Fl") * mean[j]
        rest = value(f"{joint.name}.Fc") + value(f"{joint.name}.Fd2")
        assert joint.drive.viscous == pytest.approx(value(f"{joint.name}.Fv"), rel=1e-9)
        assert loaded > 0.0
        assert joint.drive.coulomb == pytest.approx(rest + loaded, abs=4.0 * loaded / np.sqrt(POSTURES))
        assert export.friction[j].lost < 1e-9
    told = " ".join(export.left_out)
    assert "mean load of random postures" in told
    assert "steady sliding" in told
    assert "Fl of" not in told
    (note,) = export.notes
    assert "Gravity 9.81 m/s², (0, -9.81, 0)" in note


def test_pre_sliding_is_written_as_the_friction_it_ends_in() -> None:
    model = Model(read_robot("planar2r"), [Coulomb(), Dahl()])
    theta = drawn(model)
    export = generated_urdf(model, theta)
    for joint in read_urdf(content(export), "back").joints:
        level = sum(float(theta[model.layout.index(f"{joint.name}.{symbol}")]) for symbol in ("Fc", "Fd2"))
        assert joint.drive.coulomb == pytest.approx(level, rel=1e-9)
    assert not any("not written" in one for one in export.left_out)


def test_load_friction_without_inertias_in_the_file_takes_the_identified_ones() -> None:
    robot = read_robot("planar2r", gravity=[0.0, -9.81, 0.0])
    silent = replace(robot, links=tuple(replace(link, inertia=None) for link in robot.links))
    terms = [Coulomb(), LoadFriction()]
    theta = drawn(Model(robot, terms))
    known = Model(robot, terms, carried=theta[Model(robot, terms).inertial_index])
    lines = generated_urdf(known, theta).friction
    assert generated_urdf(Model(silent, terms), theta).friction == lines
    assert lines != generated_urdf(Model(robot, terms), theta).friction


def test_friction_without_an_odd_part_changes_no_bit() -> None:
    robot = read_robot("planar2r")
    model = Model(robot, [Viscous(), Coulomb(), AsymmetricViscous(), Drift()])
    theta = drawn(model)
    export = generated_urdf(model, theta)
    for joint, told in zip(read_urdf(content(export), "back").joints, export.friction, strict=True):
        own = [theta[model.layout.index(f"{joint.name}.{symbol}")] for symbol in ("Fv", "Fc", "Fve")]
        assert [joint.drive.viscous, joint.drive.coulomb] == own[:2]
        assert told.worst == pytest.approx(own[2] * told.up_to, rel=1e-12)
    assert any("Fvt" in one and "not written" in one for one in export.left_out)
    plain = Model(robot, [Viscous(), Coulomb(width=0.01)])
    assert generated_urdf(plain, drawn(plain)).friction == ()


def test_friction_is_never_negative_and_much_that_is_lost_is_told() -> None:
    """v² has a line with a negative level: zero is written. What is lost is much, and the formats that lose nothing are
    named."""
    robot = read_robot("planar2r")
    unlimited = replace(robot.joints[0], limits=replace(robot.joints[0].limits, velocity=np.inf))
    robot = replace(robot, joints=(unlimited, *robot.joints[1:]))
    model = Model(robot, [PowerLaw(2.0)])
    export = generated_urdf(model, drawn(model))
    first = read_urdf(content(export), "back").joints[0]
    assert first.drive.coulomb == 0.0
    assert first.drive.viscous is not None
    assert first.drive.viscous > 0.0
    assert export.friction[0].up_to == SPEED
    assert export.friction[0].much
    assert "C, Python and CasADi hold the whole curve" in export.notes[0]
    assert first.name in export.notes[0]


def test_motors_that_turn_with_several_joints_rub_on_each() -> None:
    robot = read_robot("tx40")
    model = Model(robot, [Rotor(), Viscous(), Coulomb(), Coupling()])
    theta = drawn(model)
    back = read_urdf(content(generated_urdf(model, theta)), "back")

    def value(name: str) -> float:
        return float(theta[model.layout.index(name)])

    share = abs(robot.motor_map[5, 4])
    assert back.joints[4].drive.coulomb == pytest.approx(value("joint5.Fc") + share * value("joint6.Fcm"), rel=1e-9)
    assert back.joints[0].drive.coulomb == value("joint1.Fc")


def test_robots_with_loops_have_friction_curves_too() -> None:
    pytest.importorskip("mujoco")
    robot = read_robot("delta")
    model = Model(robot, [Viscous(), Coulomb(), PowerLaw(), LoadFriction()])
    theta = drawn(model)
    export = generated_mjcf(model, theta)
    driven = {one.joint for one in export.friction}
    assert set(robot.axis_names) <= driven
    for one in export.friction:
        assert one.friction > theta[model.layout.index(f"{one.joint}.Fc")]


# --- Lumps ------------------------------------------------------------------------------------------------------------


def summed(bodies: dict[str, Array], link: Link) -> Array:
    total = bodies[link.name].copy()
    for lump in link.lumps:
        if lump.name in bodies:
            total += transformed_inertia(bodies[lump.name], lump.pose.rotation, lump.pose.position)
    return total


@settings(max_examples=20)
@given(seeds, st.integers(1, 3))
def test_any_total_is_split_into_bodies_that_can_exist(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    lumps = [Lump(f"lump{k}", random_pose(rng), 0.3 * random_inertia(rng), f"fixed{k}") for k in range(count)]
    link = lumped(Link("link", random_inertia(rng)), lumps)
    total = random_inertia(rng)
    bodies = split(link, total)
    assert relative(summed(bodies, link), total) < 1e-12
    assert all(check_body(name, vector).passes for name, vector in bodies.items())


def test_lumps_keep_the_inertia_of_the_file_where_the_rest_can_exist() -> None:
    rng = np.random.default_rng(0)
    frame = Lump("frame", random_pose(rng), None, "f")
    lump = Lump("lump", random_pose(rng), random_inertia(rng), "g")
    link = lumped(Link("link", random_inertia(rng)), [frame, lump])
    assert link.inertia is not None
    bodies = split(link, link.inertia + random_inertia(rng))
    assert set(bodies) == {"link", "lump"}
    np.testing.assert_array_equal(bodies["lump"], lump.inertia)


def test_the_nearest_split_is_nearer_than_giving_the_link_everything() -> None:
    """A link that turned out a tenth lighter than the flange on it alone: the flange gives way, and little else."""
    rng = np.random.default_rng(5)
    flange = Lump("flange", random_pose(rng), random_inertia(rng), "f")
    link = lumped(Link("link", np.zeros(10)), [flange])
    assert link.inertia is not None
    assert flange.inertia is not None
    bodies = split(link, 0.9 * link.inertia)
    assert 0.85 * flange.inertia[9] < bodies["flange"][9] < 0.9 * flange.inertia[9]
    assert bodies["link"][9] < 0.05 * flange.inertia[9]


def test_a_point_mass_has_no_room_to_be_shared() -> None:
    rng = np.random.default_rng(1)
    link = lumped(Link("link", random_inertia(rng)), [Lump("lump", random_pose(rng), random_inertia(rng), "f")])
    point = inertial_vector(2.0, np.array([0.1, 0.2, 0.3]), np.zeros((3, 3)))
    bodies = split(link, point)
    assert relative(summed(bodies, link), point) < 1e-12
    assert all(check_body(name, vector).passes for name, vector in bodies.items())


def test_a_lump_that_loses_its_mass_is_accepted_by_mujoco(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    text = """<mujoco><worldbody><body name="a"><joint name="j"/><geom size="0.1"/>
      <body name="lump" pos="0.5 0 0"><inertial pos="0 0 0" mass="1" fullinertia="1 1 1 0 0 0"/></body></body>
      </worldbody></mujoco>"""
    path = write(tmp_path, "arm.xml", text)
    point = inertial_vector(2.0, np.array([0.1, 0.2, 0.3]), np.zeros((3, 3)))
    export = edited_mjcf(Model(read_robot(path)), point, path)
    assert export.parity is not None
    assert FileChange("lump", "mass", "kg", 1.0, 0.0) in export.changes
    (note,) = export.notes
    assert "lump (1 → 0 kg)" in note
    assert '"entropic"' in note
    # with room for it, the lump is left alone and nothing is said
    roomy = Model(read_robot(path))
    assert roomy.layout.nominal is not None
    assert edited_mjcf(roomy, roomy.layout.nominal, path).notes == ()
    assert "lump (1 → 0 kg)" in generated_urdf(roomy, point).notes[0]
    assert "lump (1 → 0 kg)" in generated_mjcf(roomy, point).notes[0]


@pytest.mark.parametrize("spread", [(1.0, 0.5, 0.0), (1.0, 0.0, 0.0)])
def test_plates_and_rods_are_accepted_by_mujoco(spread: tuple[float, float, float]) -> None:
    """On the boundary of what can exist, turned any way: A + B ≥ C must survive rounding."""
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(2)
    for _ in range(20):
        turn = random_pose(rng).rotation
        second = turn @ np.diag(spread) @ turn.T * 0.03
        vector = inertial_vector(2.0, rng.uniform(-0.5, 0.5, 3), np.trace(second) * np.eye(3) - second)
        body = inertial(vector)
        assert relative(inertial_vector(*body), vector) < 1e-10
        xx, xy, xz, yy, yz, zz = body.inertia[np.triu_indices(3)]
        full = " ".join(number(x) for x in (xx, yy, zz, xy, xz, yz))
        mujoco.MjModel.from_xml_string(
            f'<mujoco><worldbody><body><joint/><inertial pos="0 0 0" mass="2" fullinertia="{full}"/></body>'
            "</worldbody></mujoco>"
        )


# --- MJCF in place ----------------------------------------------------------------------------------------------------

CELL = """<mujoco model="cell">
  <!-- settings that overrule what is written, unless they are switched off -->
  <compiler angle="degree" inertiafromgeom="true" balanceinertia="true" boundmass="0.5" boundinertia="0.01" FUSE/>
  <option gravity="0.5 0 -9.7"/>
  <include file="parts/defaults.xml"/>
  <worldbody>
    <body name="stand" pos="0 0 0.4" euler="0 0 30"><geom size="0.1" mass="5"/>
      <body name="arm" pos="0.1 0 0.2" euler="10 20 30">
        <joint name="yaw" class="geared" axis="0 1 1" pos="0.1 -0.2 0.3" ref="40" stiffness="2" springref="10"/>
        <inertial pos="0.1 0.2 0.3" mass="2" diaginertia="0.3 0.4 0.5" euler="1 2 3"/>
        <geom size="0.1"/>
        <frame pos="0 0 1">
          <body name="flange" pos="0 0 0.3" euler="0 90 0">
            <inertial pos="0 0 0" mass="9" diaginertia="1 1 1"/>
            <geom size="0.1"/> <!-- a flange -->
            <include file="parts/tool.xml"/>
          </body>
        </frame>
        <body name="other"><joint name="last" axis="1 0 0" damping="3"/><geom size="0.05"/></body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
DEFAULTS = """<mujoco><default><joint armature="0.2"/>
  <default class="geared"><joint damping="2" frictionloss="0.3" armature="0.1"/></default></default></mujoco>"""
TOOL = """<mujocoinclude><body pos="0.2 0 0"><joint type="slide" axis="0 0 1"/>
  <geom type="box" size="0.1 0.05 0.02" mass="1.5"/></body></mujocoinclude>"""


def cell(folder: Path, fuse: str = "") -> Path:
    write(folder, "parts/defaults.xml", DEFAULTS)
    write(folder, "parts/tool.xml", TOOL)
    return write(folder, "cell.xml", CELL.replace("FUSE", fuse))


@pytest.mark.parametrize("fuse", ["", 'fusestatic="true"'])
@pytest.mark.parametrize("share", [0.01, 1.0])
def test_mjcf_holds_the_model_whatever_the_compiler_would_do(tmp_path: Path, fuse: str, share: float) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = cell(tmp_path, fuse)
    model = Model(read_robot(path), [*TERMS, Springs()])
    theta = drawn(model, share=share)
    export = edited_mjcf(model, theta, path)
    assert export.parity is not None
    assert export.parity.relative < 1e-9
    text = content(export).decode()
    assert "<!-- a flange -->" in text
    assert "<include" not in text
    oracle = mujoco.MjModel.from_xml_string(text)
    assert mujoco_error(oracle, model, theta) < 1e-9
    for name in model.robot.joint_names:
        dof = _dof(oracle, name)
        stated = (oracle.dof_armature[dof], oracle.dof_damping[dof], oracle.dof_frictionloss[dof])
        assert stated == tuple(theta[model.layout.index(f"{name}.{symbol}")] for symbol in ("Ia", "Fv", "Fc"))
    assert oracle.jnt_stiffness[0] == theta[model.layout.index("yaw_spring.K")]
    assert export.left_out == ("The offset of yaw, joint1, last: not written, MJCF has no place for it here.",)
    changed = {(c.owner, c.quantity): (c.before, c.after) for c in export.changes}
    assert changed["yaw", "damping"] == (2.0, theta[model.layout.index("yaw.Fv")])
    assert changed["yaw_spring", "stiffness"] == (2.0, theta[model.layout.index("yaw_spring.K")])
    assert (("flange", "mass") in changed) == (share == 1.0)  # a lump keeps its inertia where it can


BESIDE = {
    "actuator": ("</mujoco>", '<actuator><motor name="m" joint="k" gear="50" armature="0.2"/></actuator></mujoco>'),
    "class": (
        "<worldbody>",
        '<default><default class="geared"><motor armature="0.2"/></default></default>'
        '<actuator><motor joint="j"/><motor name="m" class="geared" joint="k"/></actuator><worldbody>',
    ),
    "gravcomp": ('name="b"', 'name="b" gravcomp="1"'),
    "fluid": ("<worldbody>", '<option density="1000" viscosity="0.1"/><worldbody>'),
    "stiffness": ('<joint name="k"', '<joint name="k" stiffness="5" springref="20"'),
}
NAMED = {"actuator": "armature of m", "class": "armature of m", "gravcomp": "gravcomp of b",
         "fluid": "density of <option>, viscosity of <option>", "stiffness": "Stiffness of k"}  # fmt: skip
TWO_LINKS = """<mujoco><worldbody><body name="a"><joint name="j" axis="1 0 0"/><geom size="0.1"/>
<body name="b" pos="1 0 0"><joint name="k" axis="0 1 0"/><geom size="0.1 0.2 0.3" type="box"/></body></body></worldbody>
</mujoco>"""


def inverse_error(text: str, model: Model, theta: Array) -> float:
    """Largest relative difference of a file's torques in MuJoCo (mj_inverse) and those of a model without friction."""
    import mujoco

    oracle = mujoco.MjModel.from_xml_string(text)
    data, states = mujoco.MjData(oracle), random_states(model, 6)
    oracle.dof_damping[:] = oracle.dof_frictionloss[:] = 0.0
    got = np.empty_like(states.q)
    for s in range(got.shape[1]):
        data.qpos[:], data.qvel[:], data.qacc[:] = states.q[:, s], states.v[:, s], states.a[:, s]
        mujoco.mj_inverse(oracle, data)
        got[:, s] = data.qfrc_inverse + data.qfrc_constraint
    frictionless = np.where([c.symbol in ("Fv", "Fc", "off") for c in model.layout.columns], 0.0, theta)
    return relative(got, model.torque(*states, frictionless))


@pytest.mark.parametrize("kind", BESIDE)
def test_what_mujoco_would_add_to_the_torques_is_set_to_zero_and_told(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mujoco = pytest.importorskip("mujoco")
    if kind in ("actuator", "class") and int(mujoco.__version__.split(".")[0]) < 4:
        pytest.skip("Actuators have an armature since MuJoCo 4.")
    path = write(tmp_path, "two.xml", TWO_LINKS.replace(*BESIDE[kind]))
    model = model_of(path)
    theta = drawn(model)
    export = edited_mjcf(model, theta, path)
    assert inverse_error(content(export).decode(), model, theta) < 1e-9
    assert any(NAMED[kind] in note for note in export.notes)
    # kept in the file, MuJoCo itself finds it
    monkeypatch.setattr("steelyard.export.robot_files.mjcf.zeroed_effects", lambda *_, **__: ([], ()))
    monkeypatch.setattr("steelyard.export.robot_files.mjcf._Elements.spring_edits", lambda *_: [])
    with pytest.raises(OutputError, match="mj_inverse"):
        edited_mjcf(model, theta, path)


def test_a_tendon_that_the_model_has_no_term_for_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    text = TWO_LINKS.replace('<body name="a">', '<site name="w" pos="0 0 1"/><body name="a"><site name="t"/>').replace(
        "</mujoco>",
        '<tendon><spatial name="rope" stiffness="3" springlength="0.1"><site site="w"/><site site="t"/></spatial>'
        "</tendon></mujoco>",
    )
    path = write(tmp_path, "rope.xml", text)
    with pytest.raises(OutputError, match=r"Tendon 'rope'.*term 'springs'"):
        edited_mjcf(model_of(path), drawn(model_of(path)), path)
    model = model_of(path, (*TERMS, Springs()))
    assert edited_mjcf(model, drawn(model), path).parity is not None


def test_mjcf_without_harm_keeps_every_other_byte(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    text = """<mujoco>
\t<worldbody>
\t\t<body name="a"><!-- 1 --><joint name="j" armature="0.5"/><geom size="0.1"/></body>
\t\t<body name="b" pos="1 0 0"><inertial pos="0 0 0.1" mass="1" diaginertia="0.1 0.1 0.1"/><joint name="k"/></body>
\t</worldbody>
</mujoco>
"""
    path = write(tmp_path, "two.xml", text)
    model = Model(read_robot(path))
    theta = drawn(model)
    written = content(edited_mjcf(model, theta, path)).decode()
    # a model without rotors has their inertia in its links, so that the armature goes
    expected = text.replace('armature="0.5"', 'armature="0"')
    assert re.sub(r"<inertial[^>]*/>", "", written) == re.sub(r"<inertial[^>]*/>", "", expected)
    nominal = model.layout.nominal
    assert nominal is not None
    still = Model(read_robot(path), [Rotor()])
    assert still.layout.nominal is not None
    assert content(edited_mjcf(still, still.layout.nominal, path)).decode() == text


REPLICATED = """<mujoco><worldbody><replicate count="2" offset="1 0 0" sep="_"><body name="a"><joint name="j"/>
<geom size="0.1"/></body></replicate></worldbody></mujoco>"""
TWO_JOINTS = """<mujoco><worldbody><body name="a"><joint name="j"/><joint name="k" axis="1 0 0"/>
<geom size="0.1"/></body>
</worldbody></mujoco>"""
SWITCHED_OFF = """<mujoco><option><flag frictionloss="disable"/></option><worldbody><body name="a"><joint name="j"/>
<geom size="0.1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (REPLICATED, "<replicate>"),
        (TWO_JOINTS, "Link 'a_j' stands between two joints"),
        (SWITCHED_OFF, "switches damper or frictionloss off"),
    ],
)
def test_mjcf_that_has_no_place_is_refused(tmp_path: Path, text: str, words: str) -> None:
    pytest.importorskip("mujoco")
    path = write(tmp_path, "cell.xml", text)
    model = model_of(path)
    with pytest.raises(OutputError, match=re.escape(words)):
        edited_mjcf(model, drawn(model), path)


@pytest.mark.parametrize(
    ("include", "words"),
    [
        ('<mujoco><include file="parts/tool.xml"/></mujoco>', "cannot follow"),
        ('<mujoco><include file="parts/none.xml"/></mujoco>', "cannot follow"),
        ("<mujoco><body></mujoco>", "not well-formed"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><mujoco>&a;</mujoco>', "DOCTYPE"),
    ],
)
def test_includes_that_cannot_be_followed_are_refused(tmp_path: Path, include: str, words: str) -> None:
    pytest.importorskip("mujoco")
    path = cell(tmp_path)
    model = Model(read_robot(path))
    write(tmp_path, "parts/tool.xml", include)
    with pytest.raises(RobotError, match=words):
        edited_mjcf(model, drawn(model), path)


def test_files_that_mjcf_looks_for_beside_it_are_listed(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    text = """<mujoco><compiler texturedir="SKIES" meshdir="shapes"/><asset>
      <mesh name="m" file="arm.obj"/><texture name="t" type="2d" builtin="flat" width="8" height="8"/></asset>
      <worldbody><body name="a"><joint name="j"/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
    write(tmp_path, "shapes/arm.obj", corners + "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    path = write(tmp_path, "arm.xml", text)
    model = Model(read_robot(path))
    assert edited_mjcf(model, drawn(model), path).companions == (str(Path("shapes/arm.obj")),)
    path.write_text(text.replace('"shapes"', f'"{tmp_path / "shapes"}"'))
    assert edited_mjcf(model, drawn(model), path).companions == ()


def test_gravity_of_the_file_is_kept_and_told(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    path = cell(tmp_path)
    model = Model(read_robot(path, gravity=[0.0, 9.8, 0.0]))
    export = edited_mjcf(model, drawn(model), path)
    (note,) = (one for one in export.left_out if one.startswith("Gravity"))
    assert 'set gravity="0 9.8 0" in its <option>' in note
    assert "its own (0.5 0 -9.7)" in note


@pytest.mark.parametrize("stated", ['name="b" gravcomp="1"', 'name="b" gravcomp="0.7"'])
def test_gravity_compensation_is_kept_where_the_efforts_hold_no_weight(tmp_path: Path, stated: str) -> None:
    """MuJoCo computes the torques of the weightless model from the file as it is: under the file's own gravity."""
    mujoco = pytest.importorskip("mujoco")
    path = write(tmp_path, "two.xml", TWO_LINKS.replace('name="b"', stated))
    model = Model(read_robot(path, gravity=[0.0, 0.0, 0.0]), TERMS)
    theta = drawn(model)
    export = edited_mjcf(model, theta, path)
    text = content(export).decode()
    assert mujoco.MjModel.from_xml_string(text).opt.gravity[2] == -9.81
    assert inverse_error(text, model, theta) < 1e-9
    (note,) = (one for one in export.notes if "gravcomp" in one)
    assert note.startswith("Kept: gravcomp, 1 on all moving bodies (set for a")
    assert not any("Gravity" in one for one in export.left_out)
    assert not mjcf_robot(text.encode(), path).gravity.any()  # what its errors are computed with
    assert mjcf_robot(path.read_bytes(), path).gravity[2] == -9.81  # link a has its weight there


def test_without_gravity_compensation_the_file_keeps_its_gravity(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    path = write(tmp_path, "two.xml", TWO_LINKS)
    model = Model(read_robot(path, gravity=[0.0, 0.0, 0.0]), TERMS)
    theta = drawn(model)
    export = edited_mjcf(model, theta, path)
    assert any('set gravity="0 0 0"' in one for one in export.left_out)
    text = content(export).decode()
    assert inverse_error(text, model, theta) > 0.1
    switched_off = text.replace("<mujoco>", '<mujoco><option gravity="0 0 0"/>')
    assert inverse_error(switched_off, model, theta) < 1e-9


def test_mjcf_without_mujoco_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(read_robot("planar2r"))
    path, theta = cell(tmp_path), drawn(model)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingExtraError, match=r'pip install "steelyard\[mjcf\]"'):
        generated_mjcf(model, theta)
    with pytest.raises(MissingExtraError, match=r'pip install "steelyard\[mjcf\]"'):
        edited_mjcf(model, theta, path)


# --- New files --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=12)
@given(seeds, st.integers(1, 7), st.booleans())
def test_new_files_of_any_tree_equal_pinocchio_and_mujoco(seed: int, joints: int, off_axis: bool) -> None:
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints, off_axis=off_axis)
    lump = Lump("tool & <cable>", random_pose(rng), random_inertia(rng), "bolt")
    robot = type(robot)(
        robot.name, (*robot.links[:-1], lumped(robot.links[-1], [lump])), robot.joints, gravity=robot.gravity
    )
    model = Model(robot, TERMS)
    theta = drawn(model, seed)
    urdf, mjcf = generated_urdf(model, theta), generated_mjcf(model, theta)
    assert set(urdf.files) == {"random_tree.urdf"}
    assert set(mjcf.files) == {"random_tree.xml"}
    assert pinocchio_error(content(urdf).decode(), model, theta) < 1e-9
    assert mujoco_error(mujoco.MjModel.from_xml_string(content(mjcf).decode()), model, theta) < 1e-9


@pytest.mark.parametrize("name", ["panda", "kr300", "tx40"])
def test_new_files_of_built_in_arms(name: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    robot = read_robot(name)
    model = Model(robot, named_terms(plain_terms(robot)))
    theta = drawn(model)
    assert pinocchio_error(content(generated_urdf(model, theta)).decode(), model, theta) < 1e-9
    export = generated_mjcf(model, theta)
    assert mujoco_error(mujoco.MjModel.from_xml_string(content(export).decode()), model, theta) < 1e-9
    if name == "tx40":
        assert any("cross inertia of rotors" in one for one in export.left_out)
        assert any("velocity limits of joint1" in one for one in export.left_out)


@pytest.mark.parametrize("name", ["stewart", "delta"])
def test_loops_become_equalities(name: str) -> None:
    pytest.importorskip("mujoco")
    robot = read_robot(name)
    model = Model(robot, named_terms(plain_terms(robot)))
    export = generated_mjcf(model, drawn(model))
    assert export.parity is not None
    assert export.parity.relative < 1e-9
    assert content(export).count(b" site1=") == len(robot.loops)


def test_loops_that_a_format_does_not_know_are_refused() -> None:
    pytest.importorskip("mujoco")
    robot = read_robot("fivebar")
    theta = drawn(Model(robot))
    with pytest.raises(OutputError, match=r"URDF describes trees.*tip"):
        generated_urdf(Model(robot), theta)
    with pytest.raises(OutputError, match=r"'tip'.*no equal in MuJoCo") as refused:
        generated_mjcf(Model(robot), theta)
    assert "Python" not in str(refused.value)  # which refuses loops too


def test_a_joint_that_follows_another_is_written_in_both_formats(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    model = model_of(write(tmp_path, "arm.urdf", MIMIC))
    theta = drawn(model)
    assert b'<mimic joint="elbow" multiplier="0.1" offset="0.05"/>' in content(generated_urdf(model, theta))
    assert b'polycoef="0.05 0.1 0 0 0"' in content(generated_mjcf(model, theta))


def test_mujoco_has_the_last_word(tmp_path: Path) -> None:
    """A leaf without mass moves nothing, and MuJoCo wants to divide by its inertia."""
    pytest.importorskip("mujoco")
    model = Model(read_robot("planar2r"))
    theta = drawn(model)
    theta[model.inertial_index[1]] = 0.0
    assert generated_urdf(model, theta).parity is not None
    with pytest.raises(OutputError, match=r"MuJoCo refuses it.*prior mass"):
        generated_mjcf(model, theta)


# --- Parity and text --------------------------------------------------------------------------------------------------


def test_parity_is_relative_to_every_joint() -> None:
    model = Model(read_robot("planar2r"))
    states = random_states(model, 16)
    theta = drawn(model)
    wanted = model.torque(*states, theta)
    off = np.zeros_like(wanted)
    off[1, 3] = 0.5 * np.abs(wanted[1]).max()
    found = parity(lambda *_: wanted, lambda *_: wanted + off, states)
    assert (found.states, found.relative) == (16, pytest.approx(0.5))
    assert found.largest == pytest.approx(off.max())
    with pytest.raises(OutputError, match="'arm' was not written"):
        checked_parity(lambda *_: wanted, lambda *_: wanted + off, states, "'arm'")
    with pytest.raises(OutputError, match="nan"):
        checked_parity(lambda *_: wanted, lambda *_: wanted * np.nan, states, "'arm'")
    assert checked_parity(lambda *_: wanted, lambda *_: wanted, states, "'arm'").relative == 0.0


def test_text_that_is_not_in_its_encoding_is_refused() -> None:
    head = b'<?xml version="1.0" encoding="cp1252"?>'
    assert XmlText.of(head + b"<robot><!-- \x80 --></robot>", "r.urdf").file == head + b"<robot><!-- \x80 --></robot>"
    with pytest.raises(RobotError, match=r"'r\.urdf' cannot be edited in its encoding 'cp1252'.*Save it as UTF-8"):
        XmlText.of(head + b"<robot><!-- \x81 --></robot>", "r.urdf")
    with pytest.raises(RobotError, match="unknown encoding: klingon"):
        XmlText.of(head.replace(b"cp1252", b"klingon") + b"<robot/>", "r.urdf")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<r><a/></r>", "<r><a><b/></a></r>"),
        ("<r><a></a></r>", "<r><a><b/></a></r>"),
        ("<a/>", "<a>\n  <b/>\n</a>"),
        ("<r>\n   <a/>\n</r>", "<r>\n   <a>\n      <b/>\n   </a>\n</r>"),
        ("<r>\n <a>\n </a>\n</r>", "<r>\n <a>\n  <b/>\n </a>\n</r>"),
        ("<r>\n <a>\n  <c/>\n </a>\n</r>", "<r>\n <a>\n  <b/>\n  <c/>\n </a>\n</r>"),
        ("<r>\r\n\t<a x='1' /></r>", "<r>\r\n\t<a x='1'>\r\n\t\t<b/>\r\n\t</a></r>"),
        ("<a><!-- > --><c/></a>", "<a><b/><!-- > --><c/></a>"),
    ],
)
def test_insertion(before: str, after: str) -> None:
    text = XmlText.of(before.encode(), "x")
    element = next(one for one in text.root.walk() if one.tag == "a")
    assert text.edited(text.inserted(element, ["<b/>"])).file.decode() == after


def test_attributes_are_set_added_and_removed() -> None:
    text = XmlText.of(b"""<a  x = '1>2'\n y="2" z="3"><b x="9"/></a>""", "x")
    edits = text.attributes(text.root, {"x": "5", "y": None, "w": 'a"b', "v": None})
    assert text.edited(edits).file == b"""<a  x = '5' z="3" w="a&quot;b"><b x="9"/></a>"""
