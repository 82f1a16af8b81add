"""Identify a simulated Stäubli TX-40 with the Python API, without files or project; the true parameters are known.

Run it with `python examples/identify_simulated.py`.
"""

import numpy as np

import steelyard as sy
from steelyard.motion.random import random_fourier

RATE_HZ = 500.0


def simulated(model: sy.Model, theta: np.ndarray, rng: np.random.Generator, name: str) -> sy.Samples:
    """Twenty seconds of a random motion within the joint limits, with 3 % torque noise."""
    motion = random_fourier(model.robot, harmonics=5, frequency_hz=0.1, duration=20.0, rng=rng)
    q, v, a = motion.at(np.arange(0.0, motion.duration, 1 / RATE_HZ))
    tau = model.torque(q, v, a, theta)
    size = np.sqrt(np.mean(tau**2, axis=1, keepdims=True))
    return sy.Samples.from_arrays(
        name, model.robot.joint_names, RATE_HZ, q, v, a, tau + 0.03 * size * rng.standard_normal(tau.shape)
    )


def main() -> None:
    rng = np.random.default_rng(2)
    robot = sy.read_robot("tx40")
    model = sy.Model(robot, [sy.Rotor(), sy.Viscous(), sy.Coulomb(), sy.Offset(), sy.Coupling()])
    nominal = model.layout.nominal
    truth = nominal * (1 + 0.1 * rng.standard_normal(nominal.size))

    problem = sy.Problem(model, [simulated(model, truth, rng, "fit")], lowpass_hz=20.0)
    unseen = sy.Problem(model, [simulated(model, truth, rng, "unseen")], lowpass_hz=20.0, rest=problem.rest_speeds)
    information = sy.observe(problem)

    for estimator in (sy.LS(), sy.WLS()):
        result = sy.identify(problem, estimator, information, held_out=unseen)
        low, high = result.interval(0.95)
        true = result.base.map @ truth
        inside = int(np.sum((low <= true) & (true <= high)))
        print(f"{estimator.name:4}{result.verdict}")
        print(f"    {inside} of {len(result.base)} true values lie in their 95 % intervals")


if __name__ == "__main__":
    main()
