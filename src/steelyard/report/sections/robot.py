"""Sections of the robot: its bodies in three dimensions, and the friction of its joints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.identification.verdict import effort_unit
from steelyard.model.model import Model
from steelyard.report.figures.effort import unseen_first
from steelyard.report.figures.friction import friction_groups
from steelyard.report.figures.skeleton import Ellipsoid, ellipsoid, in_picture, postures, robot_figure
from steelyard.report.section import Figure, FigureChoice, Piece, ReportSubject, Section
from steelyard.report.tables.bodies import ellipsoid_table


def _robot(subject: ReportSubject) -> Sequence[Piece]:
    model = subject.model
    bodies = {} if model is None else _bodies(subject, model)
    if model is None or not bodies:
        return []
    moving = next((one for one in unseen_first(subject.predictions) if one.q is not None and len(one.t)), None)
    if moving is not None and moving.q is not None:
        q, t = postures(moving.q, moving.t)
    else:
        q, t = _at_home(model), np.zeros(1)
    shown = {role: [one if in_picture(model, one) else None for one in own] for role, own in bodies.items()}
    caption = (
        "The solid ellipsoid of uniform density with the mass and inertia of each body; numbers are those of the "
        "table. " + (f"The slider moves the robot through {moving.run}." if moving is not None else "")
    )
    return [Figure(robot_figure(model, q, t, shown), caption), ellipsoid_table(model, bodies, shown)]


def _bodies(subject: ReportSubject, model: Model) -> dict[str, list[Ellipsoid | None]]:
    """The ellipsoids of every link in the robot file and in the standard set, of those that there are."""
    sets = {"file": model.layout.nominal, "identified": subject.result.standard}
    return {
        role: [ellipsoid(vector) for vector in model.link_inertias(theta)]
        for role, theta in sets.items()
        if theta is not None and len(theta) == len(model.layout)
    }


def _at_home(model: Model) -> np.ndarray:
    """The home posture of the robot, (n, 1)."""
    home = np.zeros(len(model.robot.joints)) if model.robot.home is None else np.asarray(model.robot.home, float)
    return home[model.robot.axis_index][:, None]


def _friction(subject: ReportSubject) -> Sequence[Piece]:
    if not subject.predictions:
        return []
    layout = subject.result.base.layout
    units = [effort_unit(layout, joint) for joint in subject.predictions[0].joints]
    groups = friction_groups(subject.predictions, units)
    note = (
        "Points: measured effort minus the modelled effort of bodies, rotors and springs. Curve: friction and offset "
        "of the model, averaged over the rows in bins. A shape that the points have and the curve does not have is a "
        "missing term: select = true in the project file tries others."
    )
    if subject.model is not None and subject.model.robot.coupling is not None:
        note += " In coupled joints friction depends on the speeds of several motors, and points do not lie on a curve."
    return [FigureChoice(groups, label="Against"), note] if groups else []


ROBOT = Section("robot", "Robot", _robot)
FRICTION = Section("friction", "Friction", _friction)
