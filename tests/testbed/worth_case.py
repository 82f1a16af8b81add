"""An arm whose robot file lacks what a real one has, and logs of it: for the worth of exported files.

Torques of the file's own bodies by Pinocchio or MuJoCo, plus rotors, friction and offsets that the file does not state,
plus white noise in the log to fit. The torque of the unseen motion is the truth, without noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.mjcf_compile import name_of
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.motion.random import random_fourier

RATE_HZ, SECONDS, BASIC_HZ, HARMONICS, NOISE = 200.0, 40.0, 0.1, 5, 0.02
# q, v, a (n, N) → τ (n, N)
Torque = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class Extra:
    """What the file lacks: rotors, viscous and Coulomb friction, offsets, each (n,)."""

    rotor: Array
    viscous: Array
    coulomb: Array
    offset: Array

    def torque(self, v: Array, a: Array) -> Array:
        column = slice(None), None
        return (
            self.rotor[column] * a + self.viscous[column] * v + self.coulomb[column] * np.sign(v) + self.offset[column]
        )


@dataclass(frozen=True)
class WorthCase:
    """A project file with two runs, "fit.csv" and "unseen.csv": motion (3, n, N) and effort (n, N) of both logs."""

    robot: Robot
    project: Path
    source: Path
    extra: Extra
    fit: tuple[Array, Array]
    unseen: tuple[Array, Array]


def worth_case(
    folder: Path, source: Path, rigid: Callable[[Robot], Torque], seed: int = 1, joints: Sequence[str] = ()
) -> WorthCase:
    """The case of a robot file; `rigid` makes the oracle of its torques. `joints` are held at zero."""
    robot = read_robot(source, held=list(joints))
    torque, rng = rigid(robot), np.random.default_rng(seed)
    motions = [_motion(robot, seed + k) for k in (100, 200)]
    extra = _extra(robot, motions[0], torque(*motions[0]), rng)
    truths = [torque(*motion) + extra.torque(*motion[1:]) for motion in motions]
    hold = f"hold = {list(joints)}\n".replace("'", '"') if joints else ""
    size = np.sqrt(np.mean(truths[0] ** 2, axis=1, keepdims=True))
    measured = truths[0] + NOISE * size * rng.standard_normal(truths[0].shape)
    for name, motion, effort in zip(("fit", "unseen"), motions, (measured, truths[1]), strict=True):
        _write_log(folder / f"{name}.csv", robot, motion, effort)
    text = _PROJECT.format(
        robot=source, hold=hold, q=_columns("q", robot), tau=_columns("tau", robot)
    )  # fmt: skip
    (folder / "project.toml").write_text(text, "utf-8")
    return WorthCase(
        robot,
        folder / "project.toml",
        source,
        extra,
        (np.array(motions[0]), measured),
        (np.array(motions[1]), truths[1]),
    )


_PROJECT = """\
robot = "{robot}"
terms = ["rotor", "viscous", "coulomb", "offset"]
{hold}
[channels]
time = {{ column = "t", unit = "s" }}
q = {{ columns = [{q}], unit = "rad" }}
effort = {{ columns = [{tau}], unit = "N.m" }}

[[run]]
log = "fit.csv"
role = "identify"

[[run]]
log = "unseen.csv"
role = "validate"
"""


def _columns(what: str, robot: Robot) -> str:
    return ", ".join(f'"{what}{k}"' for k in range(robot.dof))


def _motion(robot: Robot, seed: int) -> tuple[Array, Array, Array]:
    fourier = random_fourier(robot, HARMONICS, BASIC_HZ, SECONDS, np.random.default_rng(seed))
    return fourier.at(np.arange(int(SECONDS * RATE_HZ)) / RATE_HZ)[:3]


def _extra(robot: Robot, motion: tuple[Array, Array, Array], rigid: Array, rng: np.random.Generator) -> Extra:
    """Rotors of 20 to 60 % of a joint's own inertia, friction of 10 to 30 % of its effort, offsets of 0.5 to 1.5 %."""
    n, bare = robot.dof, Model(robot)
    assert bare.layout.nominal is not None
    mass = bare.mass_matrix(motion[0][:, ::400], bare.layout.nominal)
    own = np.array([mass[j, j].mean() for j in range(n)])
    effort = np.sqrt(np.mean(rigid**2, axis=1))
    effort = np.maximum(effort, 0.02 * effort.max())
    speed = np.sqrt(np.mean(motion[1] ** 2, axis=1))
    sign = rng.choice([-1.0, 1.0], n)
    return Extra(
        rng.uniform(0.2, 0.6, n) * own,
        rng.uniform(0.1, 0.2, n) * effort / speed,
        rng.uniform(0.1, 0.2, n) * effort,
        sign * rng.uniform(0.005, 0.015, n) * effort,
    )


