"""FIGAROH 1.0.2 on a logged TX40 motion: time, memory and residual, as one JSON object on standard output.

Run with the interpreter of the environment made from figaroh-requirements.txt (`make bench` does); this file imports
nothing of Steelyard. FIGAROH's own functions do the work, through the class its users derive from, in its own order:

    build_regressor_basic → columns of zeros out → signal.decimate per joint and column → double QR and least squares

The motion comes in already filtered and differentiated, so that both packages start from the same numbers:
an .npz with `q`, `dq`, `ddq`, `tau`, each samples × 6 [rad, rad/s, rad/s², N·m]. An optional boolean `keep` (samples)
is handed over as FIGAROH's sample mask: a decimated row stays when the sample it falls on is kept.
"""

from __future__ import annotations

import os

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
for _variable in THREAD_VARIABLES:  # read once, when the libraries below are loaded
    os.environ[_variable] = "1"
os.environ.setdefault("MPLBACKEND", "Agg")

import argparse
import contextlib
import gc
import json
import logging
import resource
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pinocchio
from figaroh.identification.base_identification import BaseIdentification
from figaroh.tools.robot import load_robot

ZERO_TOLERANCE = 0.001  # FIGAROH's default in BaseIdentification.solve
MEGABYTE = 1e6


class LoggedMotion(BaseIdentification):
    """FIGAROH's identification, fed from arrays instead of a YAML file and a folder of CSV."""

    def __init__(self, robot, arrays: dict[str, np.ndarray], wrist_coupling: bool) -> None:
        self._arrays = arrays
        self._wrist_coupling = wrist_coupling
        super().__init__(robot, config_file="")

    def load_param(self, config_file, setting_type="identification"):
        names = list(self.model.names)[1:]
        self.identif_config = {
            "active_joints": names,
            "act_idxv": [self.model.joints[self.model.getJointId(name)].idx_v for name in names],
            "is_joint_torques": True,
            "is_external_wrench": False,
            "has_friction": True,
            "has_actuator_inertia": True,
            "has_joint_offset": True,
            # Nominal values: FIGAROH warns once per joint when they are missing, and the fit does not use them.
            **{key: [0.0] * len(names) for key in ("fv", "fs", "Ia", "off")},
        }

    def load_trajectory_data(self, data_source=None):
        return self._arrays

    def process_data(self, truncate=None):
        self.processed_data = {
            "positions": self._arrays["q"],
            "velocities": self._arrays["dq"],
            "accelerations": self._arrays["ddq"],
            "torques": self._arrays["tau"],
        }
        self.num_samples = len(self._arrays["q"])
        keep = self._arrays.get("keep")
        self._sample_mask = None if keep is None else np.asarray(keep, dtype=bool)

    def calculate_full_regressor(self):
        super().calculate_full_regressor()
        if self._wrist_coupling:
            self.dynamic_regressor = np.hstack([self.dynamic_regressor, self._wrist_columns()])

    def initialize_standard_parameters(self):
        super().initialize_standard_parameters()
        if self._wrist_coupling:
            self.standard_parameter |= {"Iam6": 0.0, "fvm6": 0.0, "fsm6": 0.0}

    def _wrist_columns(self) -> np.ndarray:
        """Columns Iam6, fvm6, fsm6: motor 6 turns with joint 5 + joint 6, and loads both.

        joint-5 rows: ddq6, dq6, sign(dq5 + dq6);   joint-6 rows: ddq5, dq5, sign(dq5 + dq6).
        The package reads a `has_coupled_wrist` option and leaves these columns to the user's subclass.
        """
        n, dq, ddq = self.num_samples, self._arrays["dq"], self._arrays["ddq"]
        columns = np.zeros((6 * n, 3))
        both = np.sign(dq[:, 4] + dq[:, 5])
        columns[4 * n : 5 * n] = np.column_stack([ddq[:, 5], dq[:, 5], both])
        columns[5 * n : 6 * n] = np.column_stack([ddq[:, 4], dq[:, 4], both])
        return columns


def resident_bytes(peak: bool) -> int:
    """Resident set now, or its largest value so far [byte].

    Linux counts `ru_maxrss` from before exec, so a large parent process would hide this one's memory;
    /proc starts at exec.
    """
    status = Path("/proc/self/status")
    if status.exists():
        field = "VmHWM:" if peak else "VmRSS:"
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith(field))
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def run_once(robot, arrays: dict[str, np.ndarray], decimate: int, wrist_coupling: bool) -> dict:
    """One identification; seconds per stage, residual and sizes."""
    task = LoggedMotion(robot, arrays, wrist_coupling)
    task.process_data()
    task.initialize_standard_parameters()

    marks = [time.perf_counter()]
    task.calculate_full_regressor()
    marks.append(time.perf_counter())
    reduced, active = task._eliminate_zero_columns(ZERO_TOLERANCE)
    tau, W = task._apply_decimation(reduced, decimate) if decimate > 1 else task._prepare_undecimated_data(reduced)
    tau, W = task._mask_rows(tau, W, decimate)
    marks.append(time.perf_counter())
    fit = task._calculate_base_parameters(tau, W, active)
    marks.append(time.perf_counter())

    residual = fit["tau_processed"] - fit["tau_estimated"]
    regressor, decimation, solve = np.diff(marks).tolist()
    return {
        "seconds": {"regressor": regressor, "decimation": decimation, "solve": solve, "total": marks[-1] - marks[0]},
        "relative_residual": float(np.linalg.norm(residual) / np.linalg.norm(fit["tau_processed"])),
        "base_parameters": len(fit["phi_base"]),
        "columns": len(active),
        "rows": len(tau),
        "condition": float(np.linalg.cond(fit["base_regressor"])),
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("urdf", type=Path, help="URDF of the TX40")
    parser.add_argument("motion", type=Path, help=".npz with q, dq, ddq, tau and optionally keep")
    parser.add_argument("--decimate", type=int, default=10, help="decimation factor; 10 is FIGAROH's default, 1 is off")
    parser.add_argument("--repeats", type=int, default=3, help="the median time of this many runs is reported")
    parser.add_argument("--wrist-coupling", action="store_true", help="add the columns Iam6, fvm6, fsm6")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    logging.disable(logging.WARNING)
    with np.load(arguments.motion) as file:
        arrays = {name: np.ascontiguousarray(file[name]) for name in file.files}
    if missing := {"q", "dq", "ddq", "tau"} - arrays.keys():
        sys.exit(f"{arguments.motion} has no array {', '.join(sorted(missing))}; it holds {', '.join(sorted(arrays))}")

    with contextlib.redirect_stdout(sys.stderr):
        robot = load_robot(str(arguments.urdf), load_by_urdf=True)
        gc.collect()
        before = resident_bytes(peak=False)
        runs = [run_once(robot, arrays, arguments.decimate, arguments.wrist_coupling)]
        peak = resident_bytes(peak=True) - before
        for _ in range(arguments.repeats - 1):
            gc.collect()
            runs.append(run_once(robot, arrays, arguments.decimate, arguments.wrist_coupling))

    stages = runs[0]["seconds"]
    answer = runs[0] | {
        "seconds": {stage: statistics.median(run["seconds"][stage] for run in runs) for stage in stages},
        "peak_mb_above_imports": peak / MEGABYTE,
        "samples": len(arrays["q"]),
        "decimate": arguments.decimate,
        "repeats": len(runs),
        "wrist_coupling": arguments.wrist_coupling,
        "threads": 1,
        "versions": {"figaroh": version("figaroh"), "pinocchio": pinocchio.__version__, "numpy": np.__version__},
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
