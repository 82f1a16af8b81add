"""Estimators of a user: registered, found by name, given what they need, and refused where they break the contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from steelyard.errors import EstimationError, ProjectError
from steelyard.estimators import (
    ESTIMATORS,
    IV,
    WLS,
    Estimate,
    Estimator,
    named_estimator,
    register,
    unregister,
)
from steelyard.estimators.least_squares import joint_deviations, solve
from steelyard.estimators.simulated.base import driven_again
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.project.project import read_project
from steelyard.project.result_file import read_result
from steelyard.regression.information import KNOWN, Information
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem
from steelyard.validation.cross_validation import cross_validate, cross_validate_choice, cross_validate_problem
from testbed.closed_loop import exact_problem, small, truth_of_base
from testbed.command import Run


@dataclass(frozen=True)
class Shrunk:
    """Least squares, weighted by powers of 1/σ_j. It names no base class: the contract is enough."""

    power: float = 1.0
    name: ClassVar[str] = "mine"
    needs: ClassVar[frozenset[str]] = frozenset()

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        assert KNOWN not in information.responses
        return solve(information, base, joint_deviations(information, base) ** -self.power)


@dataclass(frozen=True)
class Redriven(Estimator):
    """Least squares on the runs that the least-squares model makes under their controller."""

    name: ClassVar[str] = "redriven"
    needs: ClassVar[frozenset[str]] = frozenset({"simulation"})

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        assert problem is not None
        first = WLS().estimate(problem, base, information.without_known())
        again = driven_again(problem, base.theta(first.value), progress)
        simulated = observe(problem.with_runs(list(again.values())), progress=progress)
        return WLS().estimate(problem, base, simulated.without_known())


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register(Shrunk)
    register(Redriven)
    yield
    for name in set(ESTIMATORS) & {"mine", "redriven", "odd"}:
        unregister(name)


# --- By name ----------------------------------------------------------------------------------------------------------


def test_the_command_line_runs_it(steelyard: Run, project: Path, tmp_path: Path) -> None:
    """With power 1 it is wls, to the bit."""
    mine = steelyard("identify", project, "--out", tmp_path / "mine", "--estimator", "mine")
    assert mine.code == 0, mine.err
    assert steelyard("identify", project, "--out", tmp_path / "wls", "--estimator", "wls").code == 0
    found, wanted = read_result(tmp_path / "mine"), read_result(tmp_path / "wls")
    assert (found.estimator, found.estimator_options) == ("mine", {"power": 1.0})
    np.testing.assert_array_equal(found.value, wanted.value)
    listed = steelyard("estimators", "--json").document["estimators"]
    assert listed["mine"].startswith("Least squares, weighted")


def test_a_project_file_names_it_with_options(project: Path) -> None:
    text = project.read_text("utf-8").replace('estimator = "wls"', "")
    project.write_text(text + '\n[estimator]\nname = "mine"\noptions = { power = 0.5 }\n', "utf-8")
    assert read_project(project).estimator() == Shrunk(0.5)
    assert not read_project(project).simulates_runs
    unregister("mine")
    with pytest.raises(ProjectError, match="Unknown estimator 'mine'"):
        read_project(project)
    with pytest.raises(EstimationError, match="Unknown estimator 'mine'"):
        named_estimator("mine")


def test_the_command_line_asks_what_one_that_simulates_needs(steelyard: Run, project: Path, tmp_path: Path) -> None:
    asked = steelyard("identify", project, "--estimator", "redriven", "--out", tmp_path / "out")
    assert asked.code == 2
    assert "estimator 'redriven' simulates the runs again" in " ".join(asked.err.split())
    text = project.read_text("utf-8").replace("[prepare]", "sign_width = 0.2\n[prepare]", 1)
    controller = '\n[controller]\nkind = "cascade"\nposition_hz = 3.0\nvelocity_hz = 10.0\n'
    project.write_text(text + controller + '[experiment]\nreference = "measured"\n', "utf-8")
    told = steelyard("identify", project, "--estimator", "redriven", "--out", tmp_path / "out", "--json")
    assert told.code == 0, told.err
    assert told.document["relative_error"]["total"] < 0.2
    assert "approximate-reference" in {finding["code"] for finding in told.document["findings"]}


# --- What it is given -------------------------------------------------------------------------------------------------


def loaded() -> Problem:
    """A run without and one with a payload that is known whole."""
    body = {"XX": 0.02, "XY": 0.0, "XZ": 0.0, "YY": 0.02, "YZ": 0.0, "ZZ": 0.02, "MX": 0.3, "MY": 0.0, "MZ": 0.3}
    model: Model = replace(small(), payloads=[Payload("weight", known={**body, "M": 3.0})])
    return exact_problem(model)


def test_a_known_payload_is_subtracted_for_one_without_needs() -> None:
    problem = loaded()
    assert KNOWN in observe(problem).responses
    np.testing.assert_allclose(identify(problem, Shrunk()).value, truth_of_base(problem.model), rtol=1e-6, atol=1e-8)


def test_one_that_simulates_is_given_the_problem_and_whole_runs() -> None:
    problem = loaded()
    truth = truth_of_base(problem.model)
    np.testing.assert_allclose(identify(problem, Redriven()).value, truth, rtol=1e-6, atol=1e-8)
    judged = cross_validate_problem(problem, Redriven(), "runs")
    assert [fold.name for fold in judged.folds] == ["run 'run'", "run 'weight'"]
    assert judged.pooled.total < 1e-6
    with pytest.raises(EstimationError, match="use runs as folds"):
        cross_validate_problem(problem, Redriven(), 5)


@pytest.mark.parametrize("estimator", [Redriven(), IV()])
def test_one_that_simulates_is_refused_without_an_experiment(estimator: Estimator) -> None:
    problem = exact_problem(small())
    base, information = base_parameters(problem.model), observe(problem)
    with pytest.raises(EstimationError, match=f"'{estimator.name}' simulates the runs again.* add an experiment"):
        identify(replace(problem, experiment=None), estimator)
    with pytest.raises(EstimationError, match="use cross_validate_problem"):
        cross_validate(base, information, estimator, "runs")
    with pytest.raises(EstimationError, match="state the terms"):
        cross_validate_choice(problem, estimator, lambda fitted: fitted)
    with pytest.raises(EstimationError, match="add an experiment"):
        IV().estimate(None, base, information)


# --- What is refused --------------------------------------------------------------------------------------------------


def odd(**attributes: Any) -> Any:
    """An estimator like `Shrunk` with some attributes changed."""
    return dataclass(frozen=True)(type("Odd", (Shrunk,), {"name": "odd", **attributes}))


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ({"gain"}, r"'odd': Unknown value in `needs` 'gain'. Did you mean 'gains'\? Valid: gains, simulation"),
        ("gains", "'odd': the class attribute `needs` is 'gains'. Declare a frozenset"),
        (None, "'odd': the class attribute `needs` is missing. Declare a frozenset"),
        ({3}, "'odd': Unknown value in `needs` '3'"),
    ],
)
def test_unknown_needs_are_refused_when_it_is_used(needs: Any, told: str) -> None:
    kind, problem = odd(needs=needs), exact_problem(small())
    with pytest.raises(EstimationError, match=told):
        register(kind)
    assert "odd" not in ESTIMATORS
    with pytest.raises(EstimationError, match=told):
        identify(problem, kind())
    with pytest.raises(EstimationError, match=told):
        cross_validate(base_parameters(problem.model), observe(problem), kind(), 5)


def test_a_class_that_breaks_the_contract_is_refused() -> None:
    class Plain:
        name: ClassVar[str] = "odd"

    @dataclass(frozen=True)
    class Option:
        name: str = "odd"
        needs: ClassVar[frozenset[str]] = frozenset()

    @dataclass(frozen=True)
    class Bare:
        weight: float
        name: ClassVar[str] = "odd"
        needs: ClassVar[frozenset[str]] = frozenset()

    @dataclass(frozen=True)
    class Old:
        name: ClassVar[str] = "odd"
        needs: ClassVar[frozenset[str]] = frozenset()

        def estimate(self, base: BaseParameters, information: Information) -> None: ...

    for kind, told in [
        (Plain, r"'Plain' cannot be registered as an estimator: .*@dataclass\(frozen=True\)"),
        (dataclass(Plain), "frozen=True"),
        (Shrunk(), "must be a class"),
        (odd(name=""), "`name` must be a word"),
        (odd(name="my own"), "`name` must be a word"),
        (Option, "`name` must be the same for all instances: annotate it as a ClassVar"),
        (Bare, "option 'weight' needs a default value"),
        (Old, r"estimate\(self, problem, base, information, progress=None\)"),
        (odd(estimate=None), r"estimate\(self, problem, base, information, progress=None\)"),
        (odd(name="wls"), "'wls' is built in: choose another name"),
    ]:
        with pytest.raises(EstimationError, match=told):
            register(kind)  # type: ignore[type-var]
    assert "odd" not in ESTIMATORS
    assert ESTIMATORS["wls"] is WLS


def test_registering_again_replaces_and_built_in_ones_stay() -> None:
    again = register(odd(name="mine"))
    assert ESTIMATORS["mine"] is again
    with pytest.raises(EstimationError, match="'wls' is built in and cannot be removed"):
        unregister("wls")
    with pytest.raises(EstimationError, match="Unknown estimator 'nobody'"):
        unregister("nobody")
