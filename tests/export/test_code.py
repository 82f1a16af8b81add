"""Exported code and tables: they equal the model, say what they leave out, and are written whole or not at all."""

from __future__ import annotations

import ctypes
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import ModelError, OutputError
from steelyard.export.code.c import FLAGS, TOLERANCE, c_files, compiled_parity
from steelyard.export.code.casadi import casadi_file
from steelyard.export.code.expressions import Program, combination, named, number
from steelyard.export.code.parts import parts
from steelyard.export.code.python import imported_parity, python_file
from steelyard.export.code.test_vectors import exported_torque
from steelyard.export.export import Export
from steelyard.export.latex import latex_table, paper_table
from steelyard.export.parameter_set import IdentifiedModel, identified_model
from steelyard.export.parity import Parity, random_states
from steelyard.export.robot_files.urdf_new import generated_urdf
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.pose import Pose
from steelyard.model.robot import Robot
from steelyard.model.springs import (
    Anchor,
    ConstantForceSpring,
    CrankSpring,
    GasCompensator,
    JointSpring,
    Spring,
    TensionSpring,
)
from steelyard.model.terms import (
    AsymmetricCoulomb,
    AsymmetricViscous,
    BearingFriction,
    Compensator,
    Coulomb,
    Coupling,
    Dahl,
    Drift,
    LoadFriction,
    Offset,
    PowerLaw,
    Ripple,
    Rotor,
    Springs,
    Stribeck,
    Term,
    Viscous,
    on_joints,
)
from steelyard.regression.problem import Problem
from steelyard.report.latex import escaped
from testbed.command import Run
from testbed.simulated import PENDULUM, arm, log_of, model_of, samples_of, silent, slider, truth_of
from testbed.trees import random_tree

seeds = st.integers(0, 2**32 - 1)
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="No C compiler 'cc' on this machine.")


def furnished(rng: np.random.Generator, joints: int) -> Robot:
    """A random tree with coupled motors, a gas cylinder and a spring of every kind."""
    robot = random_tree(rng, joints, off_axis=True)
    names = robot.joint_names
    ends = (Anchor(robot.base, rng.normal(size=3)), Anchor(robot.links[-1].name, rng.normal(size=3)))
    springs: list[Spring] = [
        JointSpring("a", names[0]),
        JointSpring("b", names[-1], 0.3),
        TensionSpring("c 1", ends),
        TensionSpring("c-1", ends, 0.2),
        ConstantForceSpring("e", ends),
    ]
    turning = [joint.name for joint in robot.joints if not joint.is_prismatic]
    cylinder = None
    if turning:
        springs += [CrankSpring("f", turning[0], 0.7, 0.2, 0.4), CrankSpring("g", turning[-1], 0.7, 0.2, 0.4, 0.1)]
        cylinder = GasCompensator(turning[0], 0.8, 0.2, 0.1, 0.05, 0.3, 0.01, 0.2)
    coupling = np.eye(joints)
    coupling[-1, 0] = -0.5
    nominal = {"a.K": 3.0, "c 1.Kr": 40.0, "f.K0": 5.0}
    return replace(robot, springs=tuple(springs), compensator=cylinder, coupling=coupling, nominal=nominal)


def every_term(robot: Robot, width: float) -> tuple[Term, ...]:
    """All laws at once, with sign(v) for a width of zero and tanh(v / width) else."""
    names = robot.joint_names
    return (
        Rotor(), Viscous(), Coulomb(width), AsymmetricViscous(), AsymmetricCoulomb(width), Offset(), PowerLaw(),
        PowerLaw(1.4), Stribeck(0.2, width=width), LoadFriction(width), LoadFriction(width, 1.5), Ripple(3.0), Drift(),
        BearingFriction(width), BearingFriction(width, "previous"),
        on_joints(Dahl(), names[:1]), on_joints(Dahl(3e-3), names[1:]), Coupling(width), Springs(),
        *([Compensator()] if robot.compensator else []),
    )  # fmt: skip


def furnished_model(seed: int, joints: int, width: float) -> IdentifiedModel:
    rng = np.random.default_rng(seed)
    robot = furnished(rng, joints)
    model = Model(robot, every_term(robot, width))
    return IdentifiedModel(model, rng.normal(size=len(model.layout)), "random")


def imported(export: Export, folder: Path) -> SimpleNamespace:
    """The exported module, as a user would import it."""
    (name,) = export.files
    (folder / name).write_bytes(export.files[name])
    return SimpleNamespace(**runpy.run_path(str(folder / name)))


def library(export: Export, folder: Path) -> ctypes.CDLL:
    """The exported C as a shared library."""
    for name, content in export.files.items():
        (folder / name).write_bytes(content)
    sources = [name for name in export.files if name.endswith(".c") and not name.startswith("test_")]
    built = ["cc", *FLAGS, "-shared", "-fPIC", "-o", "exported.so", *sources, "-lm"]
    subprocess.run(built, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "exported.so"))


