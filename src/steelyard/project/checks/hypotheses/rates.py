"""Rates: the rows per second of a log without a clock, from the ratio of inertia forces to weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from steelyard.findings import Finding
from steelyard.project.checks.channel_map.trial import Trial, with_gravity
from steelyard.project.checks.hypotheses.unknowns import Equations

# The rate must differ by this factor, and by this many deviations. Bodies that are 30 % off the file move the estimate
# by a tenth; drives that the file lacks, by more.
LEAST_FACTOR, SURE = 1.5, 4.0


def rate_findings(trial: Trial, rate_hz: float | None) -> Iterator[Finding]:
    """A hint that the stated `rate_hz` of logs without a clock is wrong; nothing for logs with one.

    In a log whose rate is stated r times too low, accelerations and products of velocities are r² times too small, and
    weights are right. With the bodies of the file held, y = s_g G(q) + s_i (τ₀(q, v, a) − G(q)) + friction and rotors:
    r² = s_i / s_g.
    """
    moving = trial.model.looped is None and np.any(trial.model.robot.gravity)
    if rate_hz is None or not moving or not trial.knows_inertias:
        return
    layout = trial.model.layout
    held = np.array([column.kind == "link" for column in layout.columns])
    equations = Equations(replace(trial, model=with_gravity(trial.model, np.zeros(3))), held)
    bodies = np.where(held, equations.nominal, 0.0)
    inertia = equations.predicted(bodies)
    weight = equations.predicted(bodies, trial.stacked(trial.traces)) - inertia
    found = equations.tested([weight, inertia])
    by_weight, by_inertia = float(found.value[0]), 1.0 + float(found.value[1])
    if min(by_weight, by_inertia) <= 0.0:
        return
    ratio = by_inertia / by_weight
    std = float(np.hypot(found.std[0] / by_weight, found.std[1] / by_inertia))
    if abs(np.log(ratio)) < max(2.0 * np.log(LEAST_FACTOR), SURE * std):
        return
    likely = rate_hz * np.sqrt(ratio)
    yield Finding(
        "doubtful-rate",
        "warning",
        f"the inertia forces are {ratio:.2g} times those of the file's bodies, next to their weight, as they would be "
        f"at {likely:.3g} rows per second instead of the stated {rate_hz:g}",
        "time",
        "check rate_hz of time in [channels]; if it is right, the bodies of the robot file are not",
    )
