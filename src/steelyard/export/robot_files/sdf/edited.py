"""SDF: the identified values in the user's own file; nothing else in it changes.

Values are the texts of elements. <mass>, <pose> and <inertia> of a link's <inertial>, and <damping> and <friction> of a
joint's <dynamics>, are replaced; what is missing is added. Inertias are written about the centre of mass along the axes
of the link's frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import fromstring

import numpy as np

from steelyard._arrays import Array
from steelyard.export.export import Export
from steelyard.export.robot_files.changes import changes
from steelyard.export.robot_files.drives import DAMPING, FRICTION, drives, new_values
from steelyard.export.robot_files.fixed_bodies import lump_notes, new_bodies
from steelyard.export.robot_files.inertial import Inertial, inertial, number, numbers
from steelyard.export.robot_files.matching import SAME_AXIS, Match, as_held, match
from steelyard.export.robot_files.urdf import dynamics_values
from steelyard.export.robot_files.xml_edit import Element, TextEdit, XmlText, opening, robot_source
from steelyard.formats.robots.sdf.reader import TENSOR, model_of, read_sdf
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED

HOLDS = (DAMPING, FRICTION)


def edited_sdf(model: Model, theta: Array, source: Path, load: str = UNLOADED) -> Export:
    """The user's SDF with the links and joint friction of theta (C,), read back and compared before it is returned.

    `load` names the payload that theta has in its links already.
    """
    content = robot_source(source, "sdf", "SDF")
    file = as_held(read_sdf(content, str(source)), model.robot)
    held = drives(model, theta, HOLDS, "SDF", load=load)
    matched = match(model, theta, file, held)
    text = XmlText.of(content, str(source))
    element = _model_element(text)
    links, joints = (
        {one.attributes["name"].strip(): one for one in element.findall(tag)} for tag in ("link", "joint")
    )  # fmt: skip
    bodies = new_bodies(file, matched.file)
    edits = [edit for name, vector in bodies.items() for edit in _inertial_edits(text, links[name], inertial(vector))]
    for before, after in zip(file.joints, matched.file.joints, strict=True):
        values = new_values(dynamics_values(before.drive), dynamics_values(after.drive))
        axis = joints[before.name].find("axis") if values else None
        if axis is not None:
            edits += _inside(text, axis, "dynamics", values)
    written = text.edited(edits).file
    read_back = as_held(read_sdf(written, str(source)), model.robot)
    parity = matched.compared(read_back, source.name)
    return Export(
        "sdf",
        {source.name: written},
        held.left_out,
        changes(file, read_back),
        parity,
        held.lines,
        (*held.notes, *lump_notes(file, bodies), matched.gravity_note, *_world_note(text, matched)),
        _companions(text),
    )


def _model_element(text: XmlText) -> Element:
    """The element of the one model that is read, in the text."""
    name = model_of(fromstring(text.content)).get("name")
    models = [one for one in text.root.walk() if one.tag == "model" and one.attributes.get("name") == name]
    return next(one for one in models if one.find("joint") is not None or len(models) == 1)


def _world_note(text: XmlText, matched: Match) -> tuple[str, ...]:
    """The gravity that the world of the file states, where it is not that of the identification."""
    stated = [one.find("gravity") for one in text.root.walk() if one.tag == "world"]
    values = [text.content[one.opened : one.closing].decode() for one in stated if one is not None]
    other = [" ".join(x.split()) for x in values if not _is_gravity(x, matched)]
    return tuple(f"The <world> of the file keeps its own <gravity> ({one}): its torques differ there." for one in other)


def _is_gravity(text: str, matched: Match) -> bool:
    try:
        return np.allclose(np.array(text.split(), float), matched.gravity, rtol=0.0, atol=SAME_AXIS)
    except ValueError:
        return False


def _companions(text: XmlText) -> tuple[str, ...]:
    """The files of <uri> that start from the folder of the file; those of models and packages do not depend on it."""
    found = (text.content[one.opened : one.closing].decode().strip() for one in text.root.walk() if one.tag == "uri")
    return tuple(dict.fromkeys(one for one in found if one and "://" not in one and not Path(one).is_absolute()))


def _inertial_edits(text: XmlText, link: Element, body: Inertial) -> list[TextEdit]:
    element = link.find("inertial")
    if element is None:
        return text.inserted(link, inertial_lines(body))
    pose = f"{numbers(body.com)} 0 0 0"
    edits, before = [], element.find("pose")
    if before is not None and before.attributes:  # in degrees, or a quaternion
        edits.append(TextEdit(before.start, before.end, f"<pose>{pose}</pose>".encode()))
        own = {"mass": number(body.mass)}
    else:
        own = {"mass": number(body.mass), "pose": pose}
    edits += _texts(text, element, own)
    return [*edits, *_inside(text, element, "inertia", _tensor(body.inertia))]


def _inside(text: XmlText, parent: Element, tag: str, values: Mapping[str, str]) -> list[TextEdit]:
    """Texts of the children of a child, which is added if it is missing."""
    element = parent.find(tag)
    if element is not None:
        return _texts(text, element, values)
    inner = [f"  <{key}>{value}</{key}>" for key, value in values.items()]
    return text.inserted(parent, [f"<{tag}>", *inner, f"</{tag}>"], last=True)


def _texts(text: XmlText, parent: Element, values: Mapping[str, str]) -> list[TextEdit]:
    """The texts of children set to values; those that are missing are added after the last."""
    edits, added = [], []
    for key, value in values.items():
        child = parent.find(key)
        if child is None:
            added.append(f"<{key}>{value}</{key}>")
        elif child.opened == child.end:  # <mass/>
            edits.append(TextEdit(child.start, child.end, f"<{key}>{value}</{key}>".encode()))
        else:
            edits.append(TextEdit(child.opened, child.closing, value.encode()))
    return [*edits, *(text.inserted(parent, added, last=True) if added else [])]


def inertial_lines(body: Inertial) -> list[str]:
    """A new <inertial>, indented by two spaces per level."""
    tensor = [f"    <{key}>{value}</{key}>" for key, value in _tensor(body.inertia).items()]
    pose, mass = f"  <pose>{numbers(body.com)} 0 0 0</pose>", f"  <mass>{number(body.mass)}</mass>"
    return [opening("inertial", {}), pose, mass, "  <inertia>", *tensor, "  </inertia>", "</inertial>"]


def _tensor(inertia: Array) -> dict[str, str]:
    places = zip(*np.triu_indices(3), strict=True)
    return {key: number(inertia[place]) for key, place in zip(TENSOR, places, strict=True)}
