"""Blocks of time left out of a fit: with a guard around them, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from steelyard.errors import EstimationError
from steelyard.regression.folds import GUARD_PERIODS, guarded_folds, stretches
from steelyard.regression.information import Information, Time
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from testbed.simulated import arm, model_of, samples_of

LOWPASS = 8.0


@cache
def information(lowpass_hz: float | None = LOWPASS) -> Information:
    """Two runs of 20 s, the first from −1 s to 19 s of its own clock after the filter."""
    model = model_of(arm(2))
    runs = [samples_of(model, 4000, seed=seed, noise=0.5, name=f"run{seed}") for seed in (1, 2)]
    return observe(Problem(model, runs, lowpass_hz=lowpass_hz, decimate=6))


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


def test_the_guard_is_three_periods_of_the_parallel_filter() -> None:
    assert information().guard == GUARD_PERIODS / LOWPASS == 0.375
    assert information(None).guard == 0.0


@pytest.mark.parametrize("guard", [0.0, 3.0 / LOWPASS, 2.0])
def test_no_fitted_block_is_within_the_guard(guard: float) -> None:
    every = replace(information(), guard=guard)
    groups = every.clusters(8)
    for times, fold in zip(groups, guarded_folds(every, groups), strict=True):
        run, low, high = times[0][0], ends(times[0])[0], ends(times[-1])[1]
        kept = every.at(fold.kept)
        assert fold.scored == times
        assert not set(kept.times) & set(times)
        near = {t for t in every.times if t[0] == run and ends(t)[1] >= low - guard and ends(t)[0] <= high + guard}
        # exactly those within the guard are gone, and all joints of a block together
        assert set(every.times) - set(kept.times) == (near if guard else set(times))
        assert set(kept.blocks) == {key for key in every.blocks if key[:3] in kept.times}
        assert len(near) > len(times) or guard == 0.0
        # other runs are untouched
        other = [key for key in every.blocks if key.run != run]
        assert all(kept.blocks[key] is every.blocks[key] for key in other)


def test_a_stretch_in_each_run() -> None:
    every = information()
    both = [time for time in every.times if time[2] in (3, 4, 5)]
    (fold,) = guarded_folds(every, [both])
    assert {time[0] for time in fold.kept} == {"run1", "run2"}
    assert not set(fold.kept) & set(both)


def test_rows_between_two_stretches_of_one_run_are_kept() -> None:
    every = information()
    own = [time for time in every.times if time[0] == "run1"]
    (fold,) = guarded_folds(every, [[own[0], own[-1]]])
    assert own[len(own) // 2] in fold.kept
    assert own[1] not in fold.kept


def test_groups_of_another_pass_leave_out_the_same_time() -> None:
    """Blocks of a pass with other rows: the guard is that of the lower filter, and times are compared."""
    every = information()
    model = model_of(arm(2))
    runs = [samples_of(model, 4000, seed=seed, noise=0.5, name=f"run{seed}") for seed in (1, 2)]
    finer = observe(Problem(model, runs, lowpass_hz=2.0 * LOWPASS, decimate=3))
    for fold in guarded_folds(finer, every.clusters(8), every):
        low, high = ends(fold.scored[0])[0], ends(fold.scored[-1])[1]
        own = [time for time in fold.kept if time[0] == fold.scored[0][0]]
        assert own
        for time in own:
            start = finer.starts[time]
            assert start < low - every.guard or start > high + every.guard


def test_without_times_there_is_no_guard() -> None:
    every = replace(information(), starts={})
    with pytest.raises(EstimationError, match="no times of its blocks"):
        guarded_folds(every, every.clusters(4))
    (fold, *_) = guarded_folds(replace(every, guard=0.0), every.clusters(4))
    assert set(fold.kept) | set(fold.scored) == set(every.times)


def test_stretches_with_a_part_of_every_load() -> None:
    every = information()
    loads = {"run1": "none", "run2": "box"}
    moved = {key._replace(load=loads[key.run]): part for key, part in every.blocks.items()}
    starts = {(run, loads[run], k): start for (run, _, k), start in every.starts.items()}
    two = replace(every, blocks=moved, starts=starts)
    groups = stretches(two, 6, every_load=True)
    assert all({time[1] for time in group} == {"none", "box"} for group in groups)
    assert sorted(time for group in groups for time in group) == list(two.times)
    assert len(groups) > 1


def test_starts_and_guard_survive_addition() -> None:
    every = information()
    halves = [every.at([time for time in every.times if time[0] != run]) for run in ("run1", "run2")]
    assert {time[0] for time in halves[0].times} == {"run2"}
    whole = halves[0] + halves[1]
    assert (set(whole.times), whole.starts, whole.guard) == (set(every.times), every.starts, every.guard)
