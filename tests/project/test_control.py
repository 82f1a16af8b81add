"""`steelyard control` and `steelyard adapt`: from a result, and from a robot, to a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import DataError, ModelError
from steelyard.project.demos.adapt import adapt
from steelyard.project.demos.control import IDENTIFIED, NOMINAL, control
from steelyard.project.demos.demo import demo
from steelyard.simulation.tracking import FORWARD_PID, PLAIN_PID
from testbed.command import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo of the planar arm: logs, project and result."""
    place = tmp_path_factory.mktemp("control") / "demo"
    demo("planar2r", place)
    return place


@pytest.mark.slow
def test_the_identified_model_controls_best(folder: Path, tmp_path: Path, steelyard: Run) -> None:
    told = steelyard("control", folder / "project-run", "--seconds", "3", "--out", tmp_path / "page", "--json")
    assert told.code == 0
    laws = {one["law"]: float(np.mean(one["rms"])) for one in told.document["tracking"]}
    assert list(laws) == [PLAIN_PID, FORWARD_PID, NOMINAL, IDENTIFIED]
    assert sorted(laws, key=lambda law: -laws[law]) == list(laws)
    assert "Errors over time" in (tmp_path / "page" / "report.html").read_text("utf-8")
    assert "planar2r: control laws" in (tmp_path / "page" / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_another_log_is_the_motion(folder: Path) -> None:
    """σ scales the error of the model: without it only the sampling is left."""
    place, log = folder / "project-run", folder / "validate.csv"
    exact, wrong = (control(place, log, seconds=1.0, sigmas=sigmas) for sigmas in (0.0, 10.0))
    assert exact.motion == wrong.motion == "validate.csv"
    best, worse = (one.runs[-1].tracking.rms for one in (exact, wrong))
    assert np.mean(best) < np.mean(worse)
    with pytest.raises(DataError, match="choose a longer motion"):
        control(place, log, seconds=0.005)


def test_adapt_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ModelError, match="at least one motion"):
        adapt("planar2r", 0)
    with pytest.raises(ModelError, match="normalised, published"):
        adapt("planar2r", 4, rule="best")


def test_adapt_with_noise_has_a_floor_and_goes_on() -> None:
    done = adapt("planar2r", 4, noise=0.2, seed=1)
    assert not done.adaptation.diverged
    assert done.error[-1] < 0.5
    assert len(done.adaptation.verdicts) == 4
