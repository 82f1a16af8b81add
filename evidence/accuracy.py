"""Accuracy on real robots: sets of terms, present and former defaults, and what a fit promises on other motion.

`make accuracy` runs it on the recordings in ../shared/data. Every setting is a default: examples/accuracy/*.toml give a
robot, a channel map and logs.

Terms: error on rows left out with plain terms, the default set, and selected terms, by the estimator of the project:
the default, `auto`, except for the KR300, whose project states `map`. The scored fold, and rows less than three periods
of the parallel filter away from it, are not used in its own fit: parameters, delays, the load of the gears and selected
terms come from the other folds; only cut-offs and the kind of derivatives come from all of the training data. Filtered:
rows after the parallel filter. Raw: every sample, effort as measured. Both on moving rows.

Defaults (evidence/defaults_compared.py): present and former defaults in one common band and on the raw effort, fitted,
guarded and unseen; the KR300 with nothing set by hand and with `map` and `wls` stated; promised and actual error of
left-out runs of the UR10e; the time of the automatic settings.

--only NAME runs one robot; --part terms|defaults one of the two; --json prints the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from defaults_compared import (
    PROMISE,
    SETTLING,
    by_hand,
    compared,
    hand_table,
    joint_table,
    kept_promises,
    promise_table,
    settling,
    total_table,
)
from real_sets import DATA, PROJECTS
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from steelyard import Problem, Samples, identify, observe, read_project
from steelyard.estimators import Estimator
from steelyard.identification.delays import at_delays, effort_shifts, estimate_delays
from steelyard.identification.first_fit import with_load, without_load
from steelyard.identification.term_selection import candidate_terms, independent_runs, select_terms, with_terms
from steelyard.model.model import Model
from steelyard.model.terms import named_terms, plain_terms
from steelyard.project.automatic import resolve_auto
from steelyard.regression.folds import guard_seconds
from steelyard.regression.information import Information
from steelyard.regression.outliers import block_seconds
from steelyard.validation import validate

BLOCKS = 12
# Nothing set by hand is as good as an estimator chosen by hand within this ratio.
AS_GOOD = 1.02


class Case(NamedTuple):
    """A robot, its folds, the cycles of its gears where they are known, and the bars [%] for the default set and the
    selected terms; `forward` is the bar from the first run to the second."""

    name: str
    folds: int | Literal["runs"]
    bar: float
    forward: float | None = None
    selected: float | None = None
    cycles: float | None = None


CASES = (
    # strain-wave gears of 1:101 mesh twice a turn of the motor
    Case("ur10e", "runs", 2.55, selected=2.45, cycles=202.0),
    Case("tx40", BLOCKS, 4.2),
    Case("kr300", BLOCKS, 3.35, forward=4.0),
    Case("cobot6", BLOCKS, 3.8),
    Case("panda", BLOCKS, 1.25),
)


class Part(NamedTuple):
    """Runs to fit, and the runs (cut to their windows) to score."""

    fitted: Sequence[Samples]
    scored: Sequence[Samples]


class Errors(NamedTuple):
    """Relative errors over all parts [fractions] and the filtered rows behind them."""

    filtered: float
    raw: float
    rows: int


def parts(problem: Problem, folds: int | Literal["runs"]) -> Iterator[Part]:
    """Runs left out in turn, or stretches of time: then the fitted runs keep what lies before and after."""
    if folds == "runs":
        for run in problem.runs:
            yield Part([other for other in problem.runs if other is not run], [run])
        return
    shifts = effort_shifts(problem)
    information = observe(without_load(problem), shifts=shifts)
    for times in information.clusters(folds):
        (name,) = {time[0] for time in times}
        run = next(run for run in problem.runs if run.name == name)
        rows = information.block_rows[name]
        ends = [block_seconds(problem, run, time[2], rows, max(shifts)) for time in (times[0], times[-1])]
        yield Part(problem.runs, [cut(run, ends[0][0], ends[1][1])])


def cut(run: Samples, first: float, last: float) -> Samples:
    """The run with a window of seconds."""
    stretches = [
        s._replace(
            window=(
                max(s.window[0], int(np.ceil((first - s.start) * run.rate))),
                min(s.window[1], max(int(np.floor((last - s.start) * run.rate)) + 1, 0)),
            )
        )
        for s in run.stretches
    ]
    return replace(run, stretches=tuple(stretches))


def unseen(information: Information, problem: Problem, part: Part, furthest: float) -> Information:
    """The information, observed with shifts up to `furthest` [s], without the blocks that the part scores and those
    less than three periods of the parallel filter away from them."""
    guard = guard_seconds(problem.lowpass_hz)
    scored = {run.name: (run.used[0] - guard, run.used[1] + guard) for run in part.scored}
    out = set()
    for time_block in information.times:
        if time_block[0] in scored:
            run = next(run for run in problem.runs if run.name == time_block[0])
            rows = information.block_rows[time_block[0]]
            low, high = block_seconds(problem, run, time_block[2], rows, furthest)
            if low < scored[run.name][1] and high > scored[run.name][0]:
                out.add(time_block)
    return information.at([time_block for time_block in information.times if time_block not in out])


def scored(problem: Problem, estimator: Estimator, part: Part) -> tuple[np.ndarray, np.ndarray, int]:
    """Squared errors and efforts (filtered, raw) of one part, fitted to the rest; and its filtered rows."""
    fitted = problem.with_runs(part.fitted)
    shifts = effort_shifts(problem)
    fitted = with_load(fitted, seen=lambda every: unseen(every, fitted, part, 0.0))
    seen = unseen(observe(fitted, shifts=shifts), fitted, part, max(shifts))
    late = estimate_delays(fitted, seen).correction
    fitted = replace(fitted, delay=late)
    result = identify(fitted, estimator, at_delays(seen, shifts, late))
    judged = validate(result, fitted, part.scored)
    errors, efforts = [], []
    for score in (judged.filtered, judged.raw):
        error = score.rmse["total"] ** 2 * score.rows["total"]
        errors.append(error)
        efforts.append(error / score.relative_error["total"] ** 2)
    return np.array(errors), np.array(efforts), judged.filtered.rows["total"]


def summed(results: Sequence[tuple[np.ndarray, np.ndarray, int]]) -> Errors:
    error, effort = (np.sum([r[k] for r in results], axis=0) for k in (0, 1))
    filtered, raw = np.sqrt(error / effort)
    return Errors(float(filtered), float(raw), sum(r[2] for r in results))


def selected(problem: Problem, case: Case, part: Part) -> Problem:
    """The problem with the terms that the runs to fit choose."""
    inner = select_terms(with_load(problem.with_runs(part.fitted)), candidate_terms(case.cycles))
    return with_terms(problem, inner)


def measured(case: Case, bar: Progress) -> dict[str, object]:
    """Every figure of a robot's line."""
    project = read_project(PROJECTS / f"{case.name}.toml")
    explicit = resolve_auto(project, delays=False)
    model, estimator = explicit.model, project.estimator()
    problem = replace(explicit.problem, rest=explicit.problem.rest_speeds.tolist())
    plain = replace(problem, model=Model(model.robot, named_terms(plain_terms(model.robot))))
    folds = list(parts(problem, case.folds))
    motions = len(independent_runs(problem.runs))
    choosing = case.selected is not None
    task = bar.add_task(case.name, total=len(folds) * (3 if choosing else 2) + (2 if case.forward else 0))

    def over(which: Problem, several: Sequence[Part], choose: bool = False) -> Errors:
        results = []
        for part in several:
            results.append(scored(selected(which, case, part) if choose else which, estimator, part))
            bar.advance(task)
        return summed(results)

    line: dict[str, object] = {
        "robot": case.name,
        "rules": [finding.message for finding in explicit.findings],
        "folds": len(folds),
        "base": over(plain, folds),
        "default": over(problem, folds),
        "motions": motions,
    }
    line["selected"] = over(problem, folds, choose=True) if choosing else None
    if case.forward is not None:
        # the second run has no say in the filters either
        alone = resolve_auto(project.with_spec(run=project.spec.run[:1]), delays=False).project
        both = alone.with_spec(run=project.spec.run)
        runs = both.samples(model.robot, "identify")
        forward = [Part(runs[:1], runs[1:])]
        ahead = both.problem(model, runs[:1])
        ahead = replace(ahead, rest=ahead.rest_speeds.tolist())
        line["forward"] = (over(replace(ahead, model=plain.model), forward), over(ahead, forward))
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[case.name for case in CASES])
    parser.add_argument("--part", choices=("terms", "defaults"))
    parser.add_argument("--json", action="store_true", help="print the figures as JSON on stdout")
    asked = parser.parse_args()
    people = Console(stderr=True, width=180)
    if not DATA.is_dir():
        people.print(f"The recordings are not here ({DATA.name} next to the project): nothing to measure.")
        return
    start = time.perf_counter()
    cases = [case for case in CASES if asked.only in (None, case.name)]
    document: dict[str, Any] = {"schema": "steelyard.accuracy/2"}
    broken: list[str] = []
    if asked.part != "defaults":
        document["terms"] = terms_part(cases, people, broken)
    if asked.part != "terms":
        document |= defaults_part([case.name for case in cases], people, broken)
    people.print(f"{time.perf_counter() - start:.0f} s; {len(broken)} bars are missed")
    for text in broken:
        people.print(f"  {text}")
    if asked.json:
        # a number of NumPy stays a number; what is none has no place here
        print(json.dumps(document, indent=1, default=float))
    sys.exit(1 if broken else 0)


