"""The laws: every description is consistent in itself, and the compiled switch, its only twin, agrees with it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard._kernels import laws as switch
from steelyard.errors import ModelError
from steelyard.export.code.expressions import FUNCTIONS
from steelyard.model.terms import TERMS, Law, LawColumn, LawTerm, compilable, smooth_sign, smooth_sign_slope
from steelyard.model.terms import laws as described
from steelyard.model.terms.laws import CONSTANT, DAHL, LAWS, LOAD, STRIBECK
from steelyard.model.terms.registry import nonnegative_symbols
from testbed.arctangent import ARCTANGENT

# Ranges of the shape parameters from which tests draw.
RANGES = {
    "width": (0.05, 0.5), "speed": (0.1, 1.0), "exponent": (0.3, 3.0), "cycles": (1.0, 9.0), "free": (-1.0, 1.0),
    "length": (0.01, 0.5), "below": (0.5, 0.7), "above": (0.1, 0.4), "angle": (0.2, 0.6), "m": (0.5, 2.0),
    "n": (-2.0, 2.0), "area": (1e-3, 2e-3), "volume": (0.01, 0.02), "charge": (100.0, 200.0),
}  # fmt: skip
CUBIC = Law(
    "cubic",
    lambda x, width, a: smooth_sign(x, width) * a * x**2,
    lambda x, width, a: smooth_sign_slope(x, width) * a * x**2 + smooth_sign(x, width) * 2.0 * a * x,
    lambda let, x, width, a: described.smooth_sign_code(let, x, width) * let(f"{a}*{x}*{x}"),
    passive=True,
)
WELL = Law(
    "well",
    lambda x: np.where(x > 0.0, x, 0.5 * x),
    lambda x: np.where(x > 0.0, 1.0, 0.5),
    lambda let, x: f"0.75*{x} + 0.25*fabs({x})",
    of="q",
)
OWN = (ARCTANGENT, CUBIC, WELL)
# LOAD is evaluated by the plant, where the load is known: tests/simulation/test_closed_loop.py compares that.
# Linear laws of velocities and accelerations become matrices.
SWITCHED = [law for law in (*LAWS, *OWN) if law.of == "q" or (law.of == "v" and not law.linear and not law.loaded)]
WITHOUT_MEMORY = [law for law in (*LAWS, *OWN) if law is not DAHL]


def name_of(law: Law) -> str:
    return law.name


def shapes(law: Law, seed: int = 0, count: int = 12) -> Iterator[tuple[float, ...]]:
    rng = np.random.default_rng(seed)
    for k in range(count):
        drawn = {name: float(rng.uniform(*RANGES.get(name, (0.5, 2.0)))) for name in law.shape}
        if k == 0 and "exponent" in drawn:
            drawn["exponent"] = 0.5  # its own branch
        yield tuple(drawn.values())


def points(count: int = 60, seed: int = 1) -> Array:
    """Coordinates of both signs and all sizes, away from kinks at zero."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(count) < 0.5, -1.0, 1.0) * 10.0 ** rng.uniform(-3.0, 0.5, count)


def inputs(law: Law, x: Array) -> tuple[Array, ...]:
    """What the value takes besides x and the shape: a load, or the coordinate and state before."""
    rng = np.random.default_rng(2)
    if law.loaded:
        return (rng.normal(0.0, 5.0, x.shape),)
    return () if law.steady is None else (x + rng.choice((-0.1, 0.1), x.shape), rng.uniform(-1.0, 1.0, x.shape))


def compiled(function: Callable[..., float], law: Law, shape: tuple[float, ...], x: Array, *more: Array) -> Array:
    row = law.row(shape)[None]
    return np.array([function(row, 0, *values) for values in zip(x, *more, strict=True)])