def called(function: object, shape: tuple[int, ...], *signals: Array) -> Array:
    """A C function on every state (n, N) of the signals, shape + (N,)."""
    out = np.empty((signals[0].shape[1], *shape))
    rows = [np.ascontiguousarray(x.T) for x in signals]
    for s in range(len(out)):
        function(*(ctypes.c_void_p(x[s].ctypes.data) for x in (*rows, out)))  # type: ignore[operator]
    return np.moveaxis(out, 0, -1)


def apart(given: Array, wanted: Array) -> float:
    return float(np.abs(given - wanted).max() / np.abs(wanted).max())


# --- The algebra ------------------------------------------------------------------------------------------------------


def test_what_is_multiplied_by_zero_is_gone_and_ones_are_bare() -> None:
    x, y = named("x"), named("y")
    assert str(number(0.0) * x + number(1.0) * y - x * y) == "y - x*y"
    assert str(number(-2.5) * x + number(2.5) * x) == "0.0"
    assert str(-x - number(1e-300)) == "-x - 1e-300"
    assert str(combination(np.array([0.0, 1.0, -0.5]), "v")) == "v[1] - 0.5*v[2]"


def test_a_number_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ModelError, match="finite"):
        number(np.nan)


def test_statements_nobody_reads_are_dropped() -> None:
    program = Program()
    used = program.let("used", named("q[0]") * named("q[1]"))
    program.let("unused", used * used)
    program.call("y1", "sin(unused)")
    program.give("tau[0]", used + number(1.0))
    statements, names = program.live()
    assert [one.name for one in statements] == ["used"]
    assert "unused" not in names


@given(seeds)
def test_expressions_are_worth_what_numbers_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = {name: float(x) for name, x in zip("abcd", rng.normal(size=4), strict=True)}
    a, b, c, d = (named(name) for name in "abcd")
    tree = (a * b - number(0.5) * c) * (d + number(2.0)) - -a * d
    wanted = (values["a"] * values["b"] - 0.5 * values["c"]) * (values["d"] + 2.0) + values["a"] * values["d"]
    total = sum(x * float(np.prod([values[name] for name in key])) for key, x in tree.terms.items())
    assert total == pytest.approx(wanted, rel=1e-12)


# --- Equal to the model -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=20)
@given(seeds, st.integers(1, 5), st.booleans())
def test_python_equals_the_model_on_any_tree(tmp_path_factory, seed: int, joints: int, off_axis: bool) -> None:
    rng = np.random.default_rng(seed)
    model = Model(random_tree(rng, joints, off_axis=off_axis), [Rotor(), Viscous(), Coulomb(), Offset()])
    theta = rng.normal(size=len(model.layout))
    module = imported(python_file(IdentifiedModel(model, theta, "random")), tmp_path_factory.mktemp("tree"))
    q, v, a = random_states(model, 20, seed=3)
    assert apart(module.inverse_dynamics(q, v, a), model.torque(q, v, a, theta)) < TOLERANCE
    assert apart(module.gravity(q), model.torque(q, 0.0 * q, 0.0 * q, theta)) < TOLERANCE
    assert apart(module.mass_matrix(q), model.mass_matrix(q, theta)) < TOLERANCE
    one = module.inverse_dynamics(q[:, 7], v[:, 7], a[:, 7])
    assert apart(one, model.torque(q[:, 7:8], v[:, 7:8], a[:, 7:8], theta)[:, 0]) < TOLERANCE


@pytest.mark.slow
@settings(max_examples=10)
@given(seeds, st.integers(2, 4), st.sampled_from([0.0, 0.1]))
def test_python_has_every_law(tmp_path_factory, seed: int, joints: int, width: float) -> None:
    chosen = furnished_model(seed, joints, width)
    export = python_file(chosen)
    module = imported(export, tmp_path_factory.mktemp("laws"))
    q, v, a = random_states(chosen.model, 20, seed=3)
    assert apart(module.inverse_dynamics(q, v, a), exported_torque(chosen, q, v, a)) < TOLERANCE
    assert apart(module.mass_matrix(q), chosen.model.mass_matrix(q, chosen.theta)) < TOLERANCE
    # consecutive states: the model itself remembers, and no time has passed
    walk = q[:, :1] + np.cumsum(np.full_like(q, 5e-4) * np.sign(v), axis=1)
    wanted = chosen.model.torque(walk, v, a, chosen.theta, np.zeros(20))
    memory = module.start(walk[:, 0])
    halves = [
        module.inverse_dynamics(walk[:, :9], v[:, :9], a[:, :9], memory),
        module.inverse_dynamics(walk[:, 9:], v[:, 9:], a[:, 9:], memory),
    ]
    assert apart(np.hstack(halves), wanted) < TOLERANCE
    assert any("drift" in one for one in export.left_out)
    assert any("pre-sliding" in one for one in export.left_out)


