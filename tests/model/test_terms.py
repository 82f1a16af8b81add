"""Terms: every column against its formula, the wrist coupling of the papers, and terms that users bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, Column
from steelyard.model.robot import Drive, Robot
from steelyard.model.terms import (
    TERMS,
    AsymmetricCoulomb,
    AsymmetricViscous,
    BearingFriction,
    Compensator,
    Coulomb,
    Coupling,
    Dahl,
    Drift,
    Entry,
    LoadFriction,
    Motion,
    Offset,
    PowerLaw,
    Ripple,
    Rotor,
    Stribeck,
    Term,
    Viscous,
    named_term,
    named_terms,
    on_joints,
    plain_terms,
    rich_terms,
    uses,
)
from testbed.simulated import forked, slider
from testbed.trees import Pinocchio, random_state, random_tree, relative

TX40 = ("rotor", "viscous", "coulomb", "offset", "coupling")


def columns_of(model: Model, state) -> dict[str, Array]:
    """{name: (n, N)} of the regressor."""
    w = model.regressor(*state)
    return {name: w[:, k] for k, name in enumerate(model.layout.names)}


def only(robot: Robot, joint: int, values: Array) -> Array:
    """(n, N) with values in one joint's row."""
    out = np.zeros((robot.dof, values.shape[-1]))
    out[joint] = values
    return out


def chain_with(coupling: Array, seed: int = 0) -> Robot:
    return replace(random_tree(np.random.default_rng(seed), len(coupling), chain=True), coupling=coupling)


# --- Columns ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_columns_are_their_formulas(seed: int, joints: int) -> None:
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints)
    state = random_state(rng, robot, 5)
    state.v[0, 0] = 0.0
    model = Model(robot, terms=[Rotor(), Viscous(), Coulomb(), Offset(), AsymmetricCoulomb()])
    columns = columns_of(model, state)
    for j, joint in enumerate(robot.joints):
        sign = np.sign(state.v[j])
        wanted = {
            "Ia": state.a[j],
            "Fv": state.v[j],
            "Fc": sign,
            "off": np.ones(5),
            "Fcp": np.where(sign > 0, 1.0, 0.0),
            "Fcn": np.where(sign < 0, -1.0, 0.0),
        }
        for symbol, values in wanted.items():
            assert np.array_equal(columns[f"{joint.name}.{symbol}"], only(robot, j, values)), symbol


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_columns_of_gear_friction_are_their_formulas(seed: int, joints: int) -> None:
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints)
    state = random_state(rng, robot, 5)
    state.v[0, 0] = 0.0
    t = rng.uniform(0.0, 5000.0, 5)
    cycles = rng.uniform(1.0, 100.0, joints)
    terms = [
        Viscous(), PowerLaw(), PowerLaw(1.5), PowerLaw(1 / 3), Stribeck(), Stribeck(0.25), LoadFriction(),
        LoadFriction(exponent=2.0), AsymmetricViscous(), Drift(), Drift(shuffled=True), Ripple(cycles.tolist()),
        Ripple(7.0, placebo=True),
    ]  # fmt: skip
    w = Model(robot, terms).regressor(*state, t)
    columns = {name: w[:, k] for k, name in enumerate(Model(robot, terms).layout.names)}
    rigid = Model(robot)
    assert rigid.layout.nominal is not None
    load = np.abs(rigid.torque(*state, rigid.layout.nominal))
    golden, hour = (1 + np.sqrt(5)) / 2, t / 3600
    for j, joint in enumerate(robot.joints):
        q, v = state.q[j], state.v[j]
        sign, speed = np.sign(v), np.abs(v)
        shuffled = (np.floor(t / 5) * golden % 1.0) / 60
        wanted = {
            "Fp50": sign * speed**0.5,
            "Fp150": sign * speed**1.5,
            "Fp33p3333": sign * speed ** (1 / 3),
            "Fs100": sign * np.exp(-((speed / 0.1) ** 2)),
            "Fs250": sign * np.exp(-((speed / 0.25) ** 2)),
            "Fl": sign * load[j],
            "Fl200": sign * load[j] ** 2,
            "Fve": speed,
            "offt": hour,
            "Fvt": hour * v,
            "offtx": shuffled,
            "Fvtx": shuffled * v,
            "Rs": np.sin(cycles[j] * q),
            "Rc": np.cos(cycles[j] * q),
            "Rsx": np.sin(7 * golden * q),
            "Rcx": np.cos(7 * golden * q),
        }
        for symbol, values in wanted.items():
            got = columns[f"{joint.name}.{symbol}"]
            assert np.allclose(got, only(robot, j, values), rtol=1e-9, atol=1e-11 * load.max()), symbol


