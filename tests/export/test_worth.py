"""What an exported file is worth: fitted over what it holds, scored as Pinocchio, MuJoCo and cvxpy see it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.export.robot_files.urdf_new import generated_urdf
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from testbed.command import Run
from testbed.places import SHARED_ZOO
from testbed.worth_case import WorthCase, pinocchio_places, pinocchio_state, pinocchio_torque, worth_case

SHARE, SLACK = 0.3, 1.05


class Exported(NamedTuple):
    case: WorthCase
    text: str
    file: Path
    document: dict[str, Any]
    told: str


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> WorthCase:
    """A UR5-like arm with a URDF of its own: the UR5e of the collection where it is, else the built-in UR10e."""
    pytest.importorskip("pinocchio")
    folder = tmp_path_factory.mktemp("arm")
    zoo = SHARED_ZOO / "universal_robots_ur5e" / "ur5e.xml"
    bare = Model(read_robot(zoo if zoo.is_file() else "ur10e"))
    assert bare.layout.nominal is not None
    source = folder / "arm.urdf"
    (content,) = generated_urdf(bare, bare.layout.nominal).files.values()
    source.write_bytes(content)
    return worth_case(folder, source, lambda robot: pinocchio_torque(source.read_text("utf-8"), robot))


@pytest.fixture
def exported(arm: WorthCase, steelyard: Run, tmp_path: Path) -> Any:
    """`exported("urdf", …)` is the export of the arm."""

    def export(to: str, *options: object) -> Exported:
        run = arm.project.parent / "project-run"
        if not run.exists():
            assert steelyard("identify", arm.project).code == 0
        file = tmp_path / f"out.{to}"
        told = steelyard("export", run, "--to", to, "--out", file, "--json", *options)
        assert told.code == 0, told.err
        return Exported(arm, file.read_text("utf-8") if file.is_file() else "", file, told.document, told.err)

    return export


def error(given: Array, wanted: Array) -> float:
    """‖given − wanted‖/‖wanted‖ [%]."""
    return 100.0 * float(np.linalg.norm(given - wanted) / np.linalg.norm(wanted))


def urdf_torque(text: str, case: WorthCase) -> Array:
    """The effort of the unseen motion as a reader of the URDF computes it: Pinocchio, damping and friction."""
    q, v, a = case.unseen[0]
    drives = {
        name: {key: float(value) for key, value in re.findall(r'(damping|friction)="([^"]+)"', inside)}
        for name, inside in re.findall(r'<joint name="([^"]+)" type="revolute">(.*?)</joint>', text, re.DOTALL)
    }
    own = [drives[name] for name in case.robot.joint_names]
    damping, friction = (np.array([one.get(key, 0.0) for one in own])[:, None] for key in ("damping", "friction"))
    return pinocchio_torque(text, case.robot)(q, v, a) + damping * v + friction * np.sign(v)


# --- An independent fit: cvxpy on Pinocchio's regressor ---------------------------------------------------------------


def pseudo(m: Any, h: Sequence[Any], i: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """[Σ h; hᵀ m] with Σ = ½ tr(I) 1 − I; i = Ixx Ixy Iyy Ixz Iyz Izz, as Pinocchio stacks them."""
    xx, xy, yy, xz, yz, zz = i
    t = 0.5 * (xx + yy + zz)
    return [
        [t - xx, -xy, -xz, h[0]], [-xy, t - yy, -yz, h[1]], [-xz, -yz, t - zz, h[2]], [h[0], h[1], h[2], m]
    ]  # fmt: skip


def independent_error(case: WorthCase) -> float:
    """min Σ_j ((y − W x)/σ_j)² + λ Σ_l ‖J₀^-½(J_l − J₀)J₀^-½‖² with J_l ⪰ 0.3 J₀ and friction ≥ 0, λ by the slack rule;
    the error [%] of its effort on the unseen motion."""
    import cvxpy as cp
    import pinocchio as pin

    model = pin.buildModelFromXML(case.source.read_text("utf-8"))
    model.gravity.linear = np.array(case.robot.gravity)
    data, places, n = model.createData(), pinocchio_places(model, case.robot), case.robot.dof

    def rows(motion: Array) -> Array:
        q, v, a = motion
        out = np.zeros((n, q.shape[1], 10 * n + 2 * n))
        for s in range(q.shape[1]):
            state = pinocchio_state(model, places, q[:, s], v[:, s], a[:, s])
            out[:, s, : 10 * n] = pin.computeJointTorqueRegressor(model, data, *state)[places]
        for j in range(n):
            out[j, :, 10 * n + j], out[j, :, 11 * n + j] = v[j], np.sign(v[j])
        return out

    fit = rows(case.fit[0][:, :, ::4])
    y, triangles = case.fit[1][:, ::4], []
    for j in range(n):
        rest = y[j] - fit[j] @ np.linalg.lstsq(fit[j], y[j], rcond=1e-9)[0]
        triangles.append(np.linalg.qr(np.column_stack([fit[j], y[j]]), mode="r") / np.std(rest))
    whole = np.linalg.qr(np.vstack(triangles), mode="r")
    x, pull, constraints = cp.Variable(12 * n), [], [cp.Variable(1) >= -1]
    constraints = [x[10 * n :] >= 0]
    for k in range(n):
        filed = model.inertias[k + 1].toDynamicParameters()
        nominal = np.array(pseudo(filed[0], filed[1:4], filed[4:]))
        own = x[10 * k : 10 * k + 10]
        body = cp.bmat(pseudo(own[0], [own[1], own[2], own[3]], [own[i] for i in range(4, 10)]))
        values, vectors = np.linalg.eigh(nominal)
        whiten = vectors @ np.diag(values**-0.5) @ vectors.T
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


# --- The tests --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_urdf_is_the_best_of_its_kind(exported: Any, arm: WorthCase) -> None:
    made = exported("urdf")
    own = error(urdf_torque(made.text, arm), arm.unseen[1])
    printed = 100.0 * made.document["scores"]["unseen"]["file"]["total"]
    assert own < 3.2
    assert abs(printed - own) < 0.3
    assert own < 1.15 * independent_error(arm)
    truncated = exported("urdf", "--exact")
    assert "--exact keeps them" in truncated.told
    worst = error(urdf_torque(truncated.text, arm), arm.unseen[1])
    assert worst > 2.0 * own
    assert abs(100.0 * truncated.document["scores"]["unseen"]["file"]["total"] - worst) < 0.3
