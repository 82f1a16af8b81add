"""Faults that a log cannot show: edits of its map that leave the fit as good as it is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steelyard.findings import Finding
from steelyard.project.checks.channel_map.edits import Edit, scaling
from steelyard.project.checks.channel_map.nominal import nominal_scales
from steelyard.project.checks.channel_map.suspects import GAIN
from steelyard.project.checks.channel_map.trial import Trial

# The error in a ratio that is tested.
_SLIP = 1.5


def limit_findings(trial: Trial) -> Iterator[Finding]:
    """One finding for every kind of fault that some joint could have without being detected."""
    n, names = trial.model.robot.dof, trial.model.robot.axis_names
    scales = nominal_scales(trial)

    def hidden(edits: dict[int, list[Edit]]) -> str:
        """Joints for which at least one edit costs less than would be accepted as a gain."""
        blind = [
            names[j]
            for j, tries in edits.items()
            if any(trial.verdict(edit).gain_over(trial.baseline)[0] > -GAIN for edit in tries)
        ]
        return ", ".join(blind)

    def each(*factors: float, q: bool = False, effort: bool = False) -> dict[int, list[Edit]]:
        return {
            j: [Edit((j,), scaling(n, {j: x}) if q else None, scaling(n, {j: x}) if effort else None) for x in factors]
            for j in trial.active
        }

    for edits, what, why in (
        (each(-1.0, effort=True), "a wrong sign of the effort", "its friction and gravity are too small"),
        (each(-1.0, q=True), "a wrong sign of the position", "its friction and gravity are too small"),
        (
            each(-1.0, q=True, effort=True),
            "a reversed axis (position and effort both negated)",
            "the mirrored robot needs the same efforts",
        ),
        (
            each(_SLIP, 1.0 / _SLIP, effort=True),
            f"a ratio or gain of the effort that is wrong by a factor of {_SLIP:g}",
            "no other effort depends on its load, so its own parameters absorb the factor",
        ),
    ):
        joints = hidden(edits)
        if joints:
            yield Finding("not-detectable", "info", f"{joints}: {what} cannot be detected from this log: {why}", joints)
    yield Finding(
        "not-detectable",
        "info",
        "the zeros of the positions are not checked: a joint with another zero than the robot file shifts its own "
        "centre of mass and those of the links behind it",
        "all joints",
        "compare one pose with the robot file; set 'offset' in [channels] q",
    )
    if not trial.knows_inertias or not scales.trusted.any():
        reason = "has no inertias" if not trial.knows_inertias else "does not explain the efforts well enough"
        yield Finding(
            "not-detectable",
            "info",
            "the scale of all efforts together (unit, gain, motor or joint side) cannot be determined: the robot file "
            + reason,
            "all joints",
            "add nominal inertias to the robot file, or record a run with a known payload",
        )
    elif np.any(unsure := ~scales.trusted[list(trial.active)]):
        listed = ", ".join(names[j] for j, bad in zip(trial.active, unsure, strict=True) if bad)
        yield Finding(
            "not-detectable",
            "info",
            f"the scale of the efforts of {listed} cannot be compared with the robot file: they are mostly friction or "
            "load",
            listed,
        )
