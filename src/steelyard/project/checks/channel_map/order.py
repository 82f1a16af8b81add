"""Swapped joints: columns given to each other's joints."""

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
    for pair in combinations(trial.lively, 2):
        swap, names = exchange(n, *pair), joint_list(trial, pair)
        for signal, edit in (
            ("effort", Edit(pair, effort=swap)),
            ("position", Edit(pair, q=swap)),
            ("position and effort", Edit(pair, swap, swap)),
        ):
            yield tried(trial, edit, lambda s, names=names, signal=signal: _finding(s, names, signal))


def _finding(suspect: Suspect, names: str, signal: str) -> Finding:
    return Finding(
        "swapped-joints",
        "error",
        f"the {signal} columns of {names} are exchanged: {suspect.evidence} if they are put back",
        names,
        f"exchange the columns of {names} in [channels] {signal.replace('position', 'q')}",
    )
