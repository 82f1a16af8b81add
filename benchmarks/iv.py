"""IDIM-IV and DIDIM on a run of the TX-40: 13 s in closed loop at 5 kHz, prepared, with the nominal values as a start.

simulation.py measures the time per simulated sample, alone and compared with a peer.
"""

from __future__ import annotations

import json
import time
from statistics import median

import numpy as np

RATE_HZ = 5000.0
DURATION_S = 13.0
REPEATS = 3


def bench_iv() -> dict[str, float]:
    """Median processor seconds of `identify` after one that compiles, and its iterations."""
    from steelyard.estimators import DIDIM, IV, Estimator
    from steelyard.formats.robots import read_robot
    from steelyard.identification.identify import identify
    from steelyard.model.model import Model
    from steelyard.model.terms import named_terms
    from steelyard.motion.random import random_fourier
    from steelyard.regression.problem import Problem
    from steelyard.signals.samples import Samples
    from steelyard.simulation.closed_loop import Reference, simulate
    from steelyard.simulation.controllers import Cascade
    from steelyard.simulation.experiment import Experiment
    from steelyard.simulation.plant import Plant

    robot = read_robot("tx40")
    model = Model(robot, named_terms(robot.terms or (), sign_width=0.2))
    assert model.layout.nominal is not None
    rng = np.random.default_rng(1)
    # the iteration starts off the truth
    plant = Plant(model, 1.1 * model.layout.nominal)
    controller = Cascade.tuned(plant)
    trajectory = random_fourier(robot, 5, 0.1, DURATION_S, rng)
    reference = Reference(*trajectory.at(np.arange(int(DURATION_S * RATE_HZ)) / RATE_HZ))
    made = simulate(plant, controller, reference, RATE_HZ)
    noise = 0.03 * np.sqrt(np.mean(made.tau**2, axis=1, keepdims=True)) * rng.standard_normal(made.tau.shape)
    run = Samples.from_arrays("run", robot.joint_names, RATE_HZ, made.q, made.v, made.a, made.tau + noise)
    experiment = Experiment({"run": [reference]}, lambda _: controller)
    problem = Problem(model, [run], lowpass_hz=20.0, decimate=100, experiment=experiment)

    def timed(estimator: Estimator) -> tuple[float, float]:
        result = identify(problem, estimator)
        (told,) = (finding.message for finding in result.findings if finding.code == "iterations")
        seconds = []
        for _ in range(REPEATS):
            start = time.process_time()
            identify(problem, estimator)
            seconds.append(time.process_time() - start)
        return median(seconds), float(told.split("converged in ")[1].split()[0])

    iv, didim = timed(IV(start="nominal")), timed(DIDIM(start="nominal"))
    return {
        "iv_seconds": iv[0],
        "iv_iterations": iv[1],
        "didim_seconds": didim[0],
        "didim_iterations": didim[1],
        "samples": float(len(made.t)),
    }


def iv_table(r: dict[str, float]) -> list[str]:
    """Lines of the printed table."""
    return [
        f"IV on 13 s of a TX-40 at 5 kHz       {r['iv_seconds']:8.2f} s  {r['iv_iterations']:.0f} iterations (bar 3 s)",
        f"DIDIM on the same                    {r['didim_seconds']:8.2f} s  {r['didim_iterations']:.0f} iterations",
    ]


if __name__ == "__main__":
    print(json.dumps(bench_iv(), indent=1))
