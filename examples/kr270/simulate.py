"""Simulate logs of a KUKA KR270 with a spring balancer: positions and currents, with and without 175 kg at the flange.

`python examples/kr270/simulate.py` writes them to `runs/` next to this file. The truth is that of `steelyard paper p2`.
With `--centred` the payload's centre of mass is on axis 6.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

import steelyard as sy
from steelyard.project.papers.setups.kr270 import GAINS, LOAD, body, kr270, motion, standard

HERE = Path(__file__).resolve().parent
RATE_HZ = 500.0
POINTS = 20
# White noise as a fraction of each current's rms; encoder resolution [rad].
NOISE, ENCODER_STEP = 0.05, 1e-5
# One motion to identify, another to validate; each without and with the load.
MOTIONS = {"identify": 11, "validate": 12}


def main(folder: Path = HERE / "runs", centred: bool = False) -> None:
    model = kr270([sy.Payload(LOAD)])
    theta = standard(model, body(centred))
    rng = np.random.default_rng(5)
    folder.mkdir(exist_ok=True)
    for role, seed in MOTIONS.items():
        path = motion(model.robot, POINTS, seed)
        t = np.arange(0.0, path.duration, 1.0 / RATE_HZ)
        q, v, a = path.at(t)
        for name, load in (("free", "none"), ("loaded", LOAD)):
            current = model.torque(q, v, a, theta, load=load) / GAINS[:, None]
            rms = np.sqrt(np.mean(current**2, axis=1, keepdims=True))
            current += NOISE * rms * rng.standard_normal(current.shape)
            measured = {f"q{j}": ENCODER_STEP * np.round(x / ENCODER_STEP) for j, x in enumerate(q, start=1)}
            table = {"t": t} | measured | {f"i{j}": x for j, x in enumerate(current, start=1)}
            pl.DataFrame(table).write_parquet(folder / f"{role}-{name}.parquet")
    print(f"{2 * len(MOTIONS)} logs in {folder}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--centred", action="store_true", help="centre of mass of the payload on axis 6")
    main(centred=parser.parse_args().centred)
