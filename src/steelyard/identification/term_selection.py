"""Selection of friction terms per joint, by leaving motions out: the candidates, their improvement, and the choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from steelyard._arrays import Array, single_threaded
from steelyard.estimators.least_squares import joint_deviations
from steelyard.findings import Finding
from steelyard.identification.first_fit import with_load
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Offer, Term, on_joints
from steelyard.model.terms.registry import offered_terms
from steelyard.regression.folds import GuardedFold, guarded_folds
from steelyard.regression.information import Information, Time
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples, same_log

# With fewer independent runs it cannot be decided whether a term transfers to other motions.
FEWEST_RUNS = 5
# A stretch and its guard may be at most this fraction of the rows: the others must determine the parameters.
_LARGEST_FOLD = 0.5
# A term is taken when the joint's error falls by this fraction, ...
LEAST_GAIN = 0.01
# ... by more than one standard error of the folds' improvements, and in this fraction of the folds.
LEAST_FOLDS = 0.7
_ROUNDS = 3
# Runs whose ranges of all joints agree within this fraction of the travel are repetitions of one motion.
_SAME_MOTION = 0.01


@dataclass(frozen=True)
class TermTrial:
    """Improvement by a term at a joint: its error without and with the term, over motions left out.

    gain     1 − with / without
    std      standard error of the gain over the folds
    folds    fraction of the folds that improved
    verdict  "kept", "dropped", "taken", "refused" or "placebo refused"; a placebo that passes is "placebo passed"
    """

    joint: str
    label: str
    without: float
    including: float
    gain: float
    std: float
    folds: float
    verdict: str


@dataclass(frozen=True)
class Selection:
    """The chosen terms, each with its joints, and every trial made.

    `folds` are the runs of each fold, or the name of each stretch of time if `guard` [s] is not None: a fit leaves out
    the rows that are closer than this to the stretch. `refused` says why nothing was chosen (too few independent runs,
    or too short for stretches); then `terms` are those of the problem.
    """

    terms: tuple[Term, ...]
    trials: tuple[TermTrial, ...]
    folds: tuple[tuple[str, ...], ...]
    refused: str | None = None
    guard: float | None = None

    @property
    def placebos_passed(self) -> tuple[TermTrial, ...]:
        return tuple(trial for trial in self.trials if trial.verdict == "placebo passed")

    def findings(self) -> tuple[Finding, ...]:
        if self.refused is not None:
            return (Finding("no-selection", "info", self.refused, fix="record more motions, each in its own [[run]]"),)
        told = [f"{t.label} on {t.joint} ({t.gain:+.1%})" for t in self.trials if t.verdict == "taken"]
        gone = [f"{t.label} on {t.joint}" for t in self.trials if t.verdict == "dropped"]
        what, fix = f"{len(self.folds)} motions", ""
        if self.guard is not None:
            what = f"{len(self.folds)} stretches of time"
            fix = "score the result on other motion (steelyard validate)"
        message = (
            f"terms selected by cross-validation over {what}: added {', '.join(told) or 'none'}; "
            f"removed {', '.join(gone) or 'none'}"
        )
        return (Finding("selected-terms", "info", message, fix=fix),)


def candidate_terms(cycles: Sequence[float] | float | None = None) -> tuple[Offer, ...]:
    """What is offered in addition to the default set: other forms of friction, those of registered terms included, and
    ripple where the gears' cycles per joint turn are known.

    Time has a placebo (the same clock, shuffled), and so has ripple (a frequency that no gear has).
    """
    return offered_terms(cycles)


def independent_runs(runs: Sequence[Samples]) -> tuple[tuple[str, ...], ...]:
    """Names of the runs grouped by motion: a repeated motion, or a file cut in pieces, is one fold and not several."""
    groups: list[list[Samples]] = []
    for run in runs:
        for group in groups:
            if any(same_motion(run, other) for other in group):
                group.append(run)
                break
        else:
            groups.append([run])
    return tuple(tuple(run.name for run in group) for group in groups)


def same_motion(one: Samples, other: Samples) -> bool:
    """Whether two runs are of one log, or their ranges of all joints agree within 1 % of the travel."""
    if same_log(one, other):
        return True
    travel = np.maximum(one.travel, other.travel)
    apart = np.maximum(np.abs(one.lowest - other.lowest), np.abs(one.highest - other.highest))
    return bool(np.all(apart <= _SAME_MOTION * np.maximum(travel, 1e-9)))


@single_threaded
def select_terms(
    problem: Problem,
    offered: Sequence[Offer],
    droppable: Sequence[str] = ("power-law", "load", "bearing", "dahl"),
    blocks: int | None = None,
    progress: Progress | None = None,
) -> Selection:
    """Choose terms for every joint by the errors of motions left out, from one pass with all candidate columns.

    First the droppable terms of the problem's model whose removal lowers a joint's error are dropped there. Then, up to
    three times, the candidate that helps a joint most is taken if its error falls by 1 %, by more than one standard
    error, in 70 % of the folds, and by more than with any placebo.

    A fold is a motion with all its runs; refused with fewer than five. With `blocks` a fold is one of that number of
    stretches of time, and the fit leaves out three periods of the parallel filter on both sides of it too. This
    compares terms on one motion; it does not show that they transfer. Columns in time or position interpolate between
    stretches, so offers with a rival (drift, ripple) are then not taken; their placebos are tried as before.
    """
    groups = independent_runs(problem.runs)
    if blocks is None and len(groups) < FEWEST_RUNS:
        reason = (
            f"the default terms are used without selection: {len(groups)} independent "
            f"{'motion' if len(groups) == 1 else 'motions'} in {len(problem.runs)} runs, {FEWEST_RUNS} are needed"
        )
        return Selection(tuple(problem.model.terms), (), groups, reason)
    fresh = [offer for offer in offered if _fits(offer.term, problem.model)]
    wide = with_load(
        replace(problem, model=replace(problem.model, terms=(*problem.model.terms, *(o.term for o in fresh))))
    )
    information = observe(wide, progress=progress).without_known()
    if blocks is None:
        folds = guarded_folds(information, [[t for t in information.times if t[0] in group] for group in groups])
        return _Chooser(wide.model, problem.model.terms, information, folds).chosen(fresh, droppable, groups)
    guard = information.guard
    folds = guarded_folds(information, information.clusters(blocks))
    largest = 1.0 - min(_rows(information, fold.kept) for fold in folds) / max(_rows(information, information.times), 1)
    if len(folds) < FEWEST_RUNS or largest > _LARGEST_FOLD:
        reason = (
            f"the default terms are used without selection: the log is too short to leave out stretches of time "
            f"({len(folds)} stretches, with a guard of {guard:.2g} s up to {largest:.0%} of the rows)"
        )
        return Selection(tuple(problem.model.terms), (), groups, reason)
    names = tuple((f"{fold.scored[0][0]}, stretch {k + 1}",) for k, fold in enumerate(folds))
    chosen = _Chooser(wide.model, problem.model.terms, information, folds).chosen(
        [offer for offer in fresh if offer.rival is None], droppable, names
    )
    return replace(chosen, guard=guard)


def _rows(information: Information, times: Sequence[Time]) -> int:
    chosen = set(times)
    return sum(triangle.rows for key, triangle in information.blocks.items() if key[:3] in chosen)


class _Chooser:
    """Left-out errors of every joint for any subset of the columns, from Gram matrices of the folds.

    G_gj = [W_j y_j]ᵀ[W_j y_j] of the scored rows of fold g; the fit without fold g solves N_g = Σ_j w_j² K_gj, with
    K_gj of the rows that are kept. The squared condition number is harmless here: columns are scaled, and only errors
    of a per cent matter.
    """

    def __init__(
        self, model: Model, plain: Sequence[Term], information: Information, folds: Sequence[GuardedFold]
    ) -> None:
        self.model, self.plain, self.joints = model, tuple(plain), information.joints
        base = base_parameters(model)
        weights = np.nan_to_num(1.0 / joint_deviations(information, base)) ** 2
        self.scored = np.stack([_grams(information, fold.scored) for fold in folds])
        self.fitted = np.stack([np.einsum("j,jab->ab", weights, _grams(information, fold.kept)) for fold in folds])
        self.kept = np.zeros(len(information.layout), bool)
        self.kept[list(base.kept)] = True

    def columns(self, term: Term, joint: str | None = None) -> NDArray[np.int64]:
        names = {e.column.name for e in term.entries(self.model.robot) if joint is None or e.column.owner == joint}
        return np.array(sorted(self.model.layout.index(name) for name in names), np.int64)

    def errors(self, active: NDArray[np.bool_]) -> Array:
        """Squared residuals (folds, n) of rows left out, fitted with the active columns to all others."""
        used = np.flatnonzero(active & self.kept)
        place = np.append(used, len(self.kept))
        out = np.empty(self.scored.shape[:2])
        for g, (left, rest) in enumerate(zip(self.scored, self.fitted, strict=True)):
            left, rest = left[:, place[:, None], place], rest[place[:, None], place]
            scale = np.sqrt(np.maximum(np.diagonal(rest)[:-1], 1e-300))
            matrix = rest[:-1, :-1] / np.outer(scale, scale) + 1e-11 * np.eye(len(used))
            theta = cho_solve(cho_factor(matrix), rest[:-1, -1] / scale) / scale
            residual = np.append(-theta, 1.0)
            out[g] = np.maximum(np.einsum("a,jab,b->j", residual, left, residual), 0.0)
        return out

    def chosen(
        self, offered: Sequence[Offer], droppable: Sequence[str], groups: tuple[tuple[str, ...], ...]
    ) -> Selection:
        active = np.zeros(len(self.kept), bool)
        for k, column in enumerate(self.model.layout.columns):
            active[k] = column.owner not in self.joints
        for term in self.plain:
            active[self.columns(term)] = True
        trials: list[TermTrial] = []
        on: dict[int, set[str]] = {}
        for k, term in enumerate(self.plain):
            on[k] = {e.column.owner for e in term.entries(self.model.robot)}
            if term.name not in droppable:
                continue
            before = self.errors(active)
            fewer = active.copy()
            fewer[self.columns(term)] = False
            after = self.errors(fewer)
            for j, joint in enumerate(self.joints):
                own = self.columns(term, joint)
                if not len(own):
                    continue
                # with the roles exchanged: the improvement by the term compared with leaving it out
                trial = self._trial(joint, term.name, after[:, j], before[:, j])
                if trial.gain < 0.0:
                    # dropping it at all joints helped here; dropping it at this joint only must help too
                    alone = active.copy()
                    alone[own] = False
                    trial = self._trial(joint, term.name, self.errors(alone)[:, j], self.errors(active)[:, j])
                keep = trial.gain >= 0.0
                trials.append(replace(trial, verdict="kept" if keep else "dropped"))
                if not keep:
                    active[own] = False
                    on[k].discard(joint)
        taken: dict[str, set[str]] = {offer.label: set() for offer in offered}
        for _ in range(_ROUNDS):
            best = self._round(offered, active, taken, trials)
            if not best:
                break
            for offer, joint in best:
                taken[offer.label].add(joint)
                active[self.columns(offer.term, joint)] = True
        robot = self.model.robot
        terms = [_on(term, on[k], robot) for k, term in enumerate(self.plain) if on[k]]
        terms += [_on(offer.term, taken[offer.label], robot) for offer in offered if taken[offer.label]]
        return Selection(tuple(terms), tuple(trials), groups)

    def _round(
        self, offered: Sequence[Offer], active: NDArray[np.bool_], taken: dict[str, set[str]], trials: list[TermTrial]
    ) -> list[tuple[Offer, str]]:
        """All candidates on all joints at once, then the promising ones alone; the best on each joint.

        All joints at once is fast and nearly right, since a joint's friction acts on its own rows. But an improvement
        at one joint may be due to another joint's column, so a term is taken only for its improvement alone.
        """
        before = self.errors(active)
        seen: dict[tuple[str, str], TermTrial] = {}
        for offer in offered:
            more = active.copy()
            more[self.columns(offer.term)] = True
            after = self.errors(more)
            for j, joint in enumerate(self.joints):
                if len(self.columns(offer.term, joint)) and joint not in taken[offer.label]:
                    seen[offer.label, joint] = self._trial(joint, offer.label, before[:, j], after[:, j])
        winners: list[tuple[Offer, str]] = []
        for j, joint in enumerate(self.joints):
            # an improvement by a placebo is chance, or the folds are not independent: a real term must improve more
            luck = [seen[o.label, joint].gain for o in offered if o.placebo and (o.label, joint) in seen]
            best: tuple[float, Offer] | None = None
            for offer in offered:
                trial = seen.get((offer.label, joint))
                if trial is None:
                    continue
                if _passes(trial):
                    alone = active.copy()
                    alone[self.columns(offer.term, joint)] = True
                    trial = seen[offer.label, joint] = self._trial(
                        joint, offer.label, before[:, j], self.errors(alone)[:, j]
                    )
                least = max(luck, default=0.0) + trial.std * (offer.rival is not None)
                if offer.placebo or not (_passes(trial) and trial.gain > least):
                    continue
                if best is None or trial.gain > best[0]:
                    best = (trial.gain, offer)
            if best is not None:
                winners.append((best[1], joint))
        for offer in offered:
            for joint in self.joints:
                trial = seen.get((offer.label, joint))
                if trial is not None:
                    told = "taken" if (offer, joint) in winners else "refused"
                    if offer.placebo:
                        told = "placebo passed" if _passes(trial) else "placebo refused"
                    trials.append(replace(trial, verdict=told))
        return winners

    def _trial(self, joint: str, label: str, without: Array, including: Array) -> TermTrial:
        """Errors of one joint (folds,) without and with a term."""
        whole = float(np.sum(without)) or 1.0
        size = np.sqrt(max(self._effort(joint), 1e-300))
        gain = 1.0 - np.sqrt(np.sum(including) / whole)
        # of the sum of the folds' gains; halved because the root of the squares is compared
        std = 0.5 * float(np.std(without - including, ddof=1)) * np.sqrt(len(without)) / whole
        improved = float(np.mean(including < without))
        return TermTrial(
            joint, label, float(np.sqrt(whole)) / size, float(np.sqrt(np.sum(including))) / size,
            float(gain), std, improved, "",
        )  # fmt: skip

    def _effort(self, joint: str) -> float:
        return float(np.sum(self.scored[:, self.joints.index(joint), -1, -1]))


def _grams(information: Information, times: Sequence[Time]) -> Array:
    """[W_j y_j]ᵀ[W_j y_j] (n, C + 1, C + 1) of the time blocks."""
    width = len(information.layout)
    out = np.zeros((len(information.joints), width + 1, width + 1))
    for j, own in enumerate(information.columns):
        r = information.gathered(j, times).r[:, : len(own) + 1]
        place = np.append(own, width)
        out[j][np.ix_(place, place)] = r.T @ r
    return out


def _passes(trial: TermTrial) -> bool:
    """The significance rule: 1 %, one standard error, 70 % of the folds."""
    return trial.gain >= LEAST_GAIN and trial.gain > trial.std and trial.folds >= LEAST_FOLDS


def _fits(term: Term, model: Model) -> bool:
    """True when a term fits into a model: its requirements are met, and none of its columns is there yet."""
    names = {other.name for other in model.terms}
    columns = {entry.column.name for entry in term.entries(model.robot)}
    return set(getattr(term, "needs", ())) <= names and not columns & set(model.layout.names)


def _on(term: Term, owners: set[str], robot: Robot) -> Term:
    """The term on the given ones of its joints."""
    every = dict.fromkeys(entry.column.owner for entry in term.entries(robot))
    return term if owners == set(every) else on_joints(term, [name for name in every if name in owners])


def with_terms(problem: Problem, selection: Selection) -> Problem:
    """The problem with the chosen terms."""
    return replace(problem, model=replace(problem.model, terms=selection.terms))
