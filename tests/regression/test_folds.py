"""Blocks of time left out of a fit: with a guard around them, and nothing else."""

from __future__ import annotations

from functools import cache

import pytest

from steelyard.regression.folds import Time, outside, spans
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from testbed.simulated import arm, model_of, samples_of

LOWPASS = 8.0


@cache
def information() -> Information:
    """Two runs of 20 s, the first from −1 s to 19 s of its own clock after the filter."""
    model = model_of(arm(2))
    runs = [samples_of(model, 4000, seed=seed, noise=0.5, name=f"run{seed}") for seed in (1, 2)]
    return observe(Problem(model, runs, lowpass_hz=LOWPASS, decimate=6))


def ends(time: Time) -> tuple[float, float]:
    """First time of a block and of the next one [s]."""
    starts = information().starts
    return starts[time], starts.get((time[0], time[1], time[2] + 1), starts[time])


def test_every_block_has_a_start_and_they_increase() -> None:
    found = information()
    assert set(found.starts) == set(found.times)
    for run in ("run1", "run2"):
        own = [found.starts[time] for time in found.times if time[0] == run]
        assert own == sorted(own)
        # 20 s without the ends that the filter needs
        assert 0.0 < own[0] < 1.0
        assert 18.0 < own[-1] < 20.0


@pytest.mark.parametrize("guard", [0.0, 3.0 / LOWPASS, 2.0])
def test_no_fitted_block_is_within_the_guard(guard: float) -> None:
    every = information()
    for times in every.clusters(8):
        left_out = spans(every, times)
        ((run, low, high),) = left_out
        assert (low, high) == (ends(times[0])[0], ends(times[-1])[1])
        kept = outside(every, left_out, guard)
        assert not set(kept.times) & set(times)
        near = {t for t in every.times if t[0] == run and ends(t)[1] >= low - guard and ends(t)[0] <= high + guard}
        # exactly those within the guard are gone, and all joints of a block together
        assert set(every.times) - set(kept.times) == near
        assert set(kept.blocks) == {key for key in every.blocks if key[:3] in kept.times}
        assert len(near) > len(times) or guard == 0.0
        # other runs are untouched
        other = [key for key in every.blocks if key.run != run]
        assert all(kept.blocks[key] is every.blocks[key] for key in other)


def test_a_stretch_in_each_run() -> None:
    every = information()
    both = [time for time in every.times if time[2] in (3, 4, 5)]
    left_out = spans(every, both)
    assert [run for run, _, _ in left_out] == ["run1", "run2"]
    kept = outside(every, left_out, 0.5)
    assert {time[0] for time in kept.times} == {"run1", "run2"}
    assert not set(kept.times) & set(both)


def test_starts_survive_addition() -> None:
    every = information()
    halves = [outside(every, [(run, -1e9, 1e9)], 0.0) for run in ("run1", "run2")]
    assert {time[0] for time in halves[0].times} == {"run2"}
    whole = halves[0] + halves[1]
    assert (set(whole.times), whole.starts) == (set(every.times), every.starts)
