"""Default settings on robots not used in tuning: error on unseen motion, relative to the best choice of an oracle.

`make generalise` runs it on simulated robots (evidence/strangers.py) drawn from a seed. A case is scored with the true
torques of an unseen motion at exact states, ‖τ − Wθ̂‖/‖τ‖ over moving rows: the score does not depend on the filters.
The oracle sees that score, knows the delay of the efforts, and takes the best of

    lowpass_hz   1, 1.5, 2.25, … Hz up to 0.4 of the rate, with cutoff_hz = 2.5 lowpass_hz
    terms        plain, default
    estimator    wls, and map where the robot file states inertias, else consistent

The column "defaults, wls" is the error of weighted least squares with the filters, terms and delays of the defaults:
the difference between the two is the effect of the default estimator.

--seed N: other cases. --count N: how many. --quick: a few of them. --only K: one case. --json: figures on stdout.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from strangers import ZOO, Stranger, strangers

from steelyard._arrays import Array, single_threaded
from steelyard.errors import SteelyardError
from steelyard.estimators import MAP, WLS, Consistent, Estimator
from steelyard.identification.first_fit import with_load
from steelyard.identification.identify import identify
from steelyard.model.model import Model
from steelyard.project.automatic import resolve_auto
from steelyard.project.project import Project, read_project
from steelyard.regression.observe import observe

# Committed before any rule of the automatic settings was changed for these cases.
SEED, COUNT, QUICK = 20261118, 40, 6
GRID_HZ = tuple(1.5**k for k in range(12))
CUTOFF_FACTOR, HIGHEST = 2.5, 0.4
# A case counts as near within the first ratio to the oracle's error; none should lie beyond the second.
NEAR, FAR = 1.10, 1.30


@dataclass(frozen=True)
class Outcome:
    """A case: errors of the defaults, of `wls` with the same settings and of the oracle, what each chose, and every
    point of the grid, best first. An error is infinite where there is no estimate."""

    label: str
    default: float
    default_wls: float
    best: float
    best_choice: str
    default_choice: str
    seconds: float
    grid: tuple[tuple[float, str], ...]

    @property
    def ratio(self) -> float:
        return self.default / self.best


@single_threaded
def outcome(stranger: Stranger) -> Outcome:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        project = read_project(stranger.write(Path(folder)))
        grid = tuple(sorted(_grid(stranger, project)))
        try:
            default, wls, chosen = _default(stranger, project)
        except SteelyardError as refusal:
            default, wls, chosen = np.inf, np.inf, f"refused: {refusal}"
    best, choice = grid[0]
    return Outcome(stranger.case.label, default, wls, best, choice, chosen, time.perf_counter() - start, grid)


def _default(stranger: Stranger, project: Project) -> tuple[float, float, str]:
    """Errors of what `steelyard identify` finds with nothing set, and of `wls` on the same rows; what was set."""
    resolved = resolve_auto(project)
    estimator, spec = resolved.project.estimator(), resolved.project.spec.prepare
    problem = with_load(resolved.problem)
    information = observe(problem)
    result = identify(problem, estimator, information)
    try:
        wls = error_of(stranger, problem.model, identify(problem, WLS(), information).theta)
    except SteelyardError:
        wls = np.inf
    chosen = (
        f"{spec.lowpass_hz:.3g} Hz (cutoff {spec.cutoff_hz:.3g}), {len(problem.model.terms)} terms, {result.estimator}"
    )
    return error_of(stranger, problem.model, result.theta), wls, chosen


def _grid(stranger: Stranger, project: Project) -> Iterator[tuple[float, str]]:
    """(error, choice) of every point of the oracle's grid that can be identified."""
    highest = HIGHEST * stranger.case.rate_hz
    for lowpass in (x for x in GRID_HZ if x <= highest):
        filters = project.with_prepare(
            lowpass_hz=lowpass, cutoff_hz=min(CUTOFF_FACTOR * lowpass, highest), derivatives="differences",
            delay=[stranger.case.delay_s] * len(stranger.nominal.joints),
        )  # fmt: skip
        for terms in ("plain", "default"):
            yield from _fits(stranger, filters.with_spec(terms=terms), f"{lowpass:.3g} Hz, {terms}")


def _fits(stranger: Stranger, project: Project, choice: str) -> Iterator[tuple[float, str]]:
    """Errors of all estimators from one pass over the log; none where there is no estimate."""
    try:
        model = project.model()
        problem = with_load(project.problem(model, project.samples(model.robot, "identify")))
        information = observe(problem)
        for estimator in _estimators(stranger):
            result = identify(problem, estimator, information)
            yield error_of(stranger, problem.model, result.theta), f"{choice}, {estimator.name}"
    except SteelyardError:
        return


def _estimators(stranger: Stranger) -> tuple[Estimator, ...]:
    return (WLS(), MAP() if stranger.case.inertias_told else Consistent())


def error_of(stranger: Stranger, model: Model, theta: Array) -> float:
    """‖τ − Wθ‖/‖τ‖ of true torques on unseen motion; parameters without a value count as zero."""
    state, tau = stranger.truth()
    predicted = model.torque(*state, np.nan_to_num(theta), t=np.zeros(state.q.shape[1]))
    return float(np.sqrt(np.nansum((tau - predicted) ** 2) / np.nansum(tau**2)))


def _table(done: Sequence[Outcome]) -> Table:
    table = Table(
        "case", "defaults", "defaults, wls", "oracle", "ratio", "oracle's choice", "choice of the defaults", "s"
    )
    for one in done:
        numbers = f"{one.default:.2%}", f"{one.default_wls:.2%}", f"{one.best:.2%}", f"{one.ratio:.2f}"
        style = "" if one.ratio <= NEAR else "yellow" if one.ratio <= FAR else "red"
        table.add_row(one.label, *numbers, one.best_choice, one.default_choice, f"{one.seconds:.0f}", style=style)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", type=int, metavar="K")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    people = Console(stderr=True, width=170)
    if not ZOO.is_dir():
        people.print(
            f"The robot files are not here ({ZOO.parent.name}/{ZOO.name} next to the project): nothing to measure."
        )
        return
    cases = strangers(asked.count, asked.seed)
    if asked.only is not None:
        cases = [cases[asked.only]]
    elif asked.quick:
        cases = cases[:: max(1, asked.count // QUICK)][:QUICK]
    with ProcessPoolExecutor(asked.processes) as pool:
        done = list(track(pool.map(outcome, cases), "strangers", len(cases), console=people))
    people.print(_table(done))
    ratios = np.array([one.ratio for one in done])
    near = float(np.mean(ratios <= NEAR))
    people.print(
        f"{near:.0%} of {len(done)} cases within {NEAR:g} of the oracle (goal: 90 %); median ratio "
        f"{np.median(ratios):.2f}, largest {ratios.max():.2f} (goal: {FAR:g}); with wls: median ratio "
        f"{np.median([one.default_wls / one.best for one in done]):.2f}"
    )
    if asked.json:
        figures = [
            asdict(one) | {"ratio": one.ratio, "case": asdict(s.case)} for one, s in zip(done, cases, strict=True)
        ]
        print(json.dumps({"schema": "steelyard.generalise/1", "seed": asked.seed, "cases": figures}, indent=1))
    sys.exit(0 if near >= 0.9 and ratios.max() <= FAR else 1)


if __name__ == "__main__":
    main()