@pytest.mark.slow
@pytest.mark.parametrize("width", [0.0, 0.1])
def test_casadi_has_every_law_and_its_torques_are_those_of_python_and_c(width: float, tmp_path: Path) -> None:
    casadi: Any = pytest.importorskip("casadi")
    identified = furnished_model(17, 4, width)
    made = casadi_file(identified, "arm")
    assert made.parity is not None
    assert made.parity.relative < TOLERANCE
    module, numpy_module = imported(made, tmp_path), imported(python_file(identified, "arm"), tmp_path)
    states = random_states(identified.model, 20, 5)
    assert apart(np.array(module.inverse_dynamics(*states)), numpy_module.inverse_dynamics(*states)) < TOLERANCE
    assert apart(np.array(module.gravity(states.q)), numpy_module.gravity(states.q)) < TOLERANCE
    if shutil.which("cc"):
        compiled = library(c_files(identified, "arm"), tmp_path)
        torque = called(compiled.arm_inverse_dynamics, (4,), *states)
        assert apart(np.array(module.inverse_dynamics(*states)), torque) < TOLERANCE
    # it can be differentiated: ∂τ/∂a is the mass matrix, of which rotors that turn together have more
    q, a = casadi.SX.sym("q", 4), casadi.SX.sym("a", 4)
    slope = casadi.Function("slope", [q, a], [casadi.jacobian(module.inverse_dynamics(q, 0 * q, a), a)])
    mass = numpy_module.mass_matrix(states.q[:, 0])
    if not width:
        assert apart(np.array(slope(states.q[:, 0], states.a[:, 0])), mass) < 1e-9


def test_casadi_is_written_without_casadi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    made = casadi_file(small())
    assert made.parity is None
    assert "Not evaluated" in made.read_back
    assert b"from casadi import SX, Function" in made.files[next(iter(made.files))]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("width", [0.0, 0.1])
def test_c_has_every_law(width: float, tmp_path: Path) -> None:
    chosen = furnished_model(11, 4, width)
    export = c_files(chosen, "whole")
    assert export.parity is not None
    assert export.parity.relative < TOLERANCE
    code = library(export, tmp_path)
    q, v, a = random_states(chosen.model, 20, seed=3)
    tau = called(code.whole_inverse_dynamics, (4,), q, v, a)
    assert apart(tau, exported_torque(chosen, q, v, a)) < TOLERANCE


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", ["tx40", "panda", "kr300"])
def test_c_equals_the_model_on_fresh_states(name: str, tmp_path: Path) -> None:
    robot = read_robot(name)
    coupled = [Coupling()] if robot.coupled else []
    model = Model(robot, [Rotor(), Viscous(), Coulomb(), Offset(), *coupled])
    theta = np.random.default_rng(5).normal(size=len(model.layout))
    export = c_files(IdentifiedModel(model, theta, "random"))
    assert set(export.files) == {f"{name}.h", f"{name}.c", f"test_{name}.c"}
    code, n = library(export, tmp_path), robot.dof
    q, v, a = random_states(model, 200, seed=9)
    torque, gravity = getattr(code, f"{name}_inverse_dynamics"), getattr(code, f"{name}_gravity")
    assert apart(called(torque, (n,), q, v, a), model.torque(q, v, a, theta)) < TOLERANCE
    assert apart(called(gravity, (n,), q), model.torque(q, 0.0 * q, 0.0 * q, theta)) < TOLERANCE
    mass = called(getattr(code, f"{name}_mass_matrix"), (n, n), q)
    assert apart(mass, model.mass_matrix(q, theta)) < TOLERANCE


def small() -> IdentifiedModel:
    model = model_of(slider())
    return IdentifiedModel(model, truth_of(model), "nominal")


@needs_compiler
def test_c_compiles_as_the_documentation_says_and_its_self_test_passes(tmp_path: Path) -> None:
    for name, content in c_files(small()).files.items():
        (tmp_path / name).write_bytes(content)
    command = "cc -O2 -Wall -Wextra -Werror -o test *.c -lm && ./test"
    done = subprocess.run(command, cwd=tmp_path, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"slider: 16 states, largest difference \S+, relative \S+\n", done.stdout)


@pytest.mark.slow
@needs_compiler
def test_c_that_says_something_else_is_never_given_back() -> None:
    files = dict(c_files(small()).files)
    assert compiled_parity(files) is not None
    changed = re.sub(rb"(M_2 = )\d\.", rb"\g<1>7.", files["slider.c"])
    assert changed != files["slider.c"]
    with pytest.raises(OutputError, match="self-test failed"):
        compiled_parity(files | {"slider.c": changed})
    with pytest.raises(OutputError, match="do not compile"):
        compiled_parity(files | {"slider.c": files["slider.c"].replace(b"double", b"dubble", 1)})


