"""The regressor of a looped robot compared with that of an open one: closure, columns and projection onto the axes."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

SAMPLES = 20_000
RATE_HZ = 1000.0
REPEATS = 9


def bench_loops() -> dict[str, float]:
    """Processor microseconds per sample of standard regressors along a smooth motion, tile by tile as the stream makes
    them; medians after one pass that is not counted."""
    from steelyard.formats.robots import read_robot
    from steelyard.model.model import Model
    from steelyard.model.terms import Motion, named_terms
    from steelyard.motion.random import random_fourier
    from steelyard.regression.observe import TILE

    def cost(name: str) -> dict[str, float]:
        robot = read_robot(name)
        model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset")))
        motion = random_fourier(robot, 5, 0.1, SAMPLES / RATE_HZ, np.random.default_rng(1))
        q, v, a = motion.at(np.arange(SAMPLES) / RATE_HZ)
        tile = np.empty((len(model.places), TILE))

        def stream(work: Callable[[Motion], object]) -> Callable[[], object]:
            def run() -> None:
                past: dict[str, object] = {}
                for at in range(0, SAMPLES - TILE + 1, TILE):
                    part = slice(at, at + TILE)
                    work(Motion(*(np.ascontiguousarray(x[:, part]) for x in (q, v, a)), past=past))

            return run

        told = {f"{name}_us": 1e6 / SAMPLES * _timed(stream(lambda motion: model.fill(motion, tile)))}
        if model.looped is not None:
            follow = model.looped.follow
            told[f"{name}_closure_us"] = 1e6 / SAMPLES * _timed(stream(follow))
        return told

    found: dict[str, float] = {}
    for name in ("tx40", "fivebar", "orthoglide", "delta", "stewart"):
        found |= cost(name)
    return found | {"ratio": found["orthoglide_us"] / found["tx40_us"]}


def _timed(work: Callable[[], object]) -> float:
    work()
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return median(seconds)


def loops_table(found: dict[str, float]) -> list[str]:
    """Lines of the table."""
    lines = [f"regressor of an open arm (tx40)     {found['tx40_us']:8.2f} µs per sample"]
    for name in ("fivebar", "orthoglide", "delta", "stewart"):
        own, closure = found[f"{name}_us"], found[f"{name}_closure_us"]
        ratio = f"{own / found['tx40_us']:.1f} × the open one" + ("  (bar 12 ×)" if name == "orthoglide" else "")
        lines.append(f"  {name:<34}{own:8.2f} µs, {closure:.2f} of them closure; {ratio}")
    return lines
