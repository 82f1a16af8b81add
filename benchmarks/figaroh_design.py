"""SLSQP by differences on the D-optimal criterion, W built by FIGAROH 1.0.2; the trace as JSON on standard output.

Run with the interpreter of the environment made from figaroh-requirements.txt; this file imports nothing of Steelyard.
The .npz holds the motion's basis (3, K, N), the numbers' `middle` and `half` (n, K), σ of the rows `noise` (n,), the
linear limits `side + both @ x ≥ 0`, the `start`, and a regressor in base columns `wanted` (n S, b) of random `states`
(3, S, n): FIGAROH's columns times a matrix found from them are these base columns, so that the criterion is the same.
FIGAROH's columns of sign(v) are overwritten by tanh(v / width): differences across a step mislead any search.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
import time
from pathlib import Path

import numpy as np
from figaroh.tools.robot import load_robot
from figaroh_tx40 import LoggedMotion
from scipy.optimize import minimize

# Largest difference from the base columns wanted, as a share of them: the URDF rounds lengths and angles.
ROUNDED = 1e-2
WIDTH = 0.05  # of the sign, rad/s


class Criterion:
    """−log det F / 2b of a motion, F from FIGAROH's W in base columns."""

    def __init__(self, robot, task: dict[str, np.ndarray]) -> None:
        self.robot, self.task = robot, task
        q, v, a = task["states"]
        rows = self.built(q, v, a).reshape(q.shape[1], len(q), -1)
        # where sign(v_j) stands among the columns of joint j
        self.signs = [int(np.flatnonzero((block == np.sign(v[:, [j]])).all(axis=0))[0]) for j, block in enumerate(rows)]
        w = self.regressor(q, v, a)
        self.mix = np.linalg.lstsq(w, task["wanted"], rcond=1e-6)[0]
        self.difference = float(np.linalg.norm(w @ self.mix - task["wanted"]) / np.linalg.norm(task["wanted"]))
        if self.difference > ROUNDED:
            sys.exit(
                f"The columns of {robot.model.name} do not make the base columns wanted: {self.difference:.1%} off."
            )

    def regressor(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """(n N, C), joint by joint, with smooth friction; the last column is that of the coupled wrist."""
        w = self.built(q, v, a)
        rows = w.reshape(v.shape[1], len(v), -1)
        for j, column in enumerate(self.signs):
            rows[j, :, column] = np.tanh(v[:, j] / WIDTH)
        rows[4:, :, -1] = np.tanh((v[:, 4] + v[:, 5]) / WIDTH)
        return w

    def built(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """The same as FIGAROH builds it."""
        motion = LoggedMotion(self.robot, {"q": q, "dq": v, "ddq": a, "tau": np.zeros_like(q)}, wrist_coupling=True)
        motion.process_data()
        motion.initialize_standard_parameters()
        motion.calculate_full_regressor()
        return motion.dynamic_regressor

    def __call__(self, x: np.ndarray) -> float:
        task = self.task
        numbers = task["middle"] + task["half"] * x.reshape(task["middle"].shape)
        q, v, a = (np.ascontiguousarray((numbers @ part).T) for part in task["basis"])
        w = self.regressor(q, v, a) @ self.mix / np.repeat(task["noise"], len(q))[:, None]
        return -0.5 * float(np.linalg.slogdet(w.T @ w)[1]) / w.shape[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("urdf", type=Path)
    parser.add_argument("task", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    with np.load(chosen.task) as file:
        task = {name: file[name] for name in file.files}
    with contextlib.redirect_stdout(sys.stderr):
        criterion = Criterion(load_robot(str(chosen.urdf), load_by_urdf=True), task)
        clock = time.process_time()
        trace = [(0.0, task["start"].tolist())]

        def told(x: np.ndarray) -> None:
            trace.append((time.process_time() - clock, x.tolist()))
            if trace[-1][0] > chosen.seconds:
                raise StopIteration

        minimize(
            criterion,
            task["start"],
            method="SLSQP",
            callback=told,
            constraints={
                "type": "ineq",
                "fun": lambda x: task["side"] + task["both"] @ x,
                "jac": lambda x: task["both"],
            },
            options={"maxiter": 1000, "ftol": 1e-7},
        )
    print(json.dumps({"trace": trace, "difference": criterion.difference}))


if __name__ == "__main__":
    main()