def test_python_that_says_something_else_is_never_given_back() -> None:
    chosen = small()
    (content,) = python_file(chosen).files.values()
    assert isinstance(imported_parity(chosen, content), Parity)
    changed = re.sub(rb"(M_2 = )\d\.", rb"\g<1>7.", content)
    assert changed != content
    with pytest.raises(OutputError, match="self-test"):
        imported_parity(chosen, changed)


def test_c_without_a_compiler_is_said_to_be_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert c_files(small()).parity is None


@pytest.mark.slow
def test_c_keeps_no_state_and_allocates_nothing() -> None:
    source = c_files(furnished_model(11, 3, 0.0), "whole").files["whole.c"].decode()
    assert not re.search(r"malloc|calloc|alloca|free\(", source)
    outside = [line for line in source.splitlines() if line.startswith("static") and line.endswith(("*/", ";"))]
    assert outside
    assert all(line.startswith("static const double") for line in outside)


def test_python_runs_alone_with_numpy(tmp_path: Path) -> None:
    (name, content), *rest = python_file(small()).files.items()
    assert not rest
    (tmp_path / name).write_bytes(content)
    done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "relative difference from the test vectors" in done.stdout
    assert set(re.findall(r"^(?:import|from) (\w+)", content.decode(), re.MULTILINE)) == {"numpy"}
    module = imported(python_file(small()), tmp_path)
    with pytest.raises(ValueError, match="one row per joint"):
        module.gravity(np.zeros(3))


# --- Names, loads and what cannot be written --------------------------------------------------------------------------


@pytest.mark.slow
@needs_compiler
def test_names_of_any_kind_do_no_harm() -> None:
    wild = ('"; */ int x; /*', "back\\slash new ??/ line")
    robot = arm(2, 'a "robot" */ \\')
    joints = tuple(replace(joint, name=name) for joint, name in zip(robot.joints, wild, strict=True))
    links = tuple(replace(link, name=f"{name}'") for link, name in zip(robot.links, wild, strict=True))
    model = model_of(replace(robot, joints=joints, links=links))
    chosen = IdentifiedModel(model, truth_of(model), "nominal")
    assert set(c_files(chosen).files) == {"a_robot.h", "a_robot.c", "test_a_robot.c"}
    assert python_file(chosen).parity is not None
    assert set(c_files(chosen, "mine").files) == {"mine.h", "mine.c", "test_mine.c"}
    with pytest.raises(ModelError, match="cannot be a name in code"):
        c_files(chosen, "my arm")


def test_springs_whose_names_look_alike_keep_their_own_constants() -> None:
    chosen = furnished_model(11, 4, 0.0)
    made = parts(chosen.model, chosen.theta)
    named_alike = [one for one in made.constants if "c 1.Kr" in one.about or "c-1.Kr" in one.about]
    assert len({one.name for one in named_alike}) == 2


def test_a_payload_becomes_part_of_its_link(tmp_path: Path) -> None:
    body = inertial_vector(2.0, np.array([0.1, 0.0, 0.2]), 0.01 * np.eye(3))
    pose = Pose(np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0.0, 0.3, 0.1]))
    terms = (Rotor(), Viscous(), Coulomb(0.1), LoadFriction(0.1))
    known = {symbol: float(x) for symbol, x in zip(INERTIAL, body, strict=True)}
    model = Model(arm(3), terms, payloads=[Payload("box", pose=pose, known=known)])
    theta = np.where(model.layout.known != 0.0, model.layout.known, np.abs(truth_of(model)) + 0.01)
    q, v, a = random_states(model, 20, seed=3)
    taus = {}
    for load in ("none", "box"):
        module = imported(python_file(IdentifiedModel(model, theta, "nominal", load)), tmp_path)
        taus[load] = module.inverse_dynamics(q, v, a)
        assert apart(taus[load], model.torque(q, v, a, theta, load=load)) < TOLERANCE
    assert apart(taus["box"], taus["none"]) > 0.01
    for load, told in (("none", True), ("box", False)):
        bodies = theta.copy()
        bodies[model.inertial_index] = body
        chosen = IdentifiedModel(model, bodies, "drawn", load)
        left_out = generated_urdf(model, chosen.bearing, chosen.load).left_out
        assert any("The payload box" in one for one in left_out) == told
    with pytest.raises(ModelError, match="Valid: none, box"):
        parts(model, theta, "crate")


def test_robots_with_loops_are_refused() -> None:
    model = Model(read_robot("fivebar"))
    with pytest.raises(ModelError, match="loops"):
        parts(model, np.zeros(len(model.layout)))


