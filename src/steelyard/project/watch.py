"""Follow: running identification from a project and a growing log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError, EstimationError, ProjectError
from steelyard.estimators.rls import RLS
from steelyard.findings import Finding
from steelyard.formats.logs.csv_growing import GrowingLog
from steelyard.identification.first_fit import with_load
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.online.change_cause import Change
from steelyard.online.history import History
from steelyard.online.online import ChangeDetection, Online, Phase
from steelyard.project.automatic import resolve_auto
from steelyard.project.documents import text
from steelyard.project.output_folder import REPORT, RESULT, write_folder
from steelyard.project.project import AUTO, NONE, Project, RunSpec
from steelyard.project.run import run_document
from steelyard.project.spec import per_joint
from steelyard.regression.decimation import Decimator
from steelyard.regression.forgetting import Rule
from steelyard.regression.problem import REST_SPEED
from steelyard.report.page import render
from steelyard.report.pages.watched import watched_page
from steelyard.signals.channels import UNKNOWN, resolve
from steelyard.signals.composed import ROW_CLOCK
from steelyard.signals.prepare import Preparation
from steelyard.signals.recording import Chunk, Progress

CONVERGENCE = "convergence.html"
FOLLOWED_FILES = (RESULT, REPORT, CONVERGENCE)
# Number of rows that give the usual step of a clock.
_CLOCK_ROWS = 100


@dataclass(frozen=True)
class WatchPlan:
    """Input and settings of a running identification: the project with numbers instead of "auto" and the log as its
    only run, the model, the rest mask [rad/s | m/s], the log's rate if known beforehand [Hz], the project's own `rls`
    or one without forgetting, and the decisions made."""

    project: Project
    log: Path
    model: Model
    rest: tuple[float, ...]
    rate: float | None
    estimator: RLS
    findings: tuple[Finding, ...]

    @property
    def preparation(self) -> Preparation:
        return self.project.preparation()

    @property
    def delay(self) -> list[float]:
        asked = self.project.spec.prepare.delay
        return [] if isinstance(asked, str) else per_joint("prepare.delay", asked, self.model.robot)

    @property
    def columns(self) -> tuple[str, ...]:
        """The clock and the columns of the log that are read."""
        return resolve(self.project.spec.channels.channel_map(), self.model.robot).columns

    def row_rate(self, rate: float) -> float:
        """Rate of decimated rows [Hz]."""
        late = max(map(abs, self.delay), default=0.0)
        spec = self.project.spec.prepare
        return rate / Decimator.design(rate, self.project.lowpass_hz(), spec.decimate, late).factor

    def open(self) -> GrowingLog:
        logged = [name for name in self.columns if name != ROW_CLOCK]
        return GrowingLog(self.log, logged, self.project.spec.run[0].delimiter)


def plan(
    project: Project, log: Path | None = None, finished: bool = False, progress: Progress | None = None
) -> WatchPlan:
    """The plan for following a log (by default that of the first run to identify).

    Settings left to the data are decided from its other runs to identify, or from the log itself if that is `finished`.
    Without either, cut-offs must be numbers; derivatives are differences and no delay is corrected.
    """
    spec = project.spec
    if spec.payload:
        named = ", ".join(f"'{one.name}'" for one in spec.payload)
        raise ProjectError(
            f"'{project.path}' declares payloads ({named}): a growing log has one load case, and a payload picked up "
            "is identified. Remove [[payload]] and the runs that carry one, or use `steelyard identify`."
        )
    if spec.channels.effort.gain == UNKNOWN:
        raise ProjectError(
            f"'{project.path}': drive gains cannot be identified from a growing log. Identify them first, with "
            "`steelyard identify`, and set them as 'gain' in [channels.effort]."
        )
    stated = project.estimator()
    run, log = _run(project, log)
    others = [one for one in spec.run if one.role == "identify" and not _reads(project, one, log)]
    known = others or ([run] if finished else [])
    asked = project.with_spec(estimator="rls", run=known or [run])
    model, rate, findings = asked.model(), spec.prepare.rate_hz, ()
    fraction = isinstance(spec.prepare.rest, int | float)
    open_ends = (*_open_ends(spec.prepare), *(["select"] if spec.select else []), *(["rest"] if fraction else []))
    if known and (open_ends or not model.knows_load):
        made = resolve_auto(asked, progress)
        problem = with_load(made.problem, progress)
        asked, model, findings = made.project, problem.model, made.findings
        # a joint that never moved in those runs has no top speed of which to take a fraction
        rest = tuple(x if x > 0.0 else REST_SPEED for x in problem.rest_speeds.tolist())
        rate = rate or (None if others else made.runs[0].rate)
    else:
        asked, findings = _without_logs(asked, open_ends)
        speeds = REST_SPEED if spec.prepare.rest is None else spec.prepare.rest
        rest = tuple(per_joint("prepare.rest", speeds, model.robot))
    return WatchPlan(
        asked.with_spec(run=[run]), log, model, rest, rate, stated if isinstance(stated, RLS) else RLS(), findings
    )


def _run(project: Project, log: Path | None) -> tuple[RunSpec, Path]:
    """The run that is followed, its log relative to the project file, and its path."""
    folder = project.path.parent
    if log is None:
        first = next(one for one in project.spec.run if one.role == "identify")
        if len(first.logs) > 1:
            raise ProjectError(
                f"'{project.path}': the first run is made of several logs ({first.label}), and one log is followed: "
                f"name it with --follow, e.g. --follow {first.logs[-1]}."
            )
        if first.rows is not None or first.seconds is not None or first.episode is not None:
            raise ProjectError(
                f"'{project.path}' uses only a part of '{first.label}' (rows, seconds or episode), but a log is "
                f"followed as a whole: add --follow {first.label} to do so."
            )
        return first, project.log_files(first)[0]
    for one in project.spec.run:
        if len(one.logs) == 1 and _reads(project, one, log):
            return msgspec.structs.replace(one, role="identify", rows=None, seconds=None, episode=None), log
    try:
        path = os.path.relpath(log.resolve(), folder.resolve())
    except ValueError:  # another drive
        path = str(log.resolve())
    return RunSpec(path, delimiter=project.spec.delimiter), log


def _reads(project: Project, run: RunSpec, log: Path) -> bool:
    """True if the log is one of the run's."""
    return any(one.resolve() == log.resolve() for one in project.log_files(run))


