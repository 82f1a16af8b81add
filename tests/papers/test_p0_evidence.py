"""What `consistent` promises, on a few of the cases that `evidence/consistent.py` runs in hundreds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.estimators import WLS, Consistent
from steelyard.identification.identify import identify
from steelyard.physical.consistency import check_links, link_columns
from steelyard.project.project import read_project
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from testbed.consistent_cases import (
    Judged,
    judged,
    p0,
    p0_experiment,
    printed_columns,
    random_trial,
    repaired_reference,
    smallest_eigenvalue,
)
from testbed.places import shared_data
from testbed.trees import random_inertia

ROOT = Path(__file__).resolve().parents[2]
# chains and trees of 2 to 8 joints, each kind of robot file; wls is feasible itself in two of them
ROBOTS = (0, 2, 5, 7, 9, 12)


@pytest.mark.parametrize("index", ROBOTS)
def test_a_feasible_truth_without_noise_is_recovered(index: int) -> None:
    found = judged(random_trial(index, seed=2, noise=0.0))
    assert found.feasible
    assert found.recovered < 1e-8
    assert_certified(found)


@pytest.fixture(scope="module", name="noisy")
def _noisy() -> dict[int, Judged]:
    return {index: judged(random_trial(index, seed=1)) for index in ROBOTS}


@pytest.mark.slow
@pytest.mark.parametrize("index", ROBOTS)
def test_noise_is_projected_onto_what_can_exist(index: int, noisy: dict[int, Judged]) -> None:
    """In the metric of the information it is a projection: never further from a truth that can exist."""
    found = noisy[index]
    assert_certified(found)
    assert found.further < 1e-6
    # where wls is feasible nothing is better; elsewhere what is possible costs something
    assert abs(found.dearer) < 1e-9 if found.feasible else 0.0 < found.dearer < 0.01


def test_the_robots_have_something_to_show(noisy: dict[int, Judged]) -> None:
    """Some values of wls belong to a robot and some to none; there the truth comes nearer by more than rounding."""
    assert {found.feasible for found in noisy.values()} == {True, False}
    assert all(found.further < -1e-4 for found in noisy.values() if not found.feasible)


def assert_certified(found: Judged) -> None:
    assert found.eigenvalue >= 0.0
    assert found.drive >= 0.0
    assert found.gap < 1e-9


# --- P0 ---------------------------------------------------------------------------------------------------------------


def test_p0_reference_is_impossible_and_its_link_3_is_repaired() -> None:
    _, base, table = p0()
    layout = base.layout
    verdicts = check_links(layout, table.ref)
    assert [j for j in range(2, 7) if not verdicts[f"link{j}"].passes] == [3]
    mended = repaired_reference()
    assert mended.possible
    assert smallest_eigenvalue(layout, mended.theta) >= 0.0
    moved = np.abs(mended.theta - table.ref)
    third = np.isin(np.arange(len(layout)), link_columns(layout)["link3"])
    assert 1e-3 < np.linalg.norm(moved[third]) < 0.01
    assert np.max(moved[~third & printed_columns(layout)]) < 1e-5


def test_p0_reference_is_repaired_by_the_smallest_change() -> None:
    """θ* is nearest to θ_ref in a convex set if (θ_ref − θ*)·(θ − θ*) ≤ 0 for all θ in it."""
    _, base, table = p0()
    columns = link_columns(base.layout)["link3"]
    mended = repaired_reference().theta[columns]
    step = table.ref[columns] - mended
    likely = table.ref[columns].copy()
    likely[2] = -1.16e-3  # XZ3 without what looks like a misprint
    rng = np.random.default_rng(4)
    others = [likely, *(random_inertia(rng) for _ in range(200))]
    # small bodies beside it too: the set is a cone
    others += [mended + 1e-3 * other for other in others]
    assert max(step @ (other - mended) / np.linalg.norm(other - mended) for other in others) < 1e-5
    assert np.linalg.norm(step) < np.linalg.norm(table.ref[columns] - likely)


@pytest.mark.parametrize("seed", [0, 3])
def test_p0_experiment_gives_a_set_that_can_exist(seed: int) -> None:
    done = p0_experiment(seed)
    assert done.result.certificate is not None
    assert done.result.certificate.holds
    assert done.consistent.realisable == 5 > done.essential.realisable > done.closest.realisable
    assert done.consistent.positive == 5 >= done.essential.positive > done.closest.positive
    for other in (done.closest, done.essential):
        assert done.consistent.unseen <= 1.02 * other.unseen


# --- Recorded data ----------------------------------------------------------------------------------------------------


def recorded(name: str, role: str) -> Problem:
    """The runs of examples/real; the test is skipped where the recordings are absent."""
    project = read_project(ROOT / "examples" / "real" / f"{name}.toml")
    shared_data(project.log_files(project.spec.run[0])[0].parent.name)
    model = project.model()
    return project.problem(model, project.samples(model.robot, role))


@pytest.mark.parametrize("name", ["tx40", "ur10e"])
def test_certified_sets_of_real_robots_fit_as_well(name: str) -> None:
    problem = recorded(name, "identify")
    information = observe(problem)
    free, ours = (identify(problem, estimator, information) for estimator in (WLS(), Consistent()))
    assert ours.standard is not None
    assert smallest_eigenvalue(ours.base.layout, ours.standard) >= 0.0
    assert ours.relative_error.total <= 1.03 * free.relative_error.total


def test_kr300_fitted_on_one_run_with_its_prior_predicts_the_other() -> None:
    problem, unseen = recorded("kr300", "identify"), recorded("kr300", "validate")
    result = identify(problem, Consistent("cross-validation", "pull-back"), held_out=unseen)
    assert result.unseen is not None
    assert result.unseen.total <= 0.05
    assert result.certificate is not None
    assert result.certificate.holds
