"""MJCF: the identified values in the user's own file; nothing else in it changes.

MuJoCo compiles the file before and after, so that classes, frames and geometry have its own meaning; the text is edited
in place. MuJoCo's own writer is not used because it prints six digits and drops the comments. Included files are
inserted where they are included, so that one file is written and none of the user's other files changes.

Every joint gets its own `armature`, `damping` and `frictionloss`, whatever its class states; bodies get an <inertial>
with `fullinertia`. Settings of <compiler> that would override these are switched off, and then every moving body gets
its own.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import OutputError, RobotError
from steelyard.export.export import Export
from steelyard.export.robot_files.changes import changes
from steelyard.export.robot_files.drives import ARMATURE, DAMPING, FRICTION, JointDrives, drives, new_values
from steelyard.export.robot_files.fixed_bodies import lump_notes, new_bodies
from steelyard.export.robot_files.inertial import Inertial, inertial, number, numbers
from steelyard.export.robot_files.matching import SAME_AXIS, Match, as_held, match
from steelyard.export.robot_files.mjcf_check import (
    checked_by_mujoco,
    is_compensated,
    states_compensation,
    zeroed_effects,
)
from steelyard.export.robot_files.xml_edit import Element, TextEdit, XmlText, robot_source, source_bytes, tag
from steelyard.formats.robots.mjcf import read_mjcf_text
from steelyard.formats.robots.mjcf_compile import compiled_text
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Drive, Robot
from steelyard.model.springs import JointSpring, Spring

HOLDS = (ARMATURE, DAMPING, FRICTION)
# Settings of <compiler> that change stated inertias, and the value that does not; None: remove the setting.
OVERRULING: dict[str, tuple[tuple[str, ...], str | None]] = {
    "inertiafromgeom": (("auto", "false"), "auto"),
    "balanceinertia": (("false",), "false"),
    "boundmass": (("0",), "0"),
    "boundinertia": (("0",), "0"),
    "settotalmass": ((), None),
}
# Attributes of <inertial> for its orientation and its moments: at most one form of each.
INERTIAL = ("quat", "axisangle", "xyaxes", "zaxis", "euler", "diaginertia", "fullinertia")
# Elements that make bodies without an element of their own.
MAKERS = ("replicate", "attach", "composite", "flexcomp")


def edited_mjcf(model: Model, theta: Array, source: Path, load: str = UNLOADED) -> Export:
    """The user's MJCF with the links and drives of theta (C,), read back and compared before it is returned.

    `load` names the payload that theta has in its links already.
    """
    content = robot_source(source, "mujoco", "MJCF")
    text = _flat(XmlText.of(content, str(source)), source, (source,))
    file = as_held(read_mjcf_text(text.content.decode(), source, fused=False), model.robot)
    held = drives(model, theta, HOLDS, "MJCF", springs=file.nominal, load=load)
    matched = match(model, theta, file, held)
    edits = _compiler_edits(text)
    elements = _Elements(text, file, source)
    bodies = new_bodies(file, matched.file, every=bool(edits))
    for name, vector in bodies.items():
        edits += elements.inertial_edits(name, vector)
    for before, after in zip(file.joints, matched.file.joints, strict=True):
        values = new_values(drive_values(before.drive), drive_values(after.drive))
        edits += text.attributes(elements.joints[before.name], values) if values else []
    for spring in file.springs:
        edits += elements.spring_edits(spring, held)
    weightless = not matched.gravity.any() and bool(file.gravity.any()) and states_compensation(elements.bodies)
    damped = any(DAMPING in own for own in held.values.values())
    zeroing, notes = zeroed_effects(text, source, elements.bodies, damped=damped, weightless=weightless)
    slack = [spring.name.removesuffix("_spring") for spring in file.springs if _stiffness(spring, held) is None]
    if slack:
        notes += (
            f"Stiffness of {', '.join(slack)} set to zero: the model has no term for it, so that the identified "
            "values include it. Identify with the term 'springs' to keep it.",
        )
    edits += zeroing
    written = text.edited(edits)
    read_back = as_held(compiled_back(written.content.decode(), source), model.robot)
    _refuse_switched_off(matched.file, read_back, source)
    parity = matched.compared(read_back, source.name)
    checked_by_mujoco(written.content.decode(), source, matched, weightless=weightless)
    apart = as_held(read_mjcf_text(written.content.decode(), source, fused=False), model.robot)
    left_out = (*held.left_out, *(() if weightless else _gravity_note(matched, file)))
    return Export(
        "mjcf",
        {source.name: written.file},
        left_out,
        changes(file, apart),
        parity,
        held.lines,
        (*held.notes, *notes, *lump_notes(file, bodies)),
        _companions(text.root),
    )


def mjcf_robot(content: bytes, path: Path) -> Robot:
    """The robot in the content of an MJCF file as MuJoCo computes it: weightless where gravcomp carries all weight.

    Includes and meshes are searched relative to its path.
    """
    text = _flat(XmlText.of(content, str(path)), path, (path,)).content.decode()
    robot = read_mjcf_text(text, path)
    return robot.with_gravity([0.0, 0.0, 0.0]) if is_compensated(compiled_text(text, path)) else robot


def _companions(root: Element) -> tuple[str, ...]:
    """Meshes, textures and other files that MuJoCo looks for relative to the folder of the file."""
    settings = {key: value for one in root.findall("compiler") for key, value in one.attributes.items()}
    out: list[Path] = []
    for element in (one for asset in root.findall("asset") for one in asset.walk()):
        own = "texturedir" if element.tag == "texture" else "meshdir"
        folder = Path(settings.get(own, settings.get("assetdir", "")))
        out += [folder / value for key, value in element.attributes.items() if key.startswith("file") and value]
    return tuple(dict.fromkeys(str(path) for path in out if not path.is_absolute()))


def compiled_back(text: str, path: Path) -> Robot:
    """The robot of a text that was just written; an error if MuJoCo does not accept it."""
    try:
        return read_mjcf_text(text, path)
    except RobotError as problem:
        raise OutputError(
            f"'{path.name}' was not written, because MuJoCo refuses it. {' '.join(str(problem).split())}. It requires "
            "mass and inertia in every moving body: give a prior mass to links that motion does not identify, or "
            "write a consistent set."
        ) from problem


def _flat(text: XmlText, path: Path, above: tuple[Path, ...]) -> XmlText:
    """The text with every <include> replaced by the content of the root of the other file.

    `above` are the files that led here, the main one first. Included files are looked for in the folder of the main
    file, then in that of the including file, as MuJoCo does.
    """
    main = above[0]
    edits = []
    for element in text.root.walk():
        if element.tag != "include":
            continue
        name = element.attributes.get("file", "")
        found = next((p for p in (main.parent / name, path.parent / name) if os.path.isfile(p)), None)
        if found is None or found in above or set(element.attributes) != {"file"}:
            raise RobotError(f"{path}: cannot follow <include file=\"{name}\">. Put its content into '{main.name}'.")
        inside = _flat(XmlText.of(source_bytes(found), str(found)), found, (*above, found))
        edits.append(TextEdit(element.start, element.end, inside.content[inside.root.opened : inside.root.closing]))
    return text.edited(edits)


def _compiler_edits(text: XmlText) -> list[TextEdit]:
    edits = []
    for element in text.root.findall("compiler"):
        harmful = {
            key: calm
            for key, (harmless, calm) in OVERRULING.items()
            if key in element.attributes and element.attributes[key].strip() not in harmless
        }
        edits += text.attributes(element, harmful)
    return edits


class _Elements:
    """The elements of the bodies and joints of a compiled file, by their names in its robot."""

    def __init__(self, text: XmlText, file: Robot, source: Path) -> None:
        self.text = text
        worlds = text.root.findall("worldbody")
        bodies = [element for world in worlds for element in world.walk() if element.tag == "body"]
        makers = sorted({element.tag for world in worlds for element in world.walk() if element.tag in MAKERS})
        self.bodies: dict[str, Element] = {}
        self.joints: dict[str, Element] = {}
        count = 0
        for number_of_body, body in enumerate(bodies, start=1):
            self.bodies[body.attributes.get("name") or f"body{number_of_body}"] = body
            for joint in _own_joints(body):
                self.joints[joint.attributes.get("name") or f"joint{count}"] = joint
                count += 1
        known = [joint.name for joint in file.joints if not joint.bare]
        if makers or not set(known) <= set(self.joints):
            why = f"has <{'>, <'.join(makers)}>, which make" if makers else "makes"
            raise OutputError(
                f"'{source}' {why} bodies that have no element of their own, so that there is no place for their "
                "values. Save the model as MuJoCo has compiled it (mujoco.mj_saveLastXML) and give that file."
            )

    def inertial_edits(self, name: str, vector: Array) -> list[TextEdit]:
        if name not in self.bodies:
            if not vector.any():
                return []
            raise OutputError(
                f"Link '{name}' stands between two joints of one body, where MuJoCo has no place for the mass it was "
                "identified with. Give every joint a body of its own in the file and identify again."
            )
        body = self.bodies[name]
        values = inertial_values(inertial(vector))
        element = body.find("inertial")
        if element is not None:
            return self.text.attributes(element, dict.fromkeys(INERTIAL) | values)
        return self.text.inserted(body, [tag("inertial", values)])

    def spring_edits(self, spring: Spring, held: JointDrives) -> list[TextEdit]:
        """The stiffness of a joint, or of a tendon, that is a spring; zero where the model has no term for it."""
        of_joint = isinstance(spring, JointSpring)
        value = _stiffness(spring, held)
        if value is None and not of_joint:
            raise OutputError(
                f"Tendon '{spring.name}' is a spring that the model has no term for: its pull is in the identified "
                "links already. Identify with the term 'springs', or remove the tendon from the file."
            )
        tendons = [child for section in self.text.root.findall("tendon") for child in section.children]
        named = {element.attributes.get("name") or f"tendon{k}": element for k, element in enumerate(tendons)}
        element = self.joints[spring.joint] if of_joint else named[spring.name]
        return self.text.attributes(element, {"stiffness": number(value or 0.0)})


def _stiffness(spring: Spring, held: JointDrives) -> float | None:
    """The identified stiffness of a spring of the file."""
    return held.springs.get(f"{spring.name}.{'K' if isinstance(spring, JointSpring) else 'Kr'}")


def _own_joints(body: Element) -> list[Element]:
    """Joints of a body, including those in its frames, in order."""
    out = []
    for child in body.children:
        if child.tag in ("joint", "freejoint"):
            out.append(child)
        elif child.tag == "frame":
            out += _own_joints(child)
    return out


def inertial_values(body: Inertial) -> dict[str, str]:
    """The attributes of <inertial>: centre, mass, and ixx iyy izz ixy ixz iyz in the body's directions.

    MuJoCo finds the principal moments of a full inertia, which a body without mass does not have.
    """
    order = ([0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2])
    moments = {"fullinertia": numbers(body.inertia[order])} if body.mass else {"diaginertia": "0 0 0"}
    return {"pos": numbers(body.com), "mass": number(body.mass)} | moments


def drive_values(drive: Drive) -> dict[str, str]:
    given = {"armature": drive.rotor, "damping": drive.viscous, "frictionloss": drive.coulomb}
    return {key: number(value) for key, value in given.items() if value is not None}


def _refuse_switched_off(wanted: Robot, read_back: Robot, source: Path) -> None:
    found = {joint.name: joint.drive for joint in read_back.joints}
    for joint in wanted.joints:
        if not joint.bare and found.get(joint.name) != joint.drive:
            raise OutputError(
                f"'{source.name}' was not written: MuJoCo does not take the drive of joint '{joint.name}' as written. "
                "Look for a <flag> of <option> that switches damper or frictionloss off, and remove it."
            )


def _gravity_note(matched: Match, file: Robot) -> tuple[str, ...]:
    if np.allclose(matched.gravity, file.gravity, rtol=0.0, atol=SAME_AXIS):
        return ()
    ours, own = (" ".join(f"{x:g}" for x in gravity) for gravity in (matched.gravity, file.gravity))
    return (
        f"Gravity ({ours}) of the identification: the file keeps its own ({own}), so that MuJoCo computes other "
        "torques from it, and its errors are those under its own. To simulate what was identified, set "
        f'gravity="{ours}" in its <option>; if its own is the right one, state it in the project and identify again.',
    )
