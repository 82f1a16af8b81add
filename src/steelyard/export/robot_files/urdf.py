"""URDF: the identified values in the user's own file; nothing else in it changes.

Inertias are written about the centre of mass along the axes of the link's frame (rpy 0): other directions would add the
rounding of angles. A link without <inertial> and a joint without <dynamics> get one, in the file's own indentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from steelyard._arrays import Array
from steelyard.export.export import Export
from steelyard.export.robot_files.changes import changes
from steelyard.export.robot_files.drives import DAMPING, FRICTION, drives, new_values
from steelyard.export.robot_files.fixed_bodies import lump_notes, new_bodies
from steelyard.export.robot_files.inertial import Inertial, inertial, number, numbers
from steelyard.export.robot_files.matching import as_held, match
from steelyard.export.robot_files.xml_edit import Element, TextEdit, XmlText, robot_source, tag
from steelyard.formats.robots.urdf import read_urdf
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Drive

HOLDS = (DAMPING, FRICTION)


def edited_urdf(model: Model, theta: Array, source: Path, load: str = UNLOADED) -> Export:
    """The user's URDF with the links and joint friction of theta (C,), read back and compared before it is returned.

    `load` names the payload that theta has in its links already.
    """
    content = robot_source(source, "robot", "URDF")
    file = as_held(read_urdf(content, str(source)), model.robot)
    held = drives(model, theta, HOLDS, "URDF", load=load)
    matched = match(model, theta, file, held)
    text = XmlText.of(content, str(source))
    links = {element.attributes["name"].strip(): element for element in text.root.findall("link")}
    joints = {element.attributes["name"].strip(): element for element in text.root.findall("joint")}
    bodies = new_bodies(file, matched.file)
    edits = [edit for name, vector in bodies.items() for edit in _inertial_edits(text, links[name], inertial(vector))]
    for before, after in zip(file.joints, matched.file.joints, strict=True):
        values = new_values(dynamics_values(before.drive), dynamics_values(after.drive))
        edits += _dynamics_edits(text, joints[before.name], values) if values else []
    written = text.edited(edits).file
    read_back = as_held(read_urdf(written, str(source)), model.robot)
    parity = matched.compared(read_back, source.name)
    return Export(
        "urdf",
        {source.name: written},
        held.left_out,
        changes(file, read_back),
        parity,
        held.lines,
        (*held.notes, *lump_notes(file, bodies), matched.gravity_note),
        _companions(text.root),
    )


def _companions(root: Element) -> tuple[str, ...]:
    """Meshes and textures with a path relative to the file; those of packages do not depend on its folder."""
    files = [e.attributes.get("filename", "").strip() for e in root.walk() if e.tag in ("mesh", "texture")]
    return tuple(dict.fromkeys(f for f in files if f and "://" not in f and not Path(f).is_absolute()))


def _inertial_edits(text: XmlText, link: Element, body: Inertial) -> list[TextEdit]:
    element = link.find("inertial")
    if element is None:
        return text.inserted(link, inertial_lines(body))
    origin, mass, tensor = (element.find(name) for name in ("origin", "mass", "inertia"))
    assert mass is not None
    assert tensor is not None
    edits = text.attributes(mass, {"value": number(body.mass)})
    edits += text.attributes(tensor, _tensor(body.inertia))
    if origin is None:
        return [*edits, *text.inserted(element, [_origin(body)])]
    turned = {"rpy": "0 0 0"} if "rpy" in origin.attributes else {}
    return [*edits, *text.attributes(origin, {"xyz": numbers(body.com)} | turned)]


def inertial_lines(body: Inertial) -> list[str]:
    """A new <inertial>, indented by two spaces per level."""
    inside = (_origin(body), tag("mass", {"value": number(body.mass)}), tag("inertia", _tensor(body.inertia)))
    return ["<inertial>", *(f"  {line}" for line in inside), "</inertial>"]


def _origin(body: Inertial) -> str:
    return tag("origin", {"xyz": numbers(body.com), "rpy": "0 0 0"})


def _tensor(inertia: Array) -> dict[str, str]:
    places = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
    return {key: number(inertia[place]) for key, place in places.items()}


def dynamics_values(drive: Drive) -> dict[str, str]:
    """damping and friction of a joint as attributes, where they are known."""
    given = {"damping": drive.viscous, "friction": drive.coulomb}
    return {key: number(value) for key, value in given.items() if value is not None}


def _dynamics_edits(text: XmlText, joint: Element, values: Mapping[str, str]) -> list[TextEdit]:
    element = joint.find("dynamics")
    if element is not None:
        return text.attributes(element, values)
    return text.inserted(joint, [tag("dynamics", values)], last=True)
