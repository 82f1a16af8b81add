"""MJCF, through the compiled model of MuJoCo.

Read: bodies with their compiled inertias, hinge and slide joints with range, armature, damping and friction loss, joint
springs, tendons that are springs between two sites, and gravity. For parallel robots: free and ball joints (without
damping, friction loss and armature, which do not act along their coordinates), equality constraints of kind connect,
weld and joint as loops, and which joints have an actuator. Not read: actuator dynamics, contacts and gravity
compensation; these are effects outside the rigid-body model, to be stated as terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

from steelyard._arrays import Array
from steelyard.errors import MissingExtraError, RobotError
from steelyard.formats.robots.assembly import COORDINATES, Connection, ConnectionKind, assemble, refuse_adrift, unique
from steelyard.model.loops import FRAME, POINT, Attachment, FrameLoop, JointLoop, Loop
from steelyard.model.parameters import inertial_vector, skew
from steelyard.model.pose import Pose
from steelyard.model.robot import Drive, Joint, Limits, Robot
from steelyard.model.springs import Anchor, JointSpring, Spring, TensionSpring

LOOPS = ("connect", "weld", "joint")  # kinds of equality constraints that are read


def read_mjcf(path: Path) -> Robot:
    """The robot in an MJCF file; includes and meshes are searched relative to it, as in MuJoCo."""
    return _read(*compiled(path), path)


def read_mjcf_text(text: str, path: Path, *, fused: bool = True) -> Robot:
    """The robot in the text of an MJCF file without includes; meshes are searched relative to `path`.

    With `fused` false, bodies that <compiler fusestatic> would merge into others are read as separate bodies.
    """

    return _read(*compiled_text(text, path, fused=fused), path)


def _read(mujoco: ModuleType, model: Any, path: Path) -> Robot:
    try:
        return _robot(mujoco, model, path.stem)
    except RobotError as problem:
        raise RobotError(f"{path}: {problem}") from problem


def compiled(path: Path) -> tuple[ModuleType, Any]:
    """MuJoCo, and its model of a file."""
    return _compiled(lambda mujoco: mujoco.MjModel.from_xml_path(str(path)), path)


def compiled_text(text: str, path: Path, *, fused: bool = True) -> tuple[ModuleType, Any]:
    """The same for a text, see `read_mjcf_text`."""

    def compile_text(mujoco: ModuleType) -> Any:
        spec = mujoco.MjSpec.from_string(text)
        spec.modelfiledir = str(path.parent.resolve())
        spec.compiler.fusestatic = fused and spec.compiler.fusestatic
        return spec.compile()

    return _compiled(compile_text, path)


def _compiled(make: Callable[[ModuleType], Any], path: Path) -> tuple[ModuleType, Any]:
    mujoco = _mujoco()
    try:
        with _quiet(mujoco):
            return mujoco, make(mujoco)
    except (ValueError, mujoco.FatalError) as problem:
        raise RobotError(f"MuJoCo cannot compile '{path}': {problem}") from problem


def _mujoco() -> ModuleType:
    try:
        import mujoco
    except ImportError:
        raise MissingExtraError("mujoco-core", "mjcf", "Reading an MJCF robot") from None
    return mujoco


@contextmanager
def _quiet(mujoco: ModuleType) -> Iterator[None]:
    """Keep MuJoCo from printing and from leaving a log file in the user's folder; its results are checked here."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _robot(mujoco: ModuleType, model: Any, fallback_name: str) -> Robot:
    _refuse_constraints(mujoco, model)
    name = model.names[: model.names.index(b"\0")].decode("utf-8", "replace") or fallback_name
    names = body_names(mujoco, model)
    unique("body", names)
    bodies: dict[str, Array | None] = {names[0]: None}
    connections: list[Connection] = []
    for b in range(1, model.nbody):
        chain = _connections(mujoco, model, b, names)
        # A body with several joints: every joint but the last moves a massless link in the same frame.
        bodies.update((c.child, np.zeros(10)) for c in chain)
        bodies[names[b]] = _inertia(model, b)
        connections.extend(chain)
    tree = assemble(name, bodies, connections)
    off = _off(mujoco, model, "GRAVITY")
    gravity = np.zeros(3) if off else np.array(model.opt.gravity, float)
    slack = _off(mujoco, model, "SPRING")
    frames = Frames(mujoco, model)
    springs = () if slack else (*_joint_springs(mujoco, model), *_tendon_springs(mujoco, model, frames))
    loops = tuple(_loops(mujoco, model, frames))
    robot = Robot(
        name,
        tree.links,
        tree.joints,
        base=tree.base,
        fixed=tree.fixed,
        nominal={f"{spring.name}.{symbol}": value for spring, symbol, value in springs},
        springs=tuple(spring for spring, _, _ in springs),
        loops=loops,
        actuated=_actuated(mujoco, model) if loops else None,
        home=_home(mujoco, model, tree.joints) if loops else None,
    ).with_gravity(gravity.tolist())
    refuse_adrift(robot)
    return robot


