"""Simulate logs of an Orthoglide: positions and currents of its drives, without and with 1.983 kg on the platform.

`python examples/orthoglide/simulate.py` writes them to `runs/` next to this file. The true robot is the built-in one,
the true gains are those of the paper's Table 3.
"""

from pathlib import Path

import numpy as np
import polars as pl

import steelyard as sy
from steelyard.project.demos.orthoglide import GAINS, LOAD, NOISE, WEIGHED, exciting, modelled, truth, weighed

HERE = Path(__file__).resolve().parent
RATE_HZ = 500.0
POINTS = 60
# Resolution of the linear scales [m].
SCALE_STEP = 1e-6
# One motion to identify, another to validate; each without and with the load.
MOTIONS = {"identify": 11, "validate": 12}


def main(folder: Path = HERE / "runs", points: int = POINTS) -> None:
    robot = sy.read_robot("orthoglide")
    model = modelled(robot, [weighed()])
    theta = truth(model, {LOAD: WEIGHED})
    rng = np.random.default_rng(5)
    folder.mkdir(exist_ok=True)
    for role, seed in MOTIONS.items():
        path = exciting(robot, np.random.default_rng(seed), points)
        t = np.arange(0.0, path.duration, 1.0 / RATE_HZ)
        q, v, a = path.at(t)
        for name, load in (("free", "none"), ("loaded", LOAD)):
            current = model.torque(q, v, a, theta, load=load) / GAINS[:, None]
            rms = np.sqrt(np.mean(current**2, axis=1, keepdims=True))
            current += NOISE * rms * rng.standard_normal(current.shape)
            measured = {f"q{j}": SCALE_STEP * np.round(x / SCALE_STEP) for j, x in enumerate(q, start=1)}
            table = {"t": t} | measured | {f"i{j}": x for j, x in enumerate(current, start=1)}
            pl.DataFrame(table).write_parquet(folder / f"{role}-{name}.parquet")
    print(f"{2 * len(MOTIONS)} logs in {folder}")


if __name__ == "__main__":
    main()
