"""simulated_log: a log of a robot file under a controller, for those without a robot."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from steelyard._arrays import Array
from steelyard.errors import DataError, OutputError, SimulationError, choices
from steelyard.findings import Finding
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.motion.random import limit_findings, random_fourier
from steelyard.motion.trajectory import Fourier
from steelyard.project.demos.demo import furnished, noisy, rounded
from steelyard.regression.observe import Progress
from steelyard.simulation.closed_loop import Reference, simulate
from steelyard.simulation.controllers import controller_from
from steelyard.simulation.plant import Plant

# The random motion: harmonics, and turns of the slowest one per second.
HARMONICS, FREQUENCY_HZ = 5, 0.1
# sign(v) of friction is smooth over this speed [rad/s | m/s]: a simulation needs a width.
SIGN_WIDTH = 0.02
ENDINGS = (".csv", ".parquet")
# Bandwidths [Hz] where none are stated: the usual one, and the rate over it that a stable loop needs at least.
BANDWIDTHS = {
    "pd": {"bandwidth_hz": (5.0, 150.0)},
    "pid": {"bandwidth_hz": (3.0, 150.0)},
    "cascade": {"position_hz": (4.0, 240.0), "velocity_hz": (15.0, 60.0)},
    "computed-torque": {"bandwidth_hz": (8.0, 60.0)},
}


@dataclass(frozen=True)
class SimulatedLog:
    """A log as the content of a file, the true parameters by name, what the robot file did not state and was invented,
    RMS tracking errors by joint [rad | m], and what was noticed."""

    content: bytes
    rows: int
    truth: dict[str, float]
    invented: tuple[str, ...]
    tracking: dict[str, float]
    findings: tuple[Finding, ...]


def simulated_log(
    source: str,
    ending: str,
    controller: Mapping[str, Any],
    motion: Path | None = None,
    *,
    duration: float = 20.0,
    rate_hz: float = 1000.0,
    noise: float = 0.02,
    seed: int = 1,
    robot_seed: int = 1,
    terms: tuple[str, ...] | None = None,
    progress: Progress | None = None,
) -> SimulatedLog:
    """The closed loop of a robot on a motion, as a log: t, q_JOINT as encoders read it, tau_JOINT at the joints.

    `controller` is a table as [controller] in a project file; `motion` a file with t and q_JOINT (and v_, a_JOINT), as
    `steelyard excite` writes it, else a random motion within the limits. `noise` is that of the efforts relative to
    their RMS, coloured. `seed` is that of motion and noise, each with its own stream; what the robot file does not
    state, bodies or drives, is invented from `robot_seed`, so that other motions can be of the same robot.
    """
    if ending not in ENDINGS:
        raise OutputError(choices("log format", ending, ENDINGS))
    of_motion, of_noise = (np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(2))
    robot = read_robot(source)
    whole = furnished(robot, np.random.default_rng(robot_seed))
    suggested = DEFAULT_TERMS if robot.terms is None else robot.terms
    names = suggested if terms is None else terms
    model = Model(whole, named_terms(names, sign_width=SIGN_WIDTH))
    theta = model.layout.nominal
    assert theta is not None, "every body is furnished"
    plant = Plant(model, theta)
    trajectory = None if motion is not None else random_fourier(whole, HARMONICS, FREQUENCY_HZ, duration, of_motion)
    wanted = _random(trajectory, rate_hz, duration) if trajectory else _from_file(motion, robot, rate_hz)
    usual = BANDWIDTHS.get(controller["kind"], {}) if len(controller) == 1 else {}
    table = {**controller, **{key: min(hertz, rate_hz / ratio) for key, (hertz, ratio) in usual.items()}}
    made = simulate(plant, controller_from(table, plant, wanted.q), wanted, rate_hz, progress=progress)
    if not np.isfinite(made.q).all():
        raise SimulationError(
            "The robot did not follow the motion: lower the bandwidth (--gain) or slow the motion down."
        )
    q, effort = rounded(made.q, robot), noisy(made.tau, of_noise, noise)
    columns = {"t": np.round(made.t, 9)}
    columns |= {f"q_{joint}": x for joint, x in zip(robot.axis_names, q, strict=True)}
    columns |= {f"tau_{joint}": np.round(x, 6) for joint, x in zip(robot.axis_names, effort, strict=True)}
    frame = pl.DataFrame(columns)
    error = np.sqrt(np.mean((made.q - wanted.q) ** 2, axis=1))
    stated = Model(robot, named_terms(names, sign_width=SIGN_WIDTH)).layout
    known = {column.name for column in stated.columns if column.nominal is not None}
    return SimulatedLog(
        _written(frame, ending),
        frame.height,
        dict(zip(model.layout.names, theta.tolist(), strict=True)),
        tuple(dict.fromkeys(column.name for column in model.layout.columns if column.name not in known)),
        dict(zip(robot.axis_names, error.tolist(), strict=True)),
        limit_findings(trajectory, robot) if trajectory else (),
    )


def _random(trajectory: Fourier, rate_hz: float, duration: float) -> Reference:
    return Reference(*trajectory.at(np.arange(int(duration * rate_hz)) / rate_hz))


def _from_file(motion: Path | None, robot: Robot, rate_hz: float) -> Reference:
    """The motion of a file, read at the control rate; speeds and accelerations it does not have are differences."""
    assert motion is not None
    read = read_recording(motion)
    needed = ["t", *(f"q_{joint}" for joint in robot.axis_names)]
    missing = [name for name in needed if name not in read.columns]
    if missing:
        raise DataError(
            f"'{motion}' lacks the columns {', '.join(missing)}: a motion needs t [s] and q_JOINT [rad or m] of every "
            f"joint. It has: {', '.join(read.columns[:20])}."
        )
    listed = {
        symbol: [f"{symbol}_{joint}" for joint in robot.axis_names]
        for symbol in "qva"
        if all(f"{symbol}_{joint}" in read.columns for joint in robot.axis_names)
    }
    wanted = ["t", *(name for names in listed.values() for name in names)]
    parts = list(read.chunks(wanted))
    rows: dict[str, Array] = {
        name: np.concatenate([np.asarray(part[name], float) for part in parts]) for name in wanted
    }
    t = rows["t"] - rows["t"][0]
    if len(t) < 2 or not np.all(np.diff(t) > 0.0):
        raise DataError(
            f"The column t of '{motion}' does not rise: sort its rows, and remove those that repeat a time."
        )
    at = np.arange(int(t[-1] * rate_hz) + 1) / rate_hz
    found = {symbol: np.stack([np.interp(at, t, rows[name]) for name in names]) for symbol, names in listed.items()}
    v = found.get("v", np.gradient(found["q"], 1.0 / rate_hz, axis=1))
    return Reference(found["q"], v, found.get("a", np.gradient(v, 1.0 / rate_hz, axis=1)))


def _written(frame: pl.DataFrame, ending: str) -> bytes:
    if ending == ".csv":
        return frame.write_csv(float_precision=9).encode()
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()
