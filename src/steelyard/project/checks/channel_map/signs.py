"""Reversed signs: an effort that drives where friction should brake, a position with the opposite sign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from steelyard.findings import Finding
from steelyard.project.checks.channel_map.edits import Edit, scaling
from steelyard.project.checks.channel_map.suspects import Suspect, joint_list, tried
from steelyard.project.checks.channel_map.trial import Trial

# Reversals of effort and position whose gains differ by less than this cannot be distinguished: the joint has almost no
# load.
_ALIKE = 0.5


def suspects(trial: Trial) -> Iterator[Suspect]:
    """All efforts reversed, then each joint with its effort, its position, or both reversed."""
    n = trial.model.robot.dof
    yield _all_efforts(trial)
    for j in trial.active:
        flip, name = scaling(n, {j: -1.0}), joint_list(trial, (j,))

        def flipped(signal: str, edit: Edit, name: str = name) -> Suspect:
            return tried(trial, edit, lambda s: _finding(s, name, signal))

        effort, position = flipped("effort", Edit((j,), effort=flip)), flipped("position", Edit((j,), q=flip))
        yield position
        yield flipped("position and effort", Edit((j,), flip, flip))
        if effort.accepted and position.accepted and position.gain - effort.gain < _ALIKE:
            # a sign error in an effort is far more common than in a position
            yield replace(
                effort,
                rank=max(effort.rank, position.rank) + 1e-9,
                finding=lambda s, name=name: _finding(
                    s, name, "effort", " (or the position: the log does not show which)"
                ),
            )
        else:
            yield effort


def _finding(suspect: Suspect, name: str, signal: str, doubt: str = "") -> Finding:
    return Finding(
        "wrong-sign",
        "error",
        f"the {signal} of {name} has the wrong sign{doubt}: {suspect.evidence} if it is inverted",
        name,
        f"invert 'sign' of {name} in [channels] {signal.replace('position', 'q')}, or its axis in the robot file",
    )


def reversed_efforts(trial: Trial) -> Iterator[Suspect]:
    """All efforts reversed, then each: the trials that need no second pass over the rows."""
    n = trial.model.robot.dof
    yield _all_efforts(trial)
    for j in trial.active:
        name = joint_list(trial, (j,))
        edit = Edit((j,), effort=scaling(n, {j: -1.0}))
        yield tried(trial, edit, lambda s, name=name: _finding(s, name, "effort"))


def _all_efforts(trial: Trial) -> Suspect:
    n = trial.model.robot.dof
    return tried(trial, Edit(tuple(range(n)), effort=-np.eye(n)), _all_finding)


def _all_finding(suspect: Suspect) -> Finding:
    return Finding(
        "wrong-sign",
        "error",
        f"the efforts of all joints have the wrong sign: {suspect.evidence} if they are inverted. Torque sensors "
        "behind the gears that measure reactions do this",
        "all joints",
        "set sign = -1 in [channels] effort; for sensors behind the gears remove the term 'rotor' too",
    )