def test_load_friction_without_inertias_is_refused() -> None:
    model = Model(silent(arm(2)), [LoadFriction()])
    with pytest.raises(ModelError, match="carried"):
        parts(model, np.ones(len(model.layout)))


# --- Which set is exported --------------------------------------------------------------------------------------------


def fitted(noise: float, seed: int = 1) -> tuple[Model, Identification]:
    model = model_of(arm(3))
    return model, identify(Problem(model, [samples_of(model, 2000, noise=noise, seed=seed)]))


def test_a_feasible_result_is_exported_with_its_own_base_values() -> None:
    model, result = fitted(1e-6)
    chosen = identified_model(model, result)
    assert chosen.physical
    assert chosen.cost == ""
    assert "Certified" in chosen.certificate
    assert min(chosen.smallest.values()) > 0.0
    assert result.base.map @ chosen.theta == pytest.approx(result.value, abs=1e-6)


def test_an_impossible_result_becomes_the_nearest_possible_and_the_price_is_told() -> None:
    model, result = fitted(0.3)
    at = result.base.names.index("joint2.Fc")
    value = result.value.copy()
    value[at] = -4.0 * result.std[at]
    impossible = replace(result, value=value, standard=result.base.theta(value))
    chosen = identified_model(model, impossible)
    assert chosen.physical
    assert chosen.theta[model.layout.index("joint2.Fc")] >= 0.0
    assert chosen.distance_sigma > 0.5
    assert chosen.torque_change > 1e-6
    assert "σ" in chosen.cost
    as_it_is = identified_model(model, impossible, allow_infeasible=True)
    assert not as_it_is.physical
    assert "joint2.Fc" in as_it_is.certificate
    states = random_states(model)
    wanted = model.torque(*states, impossible.theta)
    assert apart(model.torque(*states, as_it_is.theta), wanted) < TOLERANCE
    assert apart(model.torque(*states, chosen.theta), wanted) > 1e-6


def test_cancelled_parameters_stay_zero_and_do_not_take_the_value_of_the_file() -> None:
    model, result = fitted(1e-3)
    at = result.base.names.index("joint2.Fc")
    value, (robust, classical) = result.value.copy(), (result.covariance.copy(), result.covariance_classical.copy())
    value[at] = 0.0
    for covariance in (robust, classical):
        covariance[at] = covariance[:, at] = np.nan
    cancelled = replace(result, value=value, covariance=robust, covariance_classical=classical, standard=None)
    chosen = identified_model(model, cancelled)
    assert chosen.physical
    assert "cancelled ones counted as zero" in chosen.rule
    assert chosen.theta[model.layout.index("joint2.Fc")] == pytest.approx(0.0, abs=1e-6)
    assert chosen.torque_change < 1e-6


def test_a_set_that_is_another_robot_is_refused() -> None:
    model, result = fitted(0.3)
    value = result.value.copy()
    value[result.base.names.index("joint2.Fv")] = -1e3
    impossible = replace(result, value=value, standard=None)
    with pytest.raises(ModelError, match=r"changes torques by .*σ away.*not the robot that was measured"):
        identified_model(model, impossible)
    assert not identified_model(model, impossible, allow_infeasible=True).physical
    vague = replace(impossible, covariance=1e12 * result.covariance)  # few σ away, and still another robot
    with pytest.raises(ModelError, match=r"changes torques by"):
        identified_model(model, vague)
    own = identified_model(model, result).theta.copy()
    own[model.inertial_index[0]] *= 1e9
    with pytest.raises(ModelError, match=r"has link1 of .* kg"):
        identified_model(model, replace(result, standard=own, standard_rule="drawn"))


@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_whether_a_body_can_exist_does_not_depend_on_its_size(size: float) -> None:
    """A body of a tenth of a millimetre is held to the same part of itself as one of a metre."""
    model = model_of(arm(2))
    theta = np.abs(truth_of(model))
    plate, bad = (inertial_vector(1.0, np.zeros(3), np.diag([0.2, 0.2, z])) for z in (0.4, 0.4004))
    theta[model.inertial_index] = size * plate
    assert IdentifiedModel(model, theta, "drawn").physical
    theta[model.inertial_index[1]] = size * 1e-3 * bad
    chosen = IdentifiedModel(model, theta, "drawn")
    assert not chosen.physical
    assert "Not physical (link2)" in chosen.certificate


def test_a_result_of_another_model_is_refused() -> None:
    _, result = fitted(0.3)
    with pytest.raises(ModelError, match="other columns"):
        identified_model(model_of(arm(2)), result)


# --- LaTeX ------------------------------------------------------------------------------------------------------------


