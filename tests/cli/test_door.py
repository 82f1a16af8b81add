"""The door: what is public at the top, that it is there and documented, and that opening it loads little."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

import steelyard as sy
from steelyard.cli import COMMANDS, option_values
from steelyard.design.criteria import CRITERIA
from steelyard.estimators import ESTIMATORS
from steelyard.export import TARGETS
from steelyard.export.motions import FORMATS
from steelyard.formats.robots import builtin_robots
from steelyard.formats.robots.bases import BASES
from steelyard.identification.weighing import FREE
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import TERMS
from steelyard.online.online import WATCH
from steelyard.project.demos.adapt import RULES as UPDATE_RULES
from steelyard.project.excite import FAMILIES
from steelyard.project.papers.registry import PAPERS
from steelyard.project.watch import FOLLOWED_FILES
from steelyard.regression.forgetting import RULES
from steelyard.report.printers import PRINTERS
from steelyard.simulation.controllers import CONTROLLERS
from steelyard.validation.twin import RUNS

HEAVY = ("numba", "scipy", "polars", "plotly", "clarabel", "jinja2")
NAMESPACES = sorted(sy._NAMESPACES)
NAMES = sorted(set(sy.__all__) - set(NAMESPACES))
# The top level before the namespaces, and what was missing from it: each is still reachable, or told where it is.
FORMER = """
    LS MAP PD PID RLS TLS WLS AsymmetricCoulomb AsymmetricViscous BSplineFamily BaseParameters Box Capsule Cascade
    ChannelMap Chunk Column Comparison Compensator ComputedTorque ConditionNumber Consistent Constraints Coulomb
    Coupling CrossValidation DOptimal Dahl Delays Design DeviationTargets Drift Entry Essential Experiment Export
    Finding Forecast Fourier FourierFamily Gains Huber Identification Identified Information LoadFriction Loop Model
    Motion MotionLimits Offset OnJoints Online Payload PayloadResult Plane Plant PowerLaw Preparation Problem
    Quintic Recording Reference Ridge Ripple Robot Rotor Samples Selection Signal Simulated Springs SteelyardError
    Stribeck Surroundings TLSMixed Term TrapezoidalAcceleration Validation Viscous Watch base_parameters
    builtin_robots c_files compare cross_validate design_excitation edited_mjcf edited_urdf estimate_delays forecast
    identified identify latex_table limits_of new_mjcf new_urdf observe offers planned predict prepare python_file
    random_fourier random_points read_project read_recording read_result read_robot run select simulate validate
    weigh_payload with_load IV DIDIM OutputError ConsistentGains Recursive check twin nearest_feasible judge
"""


def loaded(program: str, *arguments: str, among: Sequence[str] = HEAVY) -> set[str]:
    """Which of the modules a fresh interpreter has loaded after the program."""
    report = (
        f"import json, sys\n{program}\nprint(json.dumps([name for name in {tuple(among)!r} if name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", report, *arguments], check=True, capture_output=True, text=True, timeout=120
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


COMMAND = """
from steelyard.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""

# --- What opening it loads --------------------------------------------------------------------------------------------


def test_import_loads_nothing_heavy() -> None:
    assert loaded("import steelyard", among=("numpy", "typer", *HEAVY)) == set()


@pytest.mark.slow
def test_the_measure_sees_what_is_loaded() -> None:
    assert loaded("import steelyard\nsteelyard.LS", among=("numpy", *HEAVY)) >= {"numpy", "numba", "scipy"}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_loads_nothing_heavy(command: str) -> None:
    assert loaded(COMMAND, *command.split(), "--help") == set()


