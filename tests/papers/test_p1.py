"""P1's experiment with a known truth: what its update and the corrected one reach, and how the paper fails."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.estimators.gradient.stopping import PublishedStop, StoppingRule
from steelyard.estimators.gradient.update_rules import (
    Normalised,
    ParameterBounds,
    Published,
    UpdateRule,
    closed_form,
    follow,
)
from steelyard.motion.trajectory import dwell
from steelyard.project.papers.setups.planar import (
    NEVER,
    P_OF_FIVE,
    START_OF_FIVE,
    P,
    driven,
    one_motion,
    rows_of_five,
    varied_motions,
)

# Motions differ in what they show: figures are medians over so many draws.
DRAWS = 8
INDEFINITE = np.array([2.0, 0.5, 3.0, 0.1])


def errors(rule: UpdateRule) -> Array:
    """‖P̂ − P‖/‖P‖ after 100 and 400 iterations of varied motions from 0.5 P, (draws, 2)."""
    return np.array([driven(varied_motions(16, seed), rule).error(P)[[100, 400]] for seed in range(DRAWS)])


# --- What it reaches --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_normalised_update_on_varied_motions() -> None:
    """Under 2 % at 100 iterations and 1e-4 at 400; two of these eight draws are still at 3 and 4 % at 100."""
    found = errors(Normalised())
    assert np.median(found[:, 0]) < 0.02
    assert np.sum(found[:, 0] < 0.02) >= 6
    assert found[:, 0].max() < 0.05
    assert found[:, 1].max() < 1e-4


@pytest.mark.slow
def test_published_update_on_varied_motions() -> None:
    """The digest has 0.055 and 0.0009 on random motions of its own."""
    at_100, at_400 = np.median(errors(Published()), axis=0)
    assert 0.5 * 0.055 < at_100 < 2 * 0.055
    assert 0.5 * 0.0009 < at_400 < 2 * 0.0009


@pytest.mark.parametrize(
    ("rule", "at_100", "at_400"),
    [(Published(), 0.28, 0.070), (Normalised(), 0.23, 0.051)],
    ids=["published", "normalised"],
)
def test_one_repeated_motion_is_not_enough(rule: UpdateRule, at_100: float, at_400: float) -> None:
    """The digest's figures within a factor of two: after 400 iterations still 5 to 10 % off, though never further."""
    error = driven(one_motion(16), rule).error(P)
    assert 0.5 * at_100 < error[100] < 2 * at_100
    assert 0.5 * at_400 < error[400] < 2 * at_400
    assert np.all(np.diff(error) <= 1e-12)


def test_least_squares_needs_no_hundred_iterations() -> None:
    """(17)–(19) on the rows of ten iterations, and of a single motion with the exact torque."""
    made = driven(varied_motions(4, 0), Published())
    for count in (10, 100):
        assert np.linalg.norm(closed_form(made.rows[:count]) - P) / np.linalg.norm(P) < 1e-4
    assert np.linalg.norm(closed_form(driven(one_motion(1), Published()).rows) - P) < 1e-6


def test_the_five_entries_as_a_target_of_regression() -> None:
    """P = [22, 5, 3, 2, 0.1] is no arm, but five columns that are independent: under 2 % at 100, as the paper shows."""
    found = []
    for seed in range(DRAWS):
        path = np.array(list(follow(Normalised(), START_OF_FIVE, rows_of_five(varied_motions(16, seed)))))
        found.append(np.linalg.norm(path[[99, 399]] - P_OF_FIVE, axis=1) / np.linalg.norm(P_OF_FIVE))
    assert np.median(found, axis=0)[0] < 0.02
    assert np.max(found, axis=0)[0] < 0.05
    assert np.max(found, axis=0)[1] < 1e-4


# --- How the paper fails, and this does not ---------------------------------------------------------------------------


def test_sample_wise_proximity_stops_at_rest() -> None:
    """A tolerance of 1e-3 at a sample is met at the end of a motion with 14 % of error, and in a dwell with any."""
    literal = PublishedStop(1e-3, corrected=True)
    early = driven(one_motion(16), Normalised(), stop=literal)
    assert early.enough
    assert early.error(P)[-1] > 0.1
    resting = driven([dwell(np.zeros(2), 2.0), *one_motion(1)], Normalised(), stop=PublishedStop(corrected=True))
    assert resting.enough
    assert resting.error(P)[-1] == pytest.approx(0.5)


def test_the_printed_sign_never_stops_in_motion() -> None:
    made = driven(varied_motions(4, 1), Normalised(), start=P, stop=PublishedStop(1e-3))
    assert not made.enough
    assert made.error(P).max() < 1e-9


@pytest.mark.slow
def test_the_sound_rule_does_not_stop_at_rest_or_on_a_poor_motion() -> None:
    resting = driven([dwell(np.zeros(2), 2.0)] * 3, Normalised(), stop=StoppingRule())
    assert not resting.enough
    assert all(not verdict.excited for verdict in resting.verdicts)
    # after a hundred times the same motion both ε are met with 1.2 % of error: only the excitation says no
    poor = driven(one_motion(100), Normalised(), stop=StoppingRule())
    assert not poor.enough
    assert poor.verdicts[-1].near
    assert poor.verdicts[-1].settled
    assert poor.error(P)[-1] > 0.01


@pytest.mark.slow
def test_the_sound_rule_stops_when_it_is_right() -> None:
    for seed in range(4):
        made = driven(varied_motions(40, seed), Normalised(), stop=StoppingRule())
        assert made.enough
        assert made.error(P)[-1] < 3e-3
        assert 100 <= len(made) < 400


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_indefinite_inertia_throws_the_published_update_off() -> None:
    """σ_D < 0 turns its step round, the loop runs away, and that is said; the normalised update converges."""
    for seed in range(3):
        motions = varied_motions(16, seed)
        literal = driven(motions, Published(), INDEFINITE)
        assert literal.diverged
        assert literal.rows[0].least < 0.0
        assert np.all(np.isfinite(literal.theta))
        assert "planar2r" in literal.stopped
        assert literal.findings()[0].code == "diverged"
        ours = driven(motions, Normalised(), INDEFINITE)
        assert not ours.diverged
        assert ours.error(P)[100] < 0.02
        assert ours.error(P)[400] < 1e-4


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_noise_at_rest_points_is_divided_by_nothing() -> None:
    """0.2 rad/s² of noise: without a floor estimates go further away than they started; with one they do not, and the
    sound rule never claims to be done."""
    worst: dict[str, float] = {"published": 0.0, "normalised": 0.0, "floor": 0.0}
    for seed in range(3):
        for name, rule in (
            ("published", Published()),
            ("normalised", Normalised()),
            ("floor", Normalised(floor=1.0)),
        ):
            made = driven(one_motion(16), rule, stop=StoppingRule(), noise=0.2, seed=seed)
            assert not made.enough
            worst[name] = max(worst[name], float(made.error(P).max()))
    assert worst["published"] > 1.0
    assert worst["normalised"] > 0.55
    assert worst["floor"] <= 0.5 + 1e-9


def test_bounds_keep_the_published_update_from_running_away() -> None:
    """Ω (8): with p1 and p2 at least half of what they are, D(q, P̂) stays positive definite."""
    box = ParameterBounds(0.5 * P, 2.0 * P)
    motions = varied_motions(16, 0)
    made = driven(motions, Published(), box.project(INDEFINITE), NEVER, box=box)
    assert not made.diverged
    assert made.error(P)[-1] < 0.02