# --- Bearing friction -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_bearing_friction_takes_the_load_of_a_neighbour_across_the_axis(seed: int) -> None:
    """The angle from the directions of the axes in the world, in a posture of its own, as Pinocchio places them."""
    pin = pytest.importorskip("pinocchio")
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, 7)
    state = random_state(rng, robot, 5)
    model = Model(robot, [BearingFriction(), BearingFriction(neighbour="previous")])
    rigid = Model(robot)
    assert rigid.layout.nominal is not None
    load = np.abs(rigid.torque(*state, rigid.layout.nominal))
    oracle = Pinocchio(robot)
    pin.forwardKinematics(oracle.model, oracle.data, rng.normal(size=robot.dof))
    axes = [
        oracle.data.oMi[oracle.model.getJointId(joint.name)].rotation @ joint.axis for joint in robot.joints
    ]  # fmt: skip
    wanted: dict[str, Array] = {}
    for j, joint in enumerate(robot.joints):
        carried = [k for k, other in enumerate(robot.joints) if other.parent == j]
        across = [
            k
            for k in carried
            if joint.is_prismatic != robot.joints[k].is_prismatic
            or np.linalg.norm(np.cross(axes[j], axes[k])) > 0.5**0.5
        ]
        for place, k in enumerate(across):
            symbol = "Fb" if place == 0 else f"Fb{place + 1}"
            wanted[f"{joint.name}.{symbol}"] = only(robot, j, np.sign(state.v[j]) * load[k])
            wanted[f"{robot.joints[k].name}.Fbp"] = only(robot, k, np.sign(state.v[k]) * load[j])
    found = columns_of(model, state)
    assert {name for name in found if not name.startswith("link")} == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-11 * load.max())


def test_units_and_columns_of_bearing_friction() -> None:
    def columns(robot: Robot, neighbour: str) -> dict[str, str]:
        term = named_term("bearing", {"neighbour": neighbour})
        return {entry.column.name: entry.column.unit for entry in term.entries(robot)}

    assert columns(read_robot("tx40"), "next") == dict.fromkeys(
        ("joint1.Fb", "joint3.Fb", "joint4.Fb", "joint5.Fb"), "1"
    )
    # a force on the guide from a torque, and a torque on the bearing from a force; every angle of the axes
    assert columns(slider(), "next") == {"joint1.Fb": "1/m"}
    assert columns(slider(), "previous") == {"joint2.Fbp": "m"}
    # the trunk carries two arms, one of them on an axis parallel to its own, then across
    robot = forked()
    assert columns(robot, "next") == {"joint1.Fb": "1", "joint2.Fb": "1"}
    turned = replace(robot, joints=(*robot.joints[:3], replace(robot.joints[3], axis=np.array([1.0, 0.0, 0.0]))))
    assert columns(turned, "next") == {"joint1.Fb": "1", "joint1.Fb2": "1", "joint2.Fb": "1"}
    assert columns(turned, "previous") == {"joint2.Fbp": "1", "joint3.Fbp": "1", "joint4.Fbp": "1"}


