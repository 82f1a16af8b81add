"""ridge: pulled to zero, for robots without nominal values."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.errors import EstimationError
from steelyard.estimators import MAP, WLS, Ridge
from steelyard.model.base_parameters import base_parameters
from steelyard.model.parameters import INERTIAL
from steelyard.physical.prior import Widths, nominal_prior
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from testbed.simulated import arm, model_of, samples_of, truth_of


@pytest.fixture(scope="module")
def information() -> Information:
    model = model_of(arm(3))
    return observe(Problem(model, [samples_of(model, 4000, noise=0.5)], lowpass_hz=8.0, decimate=6))


def test_a_small_weight_is_wls_and_a_large_one_is_zero(information: Information) -> None:
    base = base_parameters(model_of(arm(3)))
    wls = WLS().estimate(None, base, information)
    free = Ridge(weight=1e-9).estimate(None, base, information)
    np.testing.assert_allclose(free.value, wls.value, rtol=1e-5, atol=1e-7)
    bound = Ridge(weight=1e9).estimate(None, base, information)
    pulled = [base.layout.columns[c].symbol in INERTIAL for c in base.kept]
    assert np.abs(bound.value[pulled]).max() < 1e-3 * np.abs(wls.value[pulled]).max()
    assert np.abs(bound.value[~np.array(pulled)]).max() > 0.1


def test_shrinks_as_the_weight_grows(information: Information) -> None:
    base = base_parameters(model_of(arm(3)))
    pulled = [base.layout.columns[c].symbol in INERTIAL for c in base.kept]
    columns = [c for c, yes in zip(base.kept, pulled, strict=True) if yes]
    sizes = []
    for weight in (1e-2, 1.0, 1e2, 1e4):
        theta = np.zeros(len(base.layout))
        theta[list(base.kept)] = Ridge(weight=weight).estimate(None, base, information).value
        sizes.append(
            sum(
                np.linalg.norm(
                    triangle.r[:, [k for k, c in enumerate(own) if c in columns]]
                    @ theta[[c for c in own if c in columns]]
                )
                for own, triangle in zip(information.columns, information.joint_triangles, strict=True)
            )
        )
    assert sizes == sorted(sizes, reverse=True)


def test_needs_no_nominal_values_and_says_its_weight(information: Information) -> None:
    base = base_parameters(model_of(arm(3)))
    found = Ridge().estimate(None, base, information)
    assert np.all(np.isfinite(found.value))
    assert any(finding.code == "prior-weight" for finding in found.findings)
    truth = base.map @ truth_of(model_of(arm(3)))
    assert np.median(np.abs(found.value - truth) / np.maximum(np.abs(truth), 1e-2)) < 0.2


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_weights_must_be_positive(weight: float) -> None:
    with pytest.raises(EstimationError, match="must be positive"):
        Ridge(weight=weight)


def test_a_prior_that_decides_keeps_its_own_uncertainty() -> None:
    """With a heavy weight the data moves nothing: σ of an inertial parameter must be that of the prior itself."""
    model = model_of(arm(3))
    base = base_parameters(model)
    told = observe(Problem(model, [samples_of(model, 4000, noise=0.5)], lowpass_hz=8.0, decimate=6))
    rows = nominal_prior(model.layout, Widths()).in_base(base)
    known = np.flatnonzero(np.abs(rows[:, :-1]).sum(axis=0))
    wanted = np.sqrt(np.diagonal(np.linalg.inv(rows[:, known].T @ rows[:, known])))
    found = np.sqrt(np.diagonal(MAP(weight=1e10).estimate(None, base, told).covariance))[known]
    np.testing.assert_allclose(found, wanted, rtol=0.05)
