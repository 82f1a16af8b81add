"""An independent fit of what a robot file can hold: cvxpy on Pinocchio's regressor, from the same logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from steelyard._arrays import Array
from testbed.worth_case import WorthCase, pinocchio_places, pinocchio_state

SHARE, SLACK = 0.3, 1.05


def error(given: Array, wanted: Array) -> float:
    """‖given − wanted‖/‖wanted‖ [%]."""
    return 100.0 * float(np.linalg.norm(given - wanted) / np.linalg.norm(wanted))


def pseudo(m: Any, h: Sequence[Any], i: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """[Σ h; hᵀ m] with Σ = ½ tr(I) 1 − I; i = Ixx Ixy Iyy Ixz Iyz Izz, as Pinocchio stacks them."""
    xx, xy, yy, xz, yz, zz = i
    t = 0.5 * (xx + yy + zz)
    return [
        [t - xx, -xy, -xz, h[0]], [-xy, t - yy, -yz, h[1]], [-xz, -yz, t - zz, h[2]], [h[0], h[1], h[2], m]
    ]  # fmt: skip


def independent_error(case: WorthCase, urdf: str, rotors: bool = False) -> float:
    """The error [%] on the unseen motion of a fit from the logged rows, with λ by the slack rule:

    min Σ_j ((y − W x)/σ_j)² + λ Σ_l ‖J₀^-½(J_l − J₀)J₀^-½‖²   with   J_l ⪰ 0.3 J₀,  friction ≥ 0

    `urdf` states the bodies J₀ of the file; `rotors` adds inertias of rotors.
    """
    cp: Any = pytest.importorskip("cvxpy")
    pin: Any = pytest.importorskip("pinocchio")
    model = pin.buildModelFromXML(urdf)
    model.gravity.linear = np.array(case.robot.gravity)
    data, places, n = model.createData(), pinocchio_places(model, case.robot), case.robot.dof
    width = 13 * n if rotors else 12 * n

    def rows(motion: Array) -> Array:
        q, v, a = motion
        out = np.zeros((n, q.shape[1], width))
        for s in range(q.shape[1]):
            state = pinocchio_state(model, places, q[:, s], v[:, s], a[:, s])
            out[:, s, : 10 * n] = pin.computeJointTorqueRegressor(model, data, *state)[places]
        for j in range(n):
            out[j, :, 10 * n + j], out[j, :, 11 * n + j] = v[j], np.sign(v[j])
            if rotors:
                out[j, :, 12 * n + j] = a[j]
        return out

    fit = rows(case.fit[0][:, :, ::4])
    y, triangles = case.fit[1][:, ::4], []
    for j in range(n):
        rest = y[j] - fit[j] @ np.linalg.lstsq(fit[j], y[j], rcond=1e-9)[0]
        triangles.append(np.asarray(np.linalg.qr(np.column_stack([fit[j], y[j]]), mode="r")) / np.std(rest))
    whole = np.asarray(np.linalg.qr(np.vstack(triangles), mode="r"))
    x, pull = cp.Variable(width), []
    constraints = [x[10 * n :] >= 0]
    for joint in range(1, n + 1):
        filed = model.inertias[joint].toDynamicParameters()
        nominal = np.array(pseudo(filed[0], filed[1:4], filed[4:]))
        own = x[10 * (joint - 1) : 10 * joint]
        body = cp.bmat(pseudo(own[0], [own[1], own[2], own[3]], [own[i] for i in range(4, 10)]))
        values, vectors = np.linalg.eigh(nominal)
        whiten = vectors @ np.diag(np.maximum(values, 1e-9 * values[-1]) ** -0.5) @ vectors.T
        constraints += [whiten @ body @ whiten - SHARE * np.eye(4) >> 0]
        pull.append(cp.sum_squares(whiten @ (body - nominal) @ whiten))
    weight = cp.Parameter(nonneg=True)
    misfit = cp.sum_squares(whole[:, :-1] @ x - whole[:, -1])
    problem = cp.Problem(cp.Minimize(misfit + weight * sum(pull)), constraints)

    def solved(exponent: float) -> tuple[float, Array]:
        weight.value = 10.0**exponent
        problem.solve(solver=cp.CLARABEL)
        return float(np.sqrt(misfit.value)), np.array(x.value)

    least, low, high = solved(-4.0)[0], -4.0, 6.0
    found = solved(low)[1]
    while high - low > 0.3:
        middle = 0.5 * (low + high)
        size, value = solved(middle)
        low, high, found = (middle, high, value) if size <= SLACK * least else (low, middle, found)
    unseen = rows(case.unseen[0][:, :, ::4])
    return error(unseen @ found, case.unseen[1][:, ::4])