def _open_ends(prepare: Any) -> tuple[str, ...]:
    keys = ("cutoff_hz", "lowpass_hz", "derivatives", "delay")
    return tuple(key for key in keys if getattr(prepare, key) == AUTO)


def _without_logs(project: Project, open_ends: tuple[str, ...]) -> tuple[Project, tuple[Finding, ...]]:
    """The project without finished runs that could decide settings: defaults where possible, an error for the rest."""
    needed = [key for key in open_ends if key not in ("derivatives", "delay")]
    if needed:
        raise ProjectError(
            f"'{project.path}' leaves {', '.join(needed)} to be chosen from complete logs, and has none in addition to "
            "the one that is followed. Give numbers (rest as a list of speeds), add an earlier log as a [[run]], or, "
            "if the followed log is complete, add --until-idle 0."
        )
    findings, changes = [], {}
    if "derivatives" in open_ends:
        changes["derivatives"] = "differences"
        said = "Derivatives by differences: no choice is made on a growing log."
        findings.append(Finding("derivatives", "info", said, fix="set 'derivatives' in '[prepare]' to override"))
    if "delay" in open_ends:
        changes["delay"] = NONE
        said = "delays were not estimated: this needs a complete log"
        findings.append(Finding("delays", "info", said, fix="set delay in [prepare] to override"))
    return project.with_prepare(**changes), tuple(findings)


@dataclass(frozen=True)
class Options:
    """Settings for forgetting and change detection: `forgetting` and `memory_s` [s of the log], with both None those of
    the project's own `rls`, else none; `watch` = None turns detection off."""

    forgetting: Rule | None = None
    memory_s: float | None = None
    watch: ChangeDetection | None = ChangeDetection()
    refresh_s: float = 2.0

    def __post_init__(self) -> None:
        if self.memory_s is not None and not 0.0 < self.memory_s < np.inf:
            raise EstimationError(f"--memory must be a positive number of seconds, not {self.memory_s:g}.")
        if not 0.0 < self.refresh_s < np.inf:
            raise EstimationError(f"--refresh must be a positive number of seconds, not {self.refresh_s:g}.")
        if self.forgetting == "none" and self.memory_s is not None:
            raise EstimationError(
                "--memory sets the forgetting time, and --forgetting none keeps all rows. Remove one of the two."
            )

    def estimator(self, stated: RLS, row_rate: float) -> RLS:
        """The estimator with these options instead of the stated ones, for decimated rows at `row_rate` [Hz]."""
        if self.forgetting is None and self.memory_s is None:
            return stated
        rule = self.forgetting or (stated.forgetting if stated.forgetting != "none" else "exponential")
        memory = stated.memory if self.memory_s is None else self.memory_s * row_rate
        if rule == "none":
            return RLS()
        if memory is None:
            raise EstimationError(f"--forgetting {rule} needs a time constant: add --memory SECONDS.")
        return RLS(rule, memory)


class Refresh(NamedTuple):
    """The state after a new identification: time of the last sample read [s of the log], number of samples read, phase,
    the identification, and the change, if any."""

    t: float
    samples: int
    phase: Phase
    result: Identification
    change: Change | None


