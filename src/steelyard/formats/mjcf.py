"""MJCF, through the compiled model of MuJoCo.

Read: bodies with their compiled inertias, hinge and slide joints with range, armature, damping and friction loss, joint
springs, tendons that are springs between two sites, and gravity. Not read: actuators, contacts and gravity
compensation; they are effects beside the rigid-body model, to be stated as terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from steelyard.errors import MissingExtraError, RobotError
from steelyard.formats.assembly import Connection, ConnectionKind, assemble, unique
from steelyard.parameters import Array, inertial_vector, skew
from steelyard.robot import Anchor, Drive, JointSpring, Limits, Pose, Robot, Spring, TensionSpring


def read_mjcf(path: Path) -> Robot:
    """The robot in an MJCF file; includes and meshes are found beside it, as MuJoCo finds them."""
    mujoco = _mujoco()
    try:
        with _quiet(mujoco):
            model = mujoco.MjModel.from_xml_path(str(path))
    except (ValueError, mujoco.FatalError) as problem:
        raise RobotError(f"MuJoCo cannot compile '{path}': {problem}") from problem
    try:
        return _robot(mujoco, model, path.stem)
    except RobotError as problem:
        raise RobotError(f"{path}: {problem}") from problem


def _mujoco() -> ModuleType:
    try:
        import mujoco
    except ImportError:
        raise MissingExtraError("mujoco-core", "mjcf", "Reading an MJCF robot") from None
    return mujoco


@contextmanager
def _quiet(mujoco: ModuleType) -> Iterator[None]:
    """Keep MuJoCo from printing and from leaving a log file in the user's folder; what matters is checked here."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _robot(mujoco: ModuleType, model: Any, fallback_name: str) -> Robot:
    _refuse_constraints(mujoco, model)
    name = model.names[: model.names.index(b"\0")].decode("utf-8", "replace") or fallback_name
    body_names = [_name(mujoco, model, "BODY", b) for b in range(model.nbody)]
    unique("body", body_names)
    bodies: dict[str, Array | None] = {body_names[0]: None}
    connections: list[Connection] = []
    for b in range(1, model.nbody):
        chain = _connections(mujoco, model, b, body_names)
        # A body with several joints: every joint but the last moves a massless link in the same frame.
        bodies.update((c.child, np.zeros(10)) for c in chain)
        bodies[body_names[b]] = _inertia(model, b)
        connections.extend(chain)
    tree = assemble(name, bodies, connections)
    off = bool(model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    gravity = np.zeros(3) if off else np.array(model.opt.gravity, float)
    slack = bool(model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_SPRING)
    springs = () if slack else (*_joint_springs(mujoco, model), *_tendon_springs(mujoco, model, body_names))
    return Robot(
        name,
        tree.links,
        tree.joints,
        base=tree.base,
        nominal={f"{spring.name}.{symbol}": value for spring, symbol, value in springs},
        springs=tuple(spring for spring, _, _ in springs),
    ).with_gravity(gravity.tolist())


def _refuse_constraints(mujoco: ModuleType, model: Any) -> None:
    if model.neq:
        kinds = sorted({str(mujoco.mjtEq(int(t)).name).removeprefix("mjEQ_").lower() for t in model.eq_type})
        raise RobotError(
            f"The model has {model.neq} equality constraint(s) ({', '.join(kinds)}): closed loops "
            "and coupled joints are not supported. Remove <equality> and make the joints fixed that depend on others."
        )
    tendons = [_name(mujoco, model, "TENDON", k) for k in range(model.ntendon) if not _is_spring(mujoco, model, k)]
    if tendons:
        raise RobotError(
            f"The model has tendons ({', '.join(tendons)}) that are not supported: only a <spatial> tendon between two "
            "sites that does nothing but pull, with a stiffness and one springlength. Remove the others."
        )
    if model.nflex:
        raise RobotError("The model has flexible bodies (<flex>), which are not supported: links are rigid.")
    for k in range(model.njnt):
        kind = mujoco.mjtJoint(int(model.jnt_type[k])).name.removeprefix("mjJNT_").lower()
        if kind not in ("hinge", "slide"):
            body = _name(mujoco, model, "BODY", int(model.jnt_bodyid[k]))
            raise RobotError(
                f"Joint '{_name(mujoco, model, 'JOINT', k)}' of body '{body}' is a {kind} joint, not supported: "
                "Steelyard identifies robots on a fixed base whose joints are hinge or slide."
            )


def _is_spring(mujoco: ModuleType, model: Any, k: int) -> bool:
    """Whether a tendon is a linear spring between two sites and nothing else."""
    first, count = int(model.tendon_adr[k]), int(model.tendon_num[k])
    sites = model.wrap_type[first : first + count] == int(mujoco.mjtWrap.mjWRAP_SITE)
    lower, upper = model.tendon_lengthspring[k]
    others = (model.tendon_damping[k], model.tendon_frictionloss[k], model.tendon_limited[k], model.tendon_armature[k])
    linear = _is_linear(model, "tendon", k) and lower == upper and model.tendon_stiffness[k] > 0.0
    return bool(count == 2 and sites.all() and linear and not any(others))


def _is_linear(model: Any, what: str, k: int) -> bool:
    """False where a stiffness has higher powers, which MuJoCo knows since version 4."""
    return not np.any(getattr(model, f"{what}_stiffnesspoly", np.zeros((k + 1, 1)))[k])


def _joint_springs(mujoco: ModuleType, model: Any) -> Iterator[tuple[Spring, str, float]]:
    """Springs of the joints that have a stiffness: the spring, and the symbol and value of its column."""
    for k, stiffness in enumerate(model.jnt_stiffness):
        name = _name(mujoco, model, "JOINT", k)
        if not _is_linear(model, "jnt", k):
            raise RobotError(
                f"Joint '{name}' has a stiffness with higher powers; springs are linear here. Give one number."
            )
        if stiffness:
            free = float(model.qpos_spring[int(model.jnt_qposadr[k])])
            yield JointSpring(f"{name}_spring", name, free), "K", float(stiffness)


def _tendon_springs(mujoco: ModuleType, model: Any, body_names: list[str]) -> Iterator[tuple[Spring, str, float]]:
    """The tendons as springs between the moving bodies that carry their sites."""
    if not model.ntendon:
        return
    # sites on bodies without joints hang on the moving body before them, wherever that is
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)

    def anchor(site: int) -> Anchor:
        body = int(model.body_weldid[model.site_bodyid[site]])
        rotation = np.array(data.xmat[body], float).reshape(3, 3)
        return Anchor(body_names[body], rotation.T @ (data.site_xpos[site] - data.xpos[body]))

    for k in range(model.ntendon):
        first, second = (anchor(int(site)) for site in model.wrap_objid[model.tendon_adr[k] :][:2])
        name, free = _name(mujoco, model, "TENDON", k), float(model.tendon_lengthspring[k, 0])
        yield TensionSpring(name, (first, second), free), "Kr", float(model.tendon_stiffness[k])


