"""P1 (Tzvetkova, recursive estimation of a planar arm) as experiments with a known truth.

The paper gives neither lengths, amplitudes, gains of the loop nor the start; those here are chosen.
"""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators.gradient.adaptive_control import Adaptation, AdaptiveControl, Measurement, adaptive_experiment
from steelyard.estimators.gradient.stopping import Stop, StoppingRule
from steelyard.estimators.gradient.update_rules import ParameterBounds, Seen, UpdateRule
from steelyard.formats.robots import read_robot
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.motion.trajectory import Quintic, Trajectory
from steelyard.project.papers.printed_tables import printed
from steelyard.simulation.plant import Plant

P = np.array([22.0, 5.0, 3.0, 0.1])
# p4 is not p3: five numbers that no arm has, good as the target of a regression only.
P_OF_FIVE, START_OF_FIVE = np.array(printed("p1")["estimate"]["values"]), np.array([15.0, 3.0, 1.0, 1.0, 0.0])
AMPLITUDE = np.array([1.5, 1.0])
DURATION = 2.0
# Twenty-five iterations a motion, α = 20 1/s and β = 100 1/s².
CONTROL = AdaptiveControl(20.0, 100.0, 500.0, 40)
ITERATIONS = 25
# No motion is ever enough for it: to see how far an update comes.
NEVER = StoppingRule(1e-15, 1e-15, 1e15)


def planar() -> Plant:
    model = Model(read_robot("planar2r"))
    theta = model.layout.nominal
    assert theta is not None
    return Plant(model, theta)


def coordinates() -> Array:
    """T (4, 4) with P = T χ_b: the paper's p2 is the base parameter ZZ2 − M2 plus twice MX2 + M2, for L2 = 1."""
    turned = np.eye(4)
    turned[1, 2] = 2.0
    return turned


def one_motion(count: int) -> list[Trajectory]:
    """The proportional quintic (28) again and again, A = (1.5, 1) rad in 2 s."""
    return [Quintic(np.column_stack([np.zeros(2), AMPLITUDE]), np.array([0.0, DURATION]))] * count


def varied_motions(count: int, seed: int) -> list[Trajectory]:
    """Quintics from rest to rest through three random positions, 2 s each."""
    rng = np.random.default_rng(seed)
    times = np.array([0.0, 0.5, 1.0]) * DURATION
    return [Quintic(rng.uniform(-np.pi, np.pi, (2, 3)), times) for _ in range(count)]


def driven(
    motions: list[Trajectory],
    rule: UpdateRule,
    start: Array = 0.5 * P,
    stop: Stop = NEVER,
    noise: float = 0.0,
    seed: int = 0,
    box: ParameterBounds | None = None,
) -> Adaptation:
    """The adaptive experiment on the planar arm, `noise` [rad/s²] on the measured accelerations."""
    measured = Measurement(acceleration_noise=noise, rng=np.random.default_rng(seed))
    return adaptive_experiment(planar(), motions, start, rule, stop, CONTROL, measured, box, coordinates())


def truth_of(plant: Plant) -> Array:
    return base_parameters(plant.model).map @ plant.theta


def corrected_g(q: Array, v: Array, a: Array) -> Array:
    """G (2, 5, N) before p4 = p3 is used: columns 3 and 4 of the printed G, with 4 put right."""
    s, c, (v1, v2), (a1, a2) = np.sin(q[1]), np.cos(q[1]), v, a
    zero = np.zeros_like(s)
    return np.array(
        [
            [
                a1,
                a1 + a2,
                2 * c * a1 + c * a2 - 2 * s * v1 * v2,
                -s * v2**2,
                -2 * s * a1 - s * a2 - c * v2**2 - 2 * c * v1 * v2,
            ],
            [zero, a1 + a2, c * a1, s * v1**2, -s * a1 + c * v1**2],
        ]
    )


def arm_g(q: Array, v: Array, a: Array) -> Array:
    """G (2, 4, N) of an arm, whose p4 is p3."""
    five = corrected_g(q, v, a)
    return np.stack([five[:, 0], five[:, 1], five[:, 2] + five[:, 3], five[:, 4]], axis=1)


def printed_g(q: Array, v: Array, a: Array) -> Array:
    """G (2, 5, N) as the paper prints it: column 4 has its rows swapped and both signs wrong."""
    g = corrected_g(q, v, a)
    g[0, 3], g[1, 3] = np.sin(q[1]) * v[0] ** 2, -np.sin(q[1]) * v[1] ** 2
    return g


def rows_of_five(motions: list[Trajectory]) -> list[Seen]:
    """G₅ and u = G₅ P₅ along the program motions, 25 samples each."""
    out = []
    for motion in motions:
        t = (np.arange(ITERATIONS) + 1.0) * DURATION / (ITERATIONS + 1)
        g = corrected_g(*motion.at(t))
        out += [Seen(g[:, :, k], g[:, :, k] @ P_OF_FIVE) for k in range(ITERATIONS)]
    return out