def table(result: Identification, robot: Robot) -> tuple[str, list[list[str]]]:
    """The text of the table, and its cells row by row."""
    (text,) = latex_table(result, robot).files.values()
    inner = text.decode().split("\\midrule\n")[1].split("\\bottomrule")[0]
    return text.decode(), [line.removesuffix(r" \\").split(" & ") for line in inner.strip().splitlines()]


def test_latex_holds_every_value_to_the_digits_its_deviation_allows() -> None:
    model, result = fitted(0.3)
    text, rows = table(result, model.robot)
    assert len(rows) == len(result.base)
    for row, value, std, relative in zip(rows, result.value, result.std, result.relative_std, strict=True):
        assert float(row[1].strip("$ ")) == pytest.approx(value, abs=0.1 * std)
        assert float(row[2].strip("$ ")) == pytest.approx(2.0 * std, rel=0.06)
        if relative < 9.0:
            assert float(row[3].strip("$ ")) == pytest.approx(100.0 * relative, rel=0.01)
    assert text.count("{") == text.count("}")
    assert text.count("\\begin{") == text.count("\\end{") == 2
    assert "$\\mathit{Fc}_{2}$" in text
    regrouped = [name for name, group in result.base.regroupings.items() if len(group) > 1 and "link1" in name]
    assert f"$\\mathit{{{regrouped[0].split('.')[1]}}}_{{1R}}$" in text
    (longer,) = latex_table(result, model.robot, regroupings=True).files.values()
    assert longer.decode().startswith(text)
    assert longer.decode().count("\\toprule") == 2
    base = replace(result.base, map=result.base.map * (1.0 + 1e-15))  # a share of one but for rounding
    (rounded,) = latex_table(replace(result, base=base), model.robot, regroupings=True).files.values()
    assert rounded == longer


def test_latex_of_many_parameters_stands_in_two_columns() -> None:
    model = model_of(arm(5))
    result = identify(Problem(model, [samples_of(model, 2000, noise=0.3)]))
    assert len(result.base) > 40
    _, rows = table(result, model.robot)
    assert {len(row) for row in rows} == {2 * len(paper_table(result).shown)}
    assert len(rows) == -(-len(result.base) // 2)


def test_latex_says_what_has_no_value_and_escapes_names() -> None:
    model, result = fitted(0.3)
    value = result.value.copy()
    value[0] = np.nan
    export = latex_table(replace(result, value=value, robot="a_b & 50%"), model.robot)
    (name, content), *_ = export.files.items()
    assert name == "a_b_50.tex"
    assert rb"a\_b \& 50\%" in content
    assert [one.split(":")[0] for one in export.left_out] == [result.base.names[0]]
    assert escaped("#{~}\\") == r"\#\{\textasciitilde{}\}\textbackslash{}"


# --- The command ------------------------------------------------------------------------------------------------------

PROJECT = """\
robot = "pendulum.toml"
terms = "plain"

[prepare]
cutoff_hz = 20.0
lowpass_hz = 8.0
decimate = 6
rest = 0.02

[channels]
time = { column = "t", unit = "s" }
q = { columns = ["q_joint1", "q_joint2"], unit = "rad" }
effort = { columns = ["tau_joint1", "tau_joint2"], unit = "N.m" }

[[run]]
log = "log.csv"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project that is identified: project-run beside its file."""
    from steelyard.project.project import read_project
    from steelyard.project.run import run

    folder = tmp_path_factory.mktemp("export")
    (folder / "pendulum.toml").write_text(PENDULUM, "utf-8")
    columns = log_of(model_of(read_robot(folder / "pendulum.toml")), 2400, noise=0.1)
    rows = np.column_stack(list(columns.values())).tolist()
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
    (folder / "log.csv").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "project.toml").write_text(PROJECT, "utf-8")
    run(read_project(folder / "project.toml"))
    return folder


