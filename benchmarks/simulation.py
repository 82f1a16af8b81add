"""Closed loop of the TX-40 at 5 kHz, one Runge–Kutta step per sample, and a Python loop over Pinocchio's `aba`.

The peer simulates friction, P–PI cascade and zero-order hold too, with NumPy around four calls of `aba` per sample.
It has no coupled rotors, so both leave out the wrist's coupling in that comparison. The real-time factor is that of the
whole arm.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

RATE_HZ = 5000.0
DURATION_S = 10.0
PEER_S = 0.5
LOOPED_HZ, LOOPED_S = 1000.0, 4.0


def _timed(work: Callable[[], object], repeats: int) -> float:
    """Median processor seconds of several runs, after one that is not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return median(seconds)


def bench_simulation() -> dict[str, float]:
    """Real-time factor of the whole arm, and the ratio to the peer on what both can simulate."""
    from steelyard.formats.robots import read_robot
    from steelyard.model.model import Model
    from steelyard.model.terms import Coulomb, Offset, Rotor, Viscous, named_terms
    from steelyard.motion.random import random_fourier
    from steelyard.simulation.closed_loop import Reference, simulate
    from steelyard.simulation.controllers import Cascade
    from steelyard.simulation.plant import Plant

    robot = read_robot("tx40")
    trajectory = random_fourier(robot, 5, 0.1, DURATION_S, np.random.default_rng(1))
    model = Model(robot, named_terms(robot.terms or (), sign_width=0.2))
    assert model.layout.nominal is not None
    plant = Plant(model, model.layout.nominal)
    controller = Cascade.tuned(plant)
    whole = _timed(lambda: simulate(plant, controller, trajectory, RATE_HZ), 7)

    plain = Model(robot, [Rotor(), Viscous(), Coulomb(0.2), Offset()])
    assert plain.layout.nominal is not None
    # motion does not show these masses, and the peer has no place for a first moment without a mass
    theta = plain.layout.nominal.copy()
    theta[[plain.layout.index(f"{link.name}.M") for link in robot.links[:2]]] = 4.0
    simple = Plant(plain, theta)
    tuned = Cascade.tuned(simple)
    count = int(PEER_S * RATE_HZ)
    lively = random_fourier(robot, 3, 1.0 / PEER_S, PEER_S, np.random.default_rng(2))
    part = Reference(*lively.at(np.arange(count) / RATE_HZ))
    ours = _timed(lambda: simulate(simple, tuned, part, RATE_HZ), 7)
    peer = _Peer(simple)
    theirs = _timed(lambda: peer.simulate(tuned, part), 3)
    difference = np.abs(peer.simulate(tuned, part) - simulate(simple, tuned, part, RATE_HZ).q).max()
    looped = read_robot("orthoglide")
    legs = Model(looped, named_terms(looped.terms or (), sign_width=0.02))
    assert legs.layout.nominal is not None
    parallel = Plant(legs, legs.layout.nominal)
    held = Cascade.tuned(parallel)
    path = random_fourier(looped, 5, 1.0 / LOOPED_S, LOOPED_S, np.random.default_rng(1))
    closed = _timed(lambda: simulate(parallel, held, path, LOOPED_HZ), 5)
    return {
        "orthoglide_us": 1e6 * closed / (LOOPED_S * LOOPED_HZ),
        "orthoglide_real_time_factor": LOOPED_S / closed,
        "real_time_factor": DURATION_S / whole,
        "microseconds_a_sample": 1e6 * whole / (DURATION_S * RATE_HZ),
        "pinocchio_us": 1e6 * theirs / count,
        "pinocchio_aba_only_us": 1e6 * _timed(peer.aba_only, 3),
        "same_plant_us": 1e6 * ours / count,
        "ratio": theirs / ours,
        "largest_difference": float(difference),
    }


