"""Simulate logs of a KUKA KR270 with a spring balancer: positions and currents, with and without 175 kg at the flange.

`python examples/kr270/simulate.py` writes them to `runs/` next to this file; the true parameters are in `truth.toml`.
"""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

import steelyard as sy
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.robot import Limits
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_points
from steelyard.motion.trajectory import TrapezoidalAcceleration

HERE = Path(__file__).resolve().parent
TRUTH = tomllib.loads((HERE / "truth.toml").read_text("utf-8"))
RATE_HZ = 500.0
POINTS = 20
# White noise as a fraction of each current's rms; encoder resolution [rad].
NOISE, ENCODER_STEP = 0.05, 1e-5
LOAD = "175kg"
# One motion to identify, another to validate; each without and with the load.
MOTIONS = {"identify": 11, "validate": 12}


def main(folder: Path = HERE / "runs") -> None:
    robot = sy.read_robot("kr270")
    model = sy.Model(robot, named_terms(robot.terms or ()), payloads=[sy.Payload(LOAD)])
    theta = standard(model, body())
    rng = np.random.default_rng(5)
    folder.mkdir(exist_ok=True)
    for role, seed in MOTIONS.items():
        path = motion(robot, POINTS, seed)
        t = np.arange(0.0, path.duration, 1.0 / RATE_HZ)
        q, v, a = path.at(t)
        for name, load in (("free", "none"), ("loaded", LOAD)):
            current = model.torque(q, v, a, theta, load=load) / np.array(TRUTH["gain"]["identified"])[:, None]
            rms = np.sqrt(np.mean(current**2, axis=1, keepdims=True))
            current += NOISE * rms * rng.standard_normal(current.shape)
            measured = {f"q{j}": ENCODER_STEP * np.round(x / ENCODER_STEP) for j, x in enumerate(q, start=1)}
            table = {"t": t} | measured | {f"i{j}": x for j, x in enumerate(current, start=1)}
            pl.DataFrame(table).write_parquet(folder / f"{role}-{name}.parquet")
    print(f"{2 * len(MOTIONS)} logs in {folder}")


def motion(robot: sy.Robot, points: int, seed: int) -> TrapezoidalAcceleration:
    """Random points within the stated limits, joined as a robot controller does."""
    stated = TRUTH["motion"]
    bounds = np.radians([stated["lower_deg"], stated["upper_deg"], stated["speed_deg_s"]])
    joints = [replace(j, limits=Limits(*b)) for j, b in zip(robot.joints, bounds.T.tolist(), strict=True)]
    places = random_points(replace(robot, joints=tuple(joints)), points, np.random.default_rng(seed))
    return TrapezoidalAcceleration(places, bounds[2], np.array(stated["acceleration"]))


def body(centred: bool = False) -> np.ndarray:
    """The payload's ten parameters; a centred one has its first moment along axis 6 alone."""
    mass, moment = TRUTH["payload"]["mass"], np.array(TRUTH["payload"]["first_moment"])
    if centred:
        moment[:2] = 0.0
    return inertial_vector(mass, moment / mass, np.diag(TRUTH["payload"]["inertia_com"]))


def standard(model: sy.Model, load: np.ndarray) -> np.ndarray:
    """The truth as a standard set, one number a column: base values on their leading columns, zero on the rest."""
    values = {
        f"{owner}.{symbol}": x
        for part in ("printed", "filled")
        for owner, table in TRUTH[part].items()
        for symbol, x in table.items()
    }
    values |= {f"{LOAD}.{symbol}": float(x) for symbol, x in zip(INERTIAL, load, strict=True)}
    return np.array([values.get(name, 0.0) for name in model.layout.names])


if __name__ == "__main__":
    main()
