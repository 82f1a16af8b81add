"""Swapped joints: columns assigned to each other's joints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from steelyard.findings import Finding
from steelyard.project.checks.channel_map.edits import Edit, exchange
from steelyard.project.checks.channel_map.suspects import Suspect, joint_list, tried
from steelyard.project.checks.channel_map.trial import Trial


def suspects(trial: Trial) -> Iterator[Suspect]:
    """Each pair of joints with their efforts, positions, or both exchanged."""
    n = trial.model.robot.dof
    for pair in combinations(trial.active, 2):
        swap, names = exchange(n, *pair), joint_list(trial, pair)
        for signal, edit in (
            ("effort", Edit(pair, effort=swap)),
            ("position", Edit(pair, q=swap)),
            ("position and effort", Edit(pair, swap, swap)),
        ):
            yield tried(trial, edit, lambda s, names=names, signal=signal: _finding(s, names, signal))


def _finding(suspect: Suspect, names: str, signal: str) -> Finding:
    return Finding(
        "swapped-columns",
        "error",
        f"the {signal} columns of {names} are swapped: {suspect.evidence} if they are swapped back",
        names,
        f"swap the columns of {names} in [channels] {signal.replace('position', 'q')}",
    )
