"""Springs of an MJCF: joints with a stiffness, and tendons. A tendon that exerts no force of its own is not read."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from steelyard.errors import RobotError, few
from steelyard.findings import Finding
from steelyard.formats.robots.assembly import COORDINATES
from steelyard.formats.robots.mjcf_compile import Frames, kind_of, name_of
from steelyard.model.springs import Anchor, JointSpring, Spring, TensionSpring

# What a tendon can exert besides the pull of its actuators, by MuJoCo's names. Its limits, like those of joints, act
# only where the robot should not be.
_EXERTS = ("stiffness", "damping", "frictionloss", "armature")


def refuse_tendons(mujoco: ModuleType, model: Any) -> None:
    """Raises an error for tendons whose forces no term can stand for."""
    pulling = [k for k in range(model.ntendon) if _exerts(model, k) and not _is_spring(mujoco, model, k)]
    if pulling:
        kinds = [kind for kind in _EXERTS if any(kind in _exerts(model, k) for k in pulling)]
        raise RobotError(
            f"{_tendons(mujoco, model, pulling)} with {', '.join(kinds)}: only a <spatial> tendon between two sites "
            "that is a linear spring with one springlength is supported. Remove these tendons, or their "
            f"{' and '.join(kinds)}, and identify the forces as joint friction or [[spring]]s."
        )
    routed = [k for k in _pulled(mujoco, model) if not tendon_joints(mujoco, model, k)]
    if routed:
        raise RobotError(
            f"{_tendons(mujoco, model, routed)} that actuators pull along a path through sites: the efforts of joints "
            "that such a tendon moves are not measured. Remove the tendon and its actuator, and give every joint a "
            "motor if you know the efforts of the joints."
        )


def tendon_findings(mujoco: ModuleType, model: Any) -> tuple[Finding, ...]:
    """Which tendons were not read."""
    silent = [k for k in range(model.ntendon) if not _exerts(model, k)]
    if not silent:
        return ()
    message = f"{_tendons(mujoco, model, silent)} that exert{'s' if len(silent) == 1 else ''} no force: not read"
    return (Finding("tendon-not-read", "info", message),)


def _tendons(mujoco: ModuleType, model: Any, which: list[int]) -> str:
    names = few(name_of(mujoco, model, "TENDON", k) for k in which)
    return f"The model has {len(which)} tendons ({names})" if len(which) > 1 else f"The model has a tendon ({names})"


def _exerts(model: Any, k: int) -> list[str]:
    powers = {"stiffness": not _is_linear(model, "tendon", k), "damping": np.any(_powers(model, "tendon_damping", k))}
    return [kind for kind in _EXERTS if np.any(getattr(model, f"tendon_{kind}")[k]) or powers.get(kind, False)]


def _pulled(mujoco: ModuleType, model: Any) -> list[int]:
    """The tendons that actuators act on."""
    kinds = [kind_of(mujoco, "Trn", kind) for kind in model.actuator_trntype]
    return sorted({int(model.actuator_trnid[k, 0]) for k, kind in enumerate(kinds) if kind == "tendon"})


def _wraps(model: Any, k: int) -> slice:
    return slice(int(model.tendon_adr[k]), int(model.tendon_adr[k]) + int(model.tendon_num[k]))


def tendon_joints(mujoco: ModuleType, model: Any, k: int) -> list[int]:
    """The joints of a <fixed> tendon, whose length is a linear combination of theirs; none of a spatial one."""
    part = _wraps(model, k)
    fixed = np.all(model.wrap_type[part] == int(mujoco.mjtWrap.mjWRAP_JOINT))
    return [int(joint) for joint in model.wrap_objid[part]] if fixed else []


def _is_spring(mujoco: ModuleType, model: Any, k: int) -> bool:
    """Whether a tendon is a linear spring between two sites and nothing else."""
    sites = model.wrap_type[_wraps(model, k)] == int(mujoco.mjtWrap.mjWRAP_SITE)
    lower, upper = model.tendon_lengthspring[k]
    linear = _is_linear(model, "tendon", k) and lower == upper and _exerts(model, k) == ["stiffness"]
    return bool(len(sites) == 2 and sites.all() and linear and k not in _pulled(mujoco, model))


def _powers(model: Any, what: str, k: int) -> Any:
    """Coefficients of the higher powers of a stiffness or damping, which MuJoCo supports since version 4."""
    return getattr(model, f"{what}poly", np.zeros((k + 1, 1)))[k]


def _is_linear(model: Any, what: str, k: int) -> bool:
    """False where a stiffness has higher powers."""
    return not np.any(_powers(model, f"{what}_stiffness", k))


def joint_springs(mujoco: ModuleType, model: Any) -> Iterator[tuple[Spring, str, float]]:
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


def tendon_springs(mujoco: ModuleType, model: Any, frames: Frames) -> Iterator[tuple[Spring, str, float]]:
    """The tendons as springs between the moving bodies that carry their sites."""
    for k in range(model.ntendon):
        if not _is_spring(mujoco, model, k):
            continue
        sites = (frames.of_site(int(site)) for site in model.wrap_objid[model.tendon_adr[k] :][:2])
        first, second = (Anchor(site.link, site.pose.position) for site in sites)
        name, free = name_of(mujoco, model, "TENDON", k), float(model.tendon_lengthspring[k, 0])
        yield TensionSpring(name, (first, second), free), "Kr", float(model.tendon_stiffness[k])
