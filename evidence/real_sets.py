"""The real recordings of ../shared/data as transfers from some motion of a robot to other motion of the same robot.

Where there are several runs, whole runs are unseen. Where there is one, a third of its time is, with a gap of three
periods of the common band to the part that is fitted. Projects are those of examples/accuracy, with nothing set by
hand. Of ../shared/data, `tiago` is not used: it has no robot file, and the efforts of three joints are zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from steelyard.project.project import Project, read_project
from steelyard.project.spec import RunSpec

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = ROOT / "examples" / "accuracy"
DATA = ROOT.parent / "shared" / "data"
# Low-pass [Hz] of effort and prediction in every comparison. Each is above four times the frequency below which 95 % of
# the velocity power lies, so that the motion is kept. They were set before any rule was scored with them.
BANDS_HZ = {"ur10e": 4.0, "tx40": 10.0, "kr300": 5.0, "cobot6": 2.0, "panda": 4.0}
# Length [s] of the logs that hold one motion.
SECONDS = {"tx40": 6.0, "panda": 13.9}
GAP_PERIODS = 3.0


class Direction(NamedTuple):
    """A robot and a project with runs to identify and unseen runs to validate."""

    robot: str
    label: str
    project: Project

    @property
    def band_hz(self) -> float:
        return BANDS_HZ[self.robot]


def whole_project(robot: str) -> Project:
    """All runs to identify, with every setting a default."""
    return read_project(PROJECTS / f"{robot}.toml").with_spec(estimator=None)


def directions(robot: str) -> Iterator[Direction]:
    """Two transfers per robot, each with the unseen part of the other as its training data, or most of it."""
    project = whole_project(robot)
    runs = project.spec.run
    if len(runs) > 1:
        half = (len(runs) + 1) // 2
        names = ("A", "B") if len(runs) == 2 else (f"runs 1–{half}", f"runs {half + 1}–{len(runs)}")
        for (label, seen), (other, unseen) in _both_ways((names[0], runs[:half]), (names[1], runs[half:])):
            yield Direction(robot, f"{label} → {other}", _split(project, seen, unseen))
        return
    seconds, gap = SECONDS[robot], GAP_PERIODS / BANDS_HZ[robot]
    third = seconds / 3.0
    for label, seen, unseen in (
        ("first ⅔ → last ⅓", (0.0, 2.0 * third - gap), (2.0 * third, seconds)),
        ("last ⅔ → first ⅓", (third + gap, seconds), (0.0, third)),
    ):
        parts = [msgspec.structs.replace(runs[0], seconds=window) for window in (seen, unseen)]
        yield Direction(robot, label, _split(project, parts[:1], parts[1:]))


def _both_ways(one, other):
    return (one, other), (other, one)


def _split(project: Project, seen: list[RunSpec], unseen: list[RunSpec]) -> Project:
    runs = [msgspec.structs.replace(run, role="identify") for run in seen]
    return project.with_spec(run=[*runs, *(msgspec.structs.replace(run, role="validate") for run in unseen)])
