"""Default settings on robots not used in tuning: error on unseen motion, relative to the best choice of an oracle.

`make generalise` runs it on simulated robots (evidence/strangers.py) drawn from a seed, and on the real recordings of
../shared/data (evidence/real_sets.py). Two measures:

    true   ‖τ − Wθ̂‖/‖τ‖ of true torques of an unseen motion at exact states, moving rows; simulated robots only
    band   ‖y − ŷ‖/‖y‖ of the measured effort of an unseen log, effort and prediction after one low-pass for all
           competitors: 3 times the motion's own band for a simulated robot, with at least 9 periods in its log, and a
           fixed frequency for a real one

Competitors: the defaults; the defaults with `wls` (same filters, terms and delays); the former defaults
(evidence/former_defaults.py); and two oracles that see the measure (evidence/transfer.py: grid, terms, estimator).
Promised: the error on other motion that guarded folds of the fitted log promise, next to the actual one
(evidence/promise.py).

--seed N: other cases. --count N: how many. --quick: a few of them. --only FIRST STOP: these
cases. --kept FOLDER: keep the grids of the oracles there, which no rule changes, and compute none again. --filters:
without the oracle "all", in a quarter of the time. --constants: figures of every constant of the rules with a whole
robot left out (evidence/constants.py). --json: figures on stdout.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from common_band import Fit
from constants import Tried, check_names, errors_by_constant, leave_one_robot_out
from promise import actual_rmse, promised_rmse
from real_sets import BANDS_HZ, DATA, Direction, directions
from rich.console import Console
from rich.progress import track
from rich.table import Table
from strangers import ZOO, Stranger, strangers
from transfer import (
    HIGHEST,
    ORACLES,
    REFUSED,
    Errors,
    Point,
    Trained,
    Transfer,
    by_defaults,
    by_former_defaults,
    oracle,
    with_delay,
)

from steelyard._arrays import single_threaded
from steelyard.errors import SteelyardError
from steelyard.estimators import WLS
from steelyard.project.project import read_project

# Committed before any rule of the automatic settings was changed for these cases.
SEED, COUNT, QUICK = 20261118, 40, 6
# Drawn and committed before it was run, and run once, with the rules as they were then.
SECOND = 240741
BAND_FACTOR = 3.0
# A log with fewer periods of the band than this would lose nearly all rows at its ends.
LEAST_PERIODS = 9.0
# A case counts as near within the first ratio to the oracle's error; none should lie beyond the second.
NEAR, FAR, SHARE = 1.10, 1.30, 0.9
# Bounds of actual over promised error.
PROMISE = 0.6, 1.4


Grid = tuple[Point, ...]
COMPETITORS = ("default", "default_wls", "known_delay", "former")


@dataclass(frozen=True)
class Outcome:
    """A case: errors of every competitor, what each chose, promised and actual error [N·m | N], the oracles' grid, and
    errors by candidate of every constant if asked for. `known_delay`: the defaults with the delay of the oracles."""

    label: str
    robot: str
    real: bool
    band_hz: float
    default: Errors
    default_wls: Errors
    known_delay: Errors
    former: Errors
    estimator: str
    chosen: str
    former_chosen: str
    promised: float
    actual: float
    grid: tuple[Point, ...]
    oracles: tuple[str, ...]
    constants: dict[str, tuple[float, ...]] | None
    seconds: float

    def oracle(self, which: str, measure: str) -> Point:
        return oracle(self.grid, which, measure, self.estimator)

    def ratio(self, which: str, measure: str, of: str = "default") -> float:
        """Error of a competitor over that of an oracle."""
        return getattr(getattr(self, of), measure) / getattr(self.oracle(which, measure).errors, measure)

    def other_measure(self, measure: str) -> float:
        """Error of the filters that are best by the other measure, over the oracle's; NaN for a real robot."""
        other = self.oracle("filters", "band" if measure == "true" else "true")
        return (
            np.nan
            if self.real
            else getattr(other.errors, measure) / getattr(self.oracle("filters", measure).errors, measure)
        )

    @property
    def kept_promise(self) -> float:
        """Actual over promised error."""
        return self.actual / self.promised

    def document(self) -> dict[str, Any]:
        measures = ("band",) if self.real else ("true", "band")
        best = {which: {m: self.oracle(which, m)._asdict() for m in measures} for which in self.oracles}
        ratios = {which: {m: self.ratio(which, m) for m in measures} for which in self.oracles}
        errors = {name: getattr(self, name)._asdict() for name in COMPETITORS}
        grid = [point._asdict() | {"errors": point.errors._asdict()} for point in self.grid]
        for points in best.values():
            for point in points.values():
                point["errors"] = point["errors"]._asdict()
        return asdict(self) | errors | {"oracles": best, "ratios": ratios, "grid": grid}


