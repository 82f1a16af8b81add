"""Check of an MJCF with MuJoCo: effects that our reader does not read, and the torques of the compiled file.

Our reader reads bodies, drives and springs. MuJoCo adds other effects of the file to the torque: the armature of an
actuator (gear² · armature, since version 4), gravity compensation, a fluid around the bodies, and springs that the
model has no term for. The values of a fit to measured torques include all of that, so that a file that kept these
effects would count them twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import OutputError
from steelyard.export.parity import parity, random_states
from steelyard.export.robot_files.matching import Match
from steelyard.export.robot_files.xml_edit import Element, TextEdit, XmlText
from steelyard.formats.robots.mjcf_compile import compiled_text, name_of
from steelyard.model.model import Model
from steelyard.model.terms import Rotor, Springs, Term

# Friction in MuJoCo: compared number by number elsewhere, not by torques.
FRICTION = ("dof_damping", "dof_dampingpoly", "dof_frictionloss", "actuator_damping", "actuator_dampingpoly")
# MuJoCo turns a stated inertia into principal moments and a quaternion, by an iteration that ends after some 9 digits.
# An effect that was overlooked is larger by orders of magnitude.
TOLERANCE = 1e-7
# Constraints that mj_inverse would subtract from the torque: contacts, limits, equalities and friction loss.
WITHOUT = ("CONSTRAINT", "CONTACT", "EQUALITY", "LIMIT", "FRICTIONLOSS")


def zeroed_effects(
    text: XmlText, path: Path, bodies: Mapping[str, Element], *, damped: bool
) -> tuple[list[TextEdit], tuple[str, ...]]:
    """Edits that set to zero the effects that MuJoCo would add to the identified torques, and a sentence that names
    them.

    `bodies` are the elements of the bodies by name; `damped`: damping was identified, so that the damping of actuators
    is set to zero too.
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
    for name, element in bodies.items():
        if float(element.attributes.get("gravcomp", "0")):
            edits += text.attributes(element, {"gravcomp": "0"})
            found.append(f"gravcomp of {name}")
    for element in text.root.findall("option"):
        fluid = [key for key in ("density", "viscosity") if float(element.attributes.get(key, "0"))]
        edits += text.attributes(element, dict.fromkeys(fluid, "0"))
        found += [f"{key} of <option>" for key in fluid]
    if not found:
        return [], ()
    return edits, (f"Set to zero, because the identified values include it: {', '.join(found)}.",)


def checked_by_mujoco(text: str, path: Path, matched: Match) -> None:
    """Compare MuJoCo's inverse dynamics of the compiled text with the identified model; a difference raises an error.

    τ = M(q) q̈ + c(q, q̇) − passive forces (mj_inverse), without constraints and friction, under the gravity of the
    identification. Only for robots without loops: MuJoCo closes a loop by forces, which are not part of the axes'
    torques.
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
    compiled.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    compiled.opt.gravity[:] = matched.world.rotation.T @ matched.identified.gravity
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
