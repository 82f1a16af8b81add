"""Selection of terms by left-out runs: what is there is taken, what is not is refused, too few runs choose nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.estimators.least_squares import joint_deviations
from steelyard.identification.term_selection import (
    Offer,
    Selection,
    TermTrial,
    _Chooser,
    candidate_terms,
    independent_runs,
    select_terms,
    with_terms,
)
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import (
    DEFAULT_TERMS,
    BearingFriction,
    Coulomb,
    Dahl,
    Drift,
    LoadFriction,
    OnJoints,
    Ripple,
    Stribeck,
    Term,
    named_terms,
    on_joints,
    rich_terms,
)
from steelyard.motion.random import random_fourier
from steelyard.regression.folds import guarded_folds
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Samples
from testbed.simulated import arm, channels_of, recording_of

RATE, COUNT = 100.0, 3000
FILTERS = {"lowpass_hz": 5.0, "decimate": 4}
STRIBECK = on_joints(Stribeck(0.1), ["joint1"])


def slow() -> Robot:
    """Two joints that move at 0.6 rad/s at most, where the Stribeck effect shows."""
    robot = arm(2)
    joints = tuple(replace(joint, limits=replace(joint.limits, velocity=0.6)) for joint in robot.joints)
    return replace(robot, joints=joints)


def runs_of(
    *extra: tuple[Term, float], motions: Sequence[int] = range(6), noise: float = 0.3, luck: int = 0
) -> list[Samples]:
    """One run for every motion, of the nominal robot with the extra terms, all their columns of one size."""
    robot = slow()
    model = Model(robot, [*named_terms(DEFAULT_TERMS), *(term for term, _ in extra)])
    assert model.layout.nominal is not None
    theta = model.layout.nominal.copy()
    for term, size in extra:
        theta[[model.layout.index(entry.column.name) for entry in term.entries(robot)]] = size
    out = []
    for k, motion in enumerate(motions):
        t = np.arange(COUNT) / RATE
        q, v, a = random_fourier(robot, 5, 0.1, COUNT / RATE, np.random.default_rng(motion)).at(t)[:3]
        white = np.random.default_rng(100 + 10 * luck + k).standard_normal(q.shape)
        effort = model.torque(q, v, a, theta, t) + noise * white
        out.append(Samples.from_arrays(f"run{k}", robot.joint_names, RATE, q, v, a, effort))
    return out


def problem_of(runs: Sequence[Samples], terms: Sequence[str] | None = None) -> Problem:
    robot = slow()
    return Problem(Model(robot, named_terms(rich_terms(robot) if terms is None else terms)), runs, **FILTERS)


def taken(selection: Selection) -> set[tuple[str, str]]:
    return {(trial.label, trial.joint) for trial in selection.trials if trial.verdict == "taken"}


# --- What is there and what is not ------------------------------------------------------------------------------------


@pytest.mark.parametrize("luck", [0, 1, 2])
def test_stribeck_is_taken_where_it_is(luck: int) -> None:
    selection = select_terms(problem_of(runs_of((STRIBECK, 3.0), luck=luck)), candidate_terms())
    assert selection.refused is None
    assert taken(selection) == {("stribeck 0.1", "joint1")}
    assert STRIBECK in selection.terms
    (trial,) = [t for t in selection.trials if t.verdict == "taken"]
    assert trial.including < 0.7 * trial.without
    assert trial.gain == pytest.approx(1.0 - trial.including / trial.without)
    assert trial.gain > 10 * trial.std
    assert trial.folds == 1.0
    assert selection.placebos_passed == ()
    assert len([t for t in selection.trials if t.verdict == "placebo refused"]) >= 2


@pytest.mark.parametrize("luck", [0, 1, 2])
def test_a_joint_is_not_given_what_its_neighbour_needs(luck: int) -> None:
    """With the plain terms the neighbour's missing column moves the shared inertias, and this joint's error with it."""
    selection = select_terms(problem_of(runs_of((STRIBECK, 3.0), luck=luck), DEFAULT_TERMS), candidate_terms())
    assert taken(selection) == {("stribeck 0.1", "joint1")}


@pytest.mark.parametrize("luck", [0, 1, 2, 3])
def test_where_nothing_is_missing_nothing_is_taken(luck: int) -> None:
    selection = select_terms(problem_of(runs_of(luck=luck), DEFAULT_TERMS), candidate_terms([50.0, 80.0]))
    assert taken(selection) == set()
    assert selection.terms == named_terms(DEFAULT_TERMS)
    assert {t.verdict for t in selection.trials} == {"refused", "placebo refused"}
    labels = {t.label for t in selection.trials if t.verdict == "placebo refused"}
    assert labels == {"shuffled drift", "ripple at a wrong frequency"}


def test_terms_that_do_no_good_are_dropped_and_those_that_do_are_kept() -> None:
    dahl = on_joints(Dahl(), ["joint2"])
    selection = select_terms(problem_of(runs_of((dahl, 2.0)), (*DEFAULT_TERMS, "dahl", "load")), ())
    verdicts = {(t.label, t.joint): t for t in selection.trials}
    assert verdicts["dahl", "joint2"].verdict == "kept"
    assert verdicts["dahl", "joint2"].gain > 0.01
    assert abs(verdicts["load", "joint1"].gain) < 0.01
    for (label, joint), trial in verdicts.items():
        assert trial.verdict == ("kept" if trial.gain >= 0.0 else "dropped")
        listed = {t.name: t.joints if isinstance(t, OnJoints) else slow().joint_names for t in selection.terms}
        assert (joint in listed.get(label, ())) == (trial.verdict == "kept")
    # what may not be dropped is not tried
    assert {t.label for t in selection.trials} == {"dahl", "load"}


@pytest.mark.slow
def test_a_term_on_one_joint_may_be_dropped_there() -> None:
    model = Model(slow(), [*named_terms(DEFAULT_TERMS), on_joints(Dahl(), ["joint2"])])
    tried = [select_terms(Problem(model, runs_of(luck=luck), **FILTERS), ()) for luck in range(4)]
    dropped = [selection for selection in tried if selection.trials[0].verdict == "dropped"]
    assert dropped
    for selection in dropped:
        assert [(t.label, t.joint) for t in selection.trials] == [("dahl", "joint2")]
        assert selection.terms == named_terms(DEFAULT_TERMS)


def test_ripple_is_taken_at_its_frequency_and_not_beside_it() -> None:
    ripple = on_joints(Ripple([9.0, 14.0]), ["joint2"])
    selection = select_terms(problem_of(runs_of((ripple, 1.0)), DEFAULT_TERMS), candidate_terms([9.0, 14.0]))
    assert ("ripple", "joint2") in taken(selection)
    assert selection.placebos_passed == ()


def test_a_placebo_is_never_taken() -> None:
    """Even where it is the truth: it passes, that is told, and no honest term rides on it."""
    wrong = Drift(shuffled=True)
    selection = select_terms(problem_of(runs_of((wrong, 300.0)), DEFAULT_TERMS), candidate_terms())
    assert {t.label for t in selection.placebos_passed} == {"shuffled drift"}
    assert wrong not in selection.terms
    assert ("drift", "joint1") not in taken(selection)


def test_a_term_that_buys_less_than_a_placebo_is_refused() -> None:
    """What looks like Stribeck at another speed passes alone, and not beside a placebo that looks like it more."""
    problem = problem_of(runs_of((STRIBECK, 3.0)), DEFAULT_TERMS)
    near, truth = Offer("near", Stribeck(0.2)), Offer("truth", Stribeck(0.1), placebo=True)
    assert ("near", "joint1") in taken(select_terms(problem, [near]))
    assert taken(select_terms(problem, [near, truth])) == set()


def test_the_choice_is_deterministic() -> None:
    problem = problem_of(runs_of((STRIBECK, 1.0)))
    assert select_terms(problem, candidate_terms()) == select_terms(problem, candidate_terms())


def test_what_is_already_there_is_not_offered() -> None:
    problem = problem_of(runs_of(), (*DEFAULT_TERMS, "stribeck"))
    selection = select_terms(problem, [Offer("stribeck 0.1", Stribeck(0.1)), Offer("dahl", Dahl())], droppable=())
    assert {t.label for t in selection.trials} == {"dahl"}


@pytest.mark.parametrize(
    "terms",
    [
        named_terms(("rotor", "coulomb", "offset")),
        (*named_terms(DEFAULT_TERMS), on_joints(Dahl(1e-2), ["joint1"])),
        (*named_terms(DEFAULT_TERMS), LoadFriction(0.1, 2.0)),
        (*named_terms(DEFAULT_TERMS), Ripple(3.0)),
    ],
    ids=["no viscous friction to be asymmetric", "on one joint", "smooth", "other cycles"],
)
def test_offers_that_do_not_go_with_the_terms_are_left_out(terms: Sequence[Term]) -> None:
    problem = Problem(Model(slow(), terms), runs_of(), **FILTERS)
    selection = select_terms(problem, candidate_terms(9.0))
    assert {t.label for t in selection.trials if t.joint == "joint2"} >= {"stribeck 0.1", "power 2"}


# --- Where nothing can be told ----------------------------------------------------------------------------------------


def assert_refused(problem: Problem, said: str) -> None:
    selection = select_terms(problem, candidate_terms())
    assert selection.refused is not None
    assert said in selection.refused
    assert selection.terms == problem.model.terms
    assert selection.trials == ()
    (finding,) = selection.findings()
    assert (finding.code, finding.severity, finding.message) == ("no-selection", "info", selection.refused)


def test_too_few_runs_choose_nothing() -> None:
    assert_refused(problem_of(runs_of((STRIBECK, 3.0), motions=range(4))), "4 independent motions in 4 runs")
    assert select_terms(problem_of(runs_of((STRIBECK, 3.0), motions=range(5))), candidate_terms()).refused is None


def test_one_motion_repeated_is_one_run() -> None:
    assert_refused(problem_of(runs_of((STRIBECK, 3.0), motions=[1] * 6)), "1 independent motion in 6 runs")
    assert_refused(problem_of(runs_of((STRIBECK, 3.0), motions=[1, 1, 2, 2, 3, 4, 4])), "4 independent motions in 7 ru")


def test_pieces_of_one_file_are_one_run() -> None:
    """Six motions, each other than the last, but in one log of one day."""
    robot, runs = slow(), runs_of((STRIBECK, 3.0))
    parts = [piece for run in runs for piece in run.open()]
    q, effort = (np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("q", "effort"))
    columns = {"t": np.arange(q.shape[1]) / RATE}
    columns |= {f"q_{name}": x for name, x in zip(robot.joint_names, q, strict=True)}
    columns |= {f"tau_{name}": x for name, x in zip(robot.joint_names, effort, strict=True)}
    settings, log = Preparation(cutoff_hz=20.0), recording_of(columns)
    pieces = []
    for k in range(6):
        piece = prepare(log, robot, channels_of(robot), settings, seconds=(30.0 * k + 1.0, 30.0 * k + 29.0))
        pieces.append(replace(piece, name=f"piece{k}"))
    assert independent_runs(pieces) == (tuple(f"piece{k}" for k in range(6)),)
    assert_refused(problem_of(pieces), "1 independent motion in 6 runs")
    # it is the file that tells, whatever its pieces look like
    named = [replace(run, sha256="one file") for run in runs]
    assert len(independent_runs(named)) == 1
    assert len(independent_runs(runs)) == len(independent_runs([*named[:1], *runs[1:]])) == 6


def test_blocks_of_time_may_stand_for_runs_when_asked() -> None:
    selection = select_terms(problem_of(runs_of((STRIBECK, 3.0), motions=[1])), candidate_terms(), blocks=8)
    assert selection.refused is None
    assert len(selection.folds) == 8
    assert selection.guard == pytest.approx(3.0 / 5.0)
    assert ("stribeck 0.1", "joint1") in taken(selection)
    # columns in time or position interpolate between stretches: they are not offered, their placebos are
    assert "drift" not in {trial.label for trial in selection.trials}
    assert "shuffled drift" in {trial.label for trial in selection.trials}
    (finding,) = selection.findings()
    assert "8 stretches of time" in finding.message


def test_stretches_of_a_short_log_choose_nothing() -> None:
    """The guard of 6 s at 0.5 Hz, on both sides of stretches of 6 s, leaves less than half of 30 s."""
    problem = replace(problem_of(runs_of((STRIBECK, 3.0), motions=[1])), lowpass_hz=0.5)
    selection = select_terms(problem, candidate_terms(), blocks=5)
    assert selection.refused is not None
    assert "too short to leave out stretches of time" in selection.refused


@pytest.mark.parametrize("blocks", [None, 8])
def test_bearing_friction_is_taken_where_it_is(blocks: int | None) -> None:
    """The last joint has no next one."""
    selection = select_terms(problem_of(runs_of((BearingFriction(), 0.2))), candidate_terms(), blocks=blocks)
    assert ("bearing, next joint", "joint1") in taken(selection)
    assert BearingFriction() in selection.terms


def test_findings_and_the_problem_of_a_selection() -> None:
    trial = TermTrial("joint1", "stribeck 0.1", 0.2, 0.1, 0.5, 0.01, 1.0, "taken")
    gone = TermTrial("joint2", "dahl", 0.2, 0.1, -0.1, 0.01, 0.2, "dropped")
    selection = Selection((Coulomb(), STRIBECK), (trial, gone), (("a",), ("b",)))
    (finding,) = selection.findings()
    assert finding.code == "selected-terms"
    assert "added stribeck 0.1 on joint1 (+50.0%); removed dahl on joint2" in finding.message
    problem = problem_of(runs_of(motions=range(2)))
    assert with_terms(problem, selection).model.terms == (Coulomb(), STRIBECK)


# --- The arithmetic ---------------------------------------------------------------------------------------------------


@cache
def wide() -> Problem:
    robot = slow()
    terms = [*named_terms(rich_terms(robot)), Stribeck(0.1), LoadFriction(exponent=2.0)]
    return Problem(Model(robot, terms), runs_of((STRIBECK, 3.0), motions=range(5)), **FILTERS)


@pytest.mark.parametrize("seed", range(4))
def test_left_out_errors_are_those_of_refits(seed: int) -> None:
    """Least squares on the triangles of all other runs with the joints' weights held, scored on the run left out."""
    problem = wide()
    information, base = observe(problem), base_parameters(problem.model)
    folds = [tuple(time for time in information.times if time[0] == run.name) for run in problem.runs]
    chooser = _Chooser(problem.model, problem.model.terms, information, guarded_folds(information, folds))
    active = np.random.default_rng(seed).random(len(problem.model.layout)) < 0.8
    active[[column.owner.startswith("link") for column in problem.model.layout.columns]] = True
    used = np.array([c for c in base.kept if active[c]])
    sigma = joint_deviations(information, base)

    def rows(joint: int, times: Sequence[tuple[str, str, int]]) -> tuple[Array, Array]:
        own, part = information.columns[joint], information.gathered(joint, times).r
        w = np.zeros((len(part), len(problem.model.layout)))
        w[:, own] = part[:, : len(own)]
        return w[:, used], part[:, len(own)]

    wanted = np.empty((len(folds), 2))
    for g, fold in enumerate(folds):
        others = [time for time in information.times if time not in fold]
        parts = [rows(j, others) for j in range(2)]
        w = np.concatenate([x / s for (x, _), s in zip(parts, sigma, strict=True)])
        y = np.concatenate([x / s for (_, x), s in zip(parts, sigma, strict=True)])
        scale = np.linalg.norm(w, axis=0)
        theta = np.linalg.lstsq(w / scale, y, rcond=None)[0] / scale
        for j in range(2):
            x, measured = rows(j, fold)
            wanted[g, j] = np.sum((measured - x @ theta) ** 2)
    np.testing.assert_allclose(chooser.errors(active), wanted, rtol=1e-6)


def test_a_trial_says_what_the_folds_say() -> None:
    problem = wide()
    information = observe(problem)
    folds = [tuple(time for time in information.times if time[0] == run.name) for run in problem.runs]
    chooser = _Chooser(problem.model, problem.model.terms, information, guarded_folds(information, folds))
    without, including = np.array([4.0, 9.0, 1.0, 2.0, 4.0]), np.array([2.0, 8.0, 2.0, 1.0, 3.0])
    trial = chooser._trial("joint2", "x", without, including)
    effort = sum(np.sum(information.gathered(1, fold).r[:, -1] ** 2) for fold in folds)
    assert trial.without == pytest.approx(np.sqrt(20.0 / effort))
    assert trial.including == pytest.approx(np.sqrt(16.0 / effort))
    assert trial.gain == pytest.approx(1.0 - np.sqrt(16.0 / 20.0))
    assert trial.folds == 0.8
    # the sum of five gains has √5 times their deviation; d√x = dx / 2√x
    assert trial.std == pytest.approx(np.std([2.0, 1.0, -1.0, 1.0, 1.0], ddof=1) * np.sqrt(5.0) / 20.0 / 2.0)