def _write_log(path: Path, robot: Robot, motion: tuple[Array, Array, Array], effort: Array) -> None:
    t = np.arange(effort.shape[1]) / RATE_HZ
    head = ",".join(["t", *(f"q{k}" for k in range(robot.dof)), *(f"tau{k}" for k in range(robot.dof))])
    np.savetxt(path, np.vstack([t, motion[0], effort]).T, fmt="%.9g", delimiter=",", header=head, comments="")


# --- Oracles ----------------------------------------------------------------------------------------------------------


def pinocchio_torque(urdf: str, robot: Robot) -> Torque:
    """τ of the bodies of a URDF by Pinocchio, joints in the order of `robot`."""
    import pinocchio as pin

    model = pin.buildModelFromXML(urdf)
    model.gravity.linear = np.array(robot.gravity)
    data, places = model.createData(), pinocchio_places(model, robot)

    def torque(q: Array, v: Array, a: Array) -> Array:
        out = np.empty_like(q)
        for s in range(q.shape[1]):
            out[:, s] = pin.rnea(model, data, *pinocchio_state(model, places, q[:, s], v[:, s], a[:, s]))[places]
        return out

    return torque


def pinocchio_places(model: object, robot: Robot) -> list[int]:
    return [model.joints[model.getJointId(name)].idx_v for name in robot.joint_names]  # type: ignore[attr-defined]


def pinocchio_state(model: object, places: Sequence[int], q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """Configuration, velocity and acceleration of Pinocchio; a continuous joint has two coordinates."""
    where, speed, acceleration = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv)  # type: ignore[attr-defined]
    for joint in model.joints:  # type: ignore[attr-defined]
        if joint.nq == 0 or joint.idx_v not in places:
            continue
        k = places.index(joint.idx_v)
        where[joint.idx_q : joint.idx_q + joint.nq] = q[k] if joint.nq == 1 else (np.cos(q[k]), np.sin(q[k]))
        speed[joint.idx_v], acceleration[joint.idx_v] = v[k], a[k]
    return where, speed, acceleration


def mujoco_torque(path: Path, robot: Robot, *, armature: bool = False) -> Torque:
    """τ of the bodies of an MJCF by MuJoCo's inverse dynamics, without friction and, unless asked for, armatures."""
    import mujoco

    from steelyard.formats.robots.mjcf_compile import compiled

    model = compiled(path).model
    data = mujoco.MjData(model)
    for name in ("dof_damping", "dof_frictionloss", "actuator_armature", "actuator_damping", "body_gravcomp"):
        if hasattr(model, name):
            getattr(model, name)[:] = 0.0
    if not armature:
        model.dof_armature[:] = 0.0
    for flag in ("CONTACT", "LIMIT", "FRICTIONLOSS", "EQUALITY"):
        model.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}"))
    names = [name_of(mujoco, model, "JOINT", k) for k in range(model.njnt)]
    joints = [names.index(name) for name in robot.joint_names]
    rows = model.jnt_qposadr[joints], model.jnt_dofadr[joints]

    def torque(q: Array, v: Array, a: Array) -> Array:
        out = np.empty_like(q)
        for s in range(q.shape[1]):
            data.qpos[rows[0]], data.qvel[rows[1]], data.qacc[rows[1]] = q[:, s], v[:, s], a[:, s]
            mujoco.mj_inverse(model, data)
            out[:, s] = data.qfrc_inverse[rows[1]]
        return out

    return torque
