"""A quadruped of our own making, and the two oracles for robots on a floating base: MuJoCo and Pinocchio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard._arrays import Array
from steelyard.formats.robots.mjcf_compile import compiled
from steelyard.model.floating.base_motion import random_base
from steelyard.model.model import Model
from steelyard.model.robot import Robot

LEGS = {"FL": (1, 1), "FR": (1, -1), "HL": (-1, 1), "HR": (-1, -1)}


def quadruped_urdf(*, imu: bool = True, legs: tuple[str, ...] = tuple(LEGS), names: str = "haa hfe kfe") -> str:
    """A walking robot of 12 kg with three joints per leg; sizes and masses are our own."""
    haa, hfe, kfe = names.split()
    parts = [_link("trunk", 6.0, (0.01, 0.002, 0.03), (0.05, 0.12, 0.14))]
    if imu:
        parts.append('<link name="imu_link"/>' + _joint("imu_joint", "fixed", "trunk", "imu_link", (0.05, 0.0, 0.02)))
    for leg in legs:
        x, y = LEGS[leg]
        upper, lower, foot = f"{leg}_upper", f"{leg}_lower", f"{leg}_tip"
        parts += [
            _link(f"{leg}_side", 0.5, (0.01 * x, 0.01 * y, 0.0), (4e-4, 6e-4, 5e-4)),
            _link(upper, 0.7, (0.0, 0.02 * y, -0.06), (3e-3, 3e-3, 6e-4)),
            _link(lower, 0.2, (0.005, 0.0, -0.08), (1e-3, 1e-3, 5e-5)),
            _link(foot, 0.05, (0.0, 0.0, 0.0), (1e-5, 1e-5, 1e-5)),
            _joint(f"{leg}_{haa}", "revolute", "trunk", f"{leg}_side", (0.2 * x, 0.1 * y, 0.0), "1 0 0"),
            _joint(f"{leg}_{hfe}", "revolute", f"{leg}_side", upper, (0.0, 0.05 * y, 0.0), "0 1 0"),
            _joint(f"{leg}_{kfe}", "revolute", upper, lower, (0.0, 0.01 * y, -0.2), "0 1 0"),
            _joint(f"{leg}_ground", "fixed", lower, foot, (0.0, 0.0, -0.2)),
        ]
    return f'<robot name="quadruped">{"".join(parts)}</robot>'


def _link(name: str, mass: float, com: tuple[float, ...], inertia: tuple[float, ...]) -> str:
    xx, yy, zz = inertia
    return (
        f'<link name="{name}"><inertial><origin xyz="{com[0]} {com[1]} {com[2]}"/><mass value="{mass}"/>'
        f'<inertia ixx="{xx}" ixy="0" ixz="0" iyy="{yy}" iyz="0" izz="{zz}"/></inertial></link>'
    )


def _joint(name: str, kind: str, parent: str, child: str, xyz: tuple[float, ...], axis: str = "0 0 1") -> str:
    limit = '<limit lower="-1.5" upper="1.5" velocity="20" effort="30"/>' if kind == "revolute" else ""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz[0]} {xyz[1]} {xyz[2]}"/><axis xyz="{axis}"/>{limit}</joint>'
    )


class FloatingCase(NamedTuple):
    """A motion of limbs (n, N) and base (9, N), and the efforts (6 + n, N) and regressor that an oracle gives it; the
    columns of the regressor (N, 6 + n, C) are those of the oracle."""

    q: Array
    v: Array
    a: Array
    base: Array
    tau: Array
    regressor: Array


def with_base_rows(robot: Robot) -> Model:
    """The rigid bodies with rows of the base too."""
    return Model(replace(robot, actuated=robot.joint_names))


def padded(x: Array) -> Array:
    """Rows of the limbs below six unused ones of the base."""
    return np.vstack([np.zeros((6, x.shape[1])), x])


def pinocchio_case(file: Path, robot: Robot, samples: int, seed: int = 1) -> FloatingCase:
    """Pinocchio's free flyer: v is the base's twist in its own frame, so that d = a_lin + ω × v."""
    import pinocchio

    model: Any = pinocchio.buildModelFromUrdf(str(file), pinocchio.JointModelFreeFlyer())
    data, rng, n = model.createData(), np.random.default_rng(seed), len(robot.joints) - 6
    joints = [model.getJointId(name) for name in robot.joint_names[6:]]
    rows = [*range(6), *(model.idx_vs[j] for j in joints)]
    q, v, a = rng.uniform(-1.0, 1.0, (n, samples)), *rng.normal(size=(2, n, samples))
    base, tau, regressors = np.empty((9, samples)), np.empty((6 + n, samples)), []
    for k in range(samples):
        attitude = Rotation.random(rng=rng)
        configuration, velocity, acceleration = np.zeros(model.nq), *rng.normal(size=(2, model.nv))
        configuration[:7] = [*rng.normal(size=3), *attitude.as_quat()]
        for joint, position in zip(joints, q[:, k], strict=True):
            at = model.idx_qs[joint]
            turn = (np.cos(position), np.sin(position))
            configuration[at : at + model.nqs[joint]] = position if model.nqs[joint] == 1 else turn
        velocity[rows[6:]], acceleration[rows[6:]] = v[:, k], a[:, k]
        linear, angular = velocity[:3], velocity[3:6]
        gravity = attitude.as_matrix().T @ model.gravity.linear
        base[:, k] = [*(acceleration[:3] + np.cross(angular, linear) - gravity), *angular, *acceleration[3:6]]
        tau[:, k] = pinocchio.rnea(model, data, configuration, velocity, acceleration)[rows]
        regressors.append(
            pinocchio.computeJointTorqueRegressor(model, data, configuration, velocity, acceleration)[rows]
        )
    return FloatingCase(q, v, a, base, tau, np.stack(regressors))


def mujoco_case(file: Path, robot: Robot, samples: int, seed: int = 1) -> FloatingCase:
    """MuJoCo's inverse dynamics of the rigid bodies alone: a free joint's force is in the world's frame, its moment in
    the body's."""
    import mujoco

    made: Any = compiled(file).model
    for effect in ("dof_armature", "dof_damping", "dof_frictionloss", "jnt_stiffness", "tendon_stiffness"):
        getattr(made, effect)[:] = 0.0
    made.tendon_damping[:], made.body_gravcomp[:], made.opt.density, made.opt.viscosity = 0.0, 0.0, 0.0, 0.0
    made.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT
    data, rng, n = mujoco.MjData(made), np.random.default_rng(seed), len(robot.joints) - 6
    joints = [mujoco.mj_name2id(made, mujoco.mjtObj.mjOBJ_JOINT, name) for name in robot.joint_names[6:]]
    rows = [made.jnt_dofadr[j] for j in joints]
    q, v, a = rng.uniform(-1.0, 1.0, (n, samples)), *rng.normal(size=(2, n, samples))
    base, tau = random_base(rng, samples), np.empty((6 + n, samples))
    for k in range(samples):
        attitude = Rotation.random(rng=rng)
        turned = attitude.as_matrix()
        data.qpos[:7] = [*rng.normal(size=3), *attitude.as_quat(scalar_first=True)]
        data.qvel[:6] = [*rng.normal(size=3), *base[3:6, k]]
        data.qacc[:6] = [*(turned @ base[:3, k] + made.opt.gravity), *base[6:, k]]
        data.qpos[[made.jnt_qposadr[j] for j in joints]] = q[:, k]
        data.qvel[rows], data.qacc[rows] = v[:, k], a[:, k]
        mujoco.mj_inverse(made, data)
        force = data.qfrc_inverse
        tau[:, k] = [*(turned.T @ force[:3]), *force[3:6], *force[rows]]
    return FloatingCase(q, v, a, base, tau, np.empty((0, 6 + n, 0)))
