"""What a log cannot tell: edits of its map that would leave the fit as good as it is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steelyard.findings import Finding
from steelyard.project.checks.channel_map.edits import Edit, scaling
from steelyard.project.checks.channel_map.nominal import nominal_scales
from steelyard.project.checks.channel_map.suspects import GAIN
from steelyard.project.checks.channel_map.trial import Trial

# The slip in a ratio that is asked for.
_SLIP = 1.5


def limit_findings(trial: Trial) -> Iterator[Finding]:
    """One finding for every kind of fault that some joint could have without its showing."""
    n, names = trial.model.robot.dof, trial.model.robot.axis_names
    scales = nominal_scales(trial)

    def hidden(edits: dict[int, list[Edit]]) -> str:
        """Joints of which at least one edit costs less than would be believed as a gain."""
        blind = [
            names[j]
            for j, tries in edits.items()
            if any(trial.verdict(edit).gain_over(trial.baseline)[0] > -GAIN for edit in tries)
        ]
        return ", ".join(blind)

    def each(*factors: float, q: bool = False, effort: bool = False) -> dict[int, list[Edit]]:
        return {
            j: [Edit((j,), scaling(n, {j: x}) if q else None, scaling(n, {j: x}) if effort else None) for x in factors]
            for j in trial.lively
        }

    for edits, what, why in (
        (each(-1.0, effort=True), "a flipped sign of the effort of", "friction and gravity hardly show there"),
        (each(-1.0, q=True), "a flipped sign of the position of", "friction and gravity hardly show there"),
        (
            each(-1.0, q=True, effort=True),
            "an axis that is turned round, position and effort alike, of",
            "the mirror image moves by the same efforts",
        ),
        (
            each(_SLIP, 1.0 / _SLIP, effort=True),
            f"a ratio or gain of the effort that is off by {_SLIP:g}, of",
            "what it carries shows in no other joint's effort, so that its own parameters take the factor up",
        ),
    ):
        joints = hidden(edits)
        if joints:
            yield Finding("cannot-tell", "info", f"this log cannot tell {what} {joints}: {why}", joints)
    yield Finding(
        "cannot-tell",
        "info",
        "the zeros of the positions are not tried: a joint that counts from another zero than the robot file moves its "
        "own centre of mass and those behind it",
        "all joints",
        "compare one pose with the robot file; state 'offset' in [channels] q",
    )
    if not trial.knows_inertias or not scales.trusted.any():
        reason = "states no inertias" if not trial.knows_inertias else "does not explain the efforts well enough"
        yield Finding(
            "cannot-tell",
            "info",
            "the scale of all efforts together (unit, gain, motor or joint side) cannot be told: the robot file "
            + reason,
            "all joints",
            "add nominal inertias to the robot file, or weigh a known load",
        )
    elif np.any(unsure := ~scales.trusted[list(trial.lively)]):
        listed = ", ".join(names[j] for j, bad in zip(trial.lively, unsure, strict=True) if bad)
        yield Finding(
            "cannot-tell",
            "info",
            f"the robot file is no yardstick for the efforts of {listed}: friction or a load is most of them",
            listed,
        )
