"""Evidence on delays and on the choice of friction terms, for `evidence/run.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from steelyard import (
    Recording,
    Samples,
    prepare,
    read_project,
)
from steelyard.identification import candidate_terms, estimate_delays, select_terms, with_load
from steelyard.project.automatic import resolve_auto
from steelyard.project.project import Project

PROJECTS = Path(__file__).resolve().parent.parent / "examples" / "accuracy"
# Samples by which the effort of one joint is delayed, and the joints that are tried.
INSERTED, JOINTS = 3.4, {"tx40": (0, 2, 4), "ur10e": (0, 2, 5), "panda": (0, 3, 5)}
# Runs the delays of a log are found from; the UR10e's other runs would only repeat it.
LOGS = {"ur10e": 1}
CYCLES = {"ur10e": 202.0, "cobot6": 202.0, "panda": 200.0, "tx40": 64.0, "kr300": 512.0}


def opened(name: str) -> tuple[Project, Any]:
    """A project of examples/accuracy with its filters chosen and its delays open."""
    explicit = resolve_auto(read_project(PROJECTS / f"{name}.toml"), delays=False)
    return explicit.project, explicit.runs


def delayed(project: Project, joint: int, samples: float) -> tuple[Samples, ...]:
    """The project's runs with the effort of one joint logged late by this many of the log's usual steps."""
    robot, channels = project.robot(), project.spec.channels.channel_map()
    out = []
    for run in project.spec.run[: LOGS.get(Path(project.path).stem)]:
        recording = project.recording(run)
        arrays = next(iter(recording.chunks(recording.columns, 10**9)))
        # a stale row must stay stale, or it would come back as data: rows that repeat are left out beforehand
        values = np.stack([x for name, x in arrays.items() if name != channels.time])
        fresh = np.concatenate(
            [[True], np.any(np.diff(values, axis=1) != 0.0, axis=0) & (np.diff(arrays[channels.time]) > 0)]
        )
        arrays = {name: x[fresh] for name, x in arrays.items()}
        t, column = arrays[channels.time], list(channels.effort.columns)[joint]
        moved = CubicSpline(t, arrays[column])(np.clip(t - samples * float(np.median(np.diff(t))), t[0], t[-1]))
        late = Recording.from_arrays(recording.name, {**arrays, column: moved})
        out.append(prepare(late, robot, channels, project.preparation(), rows=run.rows, seconds=run.seconds))
    return tuple(out)


def insertions() -> Iterator[tuple[str, str, float, float]]:
    """(log, joint, how far its estimate moved [samples], its standard deviation [samples]) for 3.4 samples put in."""
    for name, joints in JOINTS.items():
        project, _ = opened(name)
        model = project.model()
        for joint in joints:
            found = []
            for samples in (0.0, INSERTED):
                runs = delayed(project, joint, samples)
                problem = replace(with_load(project.problem(model, runs)), delay=())
                found.append(estimate_delays(problem))
            moved = (found[1].seconds - found[0].seconds)[joint] * runs[0].rate
            yield name, model.robot.joint_names[joint], float(moved), float(found[0].std[joint] * runs[0].rate)


def placebos() -> Iterator[tuple[str, str, int, int]]:
    """(log, how the folds were made, placebos tried, those that passed the rule) for every recording.

    Where there are too few motions to choose at all, stretches of time are forced into the place of runs, to see what
    the refusal is good for.
    """
    for name, cycles in CYCLES.items():
        project, runs = opened(name)
        problem = with_load(project.problem(project.model(), runs))
        chosen = select_terms(problem, candidate_terms(cycles))
        tried = [trial for trial in chosen.trials if trial.verdict.startswith("placebo")]
        how = "selection refused" if chosen.refused else f"{len(chosen.folds)} runs"
        yield name, how, len(tried), len(chosen.placebos_passed)
        if chosen.refused:
            forced = select_terms(problem, candidate_terms(cycles), blocks=12)
            tried = [trial for trial in forced.trials if trial.verdict.startswith("placebo")]
            yield name, "forced on 12 stretches of time", len(tried), len(forced.placebos_passed)
