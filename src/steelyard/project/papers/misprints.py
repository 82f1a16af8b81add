"""Misprints of the five papers, each with its proof: an error that is large as printed and vanishes as corrected."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.model.base_parameters import base_parameters
from steelyard.physical.consistency import check_links
from steelyard.project.demos.orthoglide import modelled
from steelyard.project.papers.page.paper_page import part
from steelyard.project.papers.printed_tables import lines_of, printed
from steelyard.project.papers.setups import kr270
from steelyard.project.papers.setups.planar import P, arm_g, corrected_g, planar, printed_g
from steelyard.project.papers.setups.tx40 import long_name, table2, tx40
from steelyard.report.composed import ComposedPart
from steelyard.report.table import Table, TableColumn, table

# --- P0 ---------------------------------------------------------------------------------------------------------------


def _base_count() -> tuple[float, float]:
    return printed("p0")["counts"]["base"], len(base_parameters(tx40()))


def _base_column() -> tuple[float, float]:
    base = base_parameters(tx40())
    raw = table2(base.layout).base
    p4 = lines_of(printed("p4")["table_1"]["rows"])
    shared = ("ZZ1", "ZZ2", "MX2")
    at = [base.names.index(long_name(name)) for name in shared]
    wanted = np.array([p4[name][0] for name in shared])
    ratios = (base.map @ raw)[at] / wanted, raw[[base.kept[k] for k in at]] / wanted
    return float(ratios[0].mean()), float(ratios[1].mean())


def _third_link() -> tuple[float, float]:
    layout = tx40().layout
    ref = table2(layout).ref
    likely = ref.copy()
    likely[layout.index("link3.XZ")] /= 10.0
    first, second = (min(check_links(layout, theta)["link3"].eigenvalues) for theta in (ref, likely))
    return first, second


def _huygens() -> tuple[float, float]:
    """J of a random body by (36) with the last row of its second matrix as our copy has it, and as it should be."""
    rng = np.random.default_rng(0)
    points, weights = rng.standard_normal((9, 3)), rng.uniform(0.5, 1.0, 9)
    centre = weights @ points / weights.sum()
    about = [weights @ (np.sum(p**2, axis=1)[:, None, None] * np.eye(3) - p[:, :, None] * p[:, None, :]).reshape(9, 9)
             for p in (points, points - centre)]  # fmt: skip
    at_origin, at_centre = (x.reshape(3, 3) for x in about)
    moment, mass = weights.sum() * centre, weights.sum()
    square = moment @ moment * np.eye(3) - np.outer(moment, moment)
    literal = square.copy()
    literal[2, 2] = -moment[1] * moment[2]
    wrong, right = (float(np.abs(at_origin - x / mass - at_centre).max()) for x in (literal, square))
    return wrong, right


def _thin_residual() -> tuple[float, float]:
    """(25): ‖U₂ᵀY‖ with the thin U (r × n_st) and with the square one, relative to the residual of least squares."""
    rng = np.random.default_rng(0)
    w, y = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 5)), rng.standard_normal(40)
    left = np.linalg.norm(y - w @ np.linalg.lstsq(w, y, rcond=None)[0])
    thin, square = (np.linalg.svd(w, full_matrices=full)[0] for full in (False, True))
    return (
        abs(float(np.linalg.norm(thin[:, 3:].T @ y) / left) - 1.0),
        abs(float(np.linalg.norm(square[:, 3:].T @ y) / left) - 1.0),
    )


def _coupled_friction() -> tuple[float, float]:
    """Least power that the Coulomb friction of motor 6 takes from random motion, in units of Fcm |q̇5 + q̇6|."""
    v5, v6 = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 2000))
    size, motor = np.abs(v5 + v6), np.sign(v5 + v6)
    keep = size > 0.05
    powers = np.sign(v6) * v5 + motor * v6, motor * v5 + motor * v6
    least = [float((power[keep] / size[keep]).min()) for power in powers]
    return least[0], least[1]


# --- P1 ---------------------------------------------------------------------------------------------------------------


def _random_planar() -> tuple[Array, Array, Array]:
    q, v, a = np.random.default_rng(2).standard_normal((3, 2, 200))
    return q, v, a


def _planar_errors(torques: Sequence[Array]) -> tuple[float, float]:
    plant, state = planar(), _random_planar()
    right = plant.model.torque(*state, plant.theta)
    errors = [float(np.abs(torque - right).max()) for torque in torques]
    return errors[0], errors[1]


def _column_four() -> tuple[float, float]:
    five = np.insert(P, 3, P[2])
    return _planar_errors([np.einsum("jps,p->js", g(*_random_planar()), five) for g in (printed_g, corrected_g)])


def _fourth_entry() -> tuple[float, float]:
    plant = planar()
    layout = plant.model.layout
    mass, my = (plant.theta[layout.index(f"link2.{symbol}")] for symbol in ("M", "MY"))
    g = corrected_g(*_random_planar())
    entries = (my + mass, P[2])
    return _planar_errors([np.einsum("jps,p->js", g, np.insert(P, 3, x)) for x in entries])


def _coriolis() -> tuple[float, float]:
    """(26) with C122 = C211 and with C122 = −C211; the coefficient of q̇1 q̇2 is 2 C122 in both."""
    (q1, q2), (v1, v2), (a1, a2) = _random_planar()
    del q1
    p1, p2, p3, p5 = P
    s, c = np.sin(q2), np.cos(q2)
    second = p3 * s + p5 * c
    d12 = p2 + p3 * c - p5 * s
    d11 = p1 + p2 + 2.0 * (p3 * c - p5 * s)
    torques = []
    for sign in (1.0, -1.0):
        c122 = sign * second
        torques.append(
            np.array([d11 * a1 + d12 * a2 + c122 * v2**2 + 2.0 * c122 * v1 * v2, d12 * a1 + p2 * a2 + second * v1**2])
        )
    return _planar_errors(torques)


def _proximity() -> tuple[float, float]:
    """‖PRX‖/‖ΨᵀU‖ at the true parameters, with the printed sign of (23) and with the right one."""
    rows = arm_g(*_random_planar()).transpose(2, 0, 1).reshape(-1, 4)
    torque = rows @ P
    size = np.linalg.norm(rows.T @ torque)
    plus, minus = (float(np.linalg.norm(rows.T @ rows @ P + sign * rows.T @ torque) / size) for sign in (1.0, -1.0))
    return plus, minus


# --- P2 ---------------------------------------------------------------------------------------------------------------


def _balancer(q2: Array) -> tuple[Array, Array]:
    """The Kr and K0 columns of the model's joint 2."""
    model = kr270.kr270()
    q = np.zeros((6, len(q2)))
    q[1] = q2
    w = model.regressor(q, 0.0 * q, 0.0 * q)[1]
    return w[model.layout.index("spring.Kr")], w[model.layout.index("spring.K0")]


