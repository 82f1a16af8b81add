"""Present and former defaults on the real recordings, scored in one common band and on the raw effort.

    fitted    rows of the fit itself
    guarded   every row scored by parameters from rows of other stretches, at least 3/lowpass_hz away; filters, delays
              and the load of the gears from all rows
    unseen    other runs, or another third of the log, that had no part in any setting (real_sets.py)

A lower filter gives a lower error after that filter. So both are scored after the same low-pass (real_sets.BANDS_HZ),
on the same rows; and on the raw effort, at the samples that neither filter of the positions loses at its edges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from common_band import Fit, Span, Squares, Target
from former_defaults import resolve_former
from promise import actual_rmse, guarded_fits, promised_rmse
from real_sets import BANDS_HZ, directions, whole_project
from rich.table import Table
from transfer import HIGHEST, Trained, Transfer, by_defaults, by_former_defaults, targets_of

from steelyard.estimators import WLS
from steelyard.identification.first_fit import with_load
from steelyard.identification.identify import identify
from steelyard.project.automatic import resolve_auto
from steelyard.project.project import Project
from steelyard.regression.information import Information, Time
from steelyard.regression.observe import observe

FOLDS = 12
# The present defaults may be worse than the former ones by these fractions: in total, and on a joint with more than
# this share of the effort.
WORSE, WORSE_JOINT, SHARE = 0.02, 0.05, 0.05
# The raw effort of this robot was to become better by this fraction.
BETTER = {"panda": 0.08}
PROMISE = 0.6, 1.4
# Automatic settings may take this many times the time of a fit.
SETTLING = 5.0
RULES: dict[str, Callable[[Project], Trained]] = {"former": by_former_defaults, "present": by_defaults}
KINDS, SCALES = ("fitted", "guarded", "unseen"), ("band", "raw")


class Both(NamedTuple):
    """Squares in the common band and of the raw effort."""

    band: Squares
    raw: Squares

    @staticmethod
    def sum(several: Sequence[Both]) -> Both:
        return Both(*(Squares.sum(getattr(one, scale) for one in several) for scale in SCALES))


# --- One robot --------------------------------------------------------------------------------------------------------


def compared(robot: str, advance: Callable[[], None]) -> dict[str, Any]:
    """Errors of both rules in all kinds and scales, and which bars they miss."""
    project, names = whole_project(robot), whole_project(robot).robot().axis_names
    found = {}
    for rule, fit in RULES.items():
        found[rule] = _errors(robot, project, fit, advance)
    worse = [text for kind in KINDS[1:] for text in _worse(names, kind, found["former"][kind], found["present"][kind])]
    for kind in KINDS[1:]:
        gain = 1.0 - found["present"][kind].raw.rmse / found["former"][kind].raw.rmse
        if gain < BETTER.get(robot, -np.inf):
            worse.append(f"{kind}, raw effort: better by {gain:.1%}, to be {BETTER[robot]:.0%}")
    return {
        "robot": robot,
        "band_hz": BANDS_HZ[robot],
        "joints": list(names),
        **{
            rule: {kind: {scale: getattr(both, scale).document() for scale in SCALES} for kind, both in kinds.items()}
            for rule, kinds in found.items()
        },
        "worse": worse,
    }


def _errors(
    robot: str, project: Project, fit: Callable[[Project], Trained], advance: Callable[[], None]
) -> dict[str, Both]:
    whole = fit(project)
    rate = min(run.rate for run in whole.problem.runs)
    targets = targets_of(project, BANDS_HZ[robot], "identify", HIGHEST * rate)
    fitted = [_scored(target, whole, whole.fit) for target in targets]
    advance()
    guarded = []
    for left_out, theta in guarded_fits(whole, whole.information.clusters(FOLDS)):
        span = _span(whole.information, left_out)
        target = next(one for one in targets if one.run.name == span[0])
        guarded.append(_scored(target, whole, whole.fit._replace(theta=theta), span))
    advance()
    unseen = []
    for direction in directions(robot):
        trained = fit(direction.project)
        transfer = Transfer(direction.project, direction.band_hz, trained.problem.delay)
        unseen.append(Both(transfer.squares(trained.fit), transfer.raw_squares(trained)))
        advance()
    return dict(zip(KINDS, map(Both.sum, (fitted, guarded, unseen)), strict=True))


def _scored(target: Target, whole: Trained, fit: Fit, span: Span | None = None) -> Both:
    own = next(run for run in whole.problem.runs if run.name == target.run.name)
    return Both(target.band(fit, span), target.raw(fit, own, span))


def _span(information: Information, times: Sequence[Time]) -> Span:
    """From the first of the blocks to the block after the last [s]; the ends of a run belong to its outer blocks."""
    (run, load, first), last = times[0], times[-1][2]
    starts = information.starts
    start = starts[times[0]] if (run, load, first - 1) in starts else -np.inf
    return run, start, starts.get((run, load, last + 1), np.inf)


def _worse(names: Sequence[str], kind: str, former: Both, present: Both) -> Iterator[str]:
    """Where the present rule is worse than it may be."""
    for scale in SCALES:
        before, now = getattr(former, scale), getattr(present, scale)
        where = f"{kind}, {'common band' if scale == 'band' else 'raw effort'}"
        if now.rmse > (1.0 + WORSE) * before.rmse:
            yield f"{where}: in total {now.rmse / before.rmse - 1.0:+.1%}"
        share = now.effort / now.effort.sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            change = np.sqrt(now.error / before.error) - 1.0
        for j in map(int, np.flatnonzero((share > SHARE) & (change > WORSE_JOINT))):
            yield f"{where}: {names[j]} {change[j]:+.1%} ({share[j]:.0%} of the effort)"


# --- KR300, promises, time --------------------------------------------------------------------------------------------


def by_hand(robot: str = "kr300") -> list[dict[str, Any]]:
    """Both directions with nothing set, with `map` and with `wls` stated, and with the former defaults."""
    lines = []
    for direction in directions(robot):
        project = direction.project
        fits = {
            "nothing set": by_defaults(project),
            "map": by_defaults(project.with_estimator("map")),
            "wls": by_defaults(project.with_estimator("wls")),
            "former defaults": by_former_defaults(project),
        }
        transfer = Transfer(project, direction.band_hz, ())
        errors = {
            name: Both(transfer.squares(fit.fit), transfer.raw_squares(fit))._asdict() for name, fit in fits.items()
        }
        scored = {name: {scale: one[scale].document() for scale in SCALES} for name, one in errors.items()}
        lines.append({"label": f"{robot} {direction.label}", "band_hz": direction.band_hz, "errors": scored})
    return lines


def kept_promises(robot: str = "ur10e") -> list[dict[str, Any]]:
    """Promised and actual RMSE [N·m] of every run, left out of settings and fit."""
    project = whole_project(robot)
    lines = []
    for left in project.spec.run:
        runs = [run if run is not left else msgspec.structs.replace(run, role="validate") for run in project.spec.run]
        fitted = by_defaults(project.with_spec(run=runs))
        actual = actual_rmse(fitted, fitted.project.samples(fitted.problem.model.robot, "validate"))
        lines.append({"run": left.log.rpartition("/")[2], "promised": promised_rmse(fitted), "actual": actual})
    return lines


def settling(robot: str = "tx40", repeats: int = 3) -> dict[str, float]:
    """Least time [s] of the automatic settings, of the former ones, and of a fit by wls with all settings stated."""
    resolved = resolve_auto(whole_project(robot))

    def fit() -> None:
        stated = whole_project(robot).with_spec(
            terms=resolved.project.spec.terms, prepare=resolved.project.spec.prepare
        )
        model = stated.model()
        problem = with_load(stated.problem(model, stated.samples(model.robot, "identify")))
        identify(problem, WLS(), observe(problem))

    return {
        "fit": _least(fit, repeats),
        "present": _least(lambda: resolve_auto(whole_project(robot)), repeats),
        "former": _least(lambda: resolve_former(whole_project(robot)), repeats),
    }


def _least(work: Callable[[], Any], repeats: int) -> float:
    taken = []
    for _ in range(repeats + 1):  # the first one warms up
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


# --- Tables -----------------------------------------------------------------------------------------------------------


def _error(document: dict[str, Any]) -> str:
    return f"{document['rmse']:.3g} N·m, {document['relative']:.2%}"


def total_table(lines: Sequence[dict[str, Any]]) -> Table:
    table = Table("robot", "effort", "defaults", *KINDS, title="present and former defaults: RMSE and relative error")
    for line in lines:
        for scale in SCALES:
            effort = f"below {line['band_hz']:g} Hz" if scale == "band" else "raw"
            for rule in RULES:
                table.add_row(line["robot"], effort, rule, *(_error(line[rule][kind][scale]) for kind in KINDS))
    return table


def joint_table(lines: Sequence[dict[str, Any]]) -> Table:
    """Per joint: share of the effort, and former → present RMSE [N·m]."""
    titles = [f"{kind}, {scale}" for kind in KINDS[1:] for scale in SCALES]
    table = Table("robot", "joint", "share", *titles, title="per joint: former → present RMSE [N·m]")
    for line in lines:
        for j, joint in enumerate(line["joints"]):
            cells = []
            for kind in KINDS[1:]:
                for scale in SCALES:
                    before, now = (line[rule][kind][scale]["joints"]["rmse"][j] for rule in RULES)
                    cells.append(f"{before:.3g} → {now:.3g} ({now / before - 1.0:+.1%})")
            share = line["present"]["unseen"]["band"]["joints"]["share"][j]
            table.add_row(line["robot"], joint, f"{share:.1%}", *cells, style="" if share > SHARE else "dim")
    return table


def hand_table(lines: Sequence[dict[str, Any]]) -> Table:
    table = Table("transfer", "effort", *lines[0]["errors"], title="nothing set by hand, and set by hand")
    for line in lines:
        for scale in SCALES:
            effort = f"below {line['band_hz']:g} Hz" if scale == "band" else "raw"
            table.add_row(line["label"], effort, *(_error(errors[scale]) for errors in line["errors"].values()))
    return table


def promise_table(lines: Sequence[dict[str, Any]]) -> Table:
    table = Table(
        "left-out run", "promised", "actual", "actual / promised", title="RMSE promised by guarded folds [N·m]"
    )
    for line in lines:
        kept = line["actual"] / line["promised"]
        style = "" if PROMISE[0] <= kept <= PROMISE[1] else "yellow"
        table.add_row(line["run"], f"{line['promised']:.3g}", f"{line['actual']:.3g}", f"{kept:.2f}", style=style)
    return table
