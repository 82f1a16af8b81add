"""Loops of an MJCF: its equality constraints, and the joints that its actuators drive."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

from steelyard._arrays import Array
from steelyard.errors import RobotError, few
from steelyard.findings import Finding
from steelyard.formats.robots.assembly import COORDINATES
from steelyard.formats.robots.mjcf_compile import Frames, kind_of, name_of, rotation_of, switched_off
from steelyard.formats.robots.mjcf_springs import refuse_tendons, tendon_joints
from steelyard.model.loops import FRAME, POINT, FrameLoop, JointLoop, Loop
from steelyard.model.pose import Pose
from steelyard.model.robot import Joint

LOOPS = ("connect", "weld", "joint")  # kinds of equality constraints that are read
# Columns of the constraints' Jacobian at a sine below this to the span of others depend on them.
DEPENDENT = 1e-7


def refuse_constraints(mujoco: ModuleType, model: Any) -> None:
    """Raises an error for what a robot of rigid links and joint motors does not have."""
    others = {kind for e in _active(mujoco, model) if (kind := kind_of(mujoco, "Eq", model.eq_type[e])) not in LOOPS}
    if others:
        raise RobotError(
            f"The model has equality constraints of kind {', '.join(sorted(others))}, which are not supported: only "
            f"{', '.join(LOOPS)}. Remove them, and make dependent joints fixed."
        )
    if model.nflex:
        raise RobotError(
            "The model has flexible bodies (<flex>), which are not supported: links are rigid. Replace them by rigid "
            "bodies, or remove them if they are not part of the robot."
        )
    muscle = int(mujoco.mjtGain.mjGAIN_MUSCLE)
    muscles = [name_of(mujoco, model, "ACTUATOR", k) for k in range(model.nu) if model.actuator_gaintype[k] == muscle]
    if muscles:
        raise RobotError(
            f"The model is driven by muscles ({few(muscles)}), which are not supported: the efforts of the joints are "
            "not measured. Remove the muscles, and give every joint a motor if you know the efforts of the joints."
        )
    refuse_tendons(mujoco, model)


def _active(mujoco: ModuleType, model: Any) -> list[int]:
    """The equality constraints that are active when a simulation starts."""
    if switched_off(mujoco, model, "EQUALITY", "CONSTRAINT"):
        return []
    return [e for e in range(model.neq) if model.eq_active0[e]]


def loops_of(mujoco: ModuleType, model: Any, frames: Frames) -> Iterator[Loop]:
    """The equality constraints that are active, see MuJoCo's documentation of `equality`."""
    for e in _active(mujoco, model):
        kind, name = kind_of(mujoco, "Eq", model.eq_type[e]), name_of(mujoco, model, "EQUALITY", e)
        data, objects = np.array(model.eq_data[e], float), (int(model.eq_obj1id[e]), int(model.eq_obj2id[e]))
        if kind == "joint":
            if objects[1] < 0:
                continue  # `fixed_joints`
            yield _joint_loop(mujoco, model, name, objects, data)
            continue
        # A weld whose torques have no weight is a connect.
        components = FRAME if kind == "weld" and data[10] != 0.0 else POINT
        if int(model.eq_objtype[e]) == int(mujoco.mjtObj.mjOBJ_SITE):
            first, second = (frames.of_site(site) for site in objects)
        else:
            # connect: the anchor on body 1, then on body 2. weld: on 2, then on 1, and rotation from 1 to 2
            on_first, on_second = (data[0:3], data[3:6]) if kind == "connect" else (data[3:6], data[0:3])
            turned = rotation_of(data[6:10]) if kind == "weld" else np.eye(3)
            first = frames.of_body(objects[0], Pose(turned, on_first))
            second = frames.of_body(objects[1], Pose(np.eye(3), on_second))
        yield FrameLoop(name, (first, second), components)


def _joint_loop(mujoco: ModuleType, model: Any, name: str, joints: tuple[int, int], data: Array) -> JointLoop:
    """q₁ − ref₁ = Σ_k polycoef[k] (q₂ − ref₂)^k, written out in powers of q₂."""
    first = name_of(mujoco, model, "JOINT", joints[0])
    reference = [float(model.qpos0[int(model.jnt_qposadr[k])]) for k in joints]
    shifted = Polynomial(data[:5])(Polynomial([-reference[1], 1.0])) + reference[0]
    coefficients = tuple(float(c) for c in shifted.trim().coef)
    return JointLoop(name, first, name_of(mujoco, model, "JOINT", joints[1]), coefficients)


def fixed_joints(mujoco: ModuleType, model: Any) -> dict[str, float]:
    """Joints that an equality fixes at a position: q = ref + polycoef[0]."""
    out = {}
    for e in _active(mujoco, model):
        if kind_of(mujoco, "Eq", model.eq_type[e]) == "joint" and int(model.eq_obj2id[e]) < 0:
            k = int(model.eq_obj1id[e])
            place = float(model.qpos0[int(model.jnt_qposadr[k])]) + float(model.eq_data[e][0])
            out[name_of(mujoco, model, "JOINT", k)] = place
    return out


# --- Actuators --------------------------------------------------------------------------------------------------------