@pytest.mark.slow
@pytest.mark.parametrize("begun", ["steelyard ", "steelyard export --to ", "steelyard params "])
def test_completion_loads_nothing_heavy(begun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", begun)
    monkeypatch.setenv("COMP_CWORD", str(len(begun.split())))
    monkeypatch.setenv("_STEELYARD_COMPLETE", "complete_bash")
    assert loaded(f"sys.argv[0] = 'steelyard'\n{COMMAND}", among=("numpy", *HEAVY)) == set()


@pytest.mark.slow
def test_reading_a_robot_needs_no_compiled_kernel() -> None:
    assert loaded("import steelyard\nsteelyard.read_robot('tx40')", among=("mujoco", *HEAVY)) == set()
    assert loaded(COMMAND, "robots", "--json", among=("mujoco", *HEAVY)) == set()


@pytest.mark.slow
def test_base_parameters_need_no_file_library_and_no_solver() -> None:
    assert loaded(COMMAND, "params", "planar2r", "--json", among=("scipy.stats", *HEAVY)) <= {"numba", "scipy"}


# --- Names at the top -------------------------------------------------------------------------------------------------


def test_few_names_at_the_top() -> None:
    assert len(NAMES) == 49
    assert sorted(sy._NAMES) == NAMES
    assert sorted(sy.__all__) == sorted({*NAMES, *NAMESPACES})


def test_type_checkers_see_the_same_names() -> None:
    """The imports under `if TYPE_CHECKING` are the tables that the lazy lookup reads."""
    tree = ast.parse(inspect.getsource(sy))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    seen = {alias.name: str(node.module) for node in imports for alias in node.names}
    as_modules = {name: f"{seen.pop(name)}.{name}" for name in NAMESPACES}
    assert seen == sy._NAMES
    assert as_modules == sy._NAMESPACES


@pytest.mark.parametrize("name", sy.__all__)
def test_names_resolve_and_are_listed(name: str) -> None:
    assert getattr(sy, name) is getattr(sy, name)
    assert name in dir(sy)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_namespaces_are_complete_and_documented(namespace: str) -> None:
    module = getattr(sy, namespace)
    assert isinstance(module, ModuleType)
    assert module.__name__ == sy._NAMESPACES[namespace]
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__) > 0
    undocumented = [name for name in module.__all__ if not documented(getattr(module, name))]
    assert undocumented == []


@pytest.mark.parametrize("name", NAMES)
def test_names_are_documented(name: str) -> None:
    assert documented(getattr(sy, name))


def documented(thing: Any) -> bool:
    """A docstring of its own; a table of names (`ESTIMATORS`) has no place for one."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return True
    made_up = f"{thing.__name__}("  # what `dataclass` and `NamedTuple` write where there is none
    return bool(thing.__doc__) and not thing.__doc__.startswith(made_up)


def test_every_estimator_and_term_is_public() -> None:
    assert {kind.__name__ for kind in ESTIMATORS.values()} <= set(sy.estimators.__all__)
    assert {kind.__name__ for kind in TERMS.values()} <= set(sy.terms.__all__)


@pytest.mark.parametrize("name", FORMER.split())
def test_former_names_are_there_or_are_told(name: str) -> None:
    if name in NAMES:
        return
    with pytest.raises(AttributeError, match=rf"'{name}'\. It is steelyard\.\w+\.\w+\.$") as told:
        getattr(sy, name)
    _, namespace, found = str(told.value).split("It is ")[1].removesuffix(".").split(".")
    assert found in getattr(sy, namespace).__all__


def test_every_hint_leads_somewhere() -> None:
    for place in sy._ELSEWHERE.values():
        namespace, name = place.split(".")
        assert name in getattr(sy, namespace).__all__, place
    assert not set(sy._ELSEWHERE) & set(sy.__all__)


def test_unknown_names_suggest_close_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'idntify'\. Close names: steelyard\.identify"):
        sy.idntify  # noqa: B018
    with pytest.raises(AttributeError, match=r"Close names: steelyard\.motion\.Quintic\."):
        sy.Quintick  # noqa: B018
    with pytest.raises(AttributeError, match=r"docs/api\.md lists the names"):
        sy.zzzz  # noqa: B018
    assert not hasattr(sy, "__wrapped__")


# --- The command line -------------------------------------------------------------------------------------------------


def test_help_shows_the_values_that_commands_take() -> None:
    assert tuple(ESTIMATORS) == option_values.ESTIMATORS
    assert tuple(TERMS) == option_values.TERMS
    assert tuple(CRITERIA) == option_values.CRITERIA
    assert BASES == option_values.BASES
    assert tuple(FORMATS) == option_values.MOTION_FILES
    assert tuple(TARGETS) == option_values.EXPORT_TARGETS
    assert option_values.robots("") == list(builtin_robots())
    assert tuple(CONTROLLERS) == option_values.CONTROLLERS
    assert tuple(FREE) == option_values.FREE
    assert FAMILIES == option_values.FAMILIES
    assert RULES == option_values.FORGETTING
    assert FOLLOWED_FILES == option_values.FOLLOWED_FILES
    assert UNLOADED == option_values.UNLOADED
    assert RUNS == option_values.TWIN_RUNS
    assert PAPERS == option_values.PAPERS
    assert UPDATE_RULES == option_values.UPDATE_RULES
    assert tuple(PRINTERS) == tuple(f".{name}" for name in option_values.TABLES)
    assert (WATCH.learn_s, WATCH.false_alarms_per_hour) == (option_values.LEARN_S, option_values.FALSE_ALARMS_PER_HOUR)
