"""The kernels by themselves: sine and cosine, the symmetric solver, and where the regressor writes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard._kernels.dynamics import factorise, substitute
from steelyard._kernels.regressor import regressor
from steelyard._kernels.spatial import LANES
from steelyard._kernels.trigonometry import sine_cosine
from testbed.trees import random_state, random_tree, rigid_model

LARGEST = 2.0**17


def both(x: Array) -> tuple[Array, Array]:
    sine, cosine = np.empty_like(x), np.empty_like(x)
    for start in range(0, len(x), LANES):
        part = slice(start, start + LANES)
        sine_cosine(x[part], sine[part], cosine[part])
    return sine, cosine


def ulps(x: Array) -> float:
    """Largest distance to libm in units of the last place of its answer."""
    worst = 0.0
    for given_values, function in zip(both(x), (math.sin, math.cos), strict=True):
        wanted = np.array([function(t) for t in x])
        worst = max(worst, float(np.max(np.abs(given_values - wanted) / np.spacing(np.abs(wanted)))))
    return worst


# --- Sine and cosine --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reach", [1e-300, 1e-8, 0.8, 4.0, 100.0, 1e4, LARGEST])
def test_sine_and_cosine_agree_with_libm_to_the_last_places(reach: float) -> None:
    assert ulps(np.random.default_rng(0).uniform(-reach, reach, 20_000)) <= 2.0


def test_sine_and_cosine_keep_their_digits_next_to_their_zeros() -> None:
    """Next to a multiple of π/2 all leading digits cancel: the reduction must carry π to 119 bits."""
    near = np.arange(-83_443.0, 83_444.0, 7.0) * (np.pi / 2)
    near = near[np.abs(near) <= LARGEST]
    for x in (near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)):
        assert ulps(x) <= 2.0


def test_sine_and_cosine_of_large_and_special_angles() -> None:
    rng = np.random.default_rng(1)
    assert ulps(np.array([0.0, 5e-324, LARGEST, -LARGEST, np.nextafter(LARGEST, np.inf)])) <= 2.0
    for exponent in range(5, 300, 3):
        assert ulps(rng.uniform(-1, 1, LANES) * 10.0**exponent) <= 2.0, "beyond 2¹⁷ libm itself answers"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("other", [0.3, 1e10])
def test_nan_and_infinity_give_nan_and_leave_the_others_alone(bad: float, other: float) -> None:
    for x in (np.array([bad, other, 0.5]), np.array([other, 0.5, bad]), np.array([bad] * 3 + [0.5, other])):
        sine, cosine = both(x)
        fine = np.isfinite(x)
        assert np.isnan(sine[~fine]).all()
        assert np.isnan(cosine[~fine]).all()
        assert ulps(x[fine]) <= 2.0
        assert np.allclose(sine[fine], np.sin(x[fine]), rtol=4e-16, atol=0)
        assert np.allclose(cosine[fine], np.cos(x[fine]), rtol=4e-16, atol=0)


def test_sine_and_cosine_write_only_what_they_were_given() -> None:
    sine, cosine = np.full(8, 7.0), np.full(8, 7.0)
    sine_cosine(np.zeros(3), sine, cosine)
    assert sine.tolist() == [0.0] * 3 + [7.0] * 5
    assert cosine.tolist() == [1.0] * 3 + [7.0] * 5


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=LANES))
def test_sine_and_cosine_lie_on_the_circle(angles: list[float]) -> None:
    x = np.array(angles)
    sine, cosine = both(x)
    assert np.allclose(sine**2 + cosine**2, 1.0, rtol=0, atol=1e-15)
    minus_sine, same_cosine = both(-x)
    assert np.array_equal(minus_sine, -sine)
    assert np.array_equal(same_cosine, cosine)


# --- Symmetric solver -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_symmetric_solver_agrees_with_numpy(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, n))
    a = a @ a.T + 0.1 * np.eye(n)
    b = rng.normal(size=n)
    factors, rows = a.copy()[None], b.copy()[None]
    assert factorise(factors, 0, 0.0) == -1
    substitute(factors, 0, rows, 0)
    x, condition = rows[0], np.linalg.cond(a)
    assert np.allclose(x, np.linalg.solve(a, b), rtol=0, atol=1e-14 * condition * np.abs(x).max())
    pivots = np.diag(np.linalg.cholesky(a)) ** 2
    np.testing.assert_allclose(np.diagonal(factors[0]), pivots, rtol=1e-12 * condition)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_pivots_tell_whether_the_matrix_is_positive(seed: int, n: int) -> None:
    """Sylvester: as many negative pivots as negative eigenvalues."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(n, n)))
    values = rng.uniform(0.1, 2.0, n) * rng.choice([-1.0, 1.0], n)
    a = turn @ np.diag(values) @ turn.T
    assert (factorise((a + a.T)[None] / 2, 0, 0.0) == -1) == (values.min() > 0)


def test_symmetric_solver_does_not_hide_a_singular_matrix() -> None:
    assert factorise(np.zeros((1, 3, 3)), 0, 0.0) == 0
    assert factorise(np.ones((1, 2, 2)), 0, 0.0) == 1
    assert factorise(np.full((1, 2, 2), np.nan), 0, 0.0) == 0


# --- Regressor --------------------------------------------------------------------------------------------------------


def test_regressor_writes_its_slots_and_nothing_else() -> None:
    rng = np.random.default_rng(4)
    robot = random_tree(rng, 6)
    model, _ = rigid_model(robot)
    state = random_state(rng, robot, 200)
    wanted = model.regressor(*state)

    carried = [(j, i) for i in range(6) for j in robot.ancestors(i)]
    chosen = [carried[k] for k in rng.permutation(len(carried))[: len(carried) // 2]]
    slot = np.full((6, 6), -1, np.int64)
    rows = rng.permutation(2 * len(chosen)) * 11
    for (j, i), row in zip(chosen, rows, strict=False):
        slot[j, i] = row
    mark = -12345.0
    out = np.full((22 * len(chosen), 200), mark)
    regressor(*model.mechanism, *state, slot, out)

    untouched = np.ones(len(out), bool)
    for j, i in chosen:
        ten = slice(slot[j, i], slot[j, i] + 10)
        assert np.array_equal(out[ten], wanted[j, model.inertial_index[i]])
        untouched[ten] = False
    assert (out[untouched] == mark).all()
    assert untouched.sum() == 12 * len(chosen)


def test_regressor_is_zero_where_a_joint_does_not_carry_the_link() -> None:
    rng = np.random.default_rng(5)
    robot = random_tree(rng, 7)
    model, _ = rigid_model(robot)
    w = model.regressor(*random_state(rng, robot, 9))
    for i in range(7):
        for j in set(range(7)) - set(robot.ancestors(i)):
            assert (w[j, model.inertial_index[i]] == 0.0).all()


# --- Compiled and cached ----------------------------------------------------------------------------------------------

ROUNDED = """
import numpy as np
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model

model = Model(read_robot("tx40"))
q, v, a = np.random.default_rng(0).normal(size=(3, 6, 256))
print(model.torque(q, v, a, model.layout.nominal).tobytes().hex())
"""


@pytest.mark.slow
def test_code_from_the_cache_rounds_as_code_just_compiled(tmp_path: Path) -> None:
    """To the last bit: searches from the same seed would else end elsewhere the second time."""

    def torques() -> str:
        settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-c", ROUNDED], env=settings, capture_output=True, text=True, check=True
        ).stdout

    fresh = torques()
    assert any(tmp_path.rglob("*.nbi"))
    assert fresh == torques()
