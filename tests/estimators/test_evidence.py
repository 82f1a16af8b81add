"""Evidence: widths of a prior from the data. Against priors of known width, and on what no data can decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators import Consistent
from steelyard.estimators.least_squares import joint_deviations
from steelyard.estimators.regularised.evidence import INERTIAS, REPEATED, Evidence, supported
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.terms import Coulomb, Rotor, Viscous
from steelyard.physical.prior import Prior, Widths, nominal_prior, with_friction
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.simulated import arm, coloured, motion_of, truth_of

ARM = arm(4)
MODEL = Model(ARM, [Rotor(), Viscous(), Coulomb()])
SYMBOLS = np.array([column.symbol for column in MODEL.layout.columns])
RATE, NOISE = 200.0, 0.5


def evidence_of(truth: Array | None = None, correlated: float = 0.0, seed: int = 1, factor: float = 1.0) -> Evidence:
    """The evidence of 15 s of the arm with these true parameters; the prior: its file's inertias and no friction."""
    model = MODEL
    motion = motion_of(ARM, int(15.0 * RATE), RATE, seed)
    effort = model.torque(*motion[:3], truth_of(model) if truth is None else truth)
    effort = effort + NOISE * coloured(np.random.default_rng(seed), effort.shape, correlated)
    run = Samples.from_arrays("run", ARM.joint_names, RATE, *motion[:3], effort)
    problem, base = Problem(model, [run], decimate=5), base_parameters(model)
    information = observe(problem)
    prior = with_friction(nominal_prior(model.layout, Widths()), information, 0.5)
    reference = np.where(np.isin(SYMBOLS, ("Fv", "Fc")), 0.0, prior.reference)
    prior = replace(prior, reference=reference, width=factor * prior.width)
    return supported(information, base, 1.0 / joint_deviations(information, base), prior)


def drawn(share: float, rng: np.random.Generator) -> Array:
    """Inertial parameters around the file's, normal with so much of the stated widths; the drives as in the file."""
    prior = nominal_prior(MODEL.layout, Widths())
    links = np.array([column.kind == "link" for column in MODEL.layout.columns])
    return truth_of(MODEL) + np.where(links, share * prior.root.diagonal(), 0.0) * rng.standard_normal(len(links))


@pytest.mark.parametrize("share", [0.1, 1.0, 8.0])
def test_the_width_of_the_inertias_is_that_from_which_they_were_drawn(share: float) -> None:
    """The median over six robots, within a factor of 1.5 for 26 base parameters each."""
    rng = np.random.default_rng(3)
    found = [evidence_of(drawn(share, rng), seed=seed).factors[INERTIAS] for seed in range(6)]
    assert np.median(found) == pytest.approx(share, rel=0.5)


def test_the_result_hardly_depends_on_the_stated_width() -> None:
    truth = drawn(1.0, np.random.default_rng(0))
    stated, wide = evidence_of(truth), evidence_of(truth, factor=5.0)
    assert 5.0 * wide.factors[INERTIAS] == pytest.approx(stated.factors[INERTIAS], rel=0.25)


def test_a_term_that_no_joint_needs_gets_a_narrow_prior_and_a_needed_one_does_not() -> None:
    truth = np.where(SYMBOLS == "Fv", 0.0, np.where(SYMBOLS == "Fc", 5.0, truth_of(MODEL)))
    found = evidence_of(truth).factors
    assert found["Fv"] < 0.1 < 0.3 < found["Fc"]


def test_rows_correlated_in_time_count_for_less() -> None:
    white, slow = evidence_of().share, evidence_of(correlated=0.98).share
    assert slow < 0.5 * white
    assert evidence_of(correlated=0.98).weight == pytest.approx(REPEATED / slow)


def test_a_file_of_another_robot_is_a_warning() -> None:
    finding = evidence_of(drawn(60.0, np.random.default_rng(1))).finding()
    assert finding.severity == "warning"
    assert "contradict" in finding.fix
    assert evidence_of().finding().severity == "info"


def test_a_prior_on_nothing_stays_as_it_is() -> None:
    model = Model(ARM, [Rotor()])
    motion = motion_of(ARM, 1000, RATE, 2)
    effort = model.torque(*motion[:3], truth_of(model))
    effort = effort + NOISE * np.random.default_rng(0).standard_normal(effort.shape)
    run = Samples.from_arrays("run", ARM.joint_names, RATE, *motion[:3], effort)
    information, base = observe(Problem(model, [run])), base_parameters(model)
    nothing = Prior(np.zeros(len(model.layout)), np.full(len(model.layout), np.inf))
    found = supported(information, base, 1.0 / joint_deviations(information, base), nothing)
    assert found.factors == {}
    np.testing.assert_array_equal(found.prior.width, nothing.width)


def test_the_entropic_measure_has_no_evidence() -> None:
    with pytest.raises(EstimationError, match="euclidean or pull-back"):
        Consistent("evidence", regulariser="entropic")
