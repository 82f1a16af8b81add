"""Mounting: the direction of gravity that the efforts show, against the stated one; and efforts without gravity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.project.checks.channel_map.edits import Edit
from steelyard.project.checks.channel_map.suspects import SURE, Suspect, is_significant
from steelyard.project.checks.channel_map.trial import Trial, with_gravity
from steelyard.project.checks.hypotheses.unknowns import Equations

# Gravity must turn by this angle [degrees], and by this many deviations. Two real arms with files that are 30 % wrong
# show up to 1.6 degrees.
LEAST_ANGLE, SURE_ANGLE = 3.0, 4.0
# The file's bodies in the gravity found must leave less of the efforts than this: else the file is not used.
_WORST = 0.6
# They must also explain the efforts better than in the stated gravity, as a sum of logarithms over the joints.
_GAIN = 0.1
# Beyond this angle [degrees] reversed efforts look like gravity from below.
_REVERSED = 150.0
# Efforts that hold less than this share of the weight have no gravity in them.
_COMPENSATED = 0.25


def suspects(trial: Trial) -> Iterator[Suspect]:
    """The gravity that fits best: any vector where the file states inertias, else one along an axis of the base."""
    if trial.model.looped is not None or not np.any(trial.model.robot.gravity):
        return
    yield from (_by_file(trial) if trial.knows_inertias else _along_axes(trial))


def _by_file(trial: Trial) -> Iterator[Suspect]:
    """Gravity g (3,) from y = τ₀(q, v, a) + Σ_i g_i G_i(q) + friction, with the file's bodies held."""
    layout, stated = trial.model.layout, np.asarray(trial.model.robot.gravity, float)
    held = np.array([column.kind == "link" for column in layout.columns])
    weightless = replace(trial, model=with_gravity(trial.model, np.zeros(3)))
    floating = Equations(weightless, held)
    bodies = np.where(held, floating.nominal, 0.0)
    still = floating.predicted(bodies)
    pulls = []
    for axis in np.eye(3):
        turned = replace(trial, model=with_gravity(trial.model, axis))
        pulls.append(floating.predicted(bodies, turned.stacked(trial.traces)) - still)
    found = floating.tested(pulls)
    weight = np.tensordot(stated, np.array(pulls), axes=1)
    as_stated = floating.tested([weight])
    # the size of the stated pull is free too, unless it would push: only its direction is compared
    plain = Equations(trial, held)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_file = np.sqrt(plain.alone[0].sum(axis=0) / plain.effort)
        before = as_stated.after if as_stated.value[0] > 0.0 else by_file
        gain = float(np.nansum(np.log(before / found.after)[list(trial.active)]))
    size, usual = float(np.linalg.norm(found.value)), float(np.linalg.norm(stated))
    left = _total(found.after, floating)
    if size < _COMPENSATED * usual:
        worse = _total(by_file, plain)
        if left < _WORST * worse:
            yield _suspect(
                trial, np.zeros(3), np.log(worse / left) * len(trial.active), 0.0, lambda _: _compensated(trial)
            )
        return
    angle = float(np.degrees(np.arccos(np.clip(found.value @ stated / (size * usual), -1.0, 1.0))))
    # across the direction found: what is uncertain along it is the size
    along = np.abs(found.value) / size
    sigma = float(np.degrees(np.sqrt(max(found.std @ found.std - (found.std @ along) ** 2, 0.0)) / size))
    if angle < max(LEAST_ANGLE, SURE_ANGLE * sigma) or left > _WORST or gain < _GAIN:
        return
    if angle > _REVERSED and not _moves_as_filed(floating, weight, still):
        yield _reversed(trial, gain)
        return
    g = usual * found.value / size
    share = size / usual

    def finding(s: Suspect) -> Finding:
        told = f"the efforts show gravity along ({g[0]:.2f}, {g[1]:.2f}, {g[2]:.2f}) m/s², {angle:.0f} ± {sigma:.1f} "
        told += f"degrees from the stated ({stated[0]:.2f}, {stated[1]:.2f}, {stated[2]:.2f})"
        if not 0.7 < share < 1.4:
            told += f"; its size, {share:.2g} of the usual one, hints at other masses than those of the file"
        rounded = ", ".join(f"{x:.2f}" for x in g)
        return Finding("wrong-gravity", "error", told, "gravity", f"set gravity = [{rounded}] in the project")

    # the file's bodies are not exact: with free bodies, too, the efforts must fit better in the gravity found
    suspect = _suspect(trial, g, gain, found.spread, finding)
    if suspect.after.gain_over(trial.baseline)[0] > 0.0:
        yield suspect


