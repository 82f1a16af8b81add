"""Holm's correction, the jackknife and the autocorrelation that several rooms share."""

from __future__ import annotations

import numpy as np
from scipy.stats import false_discovery_control

from steelyard.regression.statistics import (
    holm,
    jackknife_covariance,
    jackknife_deviation,
    positive_autocorrelation,
)


def test_holm_steps_down_and_never_falls() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    p = np.random.default_rng(0).uniform(size=30)
    assert np.all(holm(p) >= false_discovery_control(p))
    assert holm(p).max() <= 1.0
    assert len(holm([])) == 0


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    x = np.random.default_rng(1).normal(size=(40, 3))
    left_out = np.array([np.delete(x, g, axis=0).mean(axis=0) for g in range(40)]) - x.mean(axis=0)
    np.testing.assert_allclose(jackknife_covariance(left_out), np.cov(x.T) / 40, rtol=1e-10)
    np.testing.assert_allclose(jackknife_deviation(left_out), x.std(axis=0, ddof=1) / np.sqrt(40), rtol=1e-10)


def test_autocorrelation_ends_where_it_is_no_longer_positive() -> None:
    x = np.sin(2.0 * np.pi * np.arange(4200) / 42.0)
    rho = positive_autocorrelation(x)
    assert len(rho) == 10  # a quarter of the period
    np.testing.assert_allclose(rho, np.cos(2.0 * np.pi * np.arange(1, 11) / 42.0), atol=0.01)
    assert len(positive_autocorrelation(np.ones(100))) == 0
