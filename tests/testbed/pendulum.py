"""A pendulum of two joints as a user has it: robot file, project file and log in one folder."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from steelyard._arrays import Array

PROJECT = """\
robot = "pendulum.toml"
estimator = "wls"

[prepare]
cutoff_hz = 20.0
lowpass_hz = 8.0
decimate = 6
rest = 0.02

[channels]
time = { column = "t", unit = "s" }

[channels.q]
columns = { joint1 = "q_joint1", joint2 = "q_joint2" }
unit = "rad"

[channels.effort]
columns = ["tau_joint1", "tau_joint2"]
unit = "N.m"

[[run]]
log = "log.csv"
"""


def csv(columns: Mapping[str, Array]) -> str:
    rows = np.column_stack(list(columns.values()))
    return "\n".join([",".join(columns), *(",".join(map(repr, row)) for row in rows.tolist())]) + "\n"