def simulation_table(r: dict[str, float]) -> list[str]:
    """Lines of the printed table."""
    return [
        f"TX-40 in closed loop at 5 kHz        {r['microseconds_a_sample']:8.2f} µs/sample  "
        f"{r['real_time_factor']:5.1f}× real time (bar 30×)",
        f"  Python loop over Pinocchio's aba  {r['pinocchio_us']:8.2f} µs/sample  {r['ratio']:5.1f}× slower (bar 4×), "
        f"of which aba {r['pinocchio_aba_only_us']:.1f}",
        f"  largest difference                {r['largest_difference']:8.1e} rad",
        f"Orthoglide in closed loop at 1 kHz   {r['orthoglide_us']:8.2f} µs/sample  "
        f"{r['orthoglide_real_time_factor']:5.1f}× real time",
    ]


class _Peer:
    """The same loop in Python: `aba` for rigid bodies and rotors, NumPy for the rest."""

    def __init__(self, plant: Any) -> None:
        import pinocchio as pin

        self.pin, self.plant, robot = pin, plant, plant.robot
        self.model = pin.Model()
        for k, (joint, ten) in enumerate(zip(robot.joints, plant.theta[plant.model.inertial_index], strict=True)):
            self.model.addJoint(k, pin.JointModelRZ(), pin.SE3(joint.pose.rotation, joint.pose.position), joint.name)
            xx, xy, xz, yy, yz, zz, mx, my, mz, m = ten
            body = pin.Inertia.FromDynamicParameters(np.array([m, mx, my, mz, xx, xy, yy, xz, yz, zz]))
            self.model.appendBodyToJoint(k + 1, body, pin.SE3.Identity())
        self.model.gravity.linear = robot.gravity

        def drive(symbol: str) -> np.ndarray:
            return plant.theta[[plant.model.layout.index(f"{name}.{symbol}") for name in robot.joint_names]]

        self.model.armature = drive("Ia")
        self.viscous, self.coulomb, self.offset = drive("Fv"), drive("Fc"), drive("off")
        self.data = self.model.createData()

    def aba_only(self) -> None:
        """Four calls, the least a sample can cost."""
        q = np.full(self.model.nq, 0.3)
        for _ in range(4):
            self.pin.aba(self.model, self.data, q, q, q)

    def simulate(self, controller: Any, reference: Any) -> np.ndarray:
        n, h, aba, model, data = self.model.nq, 1.0 / RATE_HZ, self.pin.aba, self.model, self.data
        viscous, coulomb, offset = self.viscous, self.coulomb, self.offset
        kp, kd, ki, kiv, share, _ = controller.gains(n)
        q_r, v_r = np.ascontiguousarray(reference.q.T), np.ascontiguousarray(reference.v.T)
        q, v, last = q_r[0].copy(), np.zeros(n), q_r[0].copy()
        integral = self.plant.static_torque(q) - kd * share * v_r[0]
        out = np.empty_like(reference.q)

        def acceleration(q: np.ndarray, v: np.ndarray) -> np.ndarray:
            return aba(model, data, q, v, tau - viscous * v - coulomb * np.tanh(v / 0.2) - offset)

        for k in range(len(q_r)):
            error, slip = q_r[k] - q, share * v_r[k] - (q - last) / h
            last = q
            tau = kp * error + kd * slip + integral
            integral = integral + h * (ki * error + kiv * slip)
            out[:, k] = q
            a1 = acceleration(q, v)
            v2 = v + 0.5 * h * a1
            a2 = acceleration(q + 0.5 * h * v, v2)
            v3 = v + 0.5 * h * a2
            a3 = acceleration(q + 0.5 * h * v2, v3)
            v4 = v + h * a3
            a4 = acceleration(q + h * v3, v4)
            q = q + h / 6.0 * (v + 2.0 * v2 + 2.0 * v3 + v4)
            v = v + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
        return out


if __name__ == "__main__":
    print(json.dumps(bench_simulation(), indent=1))