def terms_part(cases: Sequence[Case], people: Console, broken: list[str]) -> list[dict[str, object]]:
    """The table of terms; missed bars are added to `broken`."""
    table = Table(
        "robot", "rows", "folds", "base terms", "default", "selected", "bar", "holds",
        title="error on rows left out, with a guard: filtered (raw)",
    )  # fmt: skip
    lines = []
    with Progress(console=people, transient=True) as bar:
        for case in cases:
            lines.append(measured(case, bar))
            missed = show(table, case, lines[-1])
            broken += [f"{case.name}: terms"] * missed
    people.print(table)
    for line in lines:
        for rule in line["rules"]:  # type: ignore[union-attr]
            people.print(f"{line['robot']}: {rule}")
    return lines


def defaults_part(robots: Sequence[str], people: Console, broken: list[str]) -> dict[str, Any]:
    """The tables of present and former defaults; missed bars are added to `broken`."""
    out: dict[str, Any] = {}
    with Progress(console=people, transient=True) as bar:
        task = bar.add_task("defaults", total=8 * len(robots) + 3)
        out["defaults"] = [compared(robot, lambda: bar.advance(task)) for robot in robots]
        out["by_hand"] = by_hand() if "kr300" in robots else []
        bar.advance(task)
        out["promises"] = kept_promises() if "ur10e" in robots else []
        bar.advance(task)
        out["settling"] = settling() if "tx40" in robots else None
    people.print(total_table(out["defaults"]))
    people.print(joint_table(out["defaults"]))
    broken += [f"{line['robot']}: {text}" for line in out["defaults"] for text in line["worse"]]
    if out["by_hand"]:
        people.print(hand_table(out["by_hand"]))
        for line in out["by_hand"]:
            nothing, hand = (line["errors"][name]["band"]["rmse"] for name in ("nothing set", "map"))
            if nothing > AS_GOOD * hand:
                broken.append(f"{line['label']}: {nothing:.3g} N·m with nothing set, {hand:.3g} with map")
    if out["promises"]:
        people.print(promise_table(out["promises"]))
        for line in out["promises"]:
            if not PROMISE[0] <= line["actual"] / line["promised"] <= PROMISE[1]:
                broken.append(f"{line['run']}: promised {line['promised']:.3g}, actual {line['actual']:.3g} N·m")
    if out["settling"]:
        taken = out["settling"]
        present, former = taken["present"] / taken["fit"], taken["former"] / taken["fit"]
        people.print(
            f"TX40: automatic settings take {taken['present']:.2f} s, {present:.1f} times the {taken['fit']:.2f} s of "
            f"a fit by wls with all settings stated (bar {SETTLING:g}; former rules: {former:.1f} times)"
        )
        if present > SETTLING:
            broken.append(f"tx40: automatic settings take {present:.1f} times a fit")
    return out


