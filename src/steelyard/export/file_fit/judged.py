"""JudgedFile: the scores of a robot file that was written, from its content as the reader of the format sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.export.file_fit.bodies import unlike_file
from steelyard.export.file_fit.rows import moved_to, reader_model
from steelyard.export.file_fit.values import FileFormat, FileValues
from steelyard.export.file_fit.worth import FILE, IDENTIFIED, ORIGINAL, FileWorth, worth_of
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.export.robot_files.matching import as_held, gravity_in, restated
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot


@dataclass(frozen=True)
class JudgedFile:
    """The scores of a file, or a sentence on why there are none, and what its users should know of it."""

    worth: FileWorth | str
    notes: tuple[str, ...] = ()


def judged_file(values: FileValues, form: FileFormat, result: Identification, content: bytes, path: Path) -> JudgedFile:
    """The judgement of the content of a file of `form` at `path`, next to the identified model and the file before."""
    before = values.filed.robot
    found = as_held(form.read(content, path), before)
    written = restated(before, found)
    notes = (*_unlike(values, written), *values.moved)
    logged = values.logged
    if isinstance(logged, str):
        return JudgedFile(f"The errors of this file are not known: {logged}.", notes)
    scored = {IDENTIFIED: moved_to(logged.layout, np.nan_to_num(result.theta), result.base.layout)}
    for key, robot in ((FILE, written), (ORIGINAL, before)):
        model = reader_model(replace(values.filed, robot=robot))
        if (theta := _without_load(model, values.chosen)) is not None:
            scored[key] = moved_to(logged.layout, theta, model.layout)
    gravity = gravity_in(before, found) if form.has_gravity else before.gravity
    seen = logged if gravity is before.gravity or logged.under is None else logged.under(gravity)
    worth = worth_of(logged, scored, values.chosen.load, seen)
    return JudgedFile(worth, (*(worth.doubts if isinstance(worth, FileWorth) else ()), *notes))


def _unlike(values: FileValues, written: Robot) -> tuple[str, ...]:
    """The bodies as written, without the load, next to those of the file before."""
    bodies = Model(values.filed.robot, (), payloads=values.filed.payloads)
    theta = _without_load(replace(bodies, robot=written), values.chosen)
    return () if theta is None else unlike_file(bodies.layout, theta)


def _without_load(model: Model, chosen: IdentifiedModel) -> Array | None:
    """The nominal values (C,) of a model whose link bears the load of `chosen`, with the load on its own columns."""
    theta = model.layout.nominal
    if theta is None or chosen.load == UNLOADED:
        return theta
    payload, own, link = model.loads[chosen.load]
    theta = theta.copy()
    theta[own] = chosen.theta[chosen.model.loads[chosen.load][1]]
    theta[link] -= payload.on_link @ theta[own]
    return theta
