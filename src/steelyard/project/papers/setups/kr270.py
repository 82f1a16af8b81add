"""P2 (Jubien, Gautier): a KUKA KR270 with spring balancer, drive gains and a payload of 175 kg, simulated.

The truth is Table III, corrected where the print cannot be right, with small numbers where it prints none. Motions join
random points, for the paper's trajectories are not published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.robot import Limits, Robot
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_points
from steelyard.motion.trajectory import Trajectory, TrapezoidalAcceleration
from steelyard.project.papers.printed_tables import lines_of, printed
from steelyard.signals.samples import Samples

PRINTED = printed("p2")
LOAD = "175kg"
_GAINS = np.array(list(lines_of(PRINTED["table_3"]["gains"]).values()))
# Joint drive gains [N.m per unit of current reference], and the maker's.
GAINS, MAKER = _GAINS[:, 0], _GAINS[:, 2]
# Table III without the gains: {base parameter: value, 100 σ/|value|}, the mass of the payload without σ.
TABLE_3 = lines_of(PRINTED["table_3"]["parameters"])

# Shares of a hundredth, as P2 eq. 22 has them next to the gear ratios: motor 5 turns with joint 4, motor 6 with both
COUPLED = ((4, 3, 0.012), (5, 3, -0.010), (5, 4, 0.015))


class Run(NamedTuple):
    """A motion at the rate of the rows [Hz], and the `torque` (n, N) [N.m] that the motors give for it."""

    name: str
    load: str
    rate: float
    q: Array
    v: Array
    a: Array
    torque: Array


def kr270(payloads: Sequence[Payload] = (), coupled: bool = False) -> Model:
    robot = read_robot("kr270")
    if coupled:
        shares = np.eye(robot.dof)
        for motor, joint, share in COUPLED:
            shares[motor, joint] = share
        robot = replace(robot, coupling=shares)
    return Model(robot, named_terms(robot.terms or ()), payloads=payloads)


def table_3() -> tuple[str, ...]:
    """Names of the base parameters of the robot that the paper prints."""
    return tuple(name for name in TABLE_3 if not name.startswith(LOAD))


def truth() -> dict[str, float]:
    """True values by leading column: Table III, corrected, and what it leaves out."""
    filled = {f"{owner}.{symbol}": x for owner, own in PRINTED["filled"].items() for symbol, x in own.items()}
    return {name: TABLE_3[name][0] for name in table_3()} | PRINTED["corrected"] | filled


def body(centred: bool = False) -> Array:
    """The payload's ten parameters; a centred one has its first moment along axis 6 alone."""
    mass, moment = PRINTED["payload"]["mass"], np.array(PRINTED["payload"]["first_moment"])
    if centred:
        moment[:2] = 0.0
    return inertial_vector(mass, moment / mass, np.diag(PRINTED["payload"]["inertia_com"]))


def standard(model: Model, load: Array) -> Array:
    """The truth as a standard set, one number a column: base values on their leading columns, zero on the rest."""
    values = truth() | {f"{LOAD}.{symbol}": float(x) for symbol, x in zip(INERTIAL, load, strict=True)}
    return np.array([values.get(name, 0.0) for name in model.layout.names])


def motion(robot: Robot, points: int, seed: int) -> TrapezoidalAcceleration:
    """Random points within the stated limits, joined as a robot controller does."""
    stated = PRINTED["motion"]
    bounds = np.radians([stated["lower_deg"], stated["upper_deg"], stated["speed_deg_s"]])
    joints = [replace(j, limits=Limits(*b)) for j, b in zip(robot.joints, bounds.T.tolist(), strict=True)]
    places = random_points(replace(robot, joints=tuple(joints)), points, np.random.default_rng(seed))
    return TrapezoidalAcceleration(places, bounds[2], np.array(stated["acceleration"]))


def payload(known: Sequence[str] = ("M",), centred: bool = False) -> Payload:
    values: dict[str, float] = dict(zip(INERTIAL, body(centred).tolist(), strict=True))
    return Payload(LOAD, known={symbol: values[symbol] for symbol in known})


def true_base(model: Model, base: BaseParameters, centred: bool = False) -> Array:
    return base.map @ standard(model, body(centred))


@cache
def runs(
    points: int = 8, rate: float = 20.0, centred: bool = False, coupled: bool = False, seed: int = 1
) -> tuple[Run, ...]:
    """Two motions, each without and with the payload; the paper-like size is 8 points at 20 rows per second."""
    model = kr270(coupled=coupled)
    load = body(centred)
    paths = [motion(model.robot, points, seed + k) for k in (1, 2)]
    return carried(model, standard(model, load), load, paths, rate)


def carried(model: Model, theta: Array, load: Array, paths: Sequence[Trajectory], rate: float) -> tuple[Run, ...]:
    """Every motion without and with a body (10,) on the last link.

    The body is added to the link by hand, so that nothing here rests on the code for payloads.
    """
    loaded = theta.copy()
    loaded[model.inertial_index[-1]] += load
    to_motors = np.linalg.inv(model.robot.motor_map).T
    out = []
    for k, path in enumerate(paths, start=1):
        # half a step off the clock of the motion: where it rests, no sign of a speed is defined
        q, v, a = path.at(np.arange(0.5 / rate, path.duration, 1.0 / rate))
        for name, case, parameters in (("free", "none", theta), ("loaded", LOAD, loaded)):
            out.append(Run(f"{name}{k}", case, rate, q, v, a, to_motors @ model.torque(q, v, a, parameters)))
    return tuple(out)


def logged(
    clean: Sequence[Run],
    robot: Robot,
    noise: float = 0.0,
    seed: int = 0,
    colour: float = 0.0,
    gains: Array = GAINS,
    stated: Array | None = None,
) -> list[Samples]:
    """The runs as samples whose effort is `stated` gain × current (None: unknown, 1) brought to the joints.

    Currents are torque / `gains`, with noise of a share of each one's rms, white or AR(1) with coefficient `colour`
    from row to row.
    """
    rng = np.random.default_rng(seed)
    size = np.sqrt(np.mean(np.concatenate([run.torque for run in clean], axis=1) ** 2, axis=1, keepdims=True))
    factor = (np.ones(robot.dof) if stated is None else stated) / gains
    out = []
    for run in clean:
        shocks = rng.standard_normal(run.torque.shape)
        # from its stationary state: no row is quieter than another
        first = colour * rng.standard_normal((robot.dof, 1))
        error = lfilter([np.sqrt(1.0 - colour**2)], [1.0, -colour], shocks, axis=1, zi=first)[0]
        effort = robot.motor_map.T @ (factor[:, None] * (run.torque + noise * size * error))
        out.append(Samples.from_arrays(run.name, robot.joint_names, run.rate, run.q, run.v, run.a, effort, run.load))
    return out