def _arctangent() -> tuple[float, float]:
    """Largest error of the K0 column, relative to its size, against d rl24/dq2 by differences."""
    d21, d22, phi, h = 0.6964, 0.1847, -1.6148, 1e-6
    q2 = np.radians(np.linspace(-140.0, -5.0, 200))
    angle = q2 + phi

    def length(x: Array) -> Array:
        return np.sqrt(d21**2 + d22**2 + 2.0 * d21 * d22 * np.cos(x + phi))

    slope = (length(q2 + h) - length(q2 - h)) / (2.0 * h)
    psi = np.arctan(-(d21 + d22 * np.cos(angle)) / (d22 * np.sin(angle))) - angle - np.pi / 2.0
    size = np.abs(slope).max()
    return (
        float(np.abs(np.sin(psi) * d22 - slope).max() / size),
        float(np.abs(_balancer(q2)[1] - slope).max() / size),
    )


def _preload() -> tuple[float, float]:
    """Least force of the spring [kN] over joint 2: below zero it pushes the arm down."""
    q2 = np.radians(np.linspace(-140.0, -5.0, 200))
    length = np.sqrt(0.6964**2 + 0.1847**2 + 2.0 * 0.6964 * 0.1847 * np.cos(q2 - 1.6148))
    stiffness, stated = kr270.TABLE_3["spring.Kr"][0], kr270.TABLE_3["spring.K0"][0]
    likely = kr270.PRINTED["corrected"]["spring.K0"]
    first, second = (float((stiffness * length + x).min()) / 1e3 for x in (stated, likely))
    return first, second


def _friction_six() -> tuple[float, float]:
    """Fc6 over the mean of Fc4 and Fc5."""
    mean = 0.5 * (kr270.TABLE_3["joint4.Fc"][0] + kr270.TABLE_3["joint5.Fc"][0])
    return kr270.TABLE_3["joint6.Fc"][0] / mean, kr270.PRINTED["corrected"]["joint6.Fc"] / mean


def _gain_error() -> tuple[float, float]:
    """Largest difference [%] of the printed errors from 100 |g/g_maker − 1|, and with that of g1 corrected."""
    stated = np.array(list(lines_of(kr270.PRINTED["table_3"]["gains"]).values()))
    error = 100.0 * np.abs(stated[:, 0] / stated[:, 2] - 1.0)
    apart = np.abs(stated[:, 3] - error)
    return float(apart.max()), float(apart[1:].max())


def _kr270_count() -> tuple[float, float]:
    return kr270.PRINTED["counts"]["base"], len(base_parameters(kr270.kr270()))