@single_threaded
def outcome_of_stranger(
    stranger: Stranger, constants: bool = False, oracles: tuple[str, ...] = tuple(ORACLES), grid: Grid | None = None
) -> Outcome:
    case = stranger.case
    warnings.filterwarnings("ignore", message="Gimbal lock")  # a robot file written with one of its equal angles
    with tempfile.TemporaryDirectory() as folder:
        project = read_project(stranger.write(Path(folder)))
        band = max(BAND_FACTOR * case.band_hz, LEAST_PERIODS / case.seconds)
        band = min(band, 0.9 * HIGHEST * case.rate_hz)
        delay = [case.delay_s] * len(stranger.nominal.joints)
        transfer = Transfer(project, band, delay, partial(error_of, stranger), oracles)
        return _outcome(case.label, case.robot, False, transfer, constants, grid)


@single_threaded
def outcome_of_direction(
    direction: Direction, constants: bool = False, oracles: tuple[str, ...] = tuple(ORACLES), grid: Grid | None = None
) -> Outcome:
    project = direction.project
    try:
        delay = by_defaults(project).problem.delay
    except SteelyardError:
        delay = [0.0] * project.robot().dof
    transfer = Transfer(project, direction.band_hz, delay, None, oracles)
    return _outcome(f"{direction.robot} {direction.label}", f"real {direction.robot}", True, transfer, constants, grid)


def outcome(
    case: Stranger | Direction,
    constants: bool = False,
    oracles: tuple[str, ...] = tuple(ORACLES),
    kept: Path | None = None,
) -> Outcome:
    """The outcome of a case; the oracles' grid is read from the folder `kept` if it was computed before, else written
    there. A grid does not depend on the rules that are judged, but for the terms and the estimator of the defaults."""
    label = f"{case.seed} {case.case.label}" if isinstance(case, Stranger) else f"{case.robot} {case.label}"
    file = None if kept is None else kept / f"{label} {' '.join(oracles)}.json".replace("/", "-")
    grid = None
    if file is not None and file.exists():
        grid = msgspec.convert(json.loads(file.read_text("utf-8"))["grid"], Grid)
    if isinstance(case, Stranger):
        found = outcome_of_stranger(case, constants, oracles, grid)
    else:
        found = outcome_of_direction(case, constants, oracles, grid)
    if file is not None and grid is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"grid": msgspec.to_builtins(found.grid)}, default=float), "utf-8")
    return found


def _outcome(label: str, robot: str, real: bool, transfer: Transfer, constants: bool, kept: Grid | None) -> Outcome:
    start = time.perf_counter()
    grid = kept or tuple(transfer.grid())
    default, wls, known, promised, actual, chosen = REFUSED, REFUSED, REFUSED, np.nan, np.nan, ""
    try:
        fitted = by_defaults(transfer.project)
        default, chosen = transfer.errors(fitted, raw=True), fitted.settings
        promised, actual = promised_rmse(fitted), actual_rmse(fitted, _unseen(fitted))
        wls = transfer.errors(fitted.with_estimator(WLS()), raw=True)
        known = transfer.errors(with_delay(fitted, transfer.delay), raw=True)
    except SteelyardError as refusal:
        chosen = chosen or f"refused: {refusal}"
    try:
        before = by_former_defaults(transfer.project)
        former, former_chosen = transfer.errors(before, raw=True), before.settings
    except SteelyardError as refusal:
        former, former_chosen = REFUSED, f"refused: {refusal}"
    tried = errors_by_constant(transfer) if constants else None
    return Outcome(
        label, robot, real, transfer.band_hz, default, wls, known, former, transfer.project.estimator().name, chosen,
        former_chosen, promised, actual, grid, transfer.oracles, tried, time.perf_counter() - start,
    )  # fmt: skip


