"""Fits of one log scored on another: the defaults, the former defaults, and every point of an oracle's grid.

A `Transfer` is a project whose runs to identify are fitted and whose runs to validate are scored only. All fits are
scored alike, after one low-pass `band_hz` of effort and prediction, and on the raw effort (common_band.py).

The oracle sees the score of a point and takes the best of

    lowpass_hz   1, 1.5, 2.25, … 86.5 Hz, up to 0.4 of the rate, with cutoff_hz = 2.5 lowpass_hz, by differences
    delays       those stated in the transfer: true ones of simulated robots, else those of the defaults
    terms        plain, default
    estimator    wls, map where the robot file states inertias, else consistent; with default terms the default too

Two oracles: "filters" has the terms and the estimator of the defaults and chooses the filters, "all" chooses among the
filters, both sets of terms, and wls or map | consistent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from common_band import Fit, Squares, Target
from former_defaults import resolve_former

from steelyard.errors import SteelyardError
from steelyard.estimators import MAP, WLS, Consistent, Estimator
from steelyard.identification.first_fit import with_load
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.project.automatic import Resolved, resolve_auto
from steelyard.project.project import Project
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem

GRID_HZ = tuple(1.5**k for k in range(12))
CUTOFF_FACTOR, HIGHEST = 2.5, 0.4
ORACLES = {
    "filters": "best of lowpass_hz 1, 1.5, 2.25, … 86.5 Hz (cutoff_hz 2.5 times that); default terms and estimator",
    "all": "best of the same filters, plain and default terms, and wls or map (consistent without nominal inertias)",
}
MEASURES = ("true", "band", "raw")


class Errors(NamedTuple):
    """Relative errors on unseen motion: against true torques (NaN where unknown), the measured effort in the common
    band, and the raw effort (NaN where not asked for). Infinite where there is no estimate."""

    true: float
    band: float
    raw: float = np.nan


REFUSED = Errors(np.inf, np.inf, np.inf)


@dataclass(frozen=True)
class Trained:
    """A fit with what it was made of."""

    project: Project
    problem: Problem
    information: Information
    estimator: Estimator
    result: Identification

    @property
    def fit(self) -> Fit:
        return Fit(self.problem.model, self.result.theta, self.problem.delay)

    @property
    def settings(self) -> str:
        spec = self.project.spec.prepare
        terms = len(self.problem.model.terms)
        return f"{spec.lowpass_hz:.3g} Hz (cutoff {spec.cutoff_hz:.3g}), {terms} terms, {self.estimator.name}"

    def with_estimator(self, estimator: Estimator) -> Trained:
        """The same rows, fitted by another estimator."""
        result = identify(self.problem, estimator, self.information)
        return Trained(self.project, self.problem, self.information, estimator, result)


def trained(resolved: Resolved) -> Trained:
    """The fit of a project in which nothing is left to choose."""
    problem, estimator = with_load(resolved.problem), resolved.project.estimator()
    information = observe(problem)
    return Trained(resolved.project, problem, information, estimator, identify(problem, estimator, information))


def with_delay(fitted: Trained, delay: Sequence[float]) -> Trained:
    """The fit with other delays [s], (n,)."""
    problem = replace(fitted.problem, delay=tuple(delay))
    information = observe(problem)
    project = fitted.project.with_prepare(delay=list(delay))
    return Trained(project, problem, information, fitted.estimator, identify(problem, fitted.estimator, information))


def by_defaults(project: Project) -> Trained:
    """What `steelyard identify` finds with nothing set."""
    return trained(resolve_auto(project))


def by_former_defaults(project: Project) -> Trained:
    return trained(resolve_former(project))


class Point(NamedTuple):
    """A point of the oracle's grid."""

    lowpass_hz: float
    terms: str
    estimator: str
    errors: Errors

    @property
    def choice(self) -> str:
        return f"{self.lowpass_hz:.3g} Hz, {self.terms}, {self.estimator}"