def _name(mujoco: ModuleType, model: Any, kind: str, number: int) -> str:
    """The name in the file, or kind and number where it gives none."""
    given = mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind}"), number)
    return given or f"{kind.lower()}{number}"


def _connections(mujoco: ModuleType, model: Any, b: int, body_names: list[str]) -> list[Connection]:
    """What carries body b: its joints in order, each seen in the body's frame, or one fixed connection.

    MuJoCo turns body frames joint by joint about axes given in that frame, from the reference position q₀ (`ref`):
        T(q) = T_body · Π_k exp(S_k (q_k − q₀_k))   with S_k = (axis, pos × axis) of joint k
    """
    body, parent = body_names[b], body_names[int(model.body_parentid[b])]
    pose = Pose(_rotation(model.body_quat[b]), np.array(model.body_pos[b], float))
    first, count = int(model.body_jntadr[b]), int(model.body_jntnum[b])
    if count == 0:
        return [Connection(f"{body}_fixed", "fixed", parent, body, pose)]
    chain: list[Connection] = []
    for k in range(first, first + count):
        joint = _name(mujoco, model, "JOINT", k)
        child = body if k == first + count - 1 else f"{body}_{joint}"
        chain.append(_moving(mujoco, model, k, joint, parent, child, pose))
        parent, pose = child, Pose()
    return chain


def _moving(mujoco: ModuleType, model: Any, k: int, name: str, parent: str, child: str, pose: Pose) -> Connection:
    slides = int(model.jnt_type[k]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
    limited = bool(model.jnt_limited[k])
    kind: ConnectionKind = "prismatic" if slides else "revolute" if limited else "continuous"
    axis, point = np.array(model.jnt_axis[k], float), np.array(model.jnt_pos[k], float)
    lower, upper = model.jnt_range[k] if limited else (-np.inf, np.inf)
    # The weaker direction, where the two differ.
    effort = float(np.min(np.abs(model.jnt_actfrcrange[k]))) if model.jnt_actfrclimited[k] else np.inf
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
            viscous=float(model.dof_damping[dof]),
            coulomb=float(model.dof_frictionloss[dof]),
        ),
    )


def _displacement(axis: Array, point: Array, q: float, *, slides: bool) -> Pose:
    """exp(S q): a shift along the axis, or Rodrigues' rotation about it through `point`."""
    if slides:
        return Pose(position=axis * q)
    k = skew(axis)
    rotation = np.eye(3) + np.sin(q) * k + (1.0 - np.cos(q)) * k @ k
    return Pose(rotation, point - rotation @ point)


def _inertia(model: Any, b: int) -> Array:
    """Ten parameters about the body's frame, from MuJoCo's principal inertias in their own frame."""
    rotation = _rotation(model.body_iquat[b])
    about_com = rotation @ np.diag(model.body_inertia[b]) @ rotation.T
    return inertial_vector(float(model.body_mass[b]), np.array(model.body_ipos[b], float), about_com)


def _rotation(quaternion: Array) -> Array:
    """Rotation matrix of a quaternion (w, x, y, z)."""
    w, x, y, z = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    k = skew(np.array([x, y, z]))
    return np.eye(3) + 2.0 * w * k + 2.0 * k @ k