def body_names(mujoco: ModuleType, model: Any) -> list[str]:
    return [name_of(mujoco, model, "BODY", b) for b in range(model.nbody)]


def kind_of(mujoco: ModuleType, family: str, number: int) -> str:
    """Name of a constant of MuJoCo as the file writes it: ("Joint", 3) → "hinge"."""
    return str(getattr(mujoco, f"mjt{family}")(int(number)).name).partition("_")[2].lower()


def _off(mujoco: ModuleType, model: Any, *what: str) -> bool:
    """Whether the model's options disable one of these effects."""
    return any(model.opt.disableflags & getattr(mujoco.mjtDisableBit, f"mjDSBL_{one}", 0) for one in what)


def _active(mujoco: ModuleType, model: Any) -> list[int]:
    """The equality constraints that are active when a simulation starts."""
    if _off(mujoco, model, "EQUALITY", "CONSTRAINT"):
        return []
    return [e for e in range(model.neq) if model.eq_active0[e]]


def _refuse_constraints(mujoco: ModuleType, model: Any) -> None:
    others = {kind for e in _active(mujoco, model) if (kind := kind_of(mujoco, "Eq", model.eq_type[e])) not in LOOPS}
    if others:
        raise RobotError(
            f"The model has equality constraints of kind {', '.join(sorted(others))}, which are not supported: only "
            f"{', '.join(LOOPS)}. Remove them, and make dependent joints fixed."
        )
    tendons = [name_of(mujoco, model, "TENDON", k) for k in range(model.ntendon) if not _is_spring(mujoco, model, k)]
    if tendons:
        raise RobotError(
            f"The model has tendons ({', '.join(tendons)}) that are not supported: only a <spatial> tendon between two "
            "sites that acts as a spring only, with a stiffness and one springlength. Remove the others."
        )
    if model.nflex:
        raise RobotError("The model has flexible bodies (<flex>), which are not supported: links are rigid.")


def _is_spring(mujoco: ModuleType, model: Any, k: int) -> bool:
    """Whether a tendon is a linear spring between two sites and nothing else."""
    first, count = int(model.tendon_adr[k]), int(model.tendon_num[k])
    sites = model.wrap_type[first : first + count] == int(mujoco.mjtWrap.mjWRAP_SITE)
    lower, upper = model.tendon_lengthspring[k]
    others = (model.tendon_damping[k], model.tendon_frictionloss[k], model.tendon_limited[k], model.tendon_armature[k])
    linear = _is_linear(model, "tendon", k) and lower == upper and model.tendon_stiffness[k] > 0.0
    return bool(count == 2 and sites.all() and linear and not any(others))


def _is_linear(model: Any, what: str, k: int) -> bool:
    """False where a stiffness has higher powers, which MuJoCo supports since version 4."""
    return not np.any(getattr(model, f"{what}_stiffnesspoly", np.zeros((k + 1, 1)))[k])


def _joint_springs(mujoco: ModuleType, model: Any) -> Iterator[tuple[Spring, str, float]]:
    """Springs of the joints that have a stiffness: the spring, and the symbol and value of its column."""
    for k, stiffness in enumerate(model.jnt_stiffness):
        name, kind = name_of(mujoco, model, "JOINT", k), kind_of(mujoco, "Joint", model.jnt_type[k])
        if stiffness and kind in COORDINATES:
            raise RobotError(
                f"Joint '{name}' is a {kind} joint with a stiffness: joint springs are supported on hinge and slide "
                "joints only. Remove it."
            )
        if not _is_linear(model, "jnt", k):
            raise RobotError(
                f"Joint '{name}' has a stiffness with higher powers; only linear springs are supported. Give one "
                "number."
            )
        if stiffness:
            free = float(model.qpos_spring[int(model.jnt_qposadr[k])])
            yield JointSpring(f"{name}_spring", name, free), "K", float(stiffness)


