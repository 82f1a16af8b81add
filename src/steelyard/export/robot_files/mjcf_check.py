"""Check of an MJCF with MuJoCo: effects that our reader does not read, and the torques of the compiled file.

Our reader reads bodies, drives and springs. MuJoCo adds other effects of the file to the torque: the armature of an
actuator (gear² · armature, since version 4), gravity compensation, a fluid around the bodies, and springs that the
model has no term for. The values of a fit to measured torques include all of that, so that a file that kept these
effects would count them twice. Gravity compensation is kept where the model was identified without gravity.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import OutputError, few
from steelyard.export.parity import parity, random_states
from steelyard.export.robot_files.inertial import number
from steelyard.export.robot_files.matching import Match
from steelyard.export.robot_files.xml_edit import Element, TextEdit, XmlText
from steelyard.formats.robots.mjcf_compile import CompiledModel, body_names, compiled_text, name_of
from steelyard.model.model import Model
from steelyard.model.terms import Rotor, Springs, Term

# Friction in MuJoCo: compared number by number elsewhere, not by torques.
FRICTION = ("dof_damping", "dof_dampingpoly", "dof_frictionloss", "actuator_damping", "actuator_dampingpoly")
# MuJoCo turns a stated inertia into principal moments and a quaternion, by an iteration that ends after some 9 digits.
# An effect that was overlooked is larger by orders of magnitude.
TOLERANCE = 1e-7
# Constraints that mj_inverse would subtract from the torque: contacts, limits, equalities and friction loss.
WITHOUT = ("CONSTRAINT", "CONTACT", "EQUALITY", "LIMIT", "FRICTIONLOSS")
# Random poses at which the weight that gravcomp leaves is computed.
POSES = 8


def zeroed_effects(
    text: XmlText, path: Path, bodies: Mapping[str, Element], *, damped: bool, weightless: bool
) -> tuple[list[TextEdit], tuple[str, ...]]:
    """Edits that set to zero the effects that MuJoCo would add to the identified torques, and a sentence that names
    them.

    `bodies` are the elements of the bodies by name; `damped`: damping was identified, so that the damping of actuators
    is set to zero too. `weightless`: the identified torques hold no weight but the file has gravity, so that every
    moving body gets gravcomp 1.
    """
    file = compiled_text(text.content.decode(), path, fused=False)
    mujoco, model = file.mujoco, file.model
    edits: list[TextEdit] = []
    found: list[str] = []
    kinds = ("armature", "damping") if damped else ("armature",)
    actuators = [one for section in text.root.findall("actuator") for one in section.children]
    for k, element in enumerate(actuators):
        own = [kind for kind in kinds if np.any(getattr(model, f"actuator_{kind}", np.zeros(len(actuators)))[k])]
        edits += text.attributes(element, dict.fromkeys(own, "0"))
        found += [f"{kind} of {name_of(mujoco, model, 'ACTUATOR', k)}" for kind in own]
    wanted = dict.fromkeys(bodies, 0.0)
    if weightless:
        names = body_names(mujoco, model)
        wanted |= {names[b]: 1.0 for b in range(1, model.nbody) if model.body_weldid[b] and names[b] in bodies}
    changed = [name for name, x in wanted.items() if float(bodies[name].attributes.get("gravcomp", "0")) != x]
    for name in changed:
        edits += text.attributes(bodies[name], {"gravcomp": number(wanted[name])})
    found += [f"gravcomp of {name}" for name in changed if not wanted[name]]
    for element in text.root.findall("option"):
        fluid = [key for key in ("density", "viscosity") if float(element.attributes.get(key, "0"))]
        edits += text.attributes(element, dict.fromkeys(fluid, "0"))
        found += [f"{key} of <option>" for key in fluid]
    notes = [f"Set to zero, because the identified values include it: {', '.join(found)}."] if found else []
    if weightless:
        added = [name for name in changed if wanted[name]]
        said = f" (set for {few(added)})" if added else ""
        notes.append(f"Kept: gravcomp, 1 on all moving bodies{said}, because the model was identified without gravity.")
    return edits, tuple(notes)


def states_compensation(bodies: Mapping[str, Element]) -> bool:
    """Whether any of the elements of bodies states gravity compensation."""
    return any(float(element.attributes.get("gravcomp", "0")) for element in bodies.values())


def is_compensated(file: CompiledModel) -> bool:
    """Whether gravity compensation carries the weight on every joint of a compiled file, at random poses."""
    mujoco, model = file.mujoco, file.model
    if not np.any(model.body_gravcomp):
        return False
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    weight, carried = [], []
    for _ in range(POSES):
        data.qpos[:] = model.qpos0
        mujoco.mj_integratePos(model, data.qpos, rng.uniform(-np.pi, np.pi, model.nv), 1.0)
        mujoco.mj_forward(model, data)
        weight.append(data.qfrc_bias.copy())  # at rest
        carried.append(data.qfrc_gravcomp.copy())
    return bool(np.abs(np.subtract(weight, carried)).max() <= TOLERANCE * np.abs(weight).max())


def checked_by_mujoco(text: str, path: Path, matched: Match, *, weightless: bool = False) -> None:
    """Compare MuJoCo's inverse dynamics of the compiled text with the identified model; a difference raises an error.

    τ = M(q) q̈ + c(q, q̇) − passive forces (mj_inverse), without constraints and friction, under the gravity of the
    identification; `weightless`: under that of the file, whose gravity compensation must carry all weight. Only for
    robots without loops: MuJoCo closes a loop by forces, which are not part of the axes' torques.
    """
    if matched.identified.loops or matched.file.loops:
        return
    file = compiled_text(text, path)
    mujoco, compiled = file.mujoco, file.model
    data = mujoco.MjData(compiled)
    for name in FRICTION:
        if hasattr(compiled, name):
            getattr(compiled, name)[:] = 0.0
    for flag in WITHOUT:
        compiled.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}", 0))
    # compensation by actuators is the same torque, and mj_inverse subtracts only the passive one
    compiled.jnt_actgravcomp[:] = 0
    if not weightless:
        compiled.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        compiled.opt.gravity[:] = matched.gravity
    place = {name_of(mujoco, compiled, "JOINT", k): k for k in range(compiled.njnt)}
    joints = [place[name] for name in matched.file.axis_names]
    rows = compiled.jnt_qposadr[joints], compiled.jnt_dofadr[joints]
    for name, value in matched.file.held.items():
        if name in place:  # coordinates of a ball joint have names of their own
            data.qpos[compiled.jnt_qposadr[place[name]]] = value

    def torque(q: Array, v: Array, a: Array) -> Array:
        out = np.empty_like(q)
        for s in range(q.shape[1]):
            data.qpos[rows[0]] = q[matched.axes, s]
            data.qvel[rows[1]], data.qacc[rows[1]] = v[matched.axes, s], a[matched.axes, s]
            mujoco.mj_inverse(compiled, data)
            out[matched.axes, s] = data.qfrc_inverse[rows[1]]
        return out

    springs: tuple[Term, ...] = (Springs(),) if matched.identified.nominal else ()
    wanted = Model(matched.identified, (Rotor(), *springs))
    theta = wanted.layout.nominal
    assert theta is not None  # the match has all links
    found = parity(lambda q, v, a: wanted.torque(q, v, a, theta), torque, random_states(wanted))
    if not found.relative <= TOLERANCE:  # NaN too
        raise OutputError(
            f"'{path.name}' was not written: our reader agrees with it, but MuJoCo's own torques (mj_inverse) differ "
            f"from the identified model's by up to {found.largest:.3g} N.m ({found.relative:.1e} relative). The file "
            "has an effect that no term of the model stands for, such as a <plugin> or a tendon: remove it and export "
            "again."
        )
