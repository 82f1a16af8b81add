"""Online: identification of a running robot, chunk by chunk, in constant memory; detection and weighing of changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.errors import DataError, EstimationError
from steelyard.estimators.rls import RLS
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.online.causal_filter import CausalRows, Chunk, Lookahead
from steelyard.online.change_cause import Change, Tool
from steelyard.online.change_detection import Detector, Thresholds
from steelyard.online.learner import Learner
from steelyard.online.phases import Changed, ChangeSearch, Learning, Phase, State, Unwatched, Watching
from steelyard.online.running_information import RunningInformation
from steelyard.online.survey import StreamSurvey
from steelyard.regression.observe import RowBatch
from steelyard.regression.problem import REST_SHARE, REST_SPEED, Problem
from steelyard.signals.channels import ChannelMap, ResolvedChannels, resolve
from steelyard.signals.derivatives import EDGE_PERIODS
from steelyard.signals.prepare import Preparation


@dataclass(frozen=True)
class ChangeDetection:
    """Settings for the detection of changes.

    learn_s                 seconds of motion used to learn the robot and to calibrate thresholds; a change during this
                            time is not detected
    false_alarms_per_hour   per hour of motion; sets the thresholds
    guard_s                 delay [s] before rows are learnt, so that rows of a change are not learnt
    tool                    prior of a body that is picked up
    payload                 its name, link (empty: the last) and frame
    """

    learn_s: float = 30.0
    false_alarms_per_hour: float = 0.1
    guard_s: float = 2.0
    tool: Tool = Tool()
    payload: Payload = Payload("picked-up")

    def __post_init__(self) -> None:
        if not (self.learn_s > 0.0 and self.guard_s >= 0.0 and self.false_alarms_per_hour > 0.0):
            raise EstimationError(
                f"learn_s and false_alarms_per_hour must be positive, and guard_s must not be negative: {self}."
            )
        if self.payload.known:
            raise EstimationError("The payload of a stream is identified: remove 'known' from it.")


WATCH = ChangeDetection()


class Online:
    """Identification of a running robot: `update` takes raw chunks and gives the latest `Identification`.

    model         the robot and its terms, without payloads
    preparation   filters of positions; its `rate_hz` is the rate of the stream
    lowpass_hz, decimate, rest_share, delay   as in `Problem`; `rest` [rad/s | m/s] for every axis, or one for all
    channels      channel map of the columns, where chunks are mappings of columns and not `Chunk`s
    estimator     `RLS`, with or without forgetting
    watch         settings for the detection of changes; None turns it off
    refresh_s     time between identifications [s of the stream]
    lookahead     delay of the position filter in periods of `cutoff_hz`, see `Lookahead`
    resample      resample the rows on a uniform clock at `rate_hz`, for jittered ones

    The rows equal those that `prepare` and `observe` make of the same log, `delay_s` later.
    """

    def __init__(
        self,
        model: Model,
        preparation: Preparation,
        *,
        lowpass_hz: float | None = None,
        decimate: int | None = None,
        rest: float | Sequence[float] = REST_SPEED,
        rest_share: float = REST_SHARE,
        delay: Sequence[float] = (),
        channels: ChannelMap | None = None,
        estimator: RLS | None = None,
        watch: ChangeDetection | None = WATCH,
        refresh_s: float = 2.0,
        lookahead: float = EDGE_PERIODS,
        resample: bool = False,
        name: str = "stream",
    ) -> None:
        if model.robot.floats:
            raise EstimationError(
                f"The base of '{model.robot.name}' floats, and a stream does not carry its motion: identify the log "
                'when it is complete (steelyard identify), or read the robot with base = "fixed" if the base is held.'
            )
        if preparation.rate_hz is None:
            raise DataError("A stream needs its sample rate: set rate_hz [Hz] in [prepare].")
        if not model.knows_load:
            raise EstimationError(
                "Load friction needs the torque on the gears, and the robot file gives no nominal inertias: remove the "
                "term 'load', or set 'carried' of the model from an earlier identification."
            )
        self.watch, self.channels = watch, None if channels is None else resolve(channels, model.robot)
        base, survey, rate = base_parameters(model), StreamSurvey.empty(model.robot.dof), float(preparation.rate_hz)
        speeds = [float(rest)] * model.robot.dof if isinstance(rest, int | float) else [float(x) for x in rest]
        run = survey.samples(name, model.robot.axis_names, rate)
        problem = Problem(model, [run], lowpass_hz, decimate, speeds, rest_share, tuple(delay))
        rows = CausalRows(problem, Lookahead(preparation, rate, lookahead), resample)
        self.learner = Learner(rows, base, estimator or RLS(), survey, refresh_s)
        self.state: State = (
            Unwatched(self.learner) if watch is None else Learning.begun(self.learner, self._search(watch))
        )

    def _search(self, watch: ChangeDetection) -> ChangeSearch:
        rate, payload = self.learner.row_rate, Model(self.model.robot, payloads=[watch.payload]).payloads[0]
        return ChangeSearch(
            watch.learn_s * rate, watch.false_alarms_per_hour, watch.guard_s * rate, watch.tool, payload
        )

    @property
    def rows(self) -> CausalRows:
        """The filters, from chunks to rows."""
        return self.learner.rows

    @property
    def memory(self) -> RunningInformation:
        """The rows learnt so far."""
        return self.learner.memory

    @property
    def problem(self) -> Problem:
        return self.rows.problem

    @property
    def model(self) -> Model:
        return self.problem.model

    @property
    def base(self) -> BaseParameters:
        return self.learner.base

    @property
    def estimator(self) -> RLS:
        return self.learner.estimator

    @property
    def name(self) -> str:
        return self.learner.name

    @property
    def rate(self) -> float:
        """Samples per second of the stream [Hz]."""
        return self.rows.rate

    @property
    def row_rate(self) -> float:
        """Decimated rows per second [Hz]."""
        return self.learner.row_rate

    @property
    def seen(self) -> int:
        """Number of samples so far."""
        return self.learner.survey.seen

    @property
    def start(self) -> float:
        """Time of the first sample [s of the log], NaN before it."""
        return self.learner.survey.start

    @property
    def delay_s(self) -> float:
        """Largest delay between logging a sample and learning the row centred on it [s], without the guard time."""
        return self.rows.delay

    @property
    def phase(self) -> Phase:
        return self.state.name

    @property
    def latest(self) -> Identification | None:
        """The latest identification; after a change, that of the robot before it, with a finding that says so."""
        return self.state.latest

    @property
    def change(self) -> Change | None:
        return self.state.change if isinstance(self.state, Changed) else None

    @property
    def detector(self) -> Detector | None:
        """The running tests; None before the thresholds are calibrated."""
        return self.state.detector if isinstance(self.state, Watching | Changed) else None

    @property
    def thresholds(self) -> Thresholds | None:
        return None if self.detector is None else self.detector.thresholds

    @single_threaded
    def update(self, chunk: Chunk | Mapping[str, Array]) -> Identification | None:
        """Take a chunk; returns the latest identification, None while there are too few rows.

        It is updated every `refresh_s` of the stream; `estimate` makes one now.
        """
        t, x = self.rows.checked(chunk if isinstance(chunk, Chunk) else self._read(chunk))
        self.learner.survey = self.learner.survey.with_samples(t, x)
        self._take(self.rows.push_checked(t, x))
        return self.latest

    @single_threaded
    def close(self) -> None:
        """End the log: process the remaining rows, and those that wait in the guard time."""
        self._take(self.rows.close())
        self.state = self.state.closed()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that a chunk must have, by the channel map."""
        return self._mapped.columns

    @single_threaded
    def estimate(self) -> Identification:
        """The identification from all rows learnt so far."""
        return self.learner.fit().result

    @property
    def _mapped(self) -> ResolvedChannels:
        if self.channels is None:
            raise DataError("Chunks of named columns need a channel map: give `channels`, or chunks as `Chunk`s.")
        return self.channels

    def _read(self, chunk: Mapping[str, Array]) -> Chunk:
        named = self._mapped
        missing = [name for name in named.columns if name not in chunk]
        if missing:
            raise DataError(f"The chunk has no column {', '.join(missing)}; it has {', '.join(list(chunk)[:40])}.")
        q, effort, *v = (
            signal(np.stack([np.asarray(chunk[c], float) for c in signal.columns]))
            for signal in (named.q, named.effort, named.v)
            if signal is not None
        )
        return Chunk(named.time_factor * np.asarray(chunk[named.time], float), q, effort, v[0] if v else None)

    def _take(self, batches: Iterable[RowBatch]) -> None:
        for batch in batches:
            self.state = self.state.take(batch, self.learner.surveyed(batch))