def test_motors_that_turn_with_several_joints_have_their_own_friction() -> None:
    """Motor 6 of the TX40 turns with q̇₅ + q̇₆ and passes its friction on to both."""
    robot = read_robot("tx40")
    state = random_state(np.random.default_rng(1), robot, 40)
    columns = columns_of(Model(robot, terms=[PowerLaw(), Stribeck(0.5)]), state)
    speed = state.v[4] + state.v[5]
    root = np.sign(speed) * np.sqrt(np.abs(speed))
    assert np.allclose(columns["joint6.Fp50m"], np.vstack([np.zeros((4, 40)), root, root]), rtol=0, atol=1e-14)
    fading = np.sign(speed) * np.exp(-((speed / 0.5) ** 2))
    assert np.allclose(columns["joint6.Fs500m"], np.vstack([np.zeros((4, 40)), fading, fading]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("width", [0.01, 0.2, 3.0])
def test_width_makes_the_sign_a_hyperbolic_tangent(width: float) -> None:
    robot = read_robot("tx40")
    state = random_state(np.random.default_rng(0), robot, 50)
    terms = named_terms(("coulomb", "asymmetric-coulomb", "rotor", "coupling"), sign_width=width)
    columns = columns_of(Model(robot, terms=terms), state)
    smooth = np.tanh(state.v / width)
    together = np.tanh((state.v[4] + state.v[5]) / width)
    for j in range(6):
        assert np.array_equal(columns[f"joint{j + 1}.Fc"][j], smooth[j])
        assert np.array_equal(columns[f"joint{j + 1}.Fcp"][j], np.maximum(smooth[j], 0.0))
        assert np.array_equal(columns[f"joint{j + 1}.Fcn"][j], np.minimum(smooth[j], 0.0))
    assert np.array_equal(columns["joint6.Fcm"][[4, 5]], np.array([together, together]))
    load = LoadFriction(width).fill(robot, Motion(*state, load=state.a))
    assert np.array_equal(load, smooth * np.abs(state.a))


def test_width_reaches_only_terms_that_have_one() -> None:
    assert named_terms(TX40, sign_width=0.1) == (Rotor(), Viscous(), Coulomb(0.1), Offset(), Coupling(0.1))
    assert named_terms(TX40) == (Rotor(), Viscous(), Coulomb(), Offset(), Coupling())


@pytest.mark.parametrize("width", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", [Coulomb, AsymmetricCoulomb, Coupling])
def test_senseless_width_is_refused(kind: type, width: float) -> None:
    with pytest.raises(ValueError, match="smooth sign"):
        kind(width=width)


def test_layout_runs_joint_by_joint_in_the_order_of_the_papers() -> None:
    model = Model(read_robot("tx40"), terms=named_terms(TX40))
    each = [
        [f"link{j}.{s}" for s in INERTIAL] + [f"joint{j}.{s}" for s in ("Ia", "Fv", "Fc", "off")] for j in range(1, 7)
    ]
    assert list(model.layout.names) == [name for group in each for name in group] + ["joint6.Fvm", "joint6.Fcm"]


def test_units_follow_the_kind_of_joint() -> None:
    robot = random_tree(np.random.default_rng(2), 8)
    assert {joint.is_prismatic for joint in robot.joints} == {True, False}
    model = Model(robot, terms=[Rotor(), Viscous(), Coulomb(), Offset()])
    units = dict(zip(model.layout.names, model.layout.units, strict=True))
    for joint in robot.joints:
        given_units = [units[f"{joint.name}.{s}"] for s in ("Ia", "Fv", "Fc", "off")]
        assert given_units == (["kg", "N.s/m", "N", "N"] if joint.is_prismatic else ["kg.m2", "N.m.s", "N.m", "N.m"])


def test_nominal_values_of_the_drive_reach_their_columns() -> None:
    robot = random_tree(np.random.default_rng(2), 2)
    joints = tuple(replace(j, drive=Drive(1.0 + k, 2.0 + k, 3.0 + k, 4.0 + k)) for k, j in enumerate(robot.joints))
    layout = Model(replace(robot, joints=joints), terms=[Rotor(), Viscous(), Coulomb(), Offset()]).layout
    for k in range(2):
        values = [layout.columns[layout.index(f"joint{k + 1}.{s}")].nominal for s in ("Ia", "Fv", "Fc", "off")]
        assert values == [1.0 + k, 2.0 + k, 3.0 + k, 4.0 + k]


# --- Load -------------------------------------------------------------------------------------------------------------


def test_load_is_the_torque_of_the_rigid_bodies() -> None:
    rng = np.random.default_rng(5)
    robot = random_tree(rng, 5)
    state = random_state(rng, robot, 30)
    terms = (Rotor(), Coulomb(), Viscous(), LoadFriction())
    rigid = Model(robot)
    assert rigid.layout.nominal is not None
    given_by_file = Model(robot, terms)
    assert given_by_file.knows_load
    load = given_by_file.load(Motion(*state))
    assert relative(load, rigid.torque(*state, rigid.layout.nominal)) < 1e-13
    carried = rng.normal(size=(5, 10))
    stated = Model(robot, terms, carried)
    assert relative(stated.load(Motion(*state)), rigid.torque(*state, carried.ravel())) < 1e-13
    column = columns_of(stated, state)["joint3.Fl"]
    wanted = np.sign(state.v[2]) * np.abs(rigid.torque(*state, carried.ravel())[2])
    assert relative(column, only(robot, 2, wanted)) < 1e-13


def test_the_compensator_carries_its_share_of_the_load() -> None:
    robot = read_robot("kr300")
    state = random_state(np.random.default_rng(2), robot, 20)
    both = Model(robot, [Compensator()])
    assert both.layout.nominal is not None
    load = Model(robot, [LoadFriction()]).load(Motion(*state))
    assert relative(load, both.torque(*state, both.layout.nominal)) < 1e-13
    rigid = Model(robot)
    assert relative(load, rigid.torque(*state, rigid.layout.nominal)) > 1e-3  # type: ignore[arg-type]


def test_without_nominal_inertias_the_load_is_not_known() -> None:
    robot = random_tree(np.random.default_rng(5), 3)
    silent = replace(robot, links=(robot.links[0], replace(robot.links[1], inertia=None), robot.links[2]))
    assert not Model(silent, [LoadFriction()]).knows_load
    assert Model(silent, [Coulomb()]).knows_load
    assert Model(silent, [LoadFriction()], np.ones((3, 10))).knows_load
    with pytest.raises(ModelError, match=r"carried .* must have the shape \(3, 10\), one row per link, not \(2, 10\)"):
        Model(robot, [LoadFriction()], np.ones((2, 10)))


# --- Dahl -------------------------------------------------------------------------------------------------------------


def back_and_forth(seed: int) -> tuple[Array, Array]:
    """Positions (N,) that turn round on samples, and the indices of those samples, first and last included."""
    rng = np.random.default_rng(seed)
    turns = np.cumsum(rng.uniform(1e-4, 0.02, 8) * (-1.0) ** np.arange(8)) + rng.normal()
    counts = rng.integers(2, 40, 7)
    q = [turns[:1]]
    for (one, other), count in zip(pairwise(turns), counts, strict=True):
        q.append(one + (other - one) * np.sort(rng.uniform(size=count)))
        q[-1][-1] = other
    return np.concatenate(q), np.concatenate([[0], np.cumsum(counts)])


def dahl_column(q: Array, length: float, cuts: Sequence[int] = ()) -> Array:
    """z (N,) of one joint, in tiles cut at the given samples."""
    robot = random_tree(np.random.default_rng(0), 1)
    past: dict[str, Array] = {}
    parts = np.split(q, sorted(cuts))
    return np.concatenate(
        [Dahl(length).fill(robot, Motion(*(x[None],) * 3, past=past))[0] for x in parts if len(x)]
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("length", [5e-4, 2e-3, 1e-2])
def test_dahl_is_the_solution_of_its_equation(seed: int, length: float) -> None:
    """dz/dq = (1 − z sign(dq)) / length, integrated between the places where the motion turns round."""
    q, turns = back_and_forth(seed)
    wanted, z = np.zeros(len(q)), 0.0
    for first, last in pairwise(turns):
        way = np.sign(q[last] - q[first])
        travel = np.abs(q[first : last + 1] - q[first])
        found = solve_ivp(
            lambda _, x, way=way: way * (1.0 - x * way) / length,
            (0.0, travel[-1]), [z], t_eval=travel, rtol=1e-10, atol=1e-12,
        )  # fmt: skip
        wanted[first : last + 1] = found.y[0]
        z = float(found.y[0, -1])
    assert np.abs(dahl_column(q, length) - wanted).max() < 1e-8


def test_dahl_of_no_length_is_coulomb() -> None:
    q, _ = back_and_forth(3)
    z = dahl_column(q, 1e-12)
    assert z[0] == 0.0
    assert np.array_equal(z[1:], np.sign(np.diff(q)))


@given(
    st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=40),
    st.floats(1e-6, 1e3),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_dahl_is_bounded_and_does_not_see_the_tiles(steps: list[float], length: float, cuts: list[int]) -> None:
    """Steps of some lengths: what came before is never quite forgotten."""
    positions = length * np.cumsum(steps)
    z = dahl_column(positions, length)
    assert np.all(np.abs(z) <= 1.0)
    assert np.array_equal(dahl_column(positions, length, cuts), z)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20), st.floats(1e-9, 1e9))
def test_dahl_is_bounded_for_any_positions(positions: list[float], length: float) -> None:
    assert np.all(np.abs(dahl_column(np.array(positions), length)) <= 1.0)


def test_dahl_moves_with_the_joint_and_not_with_its_zero() -> None:
    q, _ = back_and_forth(1)
    assert np.abs(dahl_column(q + 100.0, 2e-3) - dahl_column(q, 2e-3)).max() < 1e-9
    assert np.array_equal(dahl_column(-q, 2e-3), -dahl_column(q, 2e-3))


# --- On some joints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["power-law", "load", "dahl", "ripple", "stribeck", "bearing"])
def test_a_term_on_some_joints_is_its_columns_there(name: str) -> None:
    robot = read_robot("tx40")
    state = random_state(np.random.default_rng(0), robot, 9)
    whole, part = TERMS[name](), on_joints(TERMS[name](), ["joint6", "joint3"])
    every, some = columns_of(Model(robot, [whole]), state), columns_of(Model(robot, [part]), state)
    kept = [c for c in every if c.startswith(("link", "joint3.", "joint6."))]
    assert list(some) == kept
    assert all(np.array_equal(some[c], every[c]) for c in kept)
    assert (part.name, uses(part)) == (name, uses(whole))


def test_some_joints_of_some_joints_are_those_that_both_name() -> None:
    once = on_joints(Dahl(), ["joint3", "joint1"])
    assert on_joints(once, ["joint1", "joint2"]) == on_joints(Dahl(), ["joint1"])


def test_a_joint_that_is_not_there_is_told() -> None:
    with pytest.raises(ModelError, match=r"Term 'dahl': Unknown joint 'joint7'\. Did you mean 'joint6'.*Valid: joint1"):
        _ = Model(read_robot("tx40"), [on_joints(Dahl(), ["joint7"])]).layout


def test_what_a_term_on_some_joints_needs_it_still_needs() -> None:
    with pytest.raises(ModelError, match="'asymmetric-viscous' needs the term 'viscous'"):
        Model(read_robot("tx40"), [on_joints(AsymmetricViscous(), ["joint1"])])


def test_a_term_may_be_listed_once_for_every_joint() -> None:
    robot = read_robot("tx40")
    state = random_state(np.random.default_rng(0), robot, 9)
    listed = [on_joints(Stribeck(), [name]) for name in robot.joint_names]
    one, other = columns_of(Model(robot, [Stribeck()]), state), columns_of(Model(robot, listed), state)
    assert set(one) == set(other)
    assert all(np.array_equal(one[c], other[c]) for c in one)
    with pytest.raises(ModelError, match="Two terms fill the column"):
        Model(robot, [*listed, on_joints(Stribeck(), ["joint3"])])


def test_a_term_with_a_memory_may_be_listed_once_for_every_joint() -> None:
    robot = read_robot("tx40")
    state = random_state(np.random.default_rng(0), robot, 9)
    listed = [on_joints(Dahl(), [name]) for name in robot.joint_names]
    one, other = columns_of(Model(robot, [Dahl()]), state), columns_of(Model(robot, listed), state)
    assert all(np.array_equal(one[c], other[c]) for c in one)


# --- Coupling ---------------------------------------------------------------------------------------------------------


def test_tx40_wrist_is_coupled_as_corrected() -> None:
    """τ₅ += Ia₆ q̈₆ + Fvm₆ q̇₆ + Fcm₆ sign(q̇₅ + q̇₆) and τ₆ += Ia₆ q̈₅ + Fvm₆ q̇₅ + Fcm₆ sign(q̇₅ + q̇₆) (P0 eq. 35)."""
    robot = read_robot("tx40")
    state = random_state(np.random.default_rng(1), robot, 60)
    columns = columns_of(Model(robot, terms=named_terms(TX40)), state)
    v5, v6, a5, a6 = state.v[4], state.v[5], state.a[4], state.a[5]
    sign = np.sign(v5 + v6)
    still = np.zeros((4, 60))
    assert np.allclose(columns["joint6.Ia"], np.vstack([still, a6, a5 + a6]), rtol=0, atol=1e-15)
    assert np.allclose(columns["joint6.Fvm"], np.vstack([still, v6, v5]), rtol=0, atol=1e-15)
    assert np.array_equal(columns["joint6.Fcm"], np.vstack([still, sign, sign]))
    assert np.array_equal(columns["joint5.Ia"], only(robot, 4, a5))
    assert np.array_equal(columns["joint5.Fv"], only(robot, 4, v5))
    assert np.array_equal(columns["joint6.Fv"], only(robot, 5, v6))


def test_torque_mass_matrix_and_regressor_agree_on_a_shared_column() -> None:
    robot = read_robot("tx40")
    model = Model(robot, terms=named_terms(TX40))
    rng = np.random.default_rng(3)
    state = random_state(rng, robot, 20)
    theta = rng.normal(size=len(model.layout))
    assert relative(np.einsum("jcs,c->js", model.regressor(*state), theta), model.torque(*state, theta)) < 1e-13
    nominal = model.layout.nominal
    assert nominal is not None
    bare = Model(robot, terms=[Rotor(), Viscous(), Coulomb(), Offset()])
    added = model.mass_matrix(state.q, nominal) - bare.mass_matrix(state.q, bare.layout.nominal)  # type: ignore[arg-type]
    wanted = np.zeros((6, 6))
    wanted[4, 5] = wanted[5, 4] = 1.14e-2
    assert np.allclose(added, wanted[:, :, None], rtol=0, atol=1e-14)
    assert relative(model.forward(state.q, state.v, model.torque(*state, nominal), nominal), state.a) < 1e-9


def full_and_tied(coupling: Array, seed: int) -> tuple[Array, Array]:
    """Motor torques Cᵀ(J C q̈ + F C q̇ + f sign(C q̇)) in full, and by the model with the self terms in Ia and Fv."""
    rng = np.random.default_rng(seed)
    n = len(coupling)
    robot = chain_with(coupling, seed)
    state = random_state(rng, robot, 30)
    inertia, viscous, coulomb = rng.uniform(0.1, 1.0, (3, n))
    speed, acceleration = coupling @ state.v, coupling @ state.a
    motor = inertia[:, None] * acceleration + viscous[:, None] * speed + coulomb[:, None] * np.sign(speed)
    model = Model(robot, terms=[Rotor(), Viscous(), Coulomb(), Coupling()])
    theta = np.zeros(len(model.layout))
    coupled = [k for k in range(n) if np.count_nonzero(coupling[k]) > 1]
    for k in range(n):
        name = robot.joints[k].name
        theta[model.layout.index(f"{name}.Ia")] = coupling[:, k] ** 2 @ inertia
        theta[model.layout.index(f"{name}.Fv")] = coupling[:, k] ** 2 @ viscous
        theta[model.layout.index(f"{name}.Fc")] = 0.0 if k in coupled else coulomb[k]
        if k in coupled:
            theta[model.layout.index(f"{name}.Fvm")] = viscous[k]
            theta[model.layout.index(f"{name}.Fcm")] = coulomb[k]
    return coupling.T @ motor, model.torque(*state, theta)


@given(st.integers(0, 2**32 - 1))
def test_tied_form_is_the_full_form_with_the_self_terms_absorbed(seed: int) -> None:
    """Motors 3 and 6 turn with any of the joints 1, 2, 4 and 5; no other motor turns joint 3 or 6."""
    c = np.eye(6)
    rng = np.random.default_rng(seed)
    c[2, [0, 1]], c[5, [0, 1, 3, 4]] = rng.normal(size=2), rng.normal(size=4)
    full, tied = full_and_tied(c, seed)
    assert relative(tied, full) < 1e-12


def test_tied_form_is_the_full_form_where_coupled_motors_share_a_joint() -> None:
    """The usual hollow wrist: motor 5 turns with joints 4 and 5, motor 6 with 4, 5 and 6."""
    c = np.eye(6)
    c[4, 3], c[5, 3], c[5, 4] = 0.8, -0.5, 1.2
    full, tied = full_and_tied(c, 0)
    assert relative(tied, full) < 1e-12


# --- Errors -----------------------------------------------------------------------------------------------------------


def test_unknown_term_lists_the_choices() -> None:
    with pytest.raises(ModelError, match=r"Unknown term 'coulom'.*Did you mean 'coulomb'.*Valid: rotor, viscous"):
        named_terms(["rotor", "coulom"])


def test_the_same_term_twice_is_refused() -> None:
    with pytest.raises(ModelError, match="Two terms fill the column"):
        Model(read_robot("tx40"), terms=[Coulomb(), Rotor(), Coulomb(width=0.1)])


@pytest.mark.parametrize("make", [PowerLaw, Stribeck, LoadFriction, BearingFriction, Dahl, Drift, Ripple])
def test_a_gear_term_twice_is_refused(make: type) -> None:
    with pytest.raises(ModelError, match="Two terms fill the column"):
        Model(read_robot("tx40"), terms=[make(), Coulomb(), make()])


def test_other_shapes_of_a_term_stand_side_by_side() -> None:
    shapes = [PowerLaw(), PowerLaw(2.0), Stribeck(0.03), Stribeck(0.3), Dahl(), Dahl(1e-2), Drift(), Drift(True)]
    names = Model(read_robot("tx40"), shapes).layout.names
    # six joints and the coupled motor, six joints, offset and viscosity of six joints
    assert len(set(names)) == len(names) == 60 + 4 * 7 + 2 * 6 + 2 * 12


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Dahl, "dahl"), (LoadFriction, "load"), (BearingFriction, "bearing"), (Drift, "drift")],
)
def test_forward_dynamics_refuses_what_is_no_function_of_the_state(kind: type, said: str) -> None:
    robot = read_robot("tx40")
    model = Model(robot, [Rotor(), Coulomb(), kind()])
    state, theta = random_state(np.random.default_rng(0), robot, 3), np.ones(len(model.layout))
    with pytest.raises(ModelError, match=f"Forward dynamics needs torques .*; {said} do not"):
        model.forward(state.q, state.v, state.a, theta)