def _tendon_springs(mujoco: ModuleType, model: Any, frames: Frames) -> Iterator[tuple[Spring, str, float]]:
    """The tendons as springs between the moving bodies that carry their sites."""
    for k in range(model.ntendon):
        sites = (frames.of_site(int(site)) for site in model.wrap_objid[model.tendon_adr[k] :][:2])
        first, second = (Anchor(site.link, site.pose.position) for site in sites)
        name, free = name_of(mujoco, model, "TENDON", k), float(model.tendon_lengthspring[k, 0])
        yield TensionSpring(name, (first, second), free), "Kr", float(model.tendon_stiffness[k])


class Frames:
    """Frames of the compiled model on the moving bodies that carry them, or on the world.

    Bodies without joints are attached to the moving body before them, at its reference position.
    """

    def __init__(self, mujoco: ModuleType, model: Any) -> None:
        self.model, self.names = model, body_names(mujoco, model)
        self.data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, self.data)

    def of_body(self, body: int, local: Pose) -> Attachment:
        """A frame relative to a body."""
        return self._carried(body, self._world("x", body) @ local)

    def of_site(self, site: int) -> Attachment:
        return self._carried(int(self.model.site_bodyid[site]), self._world("site_x", site))

    def of_geom(self, geom: int) -> Attachment:
        return self._carried(int(self.model.geom_bodyid[geom]), self._world("geom_x", geom))

    def _carried(self, body: int, world: Pose) -> Attachment:
        carrier = int(self.model.body_weldid[body])
        return Attachment(self.names[carrier], self._world("x", carrier).inverse() @ world)

    def _world(self, prefix: str, number: int) -> Pose:
        rotation, position = (getattr(self.data, prefix + part)[number] for part in ("mat", "pos"))
        return Pose(np.array(rotation, float).reshape(3, 3), np.array(position, float))


# --- Loops ------------------------------------------------------------------------------------------------------------


def _loops(mujoco: ModuleType, model: Any, frames: Frames) -> Iterator[Loop]:
    """The equality constraints that are active, see MuJoCo's documentation of `equality`."""
    for e in _active(mujoco, model):
        kind, name = kind_of(mujoco, "Eq", model.eq_type[e]), name_of(mujoco, model, "EQUALITY", e)
        data, objects = np.array(model.eq_data[e], float), (int(model.eq_obj1id[e]), int(model.eq_obj2id[e]))
        if kind == "joint":
            yield _joint_loop(mujoco, model, name, objects, data)
            continue
        # A weld whose torques have no weight is a connect.
        components = FRAME if kind == "weld" and data[10] != 0.0 else POINT
        if int(model.eq_objtype[e]) == int(mujoco.mjtObj.mjOBJ_SITE):
            first, second = (frames.of_site(site) for site in objects)
        else:
            # connect: the anchor on body 1, then on body 2. weld: on 2, then on 1, and rotation from 1 to 2
            on_first, on_second = (data[0:3], data[3:6]) if kind == "connect" else (data[3:6], data[0:3])
            turned = _rotation(data[6:10]) if kind == "weld" else np.eye(3)
            first = frames.of_body(objects[0], Pose(turned, on_first))
            second = frames.of_body(objects[1], Pose(np.eye(3), on_second))
        yield FrameLoop(name, (first, second), components)


def _joint_loop(mujoco: ModuleType, model: Any, name: str, joints: tuple[int, int], data: Array) -> JointLoop:
    """q₁ − ref₁ = Σ_k polycoef[k] (q₂ − ref₂)^k, written out in powers of q₂."""
    first = name_of(mujoco, model, "JOINT", joints[0])
    if joints[1] < 0:
        raise RobotError(f"Equality '{name}' fixes joint '{first}'. Remove the joint instead, which fixes its body.")
    reference = [float(model.qpos0[int(model.jnt_qposadr[k])]) for k in joints]
    shifted = Polynomial(data[:5])(Polynomial([-reference[1], 1.0])) + reference[0]
    coefficients = tuple(float(c) for c in shifted.trim().coef)
    return JointLoop(name, first, name_of(mujoco, model, "JOINT", joints[1]), coefficients)


