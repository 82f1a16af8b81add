"""Online: identification of a running robot, chunk by chunk, in flat memory; changes found and weighed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array, single_threaded
from steelyard.errors import DataError, EstimationError
from steelyard.estimators.rls import RLS
from steelyard.findings import Finding
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.online.causal_filter import CausalRows, Chunk, Lookahead
from steelyard.online.change_cause import Explained, Kind, Pickup, Tool, friction_columns, kind_of, weigh_since
from steelyard.online.change_detection import Alarm, Detector, Thresholds
from steelyard.online.residual_monitor import Judge
from steelyard.online.running_information import RunningInformation
from steelyard.regression.forgetting import Forgetting
from steelyard.regression.information import Information
from steelyard.regression.observe import RowBatch
from steelyard.regression.problem import REST_SHARE, REST_SPEED, Problem
from steelyard.signals.channels import ChannelMap, resolve
from steelyard.signals.derivatives import EDGE_PERIODS
from steelyard.signals.prepare import Preparation
from steelyard.signals.samples import Piece, Samples, Stretch

Phase = Literal["learning", "watching", "changed", "not watched"]
# A body is called one when its mass is so many standard deviations from none.
SURE = 3.0
# The first blocks of a run without forgetting [s]; they grow.
_BLOCK_S = 0.25


@dataclass(frozen=True)
class ChangeDetection:
    """How changes are looked for.

    learn_s                 seconds of motion that the robot is learnt from and thresholds are calibrated on; a change
                            in them is not seen
    false_alarms_per_hour   of motion; sets the thresholds
    guard_s                 rows wait so long before they are learnt, so that those of a change are not
    tool                    what is expected of a body that is picked up
    payload                 its name, link (empty: the last) and frame
    """

    learn_s: float = 30.0
    false_alarms_per_hour: float = 0.1
    guard_s: float = 2.0
    tool: Tool = Tool()
    payload: Payload = Payload("picked-up")

    def __post_init__(self) -> None:
        if not (self.learn_s > 0.0 and self.guard_s >= 0.0 and self.false_alarms_per_hour > 0.0):
            raise EstimationError(f"learn_s and false_alarms_per_hour must be positive, guard_s not negative: {self}.")
        if self.payload.known:
            raise EstimationError(
                "What a robot will pick up is not known beforehand: leave out 'known' of the payload."
            )


@dataclass(frozen=True)
class Change:
    """Something changed: when it happened and when it was told [s of the log's clock], at which sample of the stream,
    by which test, and what explains it best so far.

    `kind` may turn from "unknown" as rows come in. `pickup` is the body that would explain it; believe it where the
    kind is "payload". A negative mass was put down.
    """

    t: float
    sample: int
    told: float
    alarm: Alarm
    kind: Kind = "unknown"
    pickup: Pickup | None = None
    explained: Explained | None = None

    @property
    def verdict(self) -> str:
        """One honest sentence."""
        when = f"at {self.t:.2f} s (told at {self.told:.2f} s, by {self.alarm.test})"
        if self.kind == "payload" and self.pickup is not None:
            done = "picked up" if self.pickup.mass > 0.0 else "put down"
            where, mass = self.pickup.payload.link, f"{abs(self.pickup.mass):.4g} ± {self.pickup.mass_std:.2g} kg"
            return f"A body of {mass} on {where} was {done} {when}."
        if self.kind == "friction":
            return f"Friction or offsets changed {when}; no body explains it."
        return f"Something changed {when}; neither a body nor friction alone explains it beyond doubt yet."


WATCH = ChangeDetection()


class Online:
    """Identification of a running robot: `update` takes raw chunks and gives the latest `Identification`.

    model         the robot and its terms, without payloads
    preparation   filters of positions; its `rate_hz` is the rate of the stream
    lowpass_hz, decimate, rest_share, delay   as in `Problem`; `rest` [rad/s | m/s] for every axis, or one for all
    channels      what the columns of a chunk mean, where chunks are mappings of columns and not `Chunk`s
    estimator     `RLS`, with or without forgetting
    watch         how changes are looked for; None does not look
    refresh_s     an identification is made every so many seconds of the stream
    lookahead     periods of `cutoff_hz` that the position filter waits for, see `Lookahead`
    resample      lay the rows on a uniform clock at `rate_hz`, for jittered ones

    Rows are those that `prepare` and `observe` make of the same log, `delay_s` later.
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
        if preparation.rate_hz is None:
            raise DataError("A stream needs to know its rate: set rate_hz of the preparation [Hz].")
        if not model.knows_load:
            raise EstimationError(
                "Load friction needs to know what the gears carry, and the robot file gives no nominal inertias: leave "
                "out the term 'load', or give the model 'carried' of an earlier identification."
            )
        robot = model.robot
        self.model, self.watch, self.estimator, self.name = model, watch, estimator or RLS(), name
        self.rate = float(preparation.rate_hz)
        self.channels = None if channels is None else resolve(channels, robot)
        self.base = base_parameters(model)
        speeds = [float(rest)] * robot.dof if isinstance(rest, int | float) else [float(x) for x in rest]
        n = robot.dof
        self.seen = 0
        self.start = np.nan
        self.lowest, self.highest = np.full(n, np.inf), np.full(n, -np.inf)
        self.effort = (np.full(n, np.inf), np.full(n, -np.inf))
        self.top_speed = np.zeros(n)
        self.problem = Problem(model, [self._run(())], lowpass_hz, decimate, speeds, rest_share, tuple(delay))
        self.rows = CausalRows(self.problem, Lookahead(preparation, self.rate, lookahead), resample)
        self.row_rate = self.rate / self.rows.decimator.factor
        self.refresh = max(1, round(refresh_s * self.row_rate))
        self.memory = self._remembering(self.estimator.rule)
        self.judge = None if watch is None else Judge(self.problem, self.base)
        self.learnt: RunningInformation | None = None if watch is None else self._remembering(Forgetting())
        self.detector: Detector | None = None
        self.since: RunningInformation | None = None
        self.pending: deque[tuple[RowBatch, NDArray[np.bool_]]] = deque()
        self.change: Change | None = None
        self.latest: Identification | None = None
        self._fresh = 0
        self._last = np.inf  # time of the last row
        if watch is not None:
            self.payload = Model(robot, payloads=[watch.payload]).payloads[0]

    @property
    def delay_s(self) -> float:
        """A row is learnt at most so long after the sample it is centred on was logged [s], the guard not counted."""
        return self.rows.delay

    @property
    def phase(self) -> Phase:
        if self.watch is None:
            return "not watched"
        if self.change is not None:
            return "changed"
        return "learning" if self.detector is None else "watching"

    @property
    def thresholds(self) -> Thresholds | None:
        return None if self.detector is None else self.detector.thresholds

    @single_threaded
    def update(self, chunk: Chunk | Mapping[str, Array]) -> Identification | None:
        """Take a chunk; the latest identification, None while there are too few rows for one.

        It is made anew every `refresh_s` of the stream; `estimate` makes one now.
        """
        t, x = self.rows.checked(chunk if isinstance(chunk, Chunk) else self._read(chunk))
        self._survey(t, x)
        for batch in self.rows.push_checked(t, x):
            self._take(batch)
        return self.latest

    @single_threaded
    def close(self) -> None:
        """The log has ended: take the rows that still come, and those that wait."""
        for batch in self.rows.close():
            self._take(batch)
        while self.pending:
            self.memory.add(*self.pending.popleft())
        if self.since is not None:
            self._weigh()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that a chunk must have, by the channel map."""
        if self.channels is None:
            raise DataError("Chunks of named columns need a channel map: give `channels`, or chunks as `Chunk`s.")
        return self.channels.columns

    @single_threaded
    def estimate(self) -> Identification:
        """The identification from all rows learnt so far."""
        return self._identified()[0]

    def _read(self, chunk: Mapping[str, Array]) -> Chunk:
        missing = [name for name in self.columns if name not in chunk]
        assert self.channels is not None
        if missing:
            raise DataError(f"The chunk has no column {', '.join(missing)}; it has {', '.join(list(chunk)[:40])}.")
        named = self.channels
        q, effort, *v = (
            signal(np.stack([np.asarray(chunk[c], float) for c in signal.columns]))
            for signal in (named.q, named.effort, named.v)
            if signal is not None
        )
        return Chunk(named.time_factor * np.asarray(chunk[named.time], float), q, effort, v[0] if v else None)

    def _survey(self, t: Array, x: Array) -> None:
        """How far the axes moved and whether efforts live, for findings."""
        if not len(t):
            return
        if not self.seen:
            self.start = float(t[0])
        self.seen += len(t)
        n = self.model.robot.dof
        q, effort = x[:n], x[n : 2 * n]
        self.lowest, self.highest = np.minimum(self.lowest, q.min(axis=1)), np.maximum(self.highest, q.max(axis=1))
        low, high = self.effort
        self.effort = (np.minimum(low, effort.min(axis=1)), np.maximum(high, effort.max(axis=1)))

    def _take(self, batch: RowBatch) -> None:
        self.top_speed = np.maximum(self.top_speed, np.max(np.abs(batch.v), axis=1))
        moving = self.problem.moving(batch.v, batch.still) & batch.inside
        self._fresh += len(batch.number)
        if self.since is not None:
            self.since.add(batch, moving)
            if self._due():
                self._weigh()
            return
        if self.detector is None:
            self.memory.add(batch, moving)
            if self.learnt is not None and self.judge is not None:
                self.learnt.add(batch, moving)
                self.judge.keep(batch, moving)
        else:
            assert self.judge is not None
            if batch.t[0] - self._last > 1.5 / self.row_rate:
                self.detector.interrupted()
            alarm = self.detector.push(batch.number, *self.judge.standardised(batch, moving))
            self.pending.append((batch, moving))
            if alarm is not None:
                self._alarmed(alarm)
                return
            self._release()
        self._last = float(batch.t[-1])
        if self._due():
            self._renew()

    def _due(self) -> bool:
        due = self._fresh >= self.refresh
        if due:
            self._fresh = 0
        return due

    def _renew(self) -> None:
        """A fresh identification, and the residuals' yardstick with it."""
        try:
            self.latest, information = self._identified()
        except EstimationError:
            return  # too few rows yet: nothing to say
        if self.judge is None or self.watch is None:
            return
        if self.detector is not None:
            self.judge.refer(self.latest, self.estimator.rule.remembered(information))
        elif self.learnt is not None and self.learnt.total >= self.watch.learn_s * self.row_rate:
            found = self.judge.calibrate(
                self.latest, self.learnt.information(), self.row_rate, self.watch.false_alarms_per_hour
            )
            if found is not None:
                self.detector, self.learnt = Detector(found, self.row_rate), None
                self.judge.refer(self.latest, self.estimator.rule.remembered(information))

    def _release(self) -> None:
        """Rows that waited long enough without an alarm are learnt."""
        assert self.watch is not None
        latest = self.pending[-1][0].number[-1]
        guard = self.watch.guard_s * self.row_rate
        while self.pending and latest - self.pending[0][0].number[-1] >= guard:
            self.memory.add(*self.pending.popleft())

    def _alarmed(self, alarm: Alarm) -> None:
        """The robot is frozen as it was before; rows since then are for what changed."""
        assert self.judge is not None
        # rows whose support holds the change are neither
        reach = -(-self.rows.decimator.half // self.rows.decimator.factor) + 1
        self.since = self._remembering(Forgetting(), load=self.payload.name)
        happened = told = np.nan
        for batch, moving in self.pending:
            before, after = batch.number < alarm.onset - reach, batch.number >= alarm.onset + reach
            self.memory.add(batch, moving & before)
            self.since.add(batch, moving & after)
            for row, t in zip(batch.number, batch.t, strict=True):
                happened = t if row == alarm.onset else happened
                told = t if row == alarm.row else told
        if not np.isfinite(happened):
            happened = told - (alarm.row - alarm.onset) / self.row_rate
        self.pending.clear()
        sample = round((happened - self.start) * self.rate)
        self.change = Change(float(happened), sample, float(told), alarm)
        self.latest, information = self._identified()
        self.judge.refer(self.latest, self.estimator.rule.remembered(information))
        self._weigh()

    def _weigh(self) -> None:
        """What the rows since the change say: the body, and whether it is one."""
        assert self.since is not None
        assert self.judge is not None
        assert self.latest is not None
        assert self.change is not None
        assert self.watch is not None
        if not self.since.total:
            return
        reference, rows = self.judge.reference, self.since.information()
        assert reference is not None
        pickup, explained = weigh_since(self.latest, reference, rows, self.payload, self.watch.tool)
        kind = kind_of(explained, len(friction_columns(self.latest)), reference.inflation)
        if kind == "payload" and not abs(pickup.mass) > SURE * pickup.mass_std:
            kind = "unknown"  # a body of any mass, none included, is no body
        self.change = replace(self.change, kind=kind, pickup=pickup, explained=explained)
        told = [finding for finding in self.latest.findings if finding.code != "changed"]
        self.latest = replace(self.latest, findings=(*told, self._finding()))

    def _finding(self) -> Finding:
        assert self.change is not None
        return Finding(
            "changed",
            "warning",
            self.change.verdict + " The robot's values are those before it",
            self.name,
            "a body: declare it as a payload of the rows since; friction: identify anew; else look at that time",
        )

    def _identified(self) -> tuple[Identification, Information]:
        run = self._run((f"followed from {self.start:.6g} s, {self.seen} samples", f"rows {self.delay_s:.3g} s later"))
        problem = replace(self.problem, runs=[run])
        information = self.memory.information()
        dead = [j for j in range(self.model.robot.dof) if run.dead[j]]
        if dead:
            alive = {k: t for k, t in information.blocks.items() if k.joint not in dead}
            information = replace(information, blocks=alive)
        if not information.blocks:
            raise EstimationError(f"No rows of '{self.name}' yet: the robot has not moved for longer than the filters.")
        return identify(problem, self.estimator, information), information

    def _remembering(self, rule: Forgetting, load: str = "none") -> RunningInformation:
        size = round(_BLOCK_S * self.row_rate) if rule.rule == "none" else rule.step
        return RunningInformation(self.model, self.name, load, rule, max(1, size))

    def _run(self, history: tuple[str, ...]) -> Samples:
        n, count = self.model.robot.dof, max(self.seen, 1)
        known = self.seen > 0
        return Samples(
            name=self.name,
            joints=self.model.robot.axis_names,
            rate=self.rate,
            stretches=(Stretch(self.start if known else 0.0, count, (0, count), (0, count)),),
            top_speed=self.top_speed,
            lowest=self.lowest if known else np.zeros(n),
            highest=self.highest if known else np.ones(n),
            dead=self.effort[0] == self.effort[1],
            open=_gone,
            history=history,
        )


def _gone() -> Iterator[Piece]:
    """No sample of a stream is kept: whatever looks at them a second time finds none."""
    return iter(())
