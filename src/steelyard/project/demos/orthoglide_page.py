"""The page and the tables of the Orthoglide's drive gains and control laws (P3 Tables 3 and 4)."""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.project.demos.orthoglide import GAINS, MAKER, NOISE, WEIGHED, Controlled
from steelyard.project.papers.page.curves import per_axis
from steelyard.report.composed import ComposedPart, compose
from steelyard.report.table import Table, TableColumn, table
from steelyard.simulation.tracking import TrackedMotion

CONTROL_PAGE = "control.html"
# Slices of time in which the largest error is drawn: errors of all sizes cross zero many times.
SLICES = 60


def envelope(one: TrackedMotion) -> tuple[Array, Array]:
    """Middle times of slices (SLICES,) [s], and the largest error of every axis in each, (n, SLICES) [µm]."""
    edges = np.linspace(0, len(one.t), SLICES + 1).astype(int)
    largest = np.maximum.reduceat(np.abs(one.error), edges[:-1], axis=1)
    return 0.5 * (one.t[edges[:-1]] + one.t[edges[1:] - 1]), 1e6 * largest


def drive_gain_table(control: Controlled) -> Table:
    """Gains from runs without and with a weighed payload, next to the truth and the maker's."""
    gains = control.gains
    columns = (
        TableColumn("joint", "Motor"),
        TableColumn("truth", "Truth", "number", unit="N"),
        TableColumn("value", "Identified ± σ", "estimate", of=("std",), unit="N"),
        TableColumn("std", "σ", "number", shown=False),
        TableColumn("stated", "Stated by the maker", "number", unit="N"),
    )
    rows = list(zip(gains.joints, GAINS, gains.value, gains.std, MAKER, strict=True))
    note = f"Identified from noisy currents ({NOISE:.0%}) and a payload of {WEIGHED:g} kg; force per unit of current."
    return table("control_gains", "Drive gains from runs without and with a weighed payload (P3)", columns, rows,
                 notes=[note])  # fmt: skip


def tracking_table(control: Controlled) -> Table:
    """Largest and rms error of every axis by every law, on two motions."""
    columns = (
        TableColumn("motion", "Motion"),
        TableColumn("law", "Control law"),
        *(
            TableColumn(f"{key}_{joint}", joint, "number", unit="µm", group=group, digits=3)
            for key, group in (("largest", "Largest tracking error"), ("rms", "RMS tracking error"))
            for joint in control.gains.joints
        ),
    )
    rows = [(one.motion, one.law, *(1e6 * x for x in (*one.largest, *one.rms))) for one in control.tracking]
    return table("tracking", "Control laws that follow two motions (P3)", columns, rows)


def control_page(control: Controlled, robot: str) -> str:
    """Gains, tracking errors as a table, and over time for each motion."""
    joints = control.gains.joints
    parts = [
        ComposedPart("gains", "Drive gains", [drive_gain_table(control)]),
        ComposedPart("tracking", "Tracking errors", [tracking_table(control)]),
    ]
    for motion in dict.fromkeys(one.motion for one in control.followed):
        errors = {one.law: envelope(one) for one in control.followed if one.motion == motion}
        said = f"Largest error in each of {SLICES} slices of time."
        drawn = per_axis(joints, errors, "time [s]", "error [µm]", said, logarithmic=True)
        parts.append(ComposedPart(motion, f"Errors over time, {motion} motion", [drawn]))
    best = min(control.tracking, key=lambda one: float(np.mean(one.rms)))
    worst = float(np.max(np.abs(control.gains.value / GAINS - 1.0)))
    verdict = f"Gains within {worst:.1%} of the truth; smallest tracking error by {best.law}."
    return compose(f"{robot}: gains and control", "Steelyard · simulated control", verdict, "P3 Tables 3 and 4", parts)
