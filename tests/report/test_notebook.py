"""Objects in a notebook: HTML that escapes, data frames with the numbers as computed, and notebooks that run."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

import steelyard as sy
from steelyard.errors import OutputError
from steelyard.regression.problem import Problem
from steelyard.report import plotly_figure
from steelyard.report.figures.effort import joint_figure
from steelyard.report.section import Figure
from steelyard.signals.samples import Samples
from testbed.pages import HOSTILE, Outline, example, model_of_example

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def samples() -> Samples:
    q = np.random.default_rng(1).normal(size=(2, 300)).cumsum(axis=1) * 0.01
    v = np.gradient(q, 0.01, axis=1)
    return Samples.from_arrays("walk", ("joint1", "joint2"), 100.0, q, v, np.gradient(v, 0.01, axis=1), q)


def test_every_main_type_shows_itself() -> None:
    result, _ = example()
    model = model_of_example()
    problem = Problem(model, [samples()], decimate=2)
    for shown in (model.robot, model, samples(), problem, result):
        html = shown._repr_html_()
        outline = Outline(html)
        assert "<table" in html
        assert not outline.scripts
        assert "@scope" in html
        assert shown.to_polars().height > 0
    assert result.verdict in Outline(result._repr_html_()).text
    limits = sy.MotionLimits(*(np.array([x, x]) for x in (-1.0, 1.0, 1.0, 4.0)))
    design = sy.design_excitation(model, limits, 4.0, family=sy.design.FourierFamily(2), starts=1, iterations=3)
    assert "σ to expect" in design._repr_html_()
    assert design.to_polars()["std"].to_list() == pytest.approx(design.forecast.std.tolist())


def test_names_are_escaped() -> None:
    robot = model_of_example().robot
    joints = tuple(replace(joint, name=name) for joint, name in zip(robot.joints, HOSTILE, strict=True))
    html = replace(robot, name=HOSTILE[0], joints=joints)._repr_html_()
    assert not Outline(html).scripts
    assert "img" not in {tag for tag, _ in Outline(html).tags}


def test_frames_hold_the_numbers() -> None:
    result, _ = example()
    frame = result.to_polars()
    assert frame["name"].to_list() == list(result.base.names)
    np.testing.assert_array_equal(frame["value"].to_numpy(), result.value)
    rows = samples().to_polars()
    assert rows.columns[:2] == ["t", "q_joint1"]
    assert rows.shape == (300, 9)
    assert isinstance(rows, pl.DataFrame)


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OutputError, match="pip install pandas"):
        example()[0].to_pandas()


def test_figures_are_plotly_objects() -> None:
    _, prediction = example()
    made = plotly_figure(Figure(joint_figure(prediction, 0, "N·m"), "caption"))
    assert isinstance(made, go.Figure)
    np.testing.assert_array_equal(made.data[0].y, prediction.measured[0])


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(notebook: Path, tmp_path: Path) -> None:
    """Every cell, and the HTML of what its last line shows, in one process."""
    cells = [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in cells), "notebooks are kept without outputs"
    body: list[ast.stmt] = []
    for cell in cells:
        own = ast.parse("".join(cell["source"])).body
        if isinstance(own[-1], ast.Expr):
            show = ast.parse("shown(0)").body[0]
            assert isinstance(show, ast.Expr)
            assert isinstance(show.value, ast.Call)
            show.value.args = [own[-1].value]
            own[-1] = show
        body += own
    head = (
        "def shown(x):\n"
        "    html = x._repr_html_() if hasattr(x, '_repr_html_') else repr(x)\n"
        "    print(type(x).__name__, len(html))\n"
    )
    script = tmp_path / "cells.py"
    script.write_text(head + ast.unparse(ast.Module(body, [])), "utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 4


def test_there_are_three_notebooks() -> None:
    assert len(NOTEBOOKS) == 3