# --- P3 ---------------------------------------------------------------------------------------------------------------

_A, _D4, _D6 = 0.34, 0.31, 0.03


def _third_foot() -> tuple[float, float]:
    """Error [m] of the length of leg 3 with its foot at r13 = q13 ± a, q13 from (41)."""
    x, y, z = 0.03, -0.02, _A + 0.01
    q13 = y - _D6 + _A - np.sqrt(_D4**2 - x**2 - (z - _A) ** 2)
    errors = []
    for foot in (q13 + _A, q13 - _A):
        errors.append(abs(float(np.sqrt(x**2 + (y - foot - _D6) ** 2 + (z - _A) ** 2)) - _D4))
    return errors[0], errors[1]


def _third_row() -> tuple[float, float]:
    """Error [m] of the third row of (40) for leg 1, whose angles follow from the first two rows."""
    x, y, z = 0.03, -0.02, _A + 0.01
    q11 = z - _D6 - np.sqrt(_D4**2 - x**2 - y**2)
    q31 = np.arcsin(-y / _D4)
    q21 = -np.arccos(x / (_D4 * np.cos(q31)))
    third = q11 - _D4 * np.sin(q21) * np.cos(q31) + _D6
    return abs(float(z - (third - _A))), abs(float(z - third))


def _regrouped(name: str, wrong: dict[str, float], right: dict[str, float]) -> tuple[float, float]:
    """Largest error of a coefficient of the printed and of the corrected sum, against the computed one."""
    computed = base_parameters(modelled(read_robot("orthoglide"))).regroupings.get(name, {})
    # the parameter itself, and the rotors of passive joints, which the paper leaves out
    keys = {key for key in {*wrong, *right, *computed} if key != name and not key.endswith(".Ia")}
    errors = [max(abs(one.get(key, 0.0) - computed.get(key, 0.0)) for key in keys) for one in (wrong, right)]
    return errors[0], errors[1]


def _foot_mass() -> tuple[float, float]:
    gravity, length = 1.0 / 9.80665, 1.0 / _D4
    return _regrouped(
        "link13.M",
        {"joint13.off": -gravity, "link23.M": 2.0, "link23.MX": -length},
        {"joint13.off": -gravity, "link23.M": 1.0, "link33.MX": -length, "link33.M": 1.0},
    )


def _leg_inertia() -> tuple[float, float]:
    return _regrouped("link31.XZ", {}, {"link41.MZ": -_D4})


def _leg_bar() -> tuple[float, float]:
    return _regrouped("link31.ZZ", {"link41.MZ": -_D4}, {"link31.MX": -_D4})


# --- P4 ---------------------------------------------------------------------------------------------------------------


def _second_row() -> tuple[float, float]:
    """|−0.15 − the same parameter of P0 Table II|, read as XX2R and as XZ2R."""
    base = base_parameters(tx40())
    raw = table2(base.layout).base
    value = lines_of(printed("p4")["table_1"]["rows"])["XZ2"][0]
    errors = [abs(value - raw[base.layout.index(f"link2.{symbol}")]) for symbol in ("XX", "XZ")]
    return float(errors[0]), float(errors[1])


PROOFS: dict[str, Callable[[], tuple[float, float]]] = {
    one.__name__.removeprefix("_"): one
    for one in (
        _base_count, _base_column, _third_link, _thin_residual, _huygens, _coupled_friction, _proximity,
        _coriolis, _fourth_entry, _column_four, _arctangent, _preload, _friction_six, _gain_error, _kr270_count,
        _third_foot, _third_row, _foot_mass, _leg_inertia, _leg_bar, _second_row,
    )
}  # fmt: skip


_TEXTS = ("place", "printed", "correct", "because")


def misprint_table(papers: Sequence[str]) -> Table:
    """The misprints of these papers; every proof is computed."""
    columns = (
        TableColumn("paper", "Paper"),
        TableColumn("place", "Place"),
        TableColumn("as_printed", "As printed"),
        TableColumn("correct", "Correct"),
        TableColumn("because", "Proof"),
        TableColumn("error_printed", "as printed", "number", digits=2),
        TableColumn("error_corrected", "corrected", "number", digits=2),
    )
    cells = []
    for one in printed("misprints")["misprint"]:
        if one["paper"] in papers:
            errors = tuple(map(float, PROOFS[one["proof"]]())) if "proof" in one else (None, None)
            cells.append((one["paper"].upper(), *(one[key] for key in _TEXTS), *errors))
    return table("misprints", "Misprints", columns, cells)


def misprint_part(paper: str) -> ComposedPart:
    """The section of a paper's page."""
    return part("misprints", "What it prints wrong", misprint_table([paper]))