def show(table: Table, case: Case, line: dict) -> int:
    """The line's rows of the table; how many bars it misses."""

    def told(errors: Errors | None) -> str:
        return "—" if errors is None else f"{errors.filtered:.2%} ({errors.raw:.2%})"

    base, default, chosen = line["base"], line["default"], line["selected"]
    holds = [100 * default.filtered <= case.bar]
    said = f"refused, {line['motions']} motion{'s' * (line['motions'] > 1)}" if chosen is None else told(chosen)
    bars = f"{case.bar:g} %"
    if case.selected is not None:
        holds.append(100 * chosen.filtered <= case.selected)
        bars += f", selected {case.selected:g} %"
    mark = "yes" if all(holds) else "NO"
    folds = "runs" if case.folds == "runs" else "blocks"
    table.add_row(case.name, str(default.rows), f"{line['folds']} {folds}", told(base), told(default), said, bars, mark)
    if case.forward is not None:
        before, after = line["forward"]
        holds.append(100 * after.filtered <= case.forward)
        mark = "yes" if holds[-1] else "NO"
        table.add_row(
            f"{case.name} A → B",
            str(after.rows),
            "B unseen",
            told(before),
            told(after),
            "",
            f"{case.forward:g} %",
            mark,
        )
    return holds.count(False)


if __name__ == "__main__":
    main()
