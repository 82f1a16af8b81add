"""A friction law of a user (testbed/arctangent.py) serves every room: identified, simulated, designed for, exported,
selected, bounded and named in a project, without a change in the package."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.design.design import design_excitation
from steelyard.design.gradients import RegressorGradient
from steelyard.errors import ModelError, SimulationError
from steelyard.estimators.consistent.consistent import Consistent
from steelyard.estimators.registry import named_estimator
from steelyard.export import parameter_set
from steelyard.export.code.c import c_files
from steelyard.export.code.python import python_file
from steelyard.export.parameter_set import IdentifiedModel, identified_model
from steelyard.identification.identify import identify
from steelyard.identification.term_selection import candidate_terms, select_terms
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import (
    TERMS,
    Column,
    Coulomb,
    Entry,
    Law,
    LawColumn,
    LawTerm,
    Motion,
    Offer,
    Offset,
    Rotor,
    Term,
    Viscous,
    Width,
    named_term,
    on_joints,
    register,
    smooth_sign,
    smooth_sign_slope,
    unregister,
)
from steelyard.model.terms.registry import nonnegative_symbols
from steelyard.motion.bounds import MotionLimits
from steelyard.motion.random import random_fourier
from steelyard.physical.consistency import negative_drive
from steelyard.physical.constraints import Constraints
from steelyard.physical.nearest import Feasibility, nearest_feasible
from steelyard.project.project import read_project
from steelyard.project.result_file import read_result
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import simulate
from steelyard.simulation.controllers import Cascade
from steelyard.simulation.plant import Plant
from testbed.arctangent import ARCTANGENT, Arctangent
from testbed.command import Run
from testbed.simulated import arm, truth_of

RATE = 500.0
SPEED, FRICTION = 0.3, (5.0, 2.0)
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="No C compiler 'cc' on this machine.")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register(Arctangent)
    yield
    for name in set(TERMS) & {"arctangent", "odd", "kelvin"}:
        unregister(name)


def plain() -> Model:
    return Model(arm(2), [Rotor(), Viscous(), Offset()])


def rubbing() -> tuple[Model, Array]:
    """The plain model with the user's friction, and its true parameters."""
    model = Model(arm(2), [*plain().terms, Arctangent(SPEED)])
    theta = truth_of(model).copy()
    theta[[model.layout.index(f"joint{j}.Fa") for j in (1, 2)]] = FRICTION
    return model, theta


def torque(q: Array, v: Array, a: Array) -> Array:
    """Of the plain model, and the user's friction written out once more."""
    friction = np.array(FRICTION)[:, None] * (2.0 / np.pi) * np.arctan(v / SPEED)
    return plain().torque(q, v, a, truth_of(plain())) + friction


def states(count: int, seed: int = 0) -> tuple[Array, Array, Array]:
    q, v, a = np.random.default_rng(seed).normal(size=(3, 2, count))
    v[:, 0] = 0.0
    return q, v, a


# --- Every room -------------------------------------------------------------------------------------------------------


def test_it_adds_its_formula_to_the_torque() -> None:
    model, theta = rubbing()
    np.testing.assert_allclose(model.torque(*states(50), theta), torque(*states(50)), rtol=1e-13, atol=1e-12)


def test_forward_dynamics_invert_the_torque() -> None:
    model, theta = rubbing()
    q, v, a = states(50)
    np.testing.assert_allclose(Plant(model, theta).forward(q, v, torque(q, v, a)), a, rtol=1e-9, atol=1e-9)


def test_it_is_simulated_and_identified() -> None:
    """Every sample of the closed loop obeys the formula, and the fit finds the parameters of the simulation."""
    model, theta = rubbing()
    plant = Plant(model, theta)
    motion = random_fourier(model.robot, 5, 0.2, 10.0, np.random.default_rng(5))
    made = simulate(plant, Cascade.tuned(plant), motion, RATE)
    assert np.ptp(made.q, axis=1).min() > 0.5
    size = np.abs(made.tau).max(axis=1, keepdims=True)
    assert np.max(np.abs(made.tau - torque(made.q, made.v, made.a)) / size) < 1e-9
    run = Samples.from_arrays("run", made.joints, made.rate, made.q, made.v, made.a, made.tau)
    found = identify(Problem(model, [run], lowpass_hz=15.0, rest=0.0))
    np.testing.assert_allclose(found.value, base_parameters(model).map @ theta, rtol=1e-6, atol=1e-8)
    without = identify(Problem(plain(), [run], lowpass_hz=15.0, rest=0.0))
    assert without.relative_error.total > 100.0 * found.relative_error.total