@dataclass(frozen=True)
class Transfer:
    """A project with runs to identify and to validate, and the low-pass [Hz] of the scores.

    delay    of the oracle [s], (n,); `true` gives the relative error of a fit against true torques, where these are
             known
    oracles  those whose grid is computed: "filters" alone needs a fifth of it
    """

    project: Project
    band_hz: float
    delay: Sequence[float]
    true: Callable[[Fit], float] | None = None
    oracles: tuple[str, ...] = tuple(ORACLES)

    @cached_property
    def highest(self) -> float:
        """The highest cut-off that the rates of the logs allow [Hz]."""
        robot = self.project.robot()
        unfiltered = self.project.with_prepare(cutoff_hz="none", lowpass_hz="none", derivatives="differences")
        runs = (*unfiltered.samples(robot, "identify"), *unfiltered.samples(robot, "validate"))
        return HIGHEST * min(run.rate for run in runs)

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """The unseen runs."""
        return targets_of(self.project, self.band_hz, "validate", self.highest)

    def squares(self, fit: Fit) -> Squares:
        """In the common band."""
        return Squares.sum(target.band(fit) for target in self.targets)

    def raw_squares(self, fitted: Trained) -> Squares:
        own = fitted.project.samples(fitted.problem.model.robot, "validate")
        return Squares.sum(target.raw(fitted.fit, run) for target, run in zip(self.targets, own, strict=True))

    def errors(self, fitted: Trained, raw: bool = False) -> Errors:
        true = np.nan if self.true is None else self.true(fitted.fit)
        band = self.squares(fitted.fit).relative
        return Errors(true, band, self.raw_squares(fitted).relative if raw else np.nan)

    def grid(self) -> Iterator[Point]:
        """Every point that can be identified."""
        for lowpass in (x for x in GRID_HZ if x <= self.highest):
            cutoff = min(CUTOFF_FACTOR * lowpass, self.highest)
            filters = self.project.with_prepare(
                lowpass_hz=lowpass, cutoff_hz=cutoff, derivatives="differences", delay=list(self.delay)
            )
            for terms in ("plain", "default") if "all" in self.oracles else ("default",):
                for name, errors in self._points(filters.with_spec(terms=terms), terms == "default"):
                    yield Point(lowpass, terms, name, errors)

    def _points(self, project: Project, with_default: bool) -> Iterator[tuple[str, Errors]]:
        """Errors of all estimators from one pass over the log; none where there is no estimate."""
        try:
            model = project.model()
            problem = with_load(project.problem(model, project.samples(model.robot, "identify")))
            information = observe(problem)
        except SteelyardError:
            return
        inertial = Consistent() if model.layout.nominal is None else MAP()
        others = (WLS(), inertial) if "all" in self.oracles else ()
        for estimator in (*others, *((project.estimator(),) if with_default else ())):
            try:
                result = identify(problem, estimator, information)
            except SteelyardError:
                continue
            yield estimator.name, self.errors(Trained(project, problem, information, estimator, result))


def targets_of(project: Project, band_hz: float, role: str, highest: float) -> tuple[Target, ...]:
    """The runs of a role as targets: the low-pass is the band, positions are filtered at 2.5 times that."""
    cutoff = min(CUTOFF_FACTOR * band_hz, highest)
    reference = project.with_prepare(
        lowpass_hz=band_hz, cutoff_hz=cutoff, derivatives="differences", delay="none"
    ).with_spec(terms="plain")
    model = reference.model()
    problem = reference.problem(model, reference.samples(model.robot, role))
    return tuple(Target(problem, run) for run in problem.runs)


def oracle(grid: Sequence[Point], which: str, measure: str, default: str) -> Point:
    """The best point of an oracle (ORACLES) by a measure (MEASURES); `default`: name of the default estimator."""
    if which == "filters":
        own = [point for point in grid if point.terms == "default" and point.estimator == default]
    else:
        own = [point for point in grid if point.estimator != default]
    nothing = Point(np.nan, "-", "no estimate", REFUSED)
    return min(own, key=lambda point: getattr(point.errors, measure), default=nothing)
