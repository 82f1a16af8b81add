"""Delays: efforts that are later or earlier than the motion by enough to matter."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.findings import Finding
from steelyard.identification.delays import LONGEST_SHARED_S, Delays, estimate_delays
from steelyard.model.terms import named_terms
from steelyard.project.checks.channel_map.trial import REST, Trial
from steelyard.project.checks.tracks import Trace
from steelyard.regression.problem import Problem

# Friction that reverses late, after some travel, looks like a delay: one of two models has columns for it.
_LATE_FRICTION = ("power-law", "dahl")
# A delay is accepted when it is this many deviations long in both models, and they agree on it.
_SURE = 4.0
_AGREE = 0.3
# It matters when its effect on the effort is at least this fraction of the model's error.
_MATTERS = 0.7
# The fit must improve too; and for a joint with friction only, a delay cannot be distinguished from friction that lags.
_GAIN = 0.2
_CARRIED = 0.3
# The delay [s] that is tested where none is found.
_TYPICAL = 0.03


@dataclass(frozen=True)
class _Opinions:
    """Delays [s] and deviations of every joint and of all together, (n + 1,), by one model."""

    seconds: Array
    std: Array

    @staticmethod
    def of(found: Delays) -> _Opinions:
        return _Opinions(np.append(found.seconds, found.common), np.append(found.std, found.common_std))

    @property
    def sure(self) -> NDArray[np.bool_]:
        return np.abs(self.seconds) > _SURE * self.std


def delay_findings(trial: Trial, corrected: bool = False) -> tuple[Finding, ...]:
    """A finding for every joint whose delay matters, or one for all together.

    Two models are used, one without late friction and one with it: a delay must be found by both. `corrected`: a fit
    corrects a short delay of all joints itself: it is a warning then.
    """
    try:
        plain, rich = (_Opinions.of(estimate_delays(_problem(trial, terms))) for terms in ((), _LATE_FRICTION))
    except EstimationError:  # a log too short to find a delay is not a fault
        return ()
    with np.errstate(invalid="ignore"):
        accepted = plain.sure & rich.sure & (np.abs(plain.seconds - rich.seconds) < _AGREE * np.abs(rich.seconds))
    cost = np.abs(rich.seconds[:-1]) * _pace(trial) / trial.baseline.relative
    common = np.abs(rich.seconds[-1]) * _pace(trial) / trial.baseline.relative
    matters = np.append((cost > _MATTERS) & (trial.carried > _CARRIED), np.nanmedian(common) > _MATTERS)
    found = [int(j) for j in np.flatnonzero(accepted & matters) if _gains(trial, int(j), rich.seconds[j])]
    n, names = trial.model.robot.dof, trial.model.robot.axis_names
    single = [j for j in found if j < n]
    alike = [j for j in single if abs(rich.seconds[j] - rich.seconds[n]) < _AGREE * abs(rich.seconds[n])]
    if n in found and (len(single) != 1 or alike):
        short = corrected and abs(rich.seconds[n]) <= LONGEST_SHARED_S
        return (_finding("all joints", "the efforts of all joints come", rich, n, short),)
    told = tuple(_finding(names[j], f"the effort of {names[j]} comes", rich, j) for j in single)
    shows = (_TYPICAL * _pace(trial) / trial.baseline.relative > _MATTERS) & (trial.carried > _CARRIED)
    shows &= _SURE * np.maximum(plain.std, rich.std)[:-1] < _TYPICAL
    blind = ", ".join(names[j] for j in trial.active if not shows[j])
    return (*told, _limit(blind)) if blind else told


def _problem(trial: Trial, extra: tuple[str, ...]) -> Problem:
    model = replace(trial.model, terms=(*trial.model.terms, *named_terms(extra))) if extra else trial.model
    runs = [trace.samples(model.robot.axis_names, f"trace {k}") for k, trace in enumerate(trial.traces)]
    return Problem(model, runs, trial.band, None, REST)


def _gains(trial: Trial, j: int, seconds: float) -> bool:
    """Whether held-out rows are explained better with the effort of joint j (n: all) read later."""
    n = trial.model.robot.dof
    late = np.where((np.arange(n) == j) | (j == n), seconds, 0.0)
    traces = [read_later(trace, late) for trace in trial.traces]
    gain, spread = replace(trial, traces=tuple(traces)).baseline.gain_over(trial.baseline)
    return gain > max(_GAIN, spread)


def read_later(trace: Trace, late: Array) -> Trace:
    """The trace with the effort of each joint read `late` (n,) [s] later, linearly between rows."""
    t = np.arange(trace.q.shape[1]) / trace.rate
    effort = [np.interp(t + d, t, own) for d, own in zip(late, trace.effort, strict=True)]
    return replace(trace, effort=np.array(effort))


def _pace(trial: Trial) -> Array:
    """Rate of change of each effort relative to its size, (n,) [1/s]."""
    slope = np.concatenate([np.gradient(t.effort, 1.0 / t.rate, axis=1) for t in trial.traces], axis=1)
    effort = np.concatenate([t.effort for t in trial.traces], axis=1)
    return np.std(slope, axis=1) / np.maximum(np.sqrt(np.mean(effort**2, axis=1)), 1e-300)


def _limit(joints: str) -> Finding:
    return Finding(
        "not-detectable",
        "info",
        f"{joints}: a delay of {1e3 * _TYPICAL:.0f} ms of a single effort cannot be detected from this log: the effort "
        "changes too slowly, or delayed friction reversal looks the same",
        joints,
    )


def _finding(where: str, what: str, told: _Opinions, j: int, corrected: bool = False) -> Finding:
    late = "after" if told.seconds[j] > 0.0 else "before"
    return Finding(
        "effort-delay",
        "warning" if corrected else "error",
        f"{what} {1e3 * abs(told.seconds[j]):.3g} ms {late} the motion (±{1e3 * told.std[j]:.2g} ms)",
        where,
        'a fit corrects it by default (delay = "auto"); log all channels from one clock'
        if corrected
        else f"log all channels from one clock, or set delay = {told.seconds[j]:.2g} in [prepare], or a list",
    )
