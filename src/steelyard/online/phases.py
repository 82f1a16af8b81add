"""Phases of a stream: unwatched; or learning, then watching, then changed. Each holds only the state that it needs.

A phase takes rows and returns the phase that follows: itself with a newer identification, or the next one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.model.payload import Payload
from steelyard.online.change_cause import Change, Tool, friction_columns, kind_of, weigh_since
from steelyard.online.change_detection import Alarm, Baseline, Detector
from steelyard.online.learner import Learner, StreamFit
from steelyard.online.residual_monitor import Calibration, Residuals
from steelyard.online.running_information import RunningInformation
from steelyard.regression.forgetting import Forgetting
from steelyard.regression.observe import RowBatch

Phase = Literal["learning", "watching", "changed", "not watched"]
# A body is reported when its mass is this many standard deviations from zero.
SURE = 3.0


@dataclass(frozen=True)
class ChangeSearch:
    """Settings for the detection of changes, in rows of the stream (see `watch` of `Online`); the payload is on its
    link."""

    learn_rows: float
    false_alarms_per_hour: float
    guard_rows: float
    tool: Tool
    payload: Payload


@final
@dataclass(frozen=True)
class Unwatched:
    """Rows are learnt; changes are not detected."""

    name: ClassVar[Phase] = "not watched"
    learner: Learner
    latest: Identification | None = None

    def take(self, batch: RowBatch, moving: NDArray[np.bool_]) -> Unwatched:
        self.learner.memory.add(batch, moving)
        fit = self.learner.refreshed()
        return self if fit is None else replace(self, latest=fit.result)

    def closed(self) -> Unwatched:
        return self


@final
@dataclass(frozen=True)
class Learning:
    """Rows are learnt and kept until the thresholds can be calibrated on them."""

    name: ClassVar[Phase] = "learning"
    learner: Learner
    search: ChangeSearch
    calibration: Calibration
    learnt: RunningInformation
    latest: Identification | None = None

    @staticmethod
    def begun(learner: Learner, search: ChangeSearch) -> Learning:
        residuals = Residuals(learner.rows.problem.model, learner.base)
        return Learning(learner, search, Calibration(residuals), learner.blank(Forgetting()))

    def take(self, batch: RowBatch, moving: NDArray[np.bool_]) -> Learning | Watching:
        self.learner.memory.add(batch, moving)
        self.learnt.add(batch, moving)
        self.calibration.keep(batch, moving)
        fit = self.learner.refreshed()
        if fit is None:
            return self
        rate, found = self.learner.row_rate, None
        if self.learnt.total >= self.search.learn_rows:
            information = self.learnt.information()
            found = self.calibration.levels(fit.result, information, rate, self.search.false_alarms_per_hour)
        if found is None:
            return replace(self, latest=fit.result)
        residuals = self.calibration.residuals
        return Watching(
            self.learner,
            self.search,
            residuals,
            Detector(found.thresholds, rate),
            _baseline(self.learner, residuals, fit, found.inflation),
            fit.result,
            float(batch.t[-1]),
        )

    def closed(self) -> Learning:
        return self


@final
@dataclass(frozen=True)
class Watching:
    """Residuals are tested before their rows are learnt; rows wait (`pending`) so that those of a change are not
    learnt."""

    name: ClassVar[Phase] = "watching"
    learner: Learner
    search: ChangeSearch
    residuals: Residuals
    detector: Detector
    baseline: Baseline
    latest: Identification
    last: float  # time of the last row [s of the log]
    pending: deque[tuple[RowBatch, NDArray[np.bool_]]] = field(default_factory=deque)

    def take(self, batch: RowBatch, moving: NDArray[np.bool_]) -> Watching | Changed:
        if batch.t[0] - self.last > 1.5 / self.learner.row_rate:
            self.detector.interrupted()
        z = self.residuals.standardised(batch, self.baseline)
        alarm = self.detector.push(batch.number, z, moving & np.isfinite(self.baseline.sigma)[:, None])
        self.pending.append((batch, moving))
        if alarm is not None:
            return self._changed(alarm)
        self._release()
        now = replace(self, last=float(batch.t[-1]))
        fit = self.learner.refreshed()
        if fit is None:
            return now
        baseline = _baseline(self.learner, self.residuals, fit, self.baseline.inflation)
        return replace(now, latest=fit.result, baseline=baseline)

    def closed(self) -> Watching:
        """The end of the stream: the waiting rows are learnt."""
        while self.pending:
            self.learner.memory.add(*self.pending.popleft())
        return self

    def _release(self) -> None:
        """Learn the rows that waited long enough without an alarm."""
        latest = self.pending[-1][0].number[-1]
        while self.pending and latest - self.pending[0][0].number[-1] >= self.search.guard_rows:
            self.learner.memory.add(*self.pending.popleft())

    def _changed(self, alarm: Alarm) -> Changed:
        """The next phase: the robot is frozen as it was before, and rows since then are used to find the change."""
        learner, decimator = self.learner, self.learner.rows.decimator
        # rows whose filter support contains the change are used for neither
        reach = -(-decimator.half // decimator.factor) + 1
        since = learner.blank(Forgetting(), load=self.search.payload.name)
        happened = reported = np.nan
        for batch, moving in self.pending:
            before, after = batch.number < alarm.onset - reach, batch.number >= alarm.onset + reach
            learner.memory.add(batch, moving & before)
            since.add(batch, moving & after)
            for row, t in zip(batch.number, batch.t, strict=True):
                happened = t if row == alarm.onset else happened
                reported = t if row == alarm.row else reported
        if not np.isfinite(happened):
            happened = reported - (alarm.row - alarm.onset) / learner.row_rate
        sample = round((happened - learner.survey.start) * learner.rows.rate)
        fit = learner.fit()
        return Changed(
            learner,
            self.search,
            self.detector,
            _baseline(learner, self.residuals, fit, self.baseline.inflation),
            since,
            Change(float(happened), sample, float(reported), alarm),
            fit.result,
        ).weighed()


@final
@dataclass(frozen=True)
class Changed:
    """The robot stays as identified before the change; the rows `since` show what changed."""

    name: ClassVar[Phase] = "changed"
    learner: Learner
    search: ChangeSearch
    detector: Detector
    baseline: Baseline
    since: RunningInformation
    change: Change
    latest: Identification

    def take(self, batch: RowBatch, moving: NDArray[np.bool_]) -> Changed:
        self.since.add(batch, moving)
        return self.weighed() if self.learner.due() else self

    def closed(self) -> Changed:
        return self.weighed()

    def weighed(self) -> Changed:
        """This phase with the result of the rows since the change: the body, and whether it is one."""
        if not self.since.total:
            return self
        robot, baseline, search = self.latest, self.baseline, self.search
        pickup, explained = weigh_since(robot, baseline, self.since.information(), search.payload, search.tool)
        kind = kind_of(explained, len(friction_columns(robot)), baseline.inflation)
        if kind == "payload" and not abs(pickup.mass) > SURE * pickup.mass_std:
            kind = "unknown"  # a mass that may be zero is not a body
        change = replace(self.change, kind=kind, pickup=pickup, explained=explained)
        others = tuple(finding for finding in robot.findings if finding.code != "change-detected")
        latest = replace(robot, findings=(*others, _finding(change, self.learner.name)))
        return replace(self, change=change, latest=latest)


State = Unwatched | Learning | Watching | Changed


def _baseline(learner: Learner, residuals: Residuals, fit: StreamFit, inflation: float) -> Baseline:
    """The reference for residuals from now on."""
    return residuals.baseline(fit.result, learner.estimator.rule.remembered(fit.information), inflation)


def _finding(change: Change, stream: str) -> Finding:
    return Finding(
        "change-detected",
        "warning",
        change.verdict + " The robot parameters are those before the change",
        stream,
        "a body: declare it as a payload of the rows since; friction: identify again; unknown: look at that time",
    )
