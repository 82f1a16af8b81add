"""Control laws on a motion: the better the model, the smaller the error."""

from __future__ import annotations

import numpy as np

from steelyard.model.model import Model
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.simulation.closed_loop import Loop, Reference
from steelyard.simulation.plant import Plant
from steelyard.simulation.tracking import EXACT_SPEED, ControlLaw, computed_torque, followed, pid_laws
from testbed.simulated import arm, motion_of, truth_of

HERTZ, RATE = 10.0, 1000.0


def smooth_plant(factor: float = 1.0) -> Plant:
    """An arm whose friction has no jump; all parameters times `factor`."""
    robot = arm(2)
    model = Model(robot, named_terms(DEFAULT_TERMS, sign_width=0.2))
    return Plant(model, factor * truth_of(model))


def test_laws_rank_by_what_they_know() -> None:
    plant = smooth_plant()
    reference = Reference(*motion_of(plant.robot, 2000, RATE, 1)[:3])
    wrong = computed_torque("wrong", smooth_plant(0.8), HERTZ)
    right = computed_torque("right", plant, HERTZ)
    runs = [followed(plant, law, "motion", reference, RATE) for law in (*pid_laws(plant, HERTZ), wrong, right)]
    rms = [np.mean(run.tracking.rms) for run in runs]
    assert rms == sorted(rms, reverse=True)
    assert rms[-1] < 0.01 * rms[0]
    assert [run.law for run in runs[2:]] == ["wrong", "right"]
    # a command times the ratio that makes up for the wrong model is the right command
    corrected = followed(plant, wrong._replace(torque_ratio=1.25), "motion", reference, RATE)
    assert np.abs(corrected.error).max() < 1.05 * np.abs(runs[-1].error).max()


def test_errors_are_those_of_the_run() -> None:
    plant = smooth_plant()
    reference = Reference(*motion_of(plant.robot, 500, RATE, 2)[:3])
    law = ControlLaw("pid", next(pid_laws(plant, HERTZ)).controller)
    exact, late = (followed(plant, law, "m", reference, RATE, loop) for loop in (EXACT_SPEED, Loop()))
    assert exact.error.shape == exact.reference.shape == reference.q.shape
    assert exact.tracking.largest == tuple(np.abs(exact.error).max(axis=1).tolist())
    assert exact.tracking.rms == tuple(np.sqrt(np.mean(exact.error**2, axis=1)).tolist())
    # a speed from differences of positions is late by half a sample
    assert not np.allclose(exact.error, late.error, rtol=1e-3)