class Follower:
    """A followed log: `poll` reads new rows and gives the resulting refreshes, `end` the last of them."""

    def __init__(self, plan: WatchPlan, log: GrowingLog, options: Options) -> None:
        self.plan, self.log, self.options = plan, log, options
        self.history = History()
        self.online: Online | None = None
        self.last: Refresh | None = None
        self._t = np.nan
        self._waiting: list[Chunk] = []
        options.estimator(plan.estimator, 1.0)  # raises errors before the first row

    def poll(self) -> Iterator[Refresh]:
        """Refreshes due to one block of new rows."""
        yield from self._take(self._clocked(self.log.read()))

    def end(self) -> Refresh:
        """End of the log: process the waiting rows, and return the estimate from all of them."""
        for _ in self._take(self._clocked(self.log.end()), ended=True):
            pass
        if self.online is None:
            raise DataError(
                f"'{self.plan.log}' ended after {self.log.rows} rows, too few to read its clock. Log some motion."
            )
        self.online.close()
        # after a change the robot stays as it was before it
        changed = self.online.change is not None and self.online.latest is not None
        result = self.online.latest if changed else self.online.estimate()
        assert result is not None
        return self._noted(result)

    def result(self) -> Identification:
        """The last identification with its log."""
        assert self.last is not None
        found = self.last.result
        (run,) = found.runs
        run = replace(run, source=str(self.plan.log), sha256=self.log.sha256)
        return replace(found, runs=(run,)).with_findings(self.plan.findings)

    def write(self, folder: Path) -> dict[str, Any]:
        """Write result.json, report.html and convergence.html, all or none; returns the result's document."""
        result, project = self.result(), self._used_project()
        data = run_document(result, project, folder, self.plan.rest)
        change = None if self.last is None else self.last.change
        files = {
            RESULT: text(data),
            REPORT: render(result, (), f"{result.robot} · {project.name}", model=project.model()),
            CONVERGENCE: watched_page(result, self.history.curves(result), f"{result.robot} · {project.name}", change),
        }
        write_folder(folder, files, FOLLOWED_FILES)
        return data

    def _used_project(self) -> Project:
        """The project with the part of the log that the parameters come from: up to a change, if there was one."""
        project = self.plan.project
        if self.online is None or self.online.change is None:
            return project
        (run,) = project.spec.run
        run = msgspec.structs.replace(run, seconds=(self.online.start, self.online.change.t))
        return project.with_spec(run=[run])

    def _clocked(self, chunk: Chunk) -> Chunk:
        """The rows with their time, where the log has no clock and the project states the rate."""
        rate_hz = self.plan.project.spec.channels.time.rate_hz
        if rate_hz is None:
            return chunk
        rows = next(iter(chunk.values())).size
        return {ROW_CLOCK: np.arange(self.log.rows - rows, self.log.rows) / rate_hz, **chunk}

    def _take(self, chunk: Chunk, ended: bool = False) -> Iterator[Refresh]:
        time = self.plan.columns[0]
        if chunk[time].size:
            self._waiting.append(chunk)
        rows = sum(part[time].size for part in self._waiting)
        if not rows or (self.online is None and rows < _CLOCK_ROWS and not ended):
            return
        whole = {name: np.concatenate([part[name] for part in self._waiting]) for name in self.plan.columns}
        self._waiting = []
        channels = resolve(self.plan.project.spec.channels.channel_map(), self.plan.model.robot)
        t = channels.time_factor * whole[time]
        if self.online is None:
            self.online = self._online(self.plan.rate or _usual_rate(t, str(self.plan.log)))
        # at most one identification is due per slice
        size, first_row = max(1, round(0.5 * self.options.refresh_s * self.online.rate)), self.log.rows - rows
        for first in range(0, rows, size):
            part = slice(first, first + size)
            try:
                result = self.online.update({name: x[part] for name, x in whole.items()})
            except DataError as error:
                where = f"data rows {first_row + first + 1} to {first_row + min(first + size, rows)}"
                raise DataError(f"'{self.plan.log}', {where}: {error}") from None
            self._t = float(t[part][-1])
            if result is not None and (self.last is None or result is not self.last.result):
                yield self._noted(result)

    def _noted(self, result: Identification) -> Refresh:
        assert self.online is not None
        self.last = Refresh(self._t, self.online.seen, self.online.phase, result, self.online.change)
        self.history.add(self._t, result, self.online.change)
        return self.last

    def _online(self, rate: float) -> Online:
        plan, prepare = self.plan, self.plan.project.spec.prepare
        return Online(
            plan.model,
            replace(plan.preparation, rate_hz=rate),
            lowpass_hz=plan.project.lowpass_hz(),
            decimate=prepare.decimate,
            rest=plan.rest,
            rest_share=prepare.rest_share,
            delay=plan.delay,
            channels=plan.project.spec.channels.channel_map(),
            estimator=self.options.estimator(plan.estimator, plan.row_rate(rate)),
            watch=self.options.watch,
            refresh_s=self.options.refresh_s,
            resample=True,
            name=plan.project.spec.run[0].name or plan.log.name,
        )


def _usual_rate(t: Array, log: str) -> float:
    """Rate [Hz] of a clock from its first rows: the mean of the steps that are not gaps."""
    steps = np.diff(t)
    steps = steps[np.isfinite(steps) & (steps > 0.0)]
    if not len(steps):
        raise DataError(f"The clock of '{log}' does not advance in its first {len(t)} rows. Check its column.")
    usual = np.median(steps)
    return float(1.0 / np.mean(steps[np.abs(steps - usual) <= 0.5 * usual]))
