"""The figures of a verdict once more, from result.json, the robot's URDF and the logs: NumPy, SciPy and Pinocchio only.

`python tests/testbed/verdict_again.py RUN_FOLDER` prints them. Serial arms of revolute joints in a URDF; CSV logs with
a uniform clock, positions in rad and efforts in N.m; derivatives by differences; terms rotor, viscous, coulomb, offset.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from scipy.signal import butter, sosfiltfilt

# Pinocchio's order of the parameters of a body in that of result.json.
SYMBOLS = ("M", "MX", "MY", "MZ", "XX", "XY", "YY", "XZ", "YZ", "ZZ")
Rows = list[tuple[np.ndarray, np.ndarray]]


def figures(folder: Path) -> dict[str, Any]:
    """Every figure of the verdict: explained shares [%] and RMS errors [N.m], per joint too, and counts."""
    result = json.loads((folder / "result.json").read_text("utf-8"))
    project, place = result["project"], folder / result["project_folder"]
    model = pin.buildModelFromUrdf(str(place / project["robot"]))
    model.gravity.linear = np.array(project["gravity"] or [0.0, 0.0, -9.81])
    joints = list(model.names)[1:]
    numbers = range(1, model.njoints)
    links = [next(f.name for f in model.frames if f.type == pin.BODY and f.parentJoint == k) for k in numbers]
    layout = [f"{column['owner']}.{column['symbol']}" for column in result["base"]["layout"]["columns"]]
    fitted = np.zeros(len(layout))
    fitted[result["base"]["kept"]] = result["value"]
    stated = {
        f"{link}.{symbol}": x
        for k, link in zip(numbers, links, strict=True)
        for symbol, x in zip(SYMBOLS, model.inertias[k].toDynamicParameters(), strict=True)
    }
    nominal = np.array([stated.get(name, 0.0) for name in layout])

    rows: dict[str, list[Rows]] = {}
    for run in project["run"]:
        parts = _rows(model, joints, links, layout, project, result["rest_speeds"], place / run["log"])
        rows.setdefault(run["role"], []).append(parts)
    judged = "validate" if "validate" in rows else "identify"
    error, effort, count = _squares(rows[judged], fitted)
    by_nominal, _, _ = _squares(rows[judged], nominal)
    error_fit, effort_fit, count_fit = _squares(rows["identify"], fitted)
    told = np.sqrt(np.diagonal(np.array(result["covariance"], float))) < 0.5 * np.abs(result["value"])
    return {
        "explained": 100.0 * (1.0 - np.sqrt(error.sum() / effort.sum())),
        "error": float(np.sqrt(error.sum() / count.sum())),
        "fitted": 100.0 * (1.0 - np.sqrt(error_fit.sum() / effort_fit.sum())),
        "nominal": 100.0 * (1.0 - np.sqrt(by_nominal.sum() / effort.sum())),
        "joint errors": dict(zip(joints, np.sqrt(error / count).tolist(), strict=True)),
        "joint shares": dict(zip(joints, (100.0 * np.sqrt(error / effort)).tolist(), strict=True)),
        "known": int(told.sum()),
        "parameters": len(result["value"]),
        "rows per parameter": float(count_fit.sum() / len(result["value"])),
    }


def _squares(runs: Sequence[Rows], theta: np.ndarray) -> tuple[np.ndarray, ...]:
    """Squared errors, squared efforts and numbers of rows, (n,) each."""
    parts = [[(w @ theta - y, y) for w, y in run] for run in runs]
    sums = [[(e @ e, y @ y, len(y)) for e, y in run] for run in parts]
    return tuple(np.array(sums, float).sum(axis=0).T)


def _rows(
    model: Any,
    joints: Sequence[str],
    links: Sequence[str],
    layout: Sequence[str],
    project: Mapping[str, Any],
    rest: Sequence[float],
    log: Path,
) -> Rows:
    """(W_j, y_j) of every joint: filtered, decimated, without rows at rest."""
    settings, channels = project["prepare"], project["channels"]
    with log.open(encoding="utf-8") as file:
        table = list(csv.reader(file))
    columns = {name: np.array([row[k] for row in table[1:]], float) for k, name in enumerate(table[0])}
    t = columns[channels["time"]["column"]]
    rate = (len(t) - 1) / (t[-1] - t[0])
    raw, tau = (np.array([columns[name] for name in channels[signal]["columns"]]) for signal in ("q", "effort"))
    cutoff = settings["cutoff_hz"]
    q = sosfiltfilt(butter(4, cutoff, fs=rate, output="sos"), raw, axis=1, padlen=15)
    v = _slope(q, rate)
    a = _slope(v, rate)
    edge = int(np.ceil(4.0 / cutoff * rate)) + 4
    q, v, a, tau = (x[:, edge:-edge] for x in (q, v, a, tau))

    data, n = model.createData(), len(joints)
    w = np.zeros((n, q.shape[1], len(layout)))
    places = [layout.index(f"{link}.{symbol}") for link in links for symbol in SYMBOLS]
    for k in range(q.shape[1]):
        w[:, k, places] = pin.computeJointTorqueRegressor(model, data, q[:, k], v[:, k], a[:, k])
    for j, joint in enumerate(joints):
        for symbol, x in (("Ia", a[j]), ("Fv", v[j]), ("Fc", np.sign(v[j])), ("off", np.ones(q.shape[1]))):
            w[j, :, layout.index(f"{joint}.{symbol}")] = x

    low = settings["lowpass_hz"]
    half = int(np.ceil(1.5 * rate / low * (1.0 - 1e-9)))
    m = np.arange(-half, half + 1.0)
    taps = np.sinc(2.0 * low / rate * m) * (0.54 + 0.46 * np.cos(np.pi * m / half))
    taps /= taps.sum()

    def thinned(x: np.ndarray) -> np.ndarray:
        return np.convolve(x, taps, mode="valid")[:: settings["decimate"]]

    out = []
    for j in range(n):
        awake = np.abs(thinned(v[j])) >= rest[j]
        awake &= np.abs(thinned((np.abs(v[j]) < rest[j]).astype(float))) <= settings["rest_share"]
        columns_of_joint = np.array([thinned(w[j, :, c]) for c in range(len(layout))]).T
        out.append((columns_of_joint[awake], thinned(tau[j])[awake]))
    return out


def _slope(x: np.ndarray, rate: float) -> np.ndarray:
    """Five-point central differences."""
    out = np.zeros_like(x)
    out[:, 2:-2] = (8.0 * (x[:, 3:-1] - x[:, 1:-3]) - (x[:, 4:] - x[:, :-4])) * rate / 12.0
    out[:, :2], out[:, -2:] = out[:, 2:3], out[:, -3:-2]
    return out


if __name__ == "__main__":
    print(json.dumps(figures(Path(sys.argv[1])), indent=2))