def test_a_stiff_law_is_simulated_with_implicit_steps() -> None:
    """A speed of 1e-4 rad/s makes it nearly a sign; the samples still obey the formula and the joint comes to rest."""
    model = Model(arm(1), [Rotor(), Viscous(), Arctangent(1e-4)])
    theta = truth_of(model).copy()
    theta[model.layout.index("joint1.Fa")] = 5.0
    plant = Plant(model, theta)
    motion = random_fourier(model.robot, 3, 0.2, 4.0, np.random.default_rng(1))
    made = simulate(plant, Cascade.tuned(plant), motion, RATE)
    assert made.steps.min() < 0  # implicit somewhere
    size = np.abs(made.tau).max()
    wanted = plant.torque(made.q, made.v, made.a)
    assert np.max(np.abs(made.tau - wanted)) < 1e-9 * size
    assert np.max(np.abs(made.v)) < 20.0


def test_a_design_knows_its_gradient() -> None:
    model, _ = rubbing()
    gradient, rng, step = RegressorGradient(model), np.random.default_rng(2), 1e-6
    motion = Motion(*rng.normal(size=(3, 2, 30)))
    weights = rng.normal(size=(len(model.places), 30))

    def shifted(j: int, by: float) -> Array:
        v = motion.v.copy()
        v[j] += by
        return np.sum(weights * gradient.fill(motion._replace(v=v)), axis=0)

    wanted = np.stack([(shifted(j, step) - shifted(j, -step)) / (2.0 * step) for j in range(2)])
    np.testing.assert_allclose(gradient.back(motion, weights)[1], wanted, rtol=1e-6, atol=1e-6)


def test_a_design_shows_it() -> None:
    model, theta = rubbing()
    limits = MotionLimits.of(model.robot, 20.0)
    design = design_excitation(model, limits, 5.0, noise=0.1, theta=theta, starts=1, iterations=15)
    names, sigma = base_parameters(model).names, design.forecast.std
    assert design.holds
    for j, friction in enumerate(FRICTION):
        assert sigma[names.index(f"joint{j + 1}.Fa")] < 0.1 * friction


def test_python_is_exported_with_it() -> None:
    model, theta = rubbing()
    export = python_file(IdentifiedModel(model, theta, "true"), "own")
    assert export.parity is not None
    assert export.parity.relative < 1e-13
    assert not export.left_out
    text = export.files["own.py"].decode("utf-8")
    assert "arctan as atan" in text
    space: dict[str, Any] = {"__name__": "own"}
    exec(text, space)  # noqa: S102 (the exported module, as a user would import it)
    np.testing.assert_allclose(space["inverse_dynamics"](*states(20)), torque(*states(20)), rtol=1e-12, atol=1e-12)


@needs_compiler
def test_c_is_exported_with_it() -> None:
    """The files are compiled and run against the model, whose formula is tested above."""
    model, theta = rubbing()
    export = c_files(IdentifiedModel(model, theta, "true"), "own")
    assert export.parity is not None
    assert export.parity.relative < 1e-12
    assert not export.left_out
    assert "atan(v[0]/0.3)" in export.files["own.c"].decode("utf-8")


def test_code_with_an_unknown_function_is_refused() -> None:
    law = Law("odd", lambda x: np.tanh(x), lambda x: 1.0 - np.tanh(x) ** 2, lambda let, x: f"tangens({x})")
    model = Model(arm(2), [odd(law)()])
    with pytest.raises(ModelError, match=r"code of the law 'odd': Unknown function 'tangens'.*Valid: .*tanh"):
        c_files(IdentifiedModel(model, np.ones(len(model.layout)), "true"))


@pytest.mark.parametrize("luck", [0, 1])
def test_it_is_selected_where_it_is(luck: int) -> None:
    robot = arm(2)
    base = (Rotor(), Viscous(), Coulomb(), Offset())
    own = on_joints(Arctangent(SPEED), ["joint1"])
    model = Model(robot, [*base, own])
    theta = truth_of(model).copy()
    theta[model.layout.index("joint1.Fa")] = FRICTION[0]
    t, runs = np.arange(2000) / 100.0, []
    for k in range(6):
        q, v, a = random_fourier(robot, 5, 0.1, 20.0, np.random.default_rng(k)).at(t)
        noise = 0.05 * np.random.default_rng(100 + 10 * luck + k).standard_normal(q.shape)
        runs.append(
            Samples.from_arrays(f"run{k}", robot.joint_names, 100.0, q, v, a, model.torque(q, v, a, theta) + noise)
        )
    offers = candidate_terms()
    assert offers[-1] == Offer("arctangent 0.3", Arctangent(0.3))
    selection = select_terms(Problem(Model(robot, base), runs, lowpass_hz=5.0, decimate=4), offers)
    assert own in selection.terms
    assert {(t.label, t.joint) for t in selection.trials if t.verdict == "taken"} == {("arctangent 0.3", "joint1")}
    unregister("arctangent")
    assert all(offer.label != "arctangent 0.3" for offer in candidate_terms())


