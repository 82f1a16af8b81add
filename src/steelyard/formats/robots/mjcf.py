"""MJCF, through the compiled model of MuJoCo.

Read: bodies with their compiled inertias, hinge and slide joints with range, armature, damping and friction loss, the
efforts that their actuators are limited to, joint springs, tendons that are springs between two sites, and gravity. For
parallel robots: free and ball joints (without damping, friction loss and armature, which do not act along their
coordinates), equality constraints of kind connect, weld and joint as loops, and which joints have an actuator. Not
read: actuator dynamics, contacts, limits of tendons and gravity compensation; these are effects outside the rigid-body
model, to be stated as terms.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import RobotError, few
from steelyard.findings import Finding
from steelyard.formats.robots.assembly import COORDINATES, Connection, ConnectionKind, assemble, refuse_adrift, unique
from steelyard.formats.robots.holding import hold
from steelyard.formats.robots.mjcf_compile import (
    CompiledModel,
    Frames,
    body_names,
    compiled,
    compiled_text,
    kind_of,
    name_of,
    rotation_of,
    switched_off,
)
from steelyard.formats.robots.mjcf_loops import axes, efforts, fixed_joints, home, loops_of, refuse_constraints
from steelyard.formats.robots.mjcf_springs import joint_springs, tendon_findings, tendon_springs
from steelyard.model.parameters import inertial_vector, skew
from steelyard.model.pose import Pose
from steelyard.model.robot import Drive, Limits, Robot


def read_mjcf(path: Path) -> Robot:
    """The robot in an MJCF file; includes and meshes are searched relative to it, as in MuJoCo."""
    return _read(compiled(path), path)


def read_mjcf_text(text: str, path: Path, *, fused: bool = True) -> Robot:
    """The robot in the text of an MJCF file without includes; meshes are searched relative to `path`.

    With `fused` false, bodies that <compiler fusestatic> would merge into others are read as separate bodies.
    """

    return _read(compiled_text(text, path, fused=fused), path)


def _read(file: CompiledModel, path: Path) -> Robot:
    try:
        return _robot(file, path.stem)
    except RobotError as problem:
        raise RobotError(f"{path}: {problem}") from problem


def _robot(file: CompiledModel, fallback_name: str) -> Robot:
    mujoco, model = file.mujoco, file.model
    refuse_constraints(mujoco, model)
    name = model.names[: model.names.index(b"\0")].decode("utf-8", "replace") or fallback_name
    names = body_names(mujoco, model)
    unique("body", names)
    bodies: dict[str, Array | None] = {names[0]: None}
    connections: list[Connection] = []
    most = efforts(mujoco, model)
    for b in range(1, model.nbody):
        chain = _connections(mujoco, model, b, names, most)
        # A body with several joints: every joint but the last moves a massless link in the same frame.
        bodies.update((c.child, np.zeros(10)) for c in chain)
        bodies[names[b]] = None if b in file.unknown else _inertia(model, b)
        connections.extend(chain)
    tree = assemble(name, bodies, connections)
    weightless = switched_off(mujoco, model, "GRAVITY")
    gravity = np.zeros(3) if weightless else np.array(model.opt.gravity, float)
    slack = switched_off(mujoco, model, "SPRING")
    frames = Frames(mujoco, model)
    springs = () if slack else (*joint_springs(mujoco, model), *tendon_springs(mujoco, model, frames))
    loops = tuple(loops_of(mujoco, model, frames))
    actuated, assumed = axes(mujoco, model) if loops else (None, ())
    robot = Robot(
        name,
        tree.links,
        tree.joints,
        base=tree.base,
        fixed=tree.fixed,
        nominal={f"{spring.name}.{symbol}": value for spring, symbol, value in springs},
        springs=tuple(spring for spring, _, _ in springs),
        loops=loops,
        actuated=actuated,
        home=home(mujoco, model, tree.joints) if loops else None,
        findings=(*file.findings(names), *_compensation(model, names), *tendon_findings(mujoco, model), *assumed),
    ).with_gravity(gravity.tolist())
    refuse_adrift(robot)
    return hold(robot, fixed_joints(mujoco, model))


def _compensation(model: Any, names: list[str]) -> tuple[Finding, ...]:
    """Bodies whose weight MuJoCo carries, and not the joints."""
    carried = [names[b] for b in range(1, model.nbody) if model.body_gravcomp[b]]
    if not carried:
        return ()
    message = f"the file states gravity compensation (gravcomp) of {few(carried)}: it is not part of the model"
    fix = "nothing to do if the logged efforts hold the weight; if they do not, set gravity = [0.0, 0.0, 0.0]"
    return (Finding("gravity-compensation", "info", message, "", fix),)


# --- Joints and bodies ------------------------------------------------------------------------------------------------


def _connections(mujoco: ModuleType, model: Any, b: int, names: list[str], most: dict[int, float]) -> list[Connection]:
    """The connections of body b to its parent: its joints in order, each in the body's frame, or one fixed connection.

    MuJoCo moves body frames joint by joint about axes given in that frame, from the reference position q₀ (`ref`):
        T(q) = T_body · Π_k exp(S_k (q_k − q₀_k))   with S_k = (axis, pos × axis) of joint k
    """
    body, parent = names[b], names[int(model.body_parentid[b])]
    pose = Pose(rotation_of(model.body_quat[b]), np.array(model.body_pos[b], float))
    first, count = int(model.body_jntadr[b]), int(model.body_jntnum[b])
    if count == 0:
        return [Connection(f"{body}_fixed", "fixed", parent, body, pose)]
    chain: list[Connection] = []
    for k in range(first, first + count):
        joint = name_of(mujoco, model, "JOINT", k)
        child = body if k == first + count - 1 else f"{body}_{joint}"
        limit = most.get(k, np.inf)
        chain.append(_moving(mujoco, model, k, joint, parent, child, pose, limit))
        parent, pose = child, Pose()
    return chain


def _moving(
    mujoco: ModuleType, model: Any, k: int, name: str, parent: str, child: str, pose: Pose, effort: float
) -> Connection:
    if (mobile := kind_of(mujoco, "Joint", model.jnt_type[k])) in COORDINATES:
        loose: ConnectionKind = "ball" if mobile == "ball" else "free"
        return Connection(name, loose, parent, child, pose, point=np.array(model.jnt_pos[k], float))
    slides = int(model.jnt_type[k]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
    limited = bool(model.jnt_limited[k])
    kind: ConnectionKind = "prismatic" if slides else "revolute" if limited else "continuous"
    axis, point = np.array(model.jnt_axis[k], float), np.array(model.jnt_pos[k], float)
    lower, upper = model.jnt_range[k] if limited else (-np.inf, np.inf)
    dof = int(model.jnt_dofadr[k])
    reference = float(model.qpos0[int(model.jnt_qposadr[k])])
    return Connection(
        name,
        kind,
        parent,
        child,
        pose @ _displacement(axis, point, -reference, slides=slides),
        axis=axis,
        point=np.zeros(3) if slides else point,
        limits=Limits(float(lower), float(upper), effort=effort),
        drive=Drive(
            rotor=float(model.dof_armature[dof]),
            viscous=0.0 if switched_off(mujoco, model, "DAMPER") else float(model.dof_damping[dof]),
            coulomb=0.0
            if switched_off(mujoco, model, "FRICTIONLOSS", "CONSTRAINT")
            else float(model.dof_frictionloss[dof]),
        ),
    )


def _displacement(axis: Array, point: Array, q: float, *, slides: bool) -> Pose:
    """exp(S q): a translation along the axis, or Rodrigues' rotation about it through `point`."""
    if slides:
        return Pose(position=axis * q)
    k = skew(axis)
    rotation = np.eye(3) + np.sin(q) * k + (1.0 - np.cos(q)) * k @ k
    return Pose(rotation, point - rotation @ point)


def _inertia(model: Any, b: int) -> Array:
    """Ten parameters about the body's frame, from MuJoCo's principal inertias in their own frame."""
    rotation = rotation_of(model.body_iquat[b])
    about_com = rotation @ np.diag(model.body_inertia[b]) @ rotation.T
    return inertial_vector(float(model.body_mass[b]), np.array(model.body_ipos[b], float), about_com)
