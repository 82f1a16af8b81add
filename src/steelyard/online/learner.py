"""Learner: the identification of the robot from the rows of a stream so far."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import EstimationError
from steelyard.estimators.rls import RLS
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters
from steelyard.online.causal_filter import CausalRows
from steelyard.online.running_information import RunningInformation
from steelyard.online.survey import StreamSurvey
from steelyard.regression.forgetting import Forgetting
from steelyard.regression.information import Information
from steelyard.regression.observe import RowBatch

# Length of the first blocks of a run without forgetting [s]; it doubles as the run goes on.
_BLOCK_S = 0.25


class StreamFit(NamedTuple):
    """An identification and the rows that it comes from, without joints whose effort never changes."""

    result: Identification
    information: Information


class Learner:
    """The stream's survey, the memory of the rows learnt, and when the next identification is due.

    `rows` makes the rows; `base` are the base parameters of its model, computed once; an identification is due every
    `refresh_s` of the stream.
    """

    def __init__(
        self, rows: CausalRows, base: BaseParameters, estimator: RLS, survey: StreamSurvey, refresh_s: float
    ) -> None:
        self.rows, self.base, self.estimator, self.survey = rows, base, estimator, survey
        self.refresh = max(1, round(refresh_s * self.row_rate))
        self.fresh = 0
        self.memory = self.blank(estimator.rule)

    @property
    def name(self) -> str:
        return self.rows.problem.runs[0].name

    @property
    def row_rate(self) -> float:
        """Decimated rows per second [Hz]."""
        return self.rows.rate / self.rows.decimator.factor

    def blank(self, rule: Forgetting, load: str = "none") -> RunningInformation:
        """An empty memory for rows of this stream."""
        size = round(_BLOCK_S * self.row_rate) if rule.rule == "none" else rule.step
        return RunningInformation(self.rows.problem.model, self.name, load, rule, max(1, size))

    def surveyed(self, batch: RowBatch) -> NDArray[np.bool_]:
        """Add a batch of rows to the survey; returns which joints move in them, (n, m)."""
        self.survey = self.survey.with_speeds(batch.v)
        self.fresh += len(batch.number)
        return self.rows.problem.moving(batch.v, batch.still) & batch.inside

    def due(self) -> bool:
        """True once per `refresh` rows."""
        due = self.fresh >= self.refresh
        if due:
            self.fresh = 0
        return due

    def refreshed(self) -> StreamFit | None:
        """A new identification if one is due and there are enough rows for it."""
        if not self.due():
            return None
        try:
            return self.fit()
        except EstimationError:
            return None  # too few rows yet

    def fit(self) -> StreamFit:
        """The identification from all rows learnt so far."""
        survey, problem = self.survey, self.rows.problem
        history = (f"followed from {survey.start:.6g} s, {survey.seen} samples", f"rows {self.rows.delay:.3g} s later")
        run = survey.samples(self.name, problem.model.robot.axis_names, self.rows.rate, history)
        information = self.memory.information()
        if run.constant_effort.any():
            alive = {k: t for k, t in information.blocks.items() if not run.constant_effort[k.joint]}
            information = replace(information, blocks=alive)
        if not information.blocks:
            raise EstimationError(
                f"No rows of '{self.name}' yet: the robot has not moved for longer than the filter window."
            )
        result = identify(replace(problem, runs=[run]), self.estimator, information)
        return StreamFit(result, information)
