"""Structural base parameters: the map that loses nothing, the rule that picks them, and how they are told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.model.base_parameters import BaseParameters, base_parameters, elimination_order, independent_columns
from steelyard.model.model import Model
from steelyard.model.robot import Limits
from steelyard.model.terms import AsymmetricCoulomb, Coulomb, Offset, Rotor, Viscous, named_terms
from testbed.trees import random_state, random_tree


def builtin(name: str) -> Model:
    robot = read_robot(name)
    return Model(robot, terms=named_terms(robot.terms or ()))


def fresh_rows(model: Model, seed: int = 77, samples: int = 60) -> Array:
    """W stacked over joints and random states that `base_parameters` has not seen, (n·N, C)."""
    rng = np.random.default_rng(seed)
    state = random_state(rng, model.robot, samples)
    if model.looped is not None:  # not every posture can be reached
        state = state._replace(q=model.random_positions(rng, samples))
    return model.regressor(*state).transpose(0, 2, 1).reshape(-1, len(model.layout))


def check(model: Model, base: BaseParameters) -> None:
    """What holds for the base parameters of any model."""
    w = fresh_rows(model)
    kept = list(base.kept)
    zero = list(base.zero)
    size = np.linalg.norm(w, axis=0)
    size[zero] = 1.0
    assert (np.linalg.norm(w - w[:, kept] @ base.map, axis=0) < 1e-9 * size).all(), "W = W[:, kept] B"
    assert np.abs(w[:, zero]).max(initial=0.0) < 1e-9
    assert np.array_equal(base.map[:, kept], np.eye(len(base)))
    assert (base.map[:, zero] == 0.0).all()
    assert base.smallest_kept > 1e4 * base.largest_dropped
    scaled = w[:, kept] / size[kept]
    values = np.linalg.svd(scaled, compute_uv=False)
    assert values[-1] > 1e-7 * values[0], "the kept columns are independent"
    place = {column: k for k, column in enumerate(elimination_order(model))}
    for column in set(range(len(model.layout))) - set(kept):
        earlier = (place[kept[row]] < place[column] for row in np.flatnonzero(base.map[:, column]))
        assert all(earlier), "only columns before it"


@pytest.mark.parametrize("name", builtin_robots())
def test_builtin_robots(name: str) -> None:
    model = builtin(name)
    check(model, base_parameters(model))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.booleans())
def test_random_trees(seed: int, joints: int, off_axis: bool) -> None:
    robot = random_tree(np.random.default_rng(seed), joints, off_axis=off_axis)
    model = Model(robot, terms=[Rotor(), Viscous(), Coulomb(), Offset()])
    check(model, base_parameters(model))


@pytest.mark.parametrize(("seed", "joints"), [(368, 9), (538, 11)])
def test_tiny_kept_columns_pick_up_no_noise(seed: int, joints: int) -> None:
    robot = random_tree(np.random.default_rng(seed), joints)
    model = Model(robot, terms=[Rotor(), Viscous(), Coulomb(), Offset()])
    check(model, base_parameters(model))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_base_values_give_the_torque_of_the_standard_ones(seed: int, joints: int) -> None:
    rng = np.random.default_rng(seed)
    model = Model(random_tree(rng, joints), terms=[Rotor(), Viscous()])
    base = base_parameters(model)
    theta = rng.normal(size=len(model.layout))
    w = fresh_rows(model)
    tau = w @ theta
    assert np.abs(w[:, list(base.kept)] @ (base.map @ theta) - tau).max() < 1e-9 * np.abs(tau).max()


def test_deterministic() -> None:
    first, second = base_parameters(builtin("tx40")), base_parameters(builtin("tx40"))
    assert first.kept == second.kept
    assert first.zero == second.zero
    assert np.array_equal(first.map, second.map)
    assert first.smallest_kept == second.smallest_kept


def test_expressions_are_sums_a_person_can_read() -> None:
    base = base_parameters(builtin("tx40"))
    told = dict(zip(base.names, base.expressions, strict=True))
    assert told["link1.ZZ"] == (
        "link1.ZZ + joint1.Ia + link2.YY + link3.YY + 0.07*link3.MZ + 0.05185*link3.M + 0.05185*link4.M "
        "+ 0.05185*link5.M + 0.05185*link6.M"
    )
    assert told["link6.XX"] == "link6.XX - link6.YY"
    assert told["joint3.Fv"] == "joint3.Fv"
    assert len(base) == len(base.names) == len(base.units) == len(base.expressions)
    assert base.units[base.names.index("link1.ZZ")] == "kg.m2"


def test_leaving_out_by_symbol_and_by_name() -> None:
    model = builtin("tx40")
    whole = base_parameters(model)
    no_offset = base_parameters(model, without=["off"])
    assert set(whole.names) - set(no_offset.names) == {f"joint{j}.off" for j in range(1, 7)}
    one = base_parameters(model, without=["joint3.Fc", "link6.XX"])
    assert "joint3.Fc" not in one.names
    assert "link6.YY" in one.names, "what link6.XX stood for is now led by the next of its group"
    offsets = [k for k, name in enumerate(model.layout.names) if name.endswith(".off")]
    assert not set(offsets) & set(no_offset.kept + no_offset.zero)
    assert (no_offset.map[:, offsets] == 0.0).all()


def test_zero_columns_are_judged_by_their_size_and_not_by_their_direction() -> None:
    """link2.MZ of the TX-40 is rounding noise of 1e-16: scaled to unit norm it would look independent."""
    base = base_parameters(builtin("tx40"))
    names = {base.layout.names[k] for k in base.zero}
    first = {f"link1.{s}" for s in ("XX", "XY", "XZ", "YY", "YZ", "MX", "MY", "MZ", "M")}
    assert names == first | {"link2.MZ", "link2.M"}


def test_offset_beside_two_coulomb_levels_shows_the_regrouping() -> None:
    robot = read_robot("planar2r")
    base = base_parameters(Model(robot, terms=[Offset(), AsymmetricCoulomb()]))
    for j in ("joint1", "joint2"):
        assert base.regroupings[f"{j}.off"] == pytest.approx({f"{j}.off": 1.0, f"{j}.Fcn": -1.0}, abs=1e-9)
        assert base.regroupings[f"{j}.Fcp"] == pytest.approx({f"{j}.Fcp": 1.0, f"{j}.Fcn": 1.0}, abs=1e-9)


# --- The rule itself --------------------------------------------------------------------------------------------------


def test_a_column_is_dropped_when_those_before_it_span_it() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 30))
    found = independent_columns(np.column_stack([a, 2 * a, b, a - 1e-6 * b, c, a + b + c]), 1e-8)
    assert found.kept == (0, 2, 4)
    assert found.dropped == (1, 3, 5)
    assert found.smallest_kept > 0.1
    assert found.largest_dropped < 1e-14


def test_tolerance_is_the_sine_of_an_angle_whatever_the_units() -> None:
    rng = np.random.default_rng(1)
    a, b = np.linalg.qr(rng.normal(size=(30, 2)))[0].T
    for scale in (1e-9, 1.0, 1e9):
        matrix = np.column_stack([a * scale, (a + 1e-5 * b) / scale])
        assert independent_columns(matrix, 1e-6).kept == (0, 1)
        assert independent_columns(matrix, 1e-4).kept == (0,)


def test_wide_matrices_are_reduced_in_panels_without_a_difference() -> None:
    """200 columns, every third of them a sum of two before it, in other panels or the same."""
    rng = np.random.default_rng(3)
    columns: list[Array] = []
    for k in range(200):
        spanned = k > 1 and k % 3 == 2
        columns.append(columns[k - 1] - 0.3 * columns[k // 2] if spanned else rng.normal(size=300))
    found = independent_columns(np.column_stack(columns), 1e-8)
    assert found.dropped == tuple(range(2, 200, 3))
    assert found.largest_dropped < 1e-13
    assert found.smallest_kept > 0.1


@pytest.mark.slow
def test_trees_of_many_joints() -> None:
    """Beyond 800 columns the rows of joints are reduced branch by branch before columns are compared."""
    model = Model(random_tree(np.random.default_rng(0), 70), [Rotor(), Viscous()])
    assert len(model.layout) > 800
    check(model, base_parameters(model))


def test_more_columns_than_rows_keeps_no_more_than_rows() -> None:
    found = independent_columns(np.random.default_rng(2).normal(size=(4, 9)), 1e-8)
    assert found.kept == (0, 1, 2, 3)
    assert found.dropped == (4, 5, 6, 7, 8)


def test_nothing_to_drop_and_nothing_at_all() -> None:
    found = independent_columns(np.eye(3), 1e-8)
    assert (found.kept, found.dropped, found.largest_dropped) == ((0, 1, 2), (), 0.0)
    assert independent_columns(np.empty((5, 0)), 1e-8).kept == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["delta", "fivebar", "orthoglide", "stewart"])
def test_loops_tell_the_same_without_limits(name: str) -> None:
    """Boxes of ±π or ±1 m are mostly out of reach, and full of singularities that look like structure."""
    model = builtin(name)
    free = replace(model.robot, joints=tuple(replace(joint, limits=Limits()) for joint in model.robot.joints))
    assert base_parameters(replace(model, robot=free)).names == base_parameters(model).names