def _unseen(fitted: Trained) -> Sequence[Any]:
    return fitted.project.samples(fitted.problem.model.robot, "validate")


def error_of(stranger: Stranger, fit: Fit) -> float:
    """‖τ − Wθ‖/‖τ‖ of true torques on unseen motion; parameters without a value count as zero."""
    state, tau = stranger.truth()
    predicted = fit.model.torque(state.q, state.v, state.a, np.nan_to_num(fit.theta), t=np.zeros(state.q.shape[1]))
    return float(np.sqrt(np.nansum((tau - predicted) ** 2) / np.nansum(tau**2)))


# --- Tables -----------------------------------------------------------------------------------------------------------


def table(done: Sequence[Outcome], measure: str, title: str) -> Table:
    shown = done[0].oracles
    out = Table(
        "case", "band", "defaults", "wls", "former", *shown, *(f"ratio, {name}" for name in shown), "delay known",
        f"former, {shown[-1]}", "best", "chosen by the defaults", "former", "s", title=title,
    )  # fmt: skip
    for one in done:
        errors = [getattr(x, measure) for x in (one.default, one.default_wls, one.former)]
        errors += [getattr(one.oracle(which, measure).errors, measure) for which in one.oracles]
        ratios = [one.ratio(which, measure) for which in one.oracles]
        others = one.ratio("filters", measure, "known_delay"), one.ratio(one.oracles[-1], measure, "former")
        cells = [f"{x:.2%}" for x in errors] + [f"{x:.2f}" for x in (*ratios, *others)]
        style = "" if ratios[0] <= NEAR else "yellow" if ratios[0] <= FAR else "red"
        choices = one.oracle(one.oracles[-1], measure).choice, one.chosen, one.former_chosen
        out.add_row(one.label, f"{one.band_hz:.3g} Hz", *cells, *choices, f"{one.seconds:.0f}", style=style)
    return out


def promises(done: Sequence[Outcome]) -> Table:
    out = Table(
        "case", "promised", "actual", "actual / promised", title="RMSE on other motion, rows of the fit [N·m | N]"
    )
    for one in done:
        style = "" if PROMISE[0] <= one.kept_promise <= PROMISE[1] else "yellow"
        out.add_row(one.label, f"{one.promised:.3g}", f"{one.actual:.3g}", f"{one.kept_promise:.2f}", style=style)
    return out


def summary(done: Sequence[Outcome], measure: str) -> dict[str, dict[str, float]]:
    """Share within NEAR of each oracle, median and largest ratio, for the defaults and the others.

    A case that could not be scored is not near, and has no part in the other two. "other_measure": the filters that are
    best by the other measure of the same case, as somebody would choose them who knew that.
    """
    found = {
        f"{of} over {which}": [one.ratio(which, measure, of) for one in done]
        for which in done[0].oracles
        for of in COMPETITORS
    }
    if not done[0].real:
        found["other_measure over filters"] = [one.other_measure(measure) for one in done]
    return {
        name: {
            "near": float(np.mean(np.array(ratios) <= NEAR)),
            "median": float(np.nanmedian(ratios)),
            "largest": float(np.nanmax(ratios)),
        }
        for name, ratios in found.items()
    }


def _shown(figures: dict[str, dict[str, float]], title: str) -> Table:
    out = Table("ratio", f"within {NEAR:g} (goal {SHARE:.0%})", "median", f"largest (goal {FAR:g})", title=title)
    for name, one in figures.items():
        cells = f"{one['near']:.0%}", f"{one['median']:.2f}", f"{one['largest']:.2f}"
        out.add_row(name.replace("_", ", "), *cells)
    return out


