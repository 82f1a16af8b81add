"""Terms: every column against its formula, the wrist coupling of the papers, and terms that users bring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ModelError
from steelyard.formats.robots import read_robot
from steelyard.model import Model
from steelyard.parameters import INERTIAL, Array, Column
from steelyard.robot import Drive, Robot
from steelyard.terms import (
    TERMS,
    AsymmetricCoulomb,
    Coulomb,
    Coupling,
    Entry,
    Motion,
    Offset,
    Rotor,
    Term,
    Viscous,
    named_terms,
)
from trees import random_state, random_tree, relative

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
    with pytest.raises(ModelError, match="listed twice"):
        Model(read_robot("tx40"), terms=[Coulomb(), Rotor(), Coulomb(width=0.1)])


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
    with pytest.raises(ModelError, match="fills one place of the regressor twice"):
        model.regressor(*state)


def test_a_term_may_not_take_the_name_of_an_inertial_column() -> None:
    class Thief(SineSpring):
        def entries(self, robot: Robot) -> tuple[Entry, ...]:
            return (Entry(0, Column("link1", "XX", "kg.m2")),)

    with pytest.raises(ModelError, match=r"share a name: link1\.XX"):
        _ = Model(read_robot("tx40"), terms=[Thief("joint2")]).layout


@pytest.mark.parametrize("name", list(TERMS))
def test_every_term_keeps_the_contract(name: str) -> None:
    """As many rows as entries, finite values, one sample's values independent of the others, input left alone."""
    term, robot = TERMS[name](), read_robot("kr300" if name == "compensator" else "tx40")
    assert term.name == name
    state = random_state(np.random.default_rng(0), robot, 7)
    before = [x.copy() for x in state]
    values = term.fill(robot, Motion(*state))
    assert values.shape == (len(term.entries(robot)), 7)
    assert np.isfinite(values).all()
    assert np.array_equal(term.fill(robot, Motion(*(x[:, 2:4] for x in state))), values[:, 2:4])
    assert all(np.array_equal(x, y) for x, y in zip(state, before, strict=True))
