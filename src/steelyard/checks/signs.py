"""Flipped signs: an effort that drives where friction brakes, a position that counts the other way."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.checks.edits import Edit, scaling
from steelyard.checks.suspects import Suspect, joint_list, tried
from steelyard.checks.trial import Trial
from steelyard.findings import Finding


def suspects(trial: Trial) -> Iterator[Suspect]:
    """Each joint with its effort, its position, or both turned round."""
    n = trial.model.robot.dof
    for j in trial.lively:
        flip, name = scaling(n, {j: -1.0}), joint_list(trial, (j,))
        for signal, edit in (
            ("effort", Edit((j,), effort=flip)),
            ("position", Edit((j,), q=flip)),
            ("position and effort", Edit((j,), flip, flip)),
        ):
            yield tried(trial, edit, lambda s, name=name, signal=signal: _finding(s, name, signal))


def _finding(suspect: Suspect, name: str, signal: str) -> Finding:
    return Finding(
        "flipped-sign",
        "error",
        f"the {signal} of {name} has the wrong sign: {suspect.evidence} if it is flipped",
        name,
        f"turn round 'sign' of {name} in [channels] {signal.replace('position', 'q')}, or its axis in the robot file",
    )