def _actuated(mujoco: ModuleType, model: Any) -> tuple[str, ...]:
    """Joints that an actuator drives, in the order of the joints."""
    driven: set[int] = set()
    for k in range(model.nu):
        kind, target = kind_of(mujoco, "Trn", model.actuator_trntype[k]), int(model.actuator_trnid[k, 0])
        name = name_of(mujoco, model, "ACTUATOR", k)
        if kind not in ("joint", "jointinparent"):
            raise RobotError(
                f"Actuator '{name}' acts on a {kind}. In a model with <equality> the actuators define which joints "
                "have motors: put it on a joint, or remove it."
            )
        if kind_of(mujoco, "Joint", model.jnt_type[target]) in COORDINATES:
            joint = name_of(mujoco, model, "JOINT", target)
            raise RobotError(
                f"Actuator '{name}' drives '{joint}', which is neither a hinge nor a slide joint. Use one of these."
            )
        driven.add(target)
    if not driven:
        raise RobotError(
            "The model has <equality> loops, so it must define the joints with motors and encoders, and it has no "
            'actuator. Add an <actuator> section with one entry per driven joint, e.g. <motor joint="…"/>.'
        )
    return tuple(name_of(mujoco, model, "JOINT", k) for k in sorted(driven))


def _home(mujoco: ModuleType, model: Any, joints: tuple[Joint, ...]) -> Array:
    """The reference position, in which MuJoCo closes the loops; free and ball joints are measured from it."""
    reference = {name_of(mujoco, model, "JOINT", k): float(model.qpos0[a]) for k, a in enumerate(model.jnt_qposadr)}
    return np.array([0.0 if joint.bare else reference[joint.name] for joint in joints])


# --- Names, joints and bodies -----------------------------------------------------------------------------------------


def name_of(mujoco: ModuleType, model: Any, kind: str, number: int) -> str:
    """The name in the file, or kind and number where it gives none."""
    given = mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind}"), number)
    return given or f"{kind.lower()}{number}"


def _connections(mujoco: ModuleType, model: Any, b: int, names: list[str]) -> list[Connection]:
    """The connections of body b to its parent: its joints in order, each in the body's frame, or one fixed connection.

    MuJoCo moves body frames joint by joint about axes given in that frame, from the reference position q₀ (`ref`):
        T(q) = T_body · Π_k exp(S_k (q_k − q₀_k))   with S_k = (axis, pos × axis) of joint k
    """
    body, parent = names[b], names[int(model.body_parentid[b])]
    pose = Pose(_rotation(model.body_quat[b]), np.array(model.body_pos[b], float))
    first, count = int(model.body_jntadr[b]), int(model.body_jntnum[b])
    if count == 0:
        return [Connection(f"{body}_fixed", "fixed", parent, body, pose)]
    chain: list[Connection] = []
    for k in range(first, first + count):
        joint = name_of(mujoco, model, "JOINT", k)
        child = body if k == first + count - 1 else f"{body}_{joint}"
        chain.append(_moving(mujoco, model, k, joint, parent, child, pose))
        parent, pose = child, Pose()
    return chain


def _moving(mujoco: ModuleType, model: Any, k: int, name: str, parent: str, child: str, pose: Pose) -> Connection:
    if (mobile := kind_of(mujoco, "Joint", model.jnt_type[k])) in COORDINATES:
        loose: ConnectionKind = "ball" if mobile == "ball" else "free"
        return Connection(name, loose, parent, child, pose, point=np.array(model.jnt_pos[k], float))
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
            viscous=0.0 if _off(mujoco, model, "DAMPER") else float(model.dof_damping[dof]),
            coulomb=0.0 if _off(mujoco, model, "FRICTIONLOSS", "CONSTRAINT") else float(model.dof_frictionloss[dof]),
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
    rotation = _rotation(model.body_iquat[b])
    about_com = rotation @ np.diag(model.body_inertia[b]) @ rotation.T
    return inertial_vector(float(model.body_mass[b]), np.array(model.body_ipos[b], float), about_com)


def _rotation(quaternion: Array) -> Array:
    """Rotation matrix of a quaternion (w, x, y, z)."""
    w, x, y, z = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    k = skew(np.array([x, y, z]))
    return np.eye(3) + 2.0 * w * k + 2.0 * k @ k