@pytest.fixture
def workplace(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to write into from an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Path(shutil.copytree(project, tmp_path / "work"))


@pytest.mark.slow
@needs_compiler
def test_export_of_c_writes_a_folder_here(steelyard: Run, workplace: Path) -> None:
    before = sorted(workplace.rglob("*"))
    told = steelyard("export", workplace / "project-run", "--to", "c", "--json")
    assert told.code == 0, told.err
    document = told.document
    folder = Path.cwd() / "project-run-c"
    assert sorted(workplace.rglob("*")) == before
    assert document["schema"] == "steelyard.export/1"
    assert {Path(file).name for file in document["files"]} == {"pendulum.h", "pendulum.c", "test_pendulum.c"}
    assert all(Path(file).parent == folder and Path(file).is_file() for file in document["files"])
    assert document["parity"]["relative"] < TOLERANCE
    assert document["parity"]["friction"] is True
    assert document["standard"]["physical"] is True
    assert min(document["standard"]["smallest"].values()) >= 0.0
    assert "Certified" in told.err
    assert "Read back: torques agree" in told.err
    # once more: its own folder is replaced if it is named; another's is not
    told = steelyard("export", workplace / "project-run", "--to", "c")
    assert told.code == 2
    assert "--out" in told.err
    assert steelyard("export", workplace / "project-run", "--to", "c", "--out", folder).code == 0
    (folder / "notes.txt").write_text("mine")
    told = steelyard("export", workplace / "project-run", "--to", "c", "--out", folder)
    assert told.code == 2
    assert "notes.txt" in told.err


def test_export_of_python_and_latex_writes_one_file(steelyard: Run, workplace: Path) -> None:
    run, here = workplace / "project-run", Path.cwd()
    assert steelyard("export", run, "--to", "python").code == 0
    assert "def inverse_dynamics" in (here / "pendulum.py").read_text("utf-8")
    told = steelyard("export", run, "--to", "python")
    assert told.code == 2
    assert "--out" in told.err
    assert steelyard("export", run, "--to", "python", "--out", here / "pendulum.py").code == 0
    told = steelyard("export", run, "--to", "latex", "--regroupings", "--name", "table1", "--json")
    assert told.code == 0, told.err
    assert told.document["standard"] is None
    assert (here / "table1.tex").read_text("utf-8").count("\\toprule") == 2


@pytest.mark.parametrize("to", ["urdf", "mjcf"])
def test_export_of_a_table_robot_makes_a_new_file_and_edits_it_the_next_time(
    to: str, steelyard: Run, workplace: Path
) -> None:
    if to == "mjcf":
        pytest.importorskip("mujoco")
    run, file = workplace / "project-run", Path.cwd() / ("pendulum.urdf" if to == "urdf" else "pendulum.xml")
    told = steelyard("export", run, "--to", to, "--json")
    assert told.code == 0, told.err
    assert told.document["files"] == [str(file)]
    assert told.document["parity"]["relative"] < 1e-9
    assert told.document["parity"]["friction"] is False
    assert told.document["friction"] == []
    assert "Read back: without friction, torques agree" in told.err
    assert ("set it in your simulator" in " ".join(told.err.split())) == (to == "urdf")
    assert any("offset" in one for one in told.document["left_out"])
    before = file.read_bytes()
    told = steelyard("export", run, "--to", to, "--source", file, "--json")
    assert told.code == 0, told.err
    assert file.read_bytes() == before
    edited = file.with_stem("pendulum-identified")
    assert told.document["files"] == [str(edited)]
    assert told.document["source"] == str(file)
    heavier = re.sub(rb'(mass(?: value)?=")[\d.e+-]+', rb"\g<1>77.0", before, count=1)
    assert heavier != before
    file.write_bytes(heavier)
    told = steelyard("export", run, "--to", to, "--source", file, "--out", file, "--json")
    assert told.code == 0, told.err
    change = next(one for one in told.document["changes"] if one["quantity"] == "mass")
    assert change["before"] == 77.0
    assert "What changed" in told.err
    assert file.read_bytes() != heavier


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "dll"), "Valid: urdf, mjcf, sdf, c, python, casadi, latex"),
        (("--to", "c", "--source", "x.urdf"), "target 'c' does not take the option 'source': leave it out."),
        (("--to", "urdf", "--name", "x"), "does not take the option 'name'"),
        (("--to", "c", "--regroupings"), "does not take the option 'regroupings'"),
        (("--to", "urdf", "--allow-infeasible"), "does not take the option 'allow_infeasible'"),
        (("--to", "c", "--load", "box"), "load 'box'"),
        (("--to", "c", "--name", "my arm"), "cannot be a name in code"),
        (("--to", "urdf", "--source", "pendulum.toml"), "pendulum.toml"),
        (("--to", "python", "--out", "nowhere/there/x.py"), "does not exist"),
        (("--to", "python", "--out", "project-run/result.json"), "is part of the result"),
        (("--to", "urdf", "--out", "project-run"), "is part of the result"),
        (("--to", "c", "--out", "project-run"), "is part of the result"),
        (("--to", "c", "--out", "."), "is part of the result"),
        (("--to", "latex", "--out", "log.csv"), "is an input of the result"),
        (("--to", "latex", "--out", "project.toml"), "is an input of the result"),
        (("--to", "python", "--name", "class"), "a keyword or module in Python"),
        (("--to", "python", "--name", "numpy"), "e.g. robot_numpy"),
        (("--to", "c", "--name", "math"), "header in C"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(
    options: tuple[str, ...], said: str, steelyard: Run, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    before = {path: path.read_bytes() for path in workplace.rglob("*") if path.is_file()}
    told = steelyard("export", "project-run", *options)
    assert told.code == 2
    assert said in " ".join(told.err.split())
    assert {path: path.read_bytes() for path in workplace.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_the_robot_file_of_the_result_is_replaced_with_a_warning(steelyard: Run, workplace: Path) -> None:
    own = workplace / "own.urdf"
    assert steelyard("export", workplace / "project-run", "--to", "urdf", "--out", own).code == 0
    (workplace / "own.toml").write_text(PROJECT.replace("pendulum.toml", "own.urdf"), "utf-8")
    assert steelyard("identify", workplace / "own.toml", "--out", workplace / "own").code == 0
    warning = "is the robot file of this result"
    assert warning not in steelyard("export", workplace / "own", "--to", "urdf").err
    told = steelyard("export", workplace / "own", "--to", "urdf", "--out", own, "--json")
    assert told.code == 0, told.err
    assert warning in told.document["notes"][-1]
    # what the warning says comes true
    assert "has changed since the fit" in " ".join(steelyard("export", workplace / "own", "--to", "urdf").err.split())


def test_meshes_that_stand_beside_the_source_are_told_where_the_file_goes_elsewhere(
    steelyard: Run, workplace: Path
) -> None:
    run, file = workplace / "project-run", workplace / "pendulum.urdf"
    assert steelyard("export", run, "--to", "urdf", "--out", file).code == 0
    meshes = '<visual><geometry><mesh filename="{}"/></geometry></visual>'
    shown = "".join(meshes.format(name) for name in ("meshes/arm.stl", "package://arm/arm.stl", "/shapes/arm.stl"))
    file.write_text(file.read_text("utf-8").replace("</link>", f"{shown}</link>", 1), "utf-8")
    (workplace / "meshes").mkdir()
    (workplace / "meshes" / "arm.stl").touch()
    place = workplace / "elsewhere" / "arm.urdf"
    place.parent.mkdir()
    told = steelyard("export", run, "--to", "urdf", "--source", file, "--out", place, "--json")
    assert told.code == 0, told.err
    warning = told.document["notes"][-1]
    assert f"'arm.urdf' does not find meshes/arm.stl in its folder '{place.parent}'" in warning
    assert f"--out {workplace}" in warning
    # where the mesh is found, or was not found before, there is nothing to say
    (place.parent / "meshes").mkdir()
    (place.parent / "meshes" / "arm.stl").touch()
    told = steelyard("export", run, "--to", "urdf", "--source", file, "--out", place, "--json")
    assert not any("does not find" in one for one in told.document["notes"])
    for mesh in (workplace / "meshes" / "arm.stl", place.parent / "meshes" / "arm.stl"):
        mesh.unlink()
    told = steelyard("export", run, "--to", "urdf", "--source", file, "--out", place, "--json")
    assert not any("does not find" in one for one in told.document["notes"])
    told = steelyard("export", run, "--to", "urdf", "--source", file, "--out", workplace, "--json")
    assert told.code == 0, told.err
    assert told.document["files"] == [str(workplace / "pendulum-identified.urdf")]
    assert not any("does not find" in one for one in told.document["notes"])


@pytest.mark.slow
def test_friction_that_is_more_than_a_line_is_told_joint_by_joint(steelyard: Run, workplace: Path) -> None:
    project = workplace / "rich.toml"
    terms = 'terms = ["rotor", "viscous", "coulomb", "offset", "power-law"]'
    project.write_text(PROJECT.replace('terms = "plain"', terms), "utf-8")
    assert steelyard("identify", project, "--out", workplace / "rich").code == 0
    told = steelyard("export", workplace / "rich", "--to", "urdf", "--exact", "--json")
    assert told.code == 0, told.err
    lines = {one["joint"]: one for one in told.document["friction"]}
    assert set(lines) == {"joint1", "joint2"}
    text = Path("pendulum.urdf").read_text("utf-8")
    for name, one in lines.items():
        values = told.document["standard"]["values"]
        assert values[f"{name}.Fp50"] != 0.0
        assert one["lost"] > 0.0
        assert f'friction="{one["friction"]!r}"' in text or one["friction"] == 0.0
        assert f"Friction of {name}: " in " ".join(told.document["left_out"])
    # without --exact the line is that of the logged motion, and the file is worth more
    fitted = steelyard("export", workplace / "rich", "--to", "urdf", "--out", workplace / "fit.urdf", "--json").document
    assert fitted["friction"] == []
    assert "Friction beyond damping and friction (Fp50)" in " ".join(fitted["left_out"])
    errors = [one["scores"]["fitted"]["file"]["total"] for one in (fitted, told.document)]
    assert errors[0] < errors[1]


@pytest.mark.slow
def test_every_open_builtin_robot_can_be_written() -> None:
    for name in builtin_robots():
        robot = read_robot(name)
        if robot.loops:
            continue
        model = Model(robot, [Rotor()])
        theta = np.random.default_rng(0).normal(size=len(model.layout))
        assert python_file(IdentifiedModel(model, theta, "random")).parity is not None, name