def axes(mujoco: ModuleType, model: Any) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """The axes of a model with loops in the order of the joints: those with an actuator, and joints that move without
    one, named in a finding."""
    driven, free = _driven(mujoco, model), _independent(mujoco, model)
    # more actuators than freedoms, or two that depend on each other: the check of the loops says which
    chosen = free if driven <= free else driven
    names = {k: name_of(mujoco, model, "JOINT", k) for k in sorted(chosen)}
    assumed = [names[k] for k in names if k not in driven]
    if not assumed:
        return tuple(names.values()), ()
    message = f"{len(assumed)} joints without an actuator are not moved by a loop ({few(assumed)}): read as axes"
    return tuple(names.values()), (Finding("axes-assumed", "warning", message),)


def _driven(mujoco: ModuleType, model: Any) -> set[int]:
    """Joints that an actuator drives; one on a <fixed> tendon drives the first joint of it."""
    driven: set[int] = set()
    for k in range(model.nu):
        kind, target = kind_of(mujoco, "Trn", model.actuator_trntype[k]), int(model.actuator_trnid[k, 0])
        name = name_of(mujoco, model, "ACTUATOR", k)
        if kind == "tendon":
            target = tendon_joints(mujoco, model, target)[0]
        elif kind not in ("joint", "jointinparent"):
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
    return driven


def _independent(mujoco: ModuleType, model: Any) -> set[int]:
    """Joints that determine all others through the constraints at the reference position, actuated ones first.

    From the Jacobian J of the constraints: joints are made passive one by one, those of free and ball joints first and
    actuated ones last, where the column of J is independent of those before. The remaining ones are the axes.
    """
    jacobian = _constraint_jacobian(mujoco, model)
    driven = _driven(mujoco, model)
    single = {int(model.jnt_dofadr[k]): k for k, kind in enumerate(model.jnt_type) if _is_single(mujoco, kind)}
    order = sorted(range(model.nv), key=lambda dof: (dof in single, single.get(dof, -1) in driven, -dof))
    basis = np.zeros((len(jacobian), 0))
    # joints before both ends of a loop do not move them: their columns are zero up to rounding
    zero = DEPENDENT * float(np.linalg.norm(jacobian, axis=0).max(initial=0.0))
    out = set()
    for dof in order:
        column = jacobian[:, dof]
        size = float(np.linalg.norm(column))
        rest = column - basis @ (basis.T @ column)
        rest = rest - basis @ (basis.T @ rest)
        if size > zero and np.linalg.norm(rest) > DEPENDENT * size:
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
        elif dof in single:
            out.add(single[dof])
    return out


def _is_single(mujoco: ModuleType, kind: int) -> bool:
    return kind_of(mujoco, "Joint", kind) not in COORDINATES


def _constraint_jacobian(mujoco: ModuleType, model: Any) -> Array:
    """(rows, nv) of the active equalities at the reference position."""
    flags = int(model.opt.disableflags)
    for other in ("CONTACT", "LIMIT", "FRICTIONLOSS"):
        model.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{other}"))
    data = mujoco.MjData(model)
    mujoco.mj_fwdPosition(model, data)
    model.opt.disableflags = flags
    dense = np.zeros((data.nefc, model.nv))
    if mujoco.mj_isSparse(model):
        mujoco.mju_sparse2dense(dense, data.efc_J, data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind)
        return dense
    return np.reshape(data.efc_J[: dense.size], dense.shape)


def efforts(mujoco: ModuleType, model: Any) -> dict[int, float]:
    """Largest effort of joints whose actuators are limited [N·m | N]: of the weaker direction, where the two differ.

    A joint's own actuatorfrcrange, and |gear| times the forcerange of its actuator, or times gain and ctrlrange of one
    whose force is its control signal. Several actuators on a joint add up.
    """
    out = {k: float(np.min(np.abs(model.jnt_actfrcrange[k]))) for k in np.flatnonzero(model.jnt_actfrclimited)}
    sums: dict[int, float] = {}
    for k in range(model.nu):
        if kind_of(mujoco, "Trn", model.actuator_trntype[k]) in ("joint", "jointinparent"):
            joint = int(model.actuator_trnid[k, 0])
            sums[joint] = sums.get(joint, 0.0) + abs(float(model.actuator_gear[k, 0])) * _force(mujoco, model, k)
    return {k: min(out.get(k, np.inf), sums.get(k, np.inf)) for k in {*out, *sums}}


def _force(mujoco: ModuleType, model: Any, k: int) -> float:
    """Largest force of an actuator before its gear; infinite without a limit. A range of one sign has no limit."""
    limits = [np.inf]
    if model.actuator_forcelimited[k]:
        limits.append(float(np.min(np.abs(model.actuator_forcerange[k]))))
    direct = kind_of(mujoco, "Gain", model.actuator_gaintype[k]) == "fixed"
    direct = direct and kind_of(mujoco, "Bias", model.actuator_biastype[k]) == "none"
    if direct and model.actuator_ctrllimited[k]:
        limits.append(abs(float(model.actuator_gainprm[k, 0])) * float(np.min(np.abs(model.actuator_ctrlrange[k]))))
    return min((limit for limit in limits if limit > 0.0), default=np.inf)


def home(mujoco: ModuleType, model: Any, joints: tuple[Joint, ...]) -> Array:
    """The reference position, in which MuJoCo closes the loops; free and ball joints are measured from it."""
    reference = {name_of(mujoco, model, "JOINT", k): float(model.qpos0[a]) for k, a in enumerate(model.jnt_qposadr)}
    return np.array([0.0 if joint.bare else reference[joint.name] for joint in joints])
