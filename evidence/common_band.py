"""Fits with different filters scored alike: on the same rows of one band, and on the raw effort.

A fit scored after its own parallel filter gets a better figure from a lower filter. Here every fit is scored with

    band   effort and prediction after one low-pass, stated with the figures; motion, rows and mask are those of one
           reference preparation. The effort is read later by the fit's own delay.
    raw    the effort as measured, every sample; the motion is prepared with the fit's own settings
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from whole_runs import Whole, whole

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.identification.delays import BELIEVABLE_S, BELIEVABLE_SAMPLES
from steelyard.model.model import Model
from steelyard.regression.decimation import DecimationStream
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples

# A stretch of a run: its name, first and last time [s].
Span = tuple[str, float, float]
# Samples per call of the model.
CHUNK = 4096


class Fit(NamedTuple):
    """Parameters theta (C,) of a model, and the delay of the efforts that was corrected, (n,) [s]."""

    model: Model
    theta: Array
    delay: Sequence[float]


@dataclass(frozen=True)
class Squares:
    """Sums over scored rows per joint, (n,) each: Σ(y − ŷ)², Σy² [(N·m)² | N²], and the number of rows. They add up."""

    error: Array
    effort: Array
    rows: NDArray[np.int64]

    @staticmethod
    def of(y: Array, predicted: Array, scored: NDArray[np.bool_]) -> Squares:
        return Squares(
            np.sum((y - predicted) ** 2, axis=1, where=scored), np.sum(y**2, axis=1, where=scored), scored.sum(axis=1)
        )

    @staticmethod
    def sum(several: Iterable[Squares]) -> Squares:
        parts = list(several)
        return Squares(*(np.sum([getattr(part, k) for part in parts], axis=0) for k in ("error", "effort", "rows")))

    @property
    def rmse(self) -> float:
        """Over all joints [N·m | N]."""
        return float(np.sqrt(self.error.sum() / max(self.rows.sum(), 1)))

    @property
    def relative(self) -> float:
        """‖y − ŷ‖/‖y‖ over all joints."""
        return float(np.sqrt(self.error.sum() / self.effort.sum())) if self.effort.sum() > 0.0 else np.nan

    def document(self) -> dict[str, Any]:
        """RMSE [N·m | N] and relative error, in total and per joint; the share of each joint in the effort."""
        with np.errstate(invalid="ignore", divide="ignore"):
            rmse, relative = np.sqrt(self.error / self.rows), np.sqrt(self.error / self.effort)
            share = self.effort / self.effort.sum()
        return {
            "rmse": self.rmse, "relative": self.relative, "rows": int(self.rows.sum()),
            "joints": {"rmse": rmse.tolist(), "relative": relative.tolist(), "share": share.tolist()},
        }  # fmt: skip


@dataclass(frozen=True)
class Target:
    """What fits are scored on: one run, prepared by the reference settings, after the low-pass of `problem`.

    `problem` has the reference runs, the band as its parallel filter, and rest speeds [rad/s | m/s].
    """

    problem: Problem
    run: Samples

    @cached_property
    def _parts(self) -> tuple[Whole, ...]:
        return whole(self.run)

    @cached_property
    def _decimator(self):
        rate = self.run.rate
        return self.problem.decimator(self.run, max(BELIEVABLE_SAMPLES / rate, BELIEVABLE_S) + 1.0 / rate)

    def band(self, fit: Fit, span: Span | None = None) -> Squares:
        """Squares of the low-passed rows with their centre between the times of `span`; default: all of the run."""
        out, decimator = [], self._decimator
        for number, (part, stretch) in enumerate(zip(self._parts, self.run.stretches, strict=True)):
            clean = part.between(*stretch.clean)
            if not decimator.rows(clean.q.shape[1]):
                continue
            resting = (np.abs(clean.v) < self.problem.rest_speeds[:, None]).astype(float)
            v, still = _filtered(decimator, clean.v), _filtered(decimator, resting)
            predicted = _filtered(decimator, self._predicted(fit, number, part)[:, slice(*stretch.clean)])
            late = fit.delay or [0.0] * len(v)
            taps = [decimator.shifted(self.run.rate * delay) for delay in late]
            y = np.concatenate([_filtered(decimator, clean.effort[j : j + 1], taps[j]) for j in range(len(v))])
            centre = stretch.clean[0] + np.arange(v.shape[1]) * decimator.factor + decimator.half
            out.append(Squares.of(y, predicted, self._scored(number, centre, v, still, span)))
        return self._sum(out)

    def raw(self, fit: Fit, own: Samples, span: Span | None = None) -> Squares:
        """Squares of the measured effort at every sample; `own` is the run with the preparation of the fit."""
        if [(s.start, s.length) for s in own.stretches] != [(s.start, s.length) for s in self.run.stretches]:
            raise DataError(f"'{own.name}' is not on the clock of its reference: prepare both with the same gap_s.")
        out = []
        for number, (part, other) in enumerate(zip(self._parts, whole(own), strict=True)):
            first = max(self.run.stretches[number].clean[0], own.stretches[number].clean[0])
            stop = max(first, min(self.run.stretches[number].clean[1], own.stretches[number].clean[1]))
            predicted, v = self._predicted(fit, number, other)[:, first:stop], part.v[:, first:stop]
            resting = (np.abs(v) < self.problem.rest_speeds[:, None]).astype(float)
            scored = self._scored(number, np.arange(first, stop), v, resting, span)
            out.append(Squares.of(part.effort[:, first:stop], predicted, scored))
        return self._sum(out)

    def _predicted(self, fit: Fit, number: int, part: Whole) -> Array:
        """Torques (n, N) of a stretch, from its first sample on: the state of pre-sliding friction is carried along."""
        run, stretch = self.run, self.run.stretches[number]
        t = stretch.start - run.stretches[0].start + np.arange(part.q.shape[1]) / run.rate
        past: dict[str, Any] = {}
        theta = np.nan_to_num(fit.theta)
        pieces = []
        for first in range(0, part.q.shape[1], CHUNK):
            here = slice(first, first + CHUNK)
            q, v, a = (x[:, here] for x in (part.q, part.v, part.a))
            pieces.append(fit.model.torque(q, v, a, theta, t[here], past, run.load))
        return np.concatenate(pieces, axis=1)

    def _scored(
        self, number: int, sample: NDArray[np.int64], v: Array, still: Array, span: Span | None
    ) -> NDArray[np.bool_]:
        """(n, m): samples inside the window of their stretch and the span, at which the joint moves."""
        stretch = self.run.stretches[number]
        inside = (sample >= stretch.window[0]) & (sample < stretch.window[1])
        if span is not None:
            t = stretch.start + sample / self.run.rate
            inside &= (t >= span[1]) & (t < span[2])
        moving = self.problem.moving(v, still)
        moving[list(self.problem.without_rows)] = False
        moving[self.run.constant_effort] = False
        return moving & inside

    def _sum(self, parts: Sequence[Squares]) -> Squares:
        zero = np.zeros(len(self.run.joints))
        return Squares.sum([Squares(zero, zero, np.zeros(len(zero), np.int64)), *parts])


def _filtered(decimator, x: Array, taps: Array | None = None) -> Array:
    """Decimated rows (n, m) of samples (n, N)."""
    return np.concatenate([rows for _, rows in DecimationStream(decimator, taps).push(x)], axis=1)