@pytest.mark.parametrize("kind", [Dahl, LoadFriction, BearingFriction, Drift, PowerLaw, Stribeck, Ripple])
def test_friction_is_no_part_of_the_mass_matrix(kind: type) -> None:
    robot = read_robot("tx40")
    state = random_state(np.random.default_rng(0), robot, 3)
    bare, model = Model(robot, [Rotor()]), Model(robot, [Rotor(), kind()])
    theta = np.random.default_rng(1).uniform(size=len(model.layout))
    kept = np.array([theta[model.layout.index(name)] for name in bare.layout.names])
    np.testing.assert_allclose(model.mass_matrix(state.q, theta), bare.mass_matrix(state.q, kept), rtol=0, atol=1e-12)


def test_time_must_be_given_where_a_term_uses_it() -> None:
    robot = read_robot("tx40")
    state = random_state(np.random.default_rng(0), robot, 3)
    with pytest.raises(ModelError, match="Term drift uses the time: give t"):
        Model(robot, [Drift()]).regressor(*state)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PowerLaw(0.0), "exponent of a power law must lie above 0 and up to 4"),
        (lambda: PowerLaw(4.5), "exponent of a power law"),
        (lambda: PowerLaw(float("nan")), "exponent of a power law"),
        (lambda: Stribeck(0.0), "Stribeck speed must be positive"),
        (lambda: Stribeck(float("inf")), "Stribeck speed must be positive"),
        (lambda: LoadFriction(exponent=-1.0), "exponent of load friction"),
        (
            lambda: BearingFriction(neighbour="nxt"),  # type: ignore[arg-type]
            "Unknown neighbour 'nxt'. Did you mean 'next'",
        ),
        (lambda: Dahl(-1e-3), "Dahl's length must be positive"),
        (lambda: Dahl(float("nan")), "Dahl's length must be positive"),
        (lambda: Ripple(0.0), "cycles of a ripple must be positive"),
        (lambda: Ripple([1.0, -2.0]), "cycles of a ripple must be positive"),
    ],
)
def test_senseless_shapes_are_refused(make, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_ripple_of_another_robot_is_told() -> None:
    model = Model(read_robot("tx40"), [Ripple([1.0, 2.0])])
    with pytest.raises(ModelError, match="lists 2 cycles for the 6 joints of 'tx40'"):
        model.regressor(*random_state(np.random.default_rng(0), model.robot, 3))


def test_named_terms_with_options() -> None:
    assert named_term("dahl", {"length": 0.01}) == Dahl(0.01)
    assert named_term("load", {"exponent": 2.0}, sign_width=0.1) == LoadFriction(0.1, 2.0)
    assert named_term("load", {"width": 0.3}, sign_width=0.1) == LoadFriction(0.3)
    assert named_term("stribeck", {}, ["joint1"]) == on_joints(Stribeck(), ["joint1"])
    with pytest.raises(ModelError, match=r"Term 'dahl': Unknown option 'lenght'\. Did you mean 'length'"):
        named_term("dahl", {"lenght": 0.01})
    with pytest.raises(ModelError, match="Term 'offset' has no options"):
        named_term("offset", {"width": 1.0})
    with pytest.raises(ModelError, match="Term 'dahl': Dahl's length must be positive"):
        named_term("dahl", {"length": -1.0})
    with pytest.raises(ModelError, match="Term 'stribeck': "):
        named_term("stribeck", {"speed": "slow"})


def test_the_rich_terms_are_the_plain_ones_and_those_of_gears() -> None:
    tx40, kr270 = read_robot("tx40"), read_robot("kr270")
    assert plain_terms(tx40) == TX40
    assert rich_terms(tx40) == (*TX40, "power-law", "load", "dahl")
    listed = replace(kr270, terms=("rotor", "dahl"))
    assert rich_terms(listed) == ("rotor", "dahl", "power-law", "load")


def test_coupling_needs_the_rotor() -> None:
    with pytest.raises(ModelError, match="'coupling' needs the term 'rotor'"):
        Model(read_robot("tx40"), terms=[Viscous(), Coupling()])


def test_coupling_needs_a_coupled_robot() -> None:
    with pytest.raises(ModelError, match=r"needs a robot with coupled motors, and 'kr270' has none.*\[coupling\]"):
        _ = Model(read_robot("kr270"), terms=[Rotor(), Coupling()]).layout


# --- Terms that users bring -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SineSpring:
    """τ_joint += K sin(q_joint − rest)."""

    joint: str
    rest: float = 0.0
    name: ClassVar[str] = "sine-spring"

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        return (Entry(robot.joint_index(self.joint), Column("spring", "K", "N.m", 2.5)),)

    def fill(self, robot: Robot, motion: Motion) -> Array:
        return np.sin(motion.q[[robot.joint_index(self.joint)]] - self.rest)


def test_a_term_of_the_user_is_a_term() -> None:
    robot = read_robot("ur10e")
    spring = SineSpring("elbow_joint", rest=0.3)
    assert isinstance(spring, Term)
    plain, model = Model(robot, terms=[Rotor()]), Model(robot, terms=[Rotor(), spring])
    assert model.layout.names == (*plain.layout.names, "spring.K")
    state = random_state(np.random.default_rng(0), robot, 30)
    wanted = only(robot, 2, np.sin(state.q[2] - 0.3))
    assert np.array_equal(columns_of(model, state)["spring.K"], wanted)
    nominal, without = model.layout.nominal, plain.layout.nominal
    assert nominal is not None
    assert without is not None
    assert nominal[-1] == 2.5
    tau = model.torque(*state, nominal)
    assert np.allclose(tau, plain.torque(*state, without) + 2.5 * wanted, rtol=0, atol=1e-12)
    assert relative(model.forward(state.q, state.v, tau, nominal), state.a) < 1e-9
    assert np.array_equal(model.mass_matrix(state.q, nominal), plain.mass_matrix(state.q, without))


def test_a_term_that_fills_a_place_twice_is_refused() -> None:
    class Twice(SineSpring):
        def entries(self, robot: Robot) -> tuple[Entry, ...]:
            return super().entries(robot) * 2

        def fill(self, robot: Robot, motion: Motion) -> Array:
            return np.repeat(super().fill(robot, motion), 2, axis=0)

    model = Model(read_robot("tx40"), terms=[Twice("joint2")])
    state = random_state(np.random.default_rng(0), model.robot, 3)
    with pytest.raises(ModelError, match="fills one entry of the regressor twice"):
        model.regressor(*state)


def test_a_term_may_not_take_the_name_of_an_inertial_column() -> None:
    class Thief(SineSpring):
        def entries(self, robot: Robot) -> tuple[Entry, ...]:
            return (Entry(0, Column("link1", "XX", "kg.m2")),)

    with pytest.raises(ModelError, match=r"have the same name: link1\.XX"):
        _ = Model(read_robot("tx40"), terms=[Thief("joint2")]).layout


@pytest.mark.parametrize("name", list(TERMS))
def test_every_term_keeps_the_contract(name: str) -> None:
    """As many rows as entries, finite values, input left alone; a sample's values depend on no other, or on the past
    alone and then a tile goes on where the last one ended."""
    term, robot = TERMS[name](), read_robot({"compensator": "kr300", "springs": "kr270"}.get(name, "tx40"))
    assert term.name == name
    rng = np.random.default_rng(0)
    state = random_state(rng, robot, 7)
    # so little travel that the past is not forgotten from one sample to the next
    state.q[:] *= 1e-3
    motion = Motion(*state, t=rng.uniform(0.0, 100.0, 7), load=rng.normal(size=state.q.shape))
    before = [x.copy() for x in motion[:5]]  # type: ignore[union-attr]
    past: dict[str, Array] = {}

    def tile(first: int, last: int) -> Motion:
        return Motion(*(x[..., first:last] for x in motion[:5]), past=past)  # type: ignore[index]

    values = term.fill(robot, motion)
    assert values.shape == (len(term.entries(robot)), 7)
    assert np.isfinite(values).all()
    parts = [term.fill(robot, tile(*edges)) for edges in ((0, 2), (2, 3), (3, 7))]
    assert np.array_equal(np.concatenate(parts, axis=1), values)
    assert bool(past) == ("past" in uses(term))
    if not past:
        assert np.array_equal(term.fill(robot, tile(2, 4)), values[:, 2:4])
    if "load" not in uses(term):
        assert np.array_equal(term.fill(robot, motion._replace(load=None)), values)
    if "time" not in uses(term):
        assert np.array_equal(term.fill(robot, motion._replace(t=None)), values)
    assert all(np.array_equal(x, y) for x, y in zip(motion[:5], before, strict=True))  # type: ignore[arg-type]