def _along_axes(trial: Trial) -> Iterator[Suspect]:
    """Gravity along the six axes of the base, and none: without inertias the fit itself must improve."""
    stated = np.asarray(trial.model.robot.gravity, float)
    usual = float(np.linalg.norm(stated))
    for g in (*(usual * axis for axis in np.eye(3)), *(-usual * axis for axis in np.eye(3)), np.zeros(3)):
        if np.linalg.norm(g - stated) < 0.2 * usual:
            continue
        after = trial.verdict(Edit((), gravity=g))
        gain, spread = after.gain_over(trial.baseline)
        if not is_significant(gain, spread):
            continue

        def finding(s: Suspect, g: Array = g) -> Finding:
            if not g.any():
                return _compensated(trial)
            rounded = ", ".join(f"{x:.2f}" for x in g)
            told = f"the efforts fit with gravity along ({rounded}) m/s²: {s.evidence}"
            return Finding("wrong-gravity", "error", told, "gravity", f"set gravity = [{rounded}] in the project")

        yield Suspect(Edit((), gravity=g), trial.baseline, after, gain, spread, True, gain, finding)


def _moves_as_filed(floating: Equations, weight: Array, still: Array) -> bool:
    """Whether inertia has the sign of the file, or friction if the motion is too slow to show it: else all efforts are
    reversed, and not gravity."""
    found = floating.tested([weight, still])
    scale, std = 1.0 + float(found.value[1]), float(found.std[1])
    if abs(scale) > 2.0 * std:
        return scale > 0.0
    robot, layout = floating.trial.model.robot, floating.trial.model.layout
    friction = [floating.theta[layout.index(f"{robot.axis_names[j]}.Fc")] for j in floating.trial.active]
    return bool(np.median(friction) >= 0.0)


def _total(relative: Array, equations: Equations) -> float:
    """Relative error over all joints from those of the joints."""
    size = equations.effort
    return float(np.sqrt(np.nansum(relative**2 * size) / size.sum()))


def _suspect(trial: Trial, g: Array, gain: float, spread: float, finding: Callable[[Suspect], Finding]) -> Suspect:
    edit = Edit((), gravity=g)
    sure = gain >= SURE * spread
    return Suspect(edit, trial.baseline, trial.verdict(edit), gain, spread, sure, gain, finding)


def _reversed(trial: Trial, gain: float) -> Suspect:
    """All efforts reversed: weight and inertia both have the wrong sign, with or without friction."""
    n = trial.model.robot.dof
    edit = Edit(tuple(range(n)), effort=-np.eye(n))

    def finding(s: Suspect) -> Finding:
        return Finding(
            "wrong-sign",
            "error",
            "the efforts of all joints have the wrong sign: weight and inertia of the file's bodies fit them with the "
            "opposite sign. Torque sensors behind the gears that measure reactions do this",
            "all joints",
            "set sign = -1 in [channels] effort; for sensors behind the gears remove the term 'rotor' too",
        )

    return Suspect(edit, trial.baseline, trial.verdict(edit), gain, 0.0, True, gain, finding)


def _compensated(trial: Trial) -> Finding:
    told = (
        "the efforts hold no gravity: the controller has subtracted it, or the log has only the torque of the feedback"
    )
    fix = "log the whole motor torque (feedback and feed-forward), or add the gravity that the controller subtracts"
    if any(one.code == "gravity-compensation" for one in trial.model.robot.findings):
        told += ". The robot file itself states gravity compensation (gravcomp)"
        fix = f"for a model of the compensated efforts set gravity = [0.0, 0.0, 0.0] in the project; else {fix}"
    return Finding("gravity-compensated", "error", told, "all joints", fix)