def test_its_parameters_are_nonnegative() -> None:
    """It is stated as passive: the constraints and the checks of a result know its symbol."""
    model, theta = rubbing()
    assert Constraints().bounded(model.layout) == tuple(
        k for k, column in enumerate(model.layout.columns) if column.symbol in ("Ia", "Fv", "Fc", "Fa")
    )
    assert negative_drive(model.layout, theta) == ()
    column = model.layout.index("joint2.Fa")
    assert negative_drive(model.layout, np.where(np.arange(len(theta)) == column, -1.0, theta)) == (
        ("joint2.Fa", -1.0),
    )
    unregister("arctangent")
    assert column not in Constraints().bounded(model.layout)


def against() -> tuple[Model, Problem]:
    """A model with the user's friction, and data in which that of joint 2 is negative."""
    model, theta = rubbing()
    theta[model.layout.index("joint2.Fa")] = -0.5
    runs = []
    for k in range(2):
        q, v, a = random_fourier(model.robot, 5, 0.1, 10.0, np.random.default_rng(k)).at(np.arange(1000) / 100.0)
        effort = model.torque(q, v, a, theta) + 0.05 * np.random.default_rng(9 + k).standard_normal(q.shape)
        runs.append(Samples.from_arrays(f"run{k}", model.robot.joint_names, 100.0, q, v, a, effort))
    return model, Problem(model, runs)


def test_the_consistent_estimator_bounds_it() -> None:
    """The bounds are those of the registry when the estimator runs, not when it was imported."""
    model, problem = against()
    column = model.layout.index("joint2.Fa")
    result = identify(problem, Consistent())
    assert result.standard is not None
    assert result.standard[column] >= 0.0
    assert "joint2.Fa" in result.certificate.boundary  # type: ignore[union-attr]
    assert named_estimator("consistent", json.loads(json.dumps(result.estimator_options))) == Consistent()
    stated = identify(problem, Consistent(constraints=Constraints(nonnegative=("Ia", "Fv"))))
    assert stated.standard is not None
    assert stated.standard[column] < -0.4


def test_an_export_is_physical_or_says_that_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model, problem = against()
    result = identify(problem)
    column = model.layout.index("joint2.Fa")
    chosen = identified_model(model, result)
    assert chosen.rule.startswith("the physical set nearest")
    assert chosen.physical
    assert chosen.theta[column] >= 0.0
    as_it_is = identified_model(model, result, allow_infeasible=True)
    assert not as_it_is.physical
    unregister("arctangent")
    kept = identify(problem, Consistent())  # in a process that does not know the law
    register(Arctangent)
    assert identified_model(model, kept, allow_infeasible=True).rule == (
        "the identified values, not physical: joint2.Fa"
    )

    def without_bounds(*asked: Any) -> Feasibility:
        return nearest_feasible(*asked, constraints=Constraints(nonnegative=()))

    monkeypatch.setattr(parameter_set, "nearest_feasible", without_bounds)
    with pytest.raises(ModelError, match=r"No physical set was found .*: joint2.Fa .*--allow-infeasible"):
        identified_model(model, result)


def test_every_offered_shape_of_a_passive_law_is_bounded() -> None:
    @dataclass(frozen=True)
    class Shaped(LawTerm):
        """As documented: the symbol contains the shape."""

        speed: float = 0.1
        name: ClassVar[str] = "odd"

        def columns(self) -> tuple[LawColumn, ...]:
            return (LawColumn(f"Fa{round(1000 * self.speed)}", "N.m", ARCTANGENT, (self.speed,)),)

        @classmethod
        def offers(cls, cycles: Any) -> tuple[Offer, ...]:
            return (Offer("odd 0.1", cls(0.1)), Offer("odd 0.3", cls(0.3)))

    register(Shaped)
    assert nonnegative_symbols()[-2:] == ("Fa100", "Fa300")
    model = Model(arm(2), [offer.term for offer in Shaped.offers(None)])
    assert {"joint1.Fa100", "joint1.Fa300"} <= set(model.layout.names)