# --- The description in itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [*LAWS, *OWN], ids=name_of)
def test_the_slope_is_the_derivative_of_the_value(law: Law) -> None:
    x, step = points(), 1e-6
    others = inputs(law, x)
    for shape in shapes(law):
        wanted = (law.value(x + step, *others, *shape) - law.value(x - step, *others, *shape)) / (2.0 * step)
        np.testing.assert_allclose(law.slope(x, *others, *shape), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("law", [law for law in (*LAWS, *OWN) if law.code is not None], ids=name_of)
def test_the_code_computes_the_value(law: Law) -> None:
    """Its text means the same in C and Python, so Python evaluates it here; tests/export/test_code.py compiles it."""
    names = {c: getattr(np, text.split(" as ")[0]) for c, text in FUNCTIONS.items()}
    assert law.code is not None
    for shape in shapes(law):
        for x in points(5):
            others = tuple(float(y[0]) for y in inputs(law, np.array([x])))

            def let(text: str) -> Any:
                return float(eval(text, {"__builtins__": {}}, names))  # noqa: S307 (the text is our own)

            found = law.code(let, x if law.linear else f"({float(x)!r})", *others, *shape)
            found = let(found) if isinstance(found, str) else found
            assert found == pytest.approx(float(law.value(np.array(x), *others, *shape)), rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("law", WITHOUT_MEMORY, ids=name_of)
def test_passive_laws_of_velocities_dissipate(law: Law) -> None:
    """And only those are stated as passive, or inertia: |x|, for one, drives the joint in one direction."""
    x = points()
    power = [np.min(x * law.value(x, *inputs(law, x), *shape)) for shape in shapes(law)]
    if law.of == "v":
        assert law.passive == (min(power) >= 0.0)
    else:
        assert not law.passive or law is described.ACCELERATION


def test_a_sign_jumps_where_its_width_is_zero() -> None:
    assert {law.name for law in LAWS if "width" in law.shape} == {
        "sign", "positive sign", "negative sign", "stribeck", "load"
    }  # fmt: skip
    assert STRIBECK.jumps((0.0, 0.1))
    assert not STRIBECK.jumps((0.2, 0.1))
    assert LOAD.jumps((0.0, 1.0))
    assert not DAHL.jumps((0.0,))


def test_symbols_of_friction_and_rotors_alone_are_nonnegative() -> None:
    assert nonnegative_symbols() == ("Ia", "Fv", "Fc", "Fcp", "Fcn")
    columns = [column for kind in TERMS.values() if issubclass(kind, LawTerm) for column in kind().columns()]
    corrections = {column.law.name for column in columns if column.correction}
    assert corrections == {"power", "stribeck", "load"}


# --- The compiled switch ----------------------------------------------------------------------------------------------


def test_every_kind_of_the_switch_has_one_description() -> None:
    kinds = sorted(law.kind for law in LAWS if law.kind is not None)
    assert kinds == sorted({*range(switch.OWN_OF_POSITION)} - {switch.OWN_OF_SPEED})
    for law in LAWS:
        before = law.of == "q"
        assert before == (law.kind is not None and law.kind >= switch.LINEAR)


@pytest.mark.parametrize("law", SWITCHED, ids=name_of)
def test_compiled_values_are_those_of_the_description(law: Law) -> None:
    x = np.append(points(), 0.0)
    others = inputs(law, x)
    given = others or (np.zeros_like(x),) * 2
    for shape in shapes(law):
        found = compiled(switch.value, law, shape, x, *given)
        np.testing.assert_allclose(found, law.value(x, *others, *shape), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("law", [law for law in SWITCHED if law.of == "v"], ids=name_of)
def test_compiled_slopes_are_those_of_the_description(law: Law) -> None:
    x = points()
    for shape in shapes(law):
        wanted = np.abs(law.slope(x, *shape))
        if law is STRIBECK:  # dampers take its rising part alone, so that none is negative
            wanted = smooth_sign_slope(x, shape[0]) * np.exp(-((x / shape[1]) ** 2))
        found = compiled(switch.slope_at, law, shape, x)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-14)
        assert np.all(found <= compiled(switch.steepest, law, shape, x) * (1.0 + 1e-12))


@pytest.mark.parametrize("law", [law for law in SWITCHED if law.of == "v"], ids=name_of)
def test_compiled_chords_are_those_of_the_description(law: Law) -> None:
    x = points()
    for shape in shapes(law):
        found = compiled(switch.chord, law, shape, x)
        np.testing.assert_allclose(found, np.abs(law.value(x, *shape) / x), rtol=1e-11)
        assert np.isfinite(compiled(switch.chord, law, shape, np.zeros(1))).all()


@pytest.mark.parametrize("law", [law for law in SWITCHED if law.of == "q"], ids=name_of)
def test_compiled_bounds_hold_for_laws_of_positions(law: Law) -> None:
    """Those on a crank are never stiff, which the switch states as zero."""
    x = points()
    others = inputs(law, x)
    for shape in shapes(law):
        bound = compiled(switch.steepest, law, shape, x)
        if law in (described.CRANK, described.GAS):
            assert not bound.any()
        else:
            assert np.all(np.abs(law.slope(x, *others, *shape)) <= bound * (1.0 + 1e-12))


def test_dahl_states_of_a_tile_follow_the_description() -> None:
    rng = np.random.default_rng(4)
    q, length = np.cumsum(rng.normal(0.0, 0.05, (3, 200)), axis=1), 0.07
    carried, out = np.stack([np.zeros(3), rng.uniform(-1.0, 1.0, 3)]), np.empty_like(q)
    before, state = carried.copy()
    switch.dahl_states(q, length, carried, out)
    for b in range(q.shape[1]):
        before, state = q[:, b], DAHL.value(q[:, b], before, state, length)
        np.testing.assert_allclose(out[:, b], state, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(carried, [before, state], rtol=1e-12, atol=1e-14)
    assert DAHL.steady is not None
    np.testing.assert_allclose(DAHL.value(20.0, 0.0, 0.3, length), DAHL.steady(np.array(20.0)), rtol=1e-12)


def test_a_root_of_the_users_own_has_a_finite_slope_at_rest() -> None:
    root = Law(
        "root", lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: 0.5 / np.sqrt(np.abs(x)),
        lambda let, x: f"sign({x})*sqrt(fabs({x}))",
    )  # fmt: skip
    row = root.row(())[None]
    for function in (switch.slope_at, switch.steepest, switch.chord):
        assert function(row, 0, 0.0) == pytest.approx(500.0)
    assert switch.slope_at(row, 0, 0.25) == pytest.approx(1.0)


# --- What is refused --------------------------------------------------------------------------------------------------


def test_a_helper_is_compiled_where_it_is_marked() -> None:
    @compilable
    def halved(x: Any) -> Any:
        return 0.5 * x

    law = Law("halved", lambda x: halved(x), lambda x: 0.5 + 0.0 * x, lambda let, x: f"0.5*{x}")
    assert compiled(switch.value, law, (), np.array([3.0]), np.zeros(1), np.zeros(1)) == pytest.approx(1.5)
    np.testing.assert_array_equal(law.value(np.array([3.0, 4.0])), [1.5, 2.0])


def test_a_law_that_does_not_compile_says_what_may_be_used() -> None:
    def plain(x: Any) -> Any:
        return x

    law = Law("odd", lambda x: plain(x), lambda x: math.fsum([1.0 for _ in str(x)]), lambda let, x: f"{x}")
    with pytest.raises(ModelError, match=r"Law 'odd': its value cannot be compiled .*plain.* with @compilable"):
        law.row(())
    with pytest.raises(ModelError, match="Law 'odd': its slope cannot be compiled"):
        Law("odd", lambda x: x, law.slope, law.code).row(())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"slope": lambda x: x}, r"Law 'odd': `slope` must be a function of \(x, a\)"),
        ({"code": lambda x, a: ""}, r"Law 'odd': `code` must be a function of \(let, x, a\)"),
        ({"of": "a"}, "Law 'odd': `of` must be 'q' or 'v' for a law of your own, not 'a'"),
        ({"of": None}, "not None"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(options: dict[str, Any], told: str) -> None:
    good = {"value": lambda x, a: a * x, "slope": lambda x, a: a + 0.0 * x, "code": lambda let, x, a: f"{a}*{x}"}
    assert Law("odd", **good).shape == ("a",)
    with pytest.raises(ModelError, match=told):
        Law("odd", **(good | options))


def test_memories_and_too_many_shape_parameters_are_refused() -> None:
    with pytest.raises(ModelError, match=r"no memory. Write a term with uses = \('past',\)"):
        Law("odd", lambda x, state: x, lambda x, state: x, lambda let, x, state: "")
    with pytest.raises(ModelError, match="has 7 shape parameters; at most 6 are allowed"):
        Law("odd", *(lambda x, a, b, c, d, e, f, g: x,) * 2, code=lambda let, x, a, b, c, d, e, f, g: "")


@pytest.mark.parametrize(
    ("law", "told"),
    [
        (Law("odd", lambda x: x**2 * np.sign(x), lambda x: x, lambda let, x: ""), "slope is not the derivative"),
        (Law("odd", lambda x: 1.0, lambda x: 0.0 * x, lambda let, x: ""), "value must be a finite number for every"),
        (Law("odd", lambda x: x, lambda x: x / 0.0 if False else np.nan * x, lambda let, x: ""), "its slope must be a"),
        (Law("odd", lambda x: -x, lambda x: 0.0 * x - 1.0, lambda let, x: "", passive=True), "stated as passive, but"),
    ],
)
def test_a_law_that_is_wrong_in_itself_is_refused(law: Law, told: str) -> None:
    with pytest.raises(ModelError, match=f"Law 'odd'.*{told}"):
        law.check(())


def test_built_in_laws_and_a_law_with_a_kink_pass_the_check() -> None:
    for law in LAWS:
        if law.steady is None and law is not CONSTANT:
            law.check(next(shapes(law)))
    Law("knee", lambda x: np.maximum(x - 1.0, 0.0), lambda x: 1.0 * (x > 1.0), lambda let, x: "").check(())


# --- What is refused of a law of one's own ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "options", "shape", "message"),
    [
        (lambda x, s, load: load * np.tanh(x / s), {}, (0.1,), "`load` must be the second argument"),
        (lambda x: 2.0 * x, {"linear": True}, (), "for built-in laws"),
        (lambda x: x / np.abs(x), {}, (), "must be a finite number"),
        (lambda x: np.sign(x), {}, (), "jumps at x = 0"),
        (lambda x: x if x > 0 else -x, {}, (), "fails for an array x"),
    ],
    ids=["load", "linear", "not finite", "jump", "branch"],
)
def test_laws_that_would_be_wrong_are_refused(
    value: Callable[..., Any], options: dict[str, Any], shape: tuple[float, ...], message: str
) -> None:
    arguments = ", ".join(inspect.signature(value).parameters)
    slope = {"x": lambda x: 0.0 * x, "x, s, load": lambda x, s, load: 0.0 * x}[arguments]
    with pytest.raises(ModelError, match=message):
        Law("own", value, slope, None, **options).check(shape)


def test_load_friction_of_coupled_motors_is_refused() -> None:
    own = Law("own", lambda x, load: load * np.tanh(x), lambda x, load: load / np.cosh(x) ** 2, None)
    with pytest.raises(ModelError, match="does not have"):
        LawColumn("Fx", "1", own, motors=True)