def _constants_table(left_out: Sequence[Any]) -> Table:
    rows = [one.summary() for one in left_out]
    out = Table(
        *rows[0], title="constants of the rules: ratio to the filters oracle in the common band, robot left out"
    )
    for row in rows:
        out.add_row(*row.values())
    return out


# --- Command ----------------------------------------------------------------------------------------------------------


def cases_of(asked: argparse.Namespace, people: Console) -> list[Stranger | Direction]:
    cases: list[Stranger | Direction] = []
    if ZOO.is_dir():
        drawn = strangers(asked.count, asked.seed)
        cases += drawn[:: max(1, asked.count // QUICK)][:QUICK] if asked.quick else drawn
    else:
        people.print(f"The robot files are not here ({ZOO.parent.name}/{ZOO.name} next to the project).")
    if DATA.is_dir():
        robots = ("kr300",) if asked.quick else BANDS_HZ
        cases += [direction for robot in robots for direction in directions(robot)]
    else:
        people.print(f"The recordings are not here ({DATA.name} next to the project).")
    return cases if asked.only is None else cases[slice(*asked.only)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", type=int, nargs=2, metavar=("FIRST", "STOP"))
    parser.add_argument("--kept", type=Path, metavar="FOLDER")
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--filters", action="store_true", help="only the oracle 'filters'")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    people = Console(stderr=True, width=220)
    start = time.perf_counter()
    if asked.constants:
        check_names()
    cases = cases_of(asked, people)
    if not cases:
        return
    with ProcessPoolExecutor(asked.processes) as pool:
        oracles = ("filters",) if asked.filters else tuple(ORACLES)
        found = pool.map(partial(outcome, constants=asked.constants, oracles=oracles, kept=asked.kept), cases)
        done = list(track(found, "robots", len(cases), console=people))
    simulated, real = [one for one in done if not one.real], [one for one in done if one.real]
    parts = (
        (simulated, "true", "simulated robots, seed {}: error against true torques of unseen motion"),
        (simulated, "band", "simulated robots, seed {}: error against the measured unseen effort, common band"),
        (real, "band", "real robots: error against the measured unseen effort, common band"),
    )
    for name in oracles:
        people.print(f"oracle '{name}': {ORACLES[name]}")
    figures = {}
    for several, measure, title in parts:
        if several:
            people.print(table(several, measure, title.format(asked.seed)))
            figures[f"{'real' if several is real else 'simulated'} {measure}"] = summary(several, measure)
    people.print(promises(done))
    for name, one in figures.items():
        people.print(_shown(one, name))
    kept = np.array([one.kept_promise for one in done])
    share = float(np.mean((kept >= PROMISE[0]) & (kept <= PROMISE[1])))
    people.print(
        f"actual / promised error within {PROMISE[0]:g} … {PROMISE[1]:g} in {share:.0%} of {len(done)} cases (goal "
        f"{SHARE:.0%}); median {np.nanmedian(kept):.2f}, from {np.nanmin(kept):.2f} to {np.nanmax(kept):.2f}"
    )
    left_out = []
    if asked.constants:
        tried = [
            Tried(one.robot, one.oracle("filters", "band").errors.band, one.constants)
            for one in done
            if one.constants is not None and np.isfinite(one.oracle("filters", "band").errors.band)
        ]
        left_out = list(leave_one_robot_out(tried))
        people.print(_constants_table(left_out))
    people.print(f"{time.perf_counter() - start:.0f} s")
    if asked.json:
        document = {
            "schema": "steelyard.generalise/2", "seed": asked.seed, "oracles": ORACLES, "summary": figures,
            "promise": {"share": share, "median": float(np.nanmedian(kept))},
            "constants": [asdict(one) for one in left_out],
            "cases": [
                one.document() | ({"case": asdict(case.case)} if isinstance(case, Stranger) else {})
                for one, case in zip(done, cases, strict=True)
            ],
        }  # fmt: skip
        print(json.dumps(document, indent=1, default=float))
    reached = [one["default over filters"] for one in figures.values()]
    sys.exit(0 if all(one["near"] >= SHARE and one["largest"] <= FAR for one in reached) else 1)


if __name__ == "__main__":
    main()
