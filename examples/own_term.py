"""A custom term: friction proportional to the square root of the speed, in addition to Coulomb and viscous friction.

Run it with `python examples/own_term.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import steelyard as sy
from steelyard.model.terms import Column, Entry, Motion
from steelyard.motion.random import random_fourier


@dataclass(frozen=True)
class RootFriction:
    """τ_j += Fr_j sign(q̇_j) √|q̇_j|"""

    name: ClassVar[str] = "root-friction"

    def entries(self, robot: sy.Robot) -> tuple[Entry, ...]:
        return tuple(Entry(j, Column(joint.name, "Fr", "N.m.s0.5")) for j, joint in enumerate(robot.joints))

    def fill(self, robot: sy.Robot, motion: Motion) -> np.ndarray:
        return np.sign(motion.v) * np.sqrt(np.abs(motion.v))


def main() -> None:
    rng = np.random.default_rng(4)
    robot = sy.read_robot("planar2r")
    model = sy.Model(robot, [sy.Viscous(), sy.Coulomb(), RootFriction()])
    theta = model.layout.nominal.copy()  # columns without a value in the robot file are zero
    theta[model.layout.index("joint1.Fr")] = 4.0

    q, v, a = random_fourier(robot, 5, 0.1, 20.0, rng).at(np.arange(0.0, 20.0, 0.01))
    tau = model.torque(q, v, a, theta) + 0.2 * rng.standard_normal(q.shape)
    samples = sy.Samples.from_arrays("run", robot.joint_names, 100.0, q, v, a, tau)

    for terms in ([sy.Viscous(), sy.Coulomb()], [sy.Viscous(), sy.Coulomb(), RootFriction()]):
        result = sy.identify(sy.Problem(sy.Model(robot, terms), [samples]))
        print(f"{[term.name for term in terms]}: relative error {result.relative_error.total:.2%}")
    k = result.base.names.index("joint1.Fr")
    print(f"joint1.Fr = {result.value[k]:.2f} ± {result.std[k]:.2f} {result.base.units[k]} (true: 4.00)")


if __name__ == "__main__":
    main()