def test_two_shapes_with_one_symbol_are_refused_with_the_column() -> None:
    with pytest.raises(ModelError, match=r"Two terms fill the column 'joint1.Fa' \(arctangent, arctangent\): make"):
        Model(arm(2), [Arctangent(0.1), Arctangent(0.3)])


# --- By name ----------------------------------------------------------------------------------------------------------


def test_a_project_and_the_command_line_know_its_name(steelyard: Run, project: Path, tmp_path: Path) -> None:
    listed = 'terms = ["rotor", "viscous", { name = "arctangent", options = { speed = 0.2 } }]\n'
    project.write_text(listed + project.read_text("utf-8"), "utf-8")
    assert read_project(project).model().terms == (Rotor(), Viscous(), Arctangent(0.2))
    done = steelyard("identify", project, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    result = read_result(tmp_path / "out")
    assert {"joint1.Fa", "joint2.Fa"} <= set(result.base.names)
    few = ("--duration", 5, "--starts", 1, "--iterations", 3)
    designed = steelyard("excite", "planar2r", "--terms", "viscous,arctangent", *few, "--json")
    assert designed.code == 0, designed.err
    unregister("arctangent")
    with pytest.raises(ModelError, match="Unknown term 'arctangent'"):
        read_project(project).model()


def test_sign_width_reaches_a_term_with_a_width() -> None:
    """And a simulation refuses the jump of a width of zero."""
    law = Law(
        "kelvin",
        lambda x, width: smooth_sign(x, width) * (1.0 + x**2),
        lambda x, width: smooth_sign_slope(x, width) * (1.0 + x**2) + 2.0 * x * smooth_sign(x, width),
        lambda let, x, width: "",
        passive=True,
    )

    @dataclass(frozen=True)
    class Kelvin(LawTerm, Width):
        """τ_j += Fk_j sign(q̇_j) (1 + q̇_j²)  [N·m]."""

        name: ClassVar[str] = "kelvin"

        def columns(self) -> tuple[LawColumn, ...]:
            return (LawColumn("Fk", "N.m", law, (self.width,)),)

    register(Kelvin)
    assert named_term("kelvin", sign_width=0.2) == Kelvin(0.2)
    model = Model(arm(1), [Rotor(), Kelvin()])
    theta = np.ones(len(model.layout))
    with pytest.raises(SimulationError, match=r"sign\(v\) jumps in kelvin"):
        Plant(model, theta).forward(*np.ones((3, 1, 1)))
    smooth = Plant(replace(model, terms=(Rotor(), Kelvin(0.2))), truth_of(model) + 0.1)
    q, v, a = np.random.default_rng(0).normal(size=(3, 1, 9))
    np.testing.assert_allclose(smooth.forward(q, v, smooth.torque(q, v, a)), a, rtol=1e-9, atol=1e-9)


# --- What is refused --------------------------------------------------------------------------------------------------


def odd(law: Law, **attributes: Any) -> Any:
    """A term 'odd' of one law without shape parameters, with some attributes changed."""

    def columns(self: Any) -> tuple[LawColumn, ...]:
        return (LawColumn("Fo", "N.m", law),)

    return dataclass(frozen=True)(type("Odd", (LawTerm,), {"name": "odd", "columns": columns, **attributes}))


def test_a_class_that_breaks_the_contract_is_refused() -> None:
    good = Law("good", lambda x: np.tanh(x), lambda x: 1.0 - np.tanh(x) ** 2, lambda let, x: f"tanh({x})")
    wrong = Law("wrong", good.value, lambda x: np.tanh(x), good.code)
    unknown = Law("unknown", good.value, good.slope, lambda let, x: f"1 - tangens({x})")
    failing = Law("failing", good.value, good.slope, lambda let, x: f"{1 / 0}*{x}")

    def alike(cls: Any, cycles: Any) -> tuple[Offer, ...]:
        return (Offer("a", cls()), Offer("b", cls()))

    shaped = Law("shaped", lambda x, a: a * x, lambda x, a: a + 0.0 * x, lambda let, x, a: "")

    class Plain:
        name: ClassVar[str] = "odd"

    @dataclass(frozen=True)
    class Bare(LawTerm):
        speed: float
        name: ClassVar[str] = "odd"

        def columns(self) -> tuple[LawColumn, ...]:
            return ()

    @dataclass(frozen=True)
    class Empty:
        name: ClassVar[str] = "odd"

    @dataclass(frozen=True)
    class Option:
        name: str = "odd"

    @dataclass(frozen=True)
    class Unfilled:
        name: ClassVar[str] = "odd"

        def entries(self, robot: Robot) -> tuple[Entry, ...]:
            return (Entry(0, Column("joint1", "Fo", "N.m")),)

    @dataclass(frozen=True)
    class Using(Unfilled):
        uses: ClassVar[tuple[str, ...]] = ("weather",)

        def fill(self, robot: Robot, motion: Motion) -> Array:
            return motion.v[:1]

    @dataclass(frozen=True)
    class Abstract(LawTerm):
        name: ClassVar[str] = "odd"

    for kind, told in [
        (Plain, r"'Plain' cannot be registered as a term: .*@dataclass\(frozen=True\)"),
        (dataclass(Plain), "frozen=True"),
        (Arctangent(), "must be a class"),
        (odd(good, name="my own"), "`name` must be a word"),
        (Option, "`name` is the same for all of them: annotate it as a ClassVar"),
        (Bare, "option 'speed' needs a default value"),
        (Abstract, r"it needs a method columns\(self\) that returns a tuple of LawColumn"),
        (Empty, r"it needs a method entries\(self, robot\)"),
        (Unfilled, r"it needs a method fill\(self, robot, motion\)"),
        (Using, "Unknown value in `uses` 'weather'.*time, load, past"),
        (odd(wrong), "Law 'wrong': its slope is not the derivative of its value"),
        (odd(shaped), r"Column 'Fo': the law 'shaped' has the shape \(a\), and \(\) was given"),
        (odd(unknown), r"code of the law 'unknown': Unknown function 'tangens'.*Valid: .*tanh"),
        (odd(failing), r"Law 'failing': its code fails for the shape \(\): ZeroDivisionError"),
        (
            odd(good, offers=classmethod(alike)),
            "the offers 'a' and 'b' have the same column 'Fo'.*depend on the options",
        ),
        (odd(good, offers=classmethod(lambda cls, cycles: (cls(),))), "must return a tuple of Offer"),
        (odd(good, name="coulomb"), "Term 'coulomb' is built in: give yours another name"),
    ]:
        with pytest.raises(ModelError, match=told):
            register(kind)  # type: ignore[type-var]
    assert "odd" not in TERMS
    assert TERMS["coulomb"] is Coulomb
    assert register(odd(good)) is TERMS["odd"]


def test_registering_again_replaces_and_built_in_ones_stay() -> None:
    again = register(replace_class(Arctangent))
    assert TERMS["arctangent"] is again
    with pytest.raises(ModelError, match="'coulomb' is built in and stays"):
        unregister("coulomb")
    with pytest.raises(ModelError, match="Unknown term 'nobody'"):
        unregister("nobody")


def replace_class(kind: type[Term]) -> Any:
    return dataclass(frozen=True)(type("Again", (kind,), {}))


def test_a_label_or_a_rival_that_does_not_fit_is_refused() -> None:
    law = Law("good", lambda x: np.tanh(x), lambda x: 1.0 - np.tanh(x) ** 2, lambda let, x: f"tanh({x})")
    for offer, told in [
        (lambda cls, cycles: (Offer("drift", cls()),), "Two terms are offered as 'drift'"),
        (lambda cls, cycles: (Offer("odd", cls(), rival="nobody"),), "Offer 'odd': Unknown rival 'nobody'"),
    ]:
        register(odd(law, offers=classmethod(offer)))
        with pytest.raises(ModelError, match=told):
            candidate_terms()


def test_a_law_of_the_load_is_identified_and_exported_but_not_simulated() -> None:
    law = Law(
        "odd",
        lambda x, load: np.tanh(x) * np.abs(load),
        lambda x, load: (1.0 - np.tanh(x) ** 2) * np.abs(load),
        lambda let, x, load: let(f"tanh({x})") * let(f"fabs({load})"),
    )
    model = Model(arm(2), [Rotor(), odd(law)()])
    theta = truth_of(model) + 0.02
    q, v, a = states(20)
    rigid = Model(arm(2)).torque(q, v, a, truth_of(Model(arm(2))))
    change = model.torque(q, v, a, theta) - Model(arm(2), [Rotor()]).torque(
        q, v, a, np.delete(theta, [model.layout.index(f"joint{j}.Fo") for j in (1, 2)])
    )
    np.testing.assert_allclose(change, 0.02 * np.tanh(v) * np.abs(rigid), rtol=1e-9, atol=1e-12)
    export = python_file(IdentifiedModel(model, theta, "true"))
    assert export.parity is not None
    with pytest.raises(ModelError, match=r"Law 'odd' depends on the load; .* only the built-in one can be simulated"):
        Plant(model, theta).forward(q, v, a)
