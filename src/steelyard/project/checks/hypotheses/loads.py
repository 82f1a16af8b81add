"""Runs that do not belong together: a body that one of them carries, or another robot."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.project.checks.channel_map.trial import Trial
from steelyard.project.checks.hypotheses.unknowns import Equations, Found

# The difference must lower the joints' errors on rows left out by this sum of logarithms, and by this many deviations.
GAIN, SURE = 0.7, 3.0
# A mass, or a scale of all bodies, must be this many deviations from zero; the scale also this much.
_SURE_VALUE, _LEAST_SCALE = 4.0, 0.15


def load_findings(trial: Trial) -> Iterator[Finding]:
    """The run that needs a body on the last link, or bodies of another size, where the others do not.

    y = W θ + [run k] (W_last χ)   with χ = (MX, MY, MZ, M), or   y = W θ + s [run k] W_bodies θ
    """
    names = [trace.run for trace in trial.traces]
    runs = list(dict.fromkeys(names))
    if len(runs) < 2 or trial.model.looped is not None:
        return
    equations = Equations(trial)
    trace = np.array(names)[equations.rows.trace]
    bodies = np.array([column.kind == "link" for column in trial.model.layout.columns])
    rigid = equations.predicted(np.where(bodies, equations.theta, 0.0))
    last = trial.model.inertial_index[-1][6:10]
    moments = [equations.predicted(np.eye(len(bodies))[column]) for column in last]
    tries: list[tuple[float, str, str, Found]] = []
    for run in runs:
        here = (trace == run).astype(float)
        body, size = equations.tested([here * column for column in moments]), equations.tested([here * rigid])
        if body.value[3] > _SURE_VALUE * body.std[3]:
            tries.append((body.gain, run, "body", body))
        if size.value[0] > max(_LEAST_SCALE, _SURE_VALUE * size.std[0]):
            tries.append((size.gain, run, "size", size))
    tries = [one for one in tries if one[0] >= max(GAIN, SURE * one[3].spread)]
    if not tries:
        return
    _, run, kind, found = max(tries, key=lambda one: one[0])
    told = f"{_evidence(trial, found)} if it does"
    if kind == "body":
        mass, std = found.value[3], found.std[3]
        link = trial.model.robot.bodies[-1]
        name = trial.model.robot.links[link].name
        message = f"'{run}' carries about {mass:.2g} ± {std:.1g} kg on {name} that the other runs do not: {told}"
        yield Finding("hidden-payload", "error", message, run)
        return
    message = (
        f"the bodies of '{run}' take {1.0 + found.value[0]:.2f} times the torque of the other runs: {told}; it is of "
        "another robot, or its efforts have another gain"
    )
    yield Finding("different-robots", "error", message, run)


def _evidence(trial: Trial, found: Found) -> str:
    with np.errstate(divide="ignore", invalid="ignore"):
        fall: Array = np.nan_to_num(np.log(found.before / found.after))
    j = int(fall.argmax())
    return f"the error of {trial.model.robot.axis_names[j]} falls from {found.before[j]:.1%} to {found.after[j]:.1%}"
