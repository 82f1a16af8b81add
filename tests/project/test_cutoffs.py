"""Cut-offs of a project: stated ones stay, a long log takes those of the spectrum, a short one may take higher ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.findings import Finding
from steelyard.formats.robots import read_robot
from steelyard.identification.filter_choice import FilterChoice, FilterTrial
from steelyard.project import cutoffs
from steelyard.project.cutoffs import with_cutoffs
from steelyard.project.project import Project, read_project
from testbed.pendulum import csv
from testbed.simulated import PENDULUM, log_of, model_of

RATE = 200.0
# Steps of an encoder [rad]: the noise of the accelerations takes over near 10 Hz.
STEP = 2e-3
# Cut-offs are written with three digits.
ROUNDED = 5e-3
PROJECT = """\
robot = "pendulum.toml"

[prepare]
{prepare}

[channels]
time = {{ column = "t", unit = "s" }}
q = {{ columns = ["q_joint1", "q_joint2"], unit = "rad" }}
effort = {{ columns = ["tau_joint1", "tau_joint2"], {effort} }}

[[run]]
log = "log.csv"
"""


def project_of(folder: Path, seconds: float, prepare: str = "", effort: str = 'unit = "N.m"') -> Project:
    (folder / "pendulum.toml").write_text(PENDULUM, "utf-8")
    columns = log_of(model_of(read_robot(folder / "pendulum.toml")), int(seconds * RATE), RATE)
    for name in ("q_joint1", "q_joint2"):
        columns[name] = np.round(columns[name] / STEP) * STEP
    (folder / "log.csv").write_text(csv(columns), "utf-8")
    (folder / "project.toml").write_text(PROJECT.format(prepare=prepare, effort=effort), "utf-8")
    return read_project(folder / "project.toml")


def decided(monkeypatch: pytest.MonkeyPatch, multiples: list[float], rows: int = 100) -> list[float]:
    """Let every trial try these multiples and choose the last; the filters that were tried are collected [Hz]."""
    tried: list[float] = []

    def choose(problem_at, least_rows, progress=None) -> FilterChoice:
        for multiple in multiples:
            problem = problem_at(multiple)
            if problem is None:
                break
            tried.append(problem.lowpass_hz)
        trials = [FilterTrial(m, 1.0 / (k + 1), rows * (k + 1)) for k, m in enumerate(multiples[: len(tried)])]
        return FilterChoice(tuple(trials), len(trials) - 1)

    monkeypatch.setattr(cutoffs, "choose_filter", choose)
    return tried


def cutoffs_of(project: Project) -> tuple[object, object]:
    return project.spec.prepare.cutoff_hz, project.spec.prepare.lowpass_hz


def told(finding: Finding) -> str:
    assert (finding.code, finding.severity) == ("cutoffs", "info")
    assert finding.fix == "set cutoff_hz and lowpass_hz in [prepare] to override"
    return finding.message


def test_a_long_log_takes_those_of_the_spectrum_without_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = decided(monkeypatch, [1.0, 2.0])
    project = project_of(tmp_path, 60.0)
    proposed = project.propose_cutoffs()
    resolved, runs, finding = with_cutoffs(project)
    assert tried == []
    assert runs is not None
    assert [run.name for run in runs] == ["log.csv"]
    assert cutoffs_of(resolved) == (proposed.cutoff_hz, proposed.lowpass_hz)
    assert told(finding) == proposed.rule


def test_a_short_log_takes_the_chosen_multiple_and_its_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = decided(monkeypatch, [1.0, 2.0])
    project = project_of(tmp_path, 10.0)
    proposed = project.propose_cutoffs()
    resolved, runs, finding = with_cutoffs(project)
    assert tried == pytest.approx([proposed.lowpass_hz, 2.0 * proposed.lowpass_hz], rel=ROUNDED)
    assert cutoffs_of(resolved) == pytest.approx((2.0 * proposed.cutoff_hz, 2.0 * proposed.lowpass_hz), rel=ROUNDED)
    assert runs is not None
    again = resolved.samples(resolved.robot(), "identify")
    assert [run.stretches for run in runs] == [run.stretches for run in again]
    assert told(finding).startswith(proposed.rule)
    assert told(finding).endswith(
        "; multiplied by 2, since that predicts left-out stretches with 0.5 instead of 1 N·m or N"
    )


def test_no_filter_above_what_the_rate_allows_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = decided(monkeypatch, [2.0**k for k in range(10)])
    with_cutoffs(project_of(tmp_path, 10.0))
    assert len(tried) > 2
    assert max(tried) <= 0.4 * RATE


def test_a_short_log_keeps_the_proposal_that_the_trials_confirm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = decided(monkeypatch, [1.0])
    project = project_of(tmp_path, 10.0)
    proposed = project.propose_cutoffs()
    resolved, _, finding = with_cutoffs(project)
    assert tried
    assert cutoffs_of(resolved) == (proposed.cutoff_hz, proposed.lowpass_hz)
    assert told(finding) == proposed.rule


def test_too_few_rows_are_the_reason_for_a_higher_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided(monkeypatch, [1.0, 1.2], rows=12)
    project = project_of(tmp_path, 10.0)
    least = cutoffs._parameters(project.model()) + cutoffs.SPARE_ROWS
    assert least > 12
    message = told(with_cutoffs(project)[2])
    assert f"; multiplied by 1.2, since a joint has 12 rows otherwise and needs {least} for its parameters" in message


@pytest.mark.parametrize("stated", ["lowpass_hz = 6.0", 'lowpass_hz = "none"'])
def test_with_a_stated_parallel_filter_nothing_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    tried = decided(monkeypatch, [1.0, 2.0])
    project = project_of(tmp_path, 10.0, stated)
    resolved, _, _ = with_cutoffs(project)
    assert tried == []
    assert cutoffs_of(resolved) == (project.propose_cutoffs().cutoff_hz, project.spec.prepare.lowpass_hz)


def test_a_stated_position_filter_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided(monkeypatch, [1.0, 2.0])
    project = project_of(tmp_path, 10.0, "cutoff_hz = 33.0")
    resolved, _, _ = with_cutoffs(project)
    assert cutoffs_of(resolved) == (33.0, pytest.approx(2.0 * project.propose_cutoffs().lowpass_hz, rel=ROUNDED))


def test_with_unknown_gains_nothing_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = decided(monkeypatch, [1.0, 2.0])
    project = project_of(tmp_path, 10.0, effort='unit = "A", gain = "unknown"')
    resolved, _, _ = with_cutoffs(project)
    assert tried == []
    assert cutoffs_of(resolved)[1] == project.propose_cutoffs().lowpass_hz


def test_a_short_log_without_patches(tmp_path: Path) -> None:
    """Whatever the trials decide, the filters are numbers below what the rate allows."""
    project = project_of(tmp_path, 5.0)
    resolved, _, finding = with_cutoffs(project)
    cutoff, lowpass = cutoffs_of(resolved)
    assert isinstance(cutoff, float)
    assert isinstance(lowpass, float)
    assert project.propose_cutoffs().lowpass_hz <= lowpass <= cutoff <= 0.4 * RATE
    assert told(finding)
