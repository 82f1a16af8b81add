"""The report is one offline file that says what was found, escapes what users wrote, and never prints a NaN."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html import unescape
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs

from steelyard.estimators.gains.gains import Gains
from steelyard.findings import Finding
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.identification.prediction import Prediction
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.parameters import inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.terms import named_terms
from steelyard.regression.problem import Problem
from steelyard.report.figures.effort import MOST_POINTS, drawn_rows, joint_figure, ribbon_path, stretches
from steelyard.report.numerals import estimate, number, percent, share, value_and_deviation
from steelyard.report.packing import embedded_figures, embedded_json, unpack
from steelyard.report.page import embedded_script, render, spoken
from steelyard.report.printers import gauge_length
from steelyard.report.tables.bodies import payload_table
from steelyard.report.tables.errors import error_scores, error_table
from steelyard.report.tables.parameters import parameter_table, quality
from steelyard.report.tables.provenance import ordered_findings
from steelyard.signals.channels import Drives
from steelyard.signals.samples import Samples
from testbed.pages import HOSTILE, Outline, example, identified, model_of_example, without_plotly
from testbed.simulated import arm, motion_of, truth_of

TITLE = "Two joints & <one> page"


@cache
def page() -> str:
    result, prediction = example()
    return render(result, (prediction,), TITLE)


def figures(source: str, number: int = 0) -> Any:
    """The groups of a box of figures, their arrays unpacked as the page does it."""
    data = [script for script in Outline(source).scripts if script.startswith('{"groups"')][number]
    held = json.loads(data)

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return (
                unpack(held["arrays"][value["array"]])
                if set(value) == {"array"}
                else {key: filled(one) for key, one in value.items()}
            )
        return [filled(one) for one in value] if isinstance(value, list) else value

    return filled(held["groups"])


def test_says_what_was_found() -> None:
    result, _ = example()
    text = Outline(page()).text
    assert result.verdict in text
    assert TITLE in text
    for name in result.base.names:
        assert name in text
    for finding in result.findings:
        assert finding.message in text
        assert finding.fix in text
    for step in result.runs[0].history:
        assert step in text
    assert result.relative_error.mask in text
    for package, version in result.versions.items():
        assert f"{package} {version}" in text


def test_is_one_offline_file() -> None:
    tags = Outline(page()).tags
    addresses = [a[k] or "" for _, a in tags for k in ("src", "href", "srcset", "action", "data") if k in a]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in tags}
    own = without_plotly(page())
    assert not re.search(r"https?://|url\(|@import|\bimport\(|\bfetch\(|XMLHttpRequest", own)
    policy = next(a["content"] for tag, a in tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_cannot_upload() -> None:
    """Plotly's own mode bar offers to send the chart to a server; the page names its buttons itself."""
    own = without_plotly(page())
    assert "modeBarButtons:" in own
    assert 'plotlyServerURL: ""' in own
    assert "ToCloud" not in own


def test_embeds_plotly_once_and_only_for_curves() -> None:
    assert page().count(get_plotlyjs()[:200]) == 1
    assert page().count("* plotly.js v") == 1
    result, _ = example()
    bare = render(result, (), TITLE)
    assert len(bare) < len(page())
    assert "No rows were predicted" in bare
    assert result.verdict in Outline(bare).text


def test_escapes_what_users_wrote() -> None:
    robot = read_robot("planar2r")
    joints = tuple(replace(j, name=n) for j, n in zip(robot.joints, HOSTILE, strict=True))
    links = tuple(replace(k, name=f"<b>{k.name}") for k in robot.links)
    result, prediction = identified(replace(robot, joints=joints, links=links, name="<i>arm</i>"))
    result = replace(result, findings=(Finding("constant-channel", "error", HOSTILE[0], HOSTILE[1], "<b>fix</b>"),))
    source = render(result, (replace(prediction, run=HOSTILE[1]), prediction), HOSTILE[1])
    outline, harmless = Outline(source), Outline(page())
    assert len(outline.scripts) == len(harmless.scripts)
    assert not {"img", "i"} & {tag for tag, _ in outline.tags}
    assert not any(name.startswith("on") for _, attributes in outline.tags for name in attributes)
    for text in (*HOSTILE, "<i>arm</i>", "<b>fix</b>", *result.base.names):
        assert " ".join(text.split()) in outline.text
    assert [joint["name"] for joint in figures(source)[0]["joints"]] == list(HOSTILE)
    assert figures(source)[0]["name"] == HOSTILE[1]
    drawn = json.dumps(
        [joint["figure"] for run in figures(source) for joint in run["joints"]], default=np.ndarray.tolist
    )
    assert "alert" not in drawn, "Plotly reads markup in its texts"


def test_never_prints_nan() -> None:
    result, prediction = example()
    value, covariance, classical = result.value.copy(), result.covariance.copy(), result.covariance_classical.copy()
    value[0] = covariance[0] = covariance[:, 0] = classical[0] = classical[:, 0] = np.nan
    covariance[1] = covariance[:, 1] = np.nan
    value[2] = 0.0
    nothing = dict.fromkeys(result.relative_error.joints, np.nan)
    score = replace(result.relative_error, total=np.nan, joints=nothing, rmse=nothing, rows=dict.fromkeys(nothing, 0))
    broken = replace(
        result,
        value=value,
        covariance=covariance,
        covariance_classical=classical,
        relative_error=score,
        condition=np.inf,
        clusters=0,
    )
    measured = prediction.measured.copy()
    measured[:, 5] = np.nan
    curves = replace(prediction, measured=measured, scored=np.zeros_like(prediction.scored))
    source = without_plotly(render(broken, (curves,), "Nothing known"))
    assert not re.search(r"\b(nan|inf|infinity)\b", source, re.IGNORECASE)
    parameters = parameter_table(broken)
    records = parameters.records()
    assert [row["quality"] for row in records[:3]] == ["not excited", "no error bar", "weak"]
    assert [records[0][key] for key in ("value", "std", "relative_std")] == [None] * 3
    shown = [parameters.printed(parameters.rows[0], column) for column in parameters.shown[1:5]]
    assert shown == ["—", "—", "—", "—"]
    assert np.isnan(figures(source)[0]["joints"][0]["figure"]["data"][0]["y"][5])


def test_without_nominal_inertias() -> None:
    robot = read_robot("planar2r")
    result, prediction = identified(replace(robot, links=tuple(replace(k, inertia=None) for k in robot.links)))
    assert result.nominal is None
    source = render(result, (prediction,), TITLE)
    assert "no nominal inertias in the robot file" in Outline(source).text
    heads = [t for t in re.findall(r"<th scope=\"col\"[^>]*>([^<]*)<", source) if t == "Nominal"]
    assert not heads
    assert not any(trace["meta"] == "nominal" for trace in figures(source)[0]["joints"][0]["figure"]["data"])
    assert re.search(r"<th scope=\"col\"[^>]*>Nominal<", page())


def test_unseen_runs_are_scored_next_to_the_fit() -> None:
    result, prediction = example()
    assert result.unseen is None
    assert "unseen" not in error_scores(result)
    unseen = replace(result.relative_error, total=0.321, joints={"joint1": 0.3, "joint2": 0.345})
    seen = replace(result, unseen=unseen)
    text = Outline(render(seen, (prediction,), TITLE)).text
    assert "Relative error 32.1% on unseen runs" in text
    assert "34.5%" in text
    assert list(error_scores(seen)) == ["fitted", "unseen", "nominal"]
    records = error_table(seen).records()
    assert [row["relative_unseen"] for row in records] == [0.3, 0.345, 0.321]
    bars = re.findall(r"<span class=\"(\w+)\" style=\"width:([\d.]+)%\">", render(seen, (), TITLE))
    assert [kind for kind, _ in bars[:3]] == ["fitted", "unseen", "nominal"]
    assert max(float(length) for _, length in bars) == 100.0


def carrying(known: dict[str, float], std: dict[str, float], drives: Drives | None) -> Identification:
    """A three-joint arm with a payload of a stated mass, its gains identified from runs with and without it."""
    robot, body = arm(3), inertial_vector(3.0, np.array([0.04, -0.02, 0.09]), np.diag([0.02, 0.025, 0.015]))
    model = Model(robot, named_terms(["viscous"]), payloads=[Payload("<b>tool", known=known, std=std)])
    theta = np.append(truth_of(replace(model, payloads=())), body)
    runs = []
    for seed, load in ((1, "none"), (2, "<b>tool")):
        q, v, a, *_ = motion_of(robot, 2000, 200.0, seed)
        effort = model.torque(q, v, a, theta, load=load)
        effort += 0.05 * np.random.default_rng(seed).standard_normal(effort.shape)
        runs.append(Samples.from_arrays(load, robot.joint_names, 200.0, q, v, a, effort, load))
    result = identify(Problem(model, runs, motor_rows=True), Gains())
    assert result.gains is not None
    return replace(result, gains=replace(result.gains, drives=drives))


@pytest.mark.slow
def test_payloads_are_shown_as_bodies() -> None:
    result = carrying({"M": 3.0}, {}, None)
    table = payload_table(result, {"<b>tool": ""})
    (row,) = table.records()
    assert (row["name"], row["link"], row["stated"], row["mass"], row["mass_std"]) == (
        "<b>tool", "link3", "M = 3", 3.0, 0.0,
    )  # fmt: skip
    for key, truth in zip(("com_x", "com_y", "com_z"), (0.04, -0.02, 0.09), strict=True):
        assert 0.0 < row[f"{key}_std"] < 0.01
        assert abs(row[key] - truth) < 4.0 * row[f"{key}_std"]
    source = render(result, (), TITLE, {"<b>tool": "link2"})
    assert "Payloads Payload On link Stated Mass [kg]" in Outline(source).text
    com = table.printed(table.rows[0], table.shown[4])
    assert " ± " in com
    assert f"<b>tool link2 M = 3 3 {com}" in Outline(source).text
    assert 'href="#payloads"' in source
    assert 'id="payloads"' not in page()
    unsure = payload_table(carrying({"M": 3.0}, {"M": 0.03}, None))
    shown = [unsure.printed(unsure.rows[0], column) for column in unsure.shown[1:4]]
    assert shown == ["—", "M = 3 ± 0.03", "3.000 ± 0.030"]


@pytest.mark.slow
def test_stated_gains_are_shown_only_where_there_are_any() -> None:
    known = Drives(("A",) * 3, (2.0,) * 3, (100.0,) * 3, "motor", ("N.m/A",) * 3)
    heads = "Motor Identified ± σ σ/|g| σ bootstrap σ classical At the joint Unit "
    result = carrying({"M": 3.0}, {}, known)
    assert heads + "Stated |e| Depends on" in Outline(render(result, (), TITLE)).text
    assert result.gains is not None
    unknown = replace(result, gains=replace(result.gains, drives=replace(known, gain=None)))
    source = Outline(render(unknown, (), TITLE)).text
    assert heads + "Depends on" in source
    assert "stated gain" not in source


def test_is_deterministic() -> None:
    result, prediction = example()
    assert render(result, (prediction,), TITLE) == page()


def test_tables_have_headers_and_the_page_a_language() -> None:
    tags = Outline(page()).tags
    assert dict(tags)["html"] == {"lang": "en"}
    assert all(a.get("scope") in ("col", "colgroup", "row") for tag, a in tags if tag == "th")
    identifiers = [a["id"] for _, a in tags if "id" in a]
    assert len(set(identifiers)) == len(identifiers)
    targets = {(a["href"] or "")[1:] for tag, a in tags if tag == "a"}
    assert targets <= set(identifiers)


def test_figures_are_valid_plotly_and_hold_the_measured_numbers() -> None:
    _, prediction = example()
    joint = figures(page())[0]["joints"][1]
    go.Figure(joint["figure"])
    curves = {(trace["meta"], trace.get("yaxis", "y")): trace for trace in joint["figure"]["data"]}
    span = np.ptp(prediction.measured[1])
    np.testing.assert_allclose(curves["measured", "y"]["y"], prediction.measured[1], atol=span / 65534)
    difference = prediction.measured[1] - prediction.predicted[1]
    np.testing.assert_allclose(curves["residual", "y2"]["y"], difference, atol=np.ptp(difference) / 65534)
    assert f"{prediction.scored[1].sum()} of {len(prediction.t)} rows are scored" in joint["caption"]
    named = {shape["name"] for shape in joint["figure"]["layout"]["shapes"]}
    assert named == {"fitted rows", "at rest or left out"}


def test_every_figure_is_a_plotly_figure() -> None:
    result, prediction = example()
    source = render(result, (prediction,), TITLE, model=model_of_example())
    boxes = [script for script in Outline(source).scripts if script.startswith('{"groups"')]
    assert len(boxes) >= 5
    for which in range(len(boxes)):
        for group in figures(source, which):
            for joint in group["joints"]:
                go.Figure(joint["figure"])


def test_arrays_are_packed_to_half_a_step_and_once() -> None:
    rng = np.random.default_rng(5)
    y = rng.normal(size=1000) * 7.0
    y[[3, 500]] = np.nan
    spectrum = np.geomspace(1e-9, 1e3, 500)
    held = json.loads(str(embedded_figures([{"y": y, "again": y.copy(), "count": np.arange(40), "s": spectrum}])))
    assert held["groups"][0]["y"] == held["groups"][0]["again"]
    assert len(held["arrays"]) == 3
    got = unpack(held["arrays"][0])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(y))
    np.testing.assert_allclose(got, y, atol=0.51 * np.ptp(y[np.isfinite(y)]) / 65534)
    np.testing.assert_array_equal(unpack(held["arrays"][1]), np.arange(40))
    np.testing.assert_allclose(unpack(held["arrays"][2]), spectrum, rtol=3e-4)
    np.testing.assert_array_equal(unpack(json.loads(str(embedded_figures([np.full(3, 2.5)])))["arrays"][0]), [2.5] * 3)


def test_twelve_runs_of_six_joints_stay_below_seven_megabytes() -> None:
    result, _ = example()
    rng = np.random.default_rng(1)
    m, n = 4000, 6

    def rows() -> Any:
        return rng.normal(size=(n, m))

    joints = tuple(f"joint{k}" for k in range(n))
    every = tuple(
        Prediction(f"run{k}", joints, np.arange(m) / 25.0, rows(), rows(), rows(), rows(), rows() > -1.0, True,
                   q=rows(), other=rows(), half=rows())
        for k in range(12)
    )  # fmt: skip
    source = render(result, every, TITLE)
    assert 5e6 < len(source.encode()) < 7e6


def test_long_runs_keep_their_extremes() -> None:
    rng = np.random.default_rng(0)
    signals = rng.standard_normal((2, 40_000))
    signals[0, 12_345] = 50.0
    signals[1, 33_333] = -50.0
    rows = drawn_rows(signals)
    assert len(rows) <= MOST_POINTS
    assert {12_345, 33_333} <= set(rows.tolist())
    assert np.all(np.diff(rows) > 0)
    np.testing.assert_array_equal(drawn_rows(signals[:, :100]), np.arange(100))


def test_gaps_break_lines_and_shading() -> None:
    _, prediction = example()
    t = prediction.t.copy()
    t[200:] += 30.0
    scored = prediction.scored.copy()
    scored[:, 195:205] = False
    trace = joint_figure(replace(prediction, t=t, scored=scored), 0, "N·m")["data"][0]
    assert np.isnan(trace["x"][200])
    assert np.isnan(trace["y"][200])
    assert np.unique(stretches(t)).tolist() == [0, 1]
    path = ribbon_path(np.array([0.0, 1.0, 10.0, 11.0, 12.0]), np.array([False, True, True, False, True]))
    assert re.findall(r"M([\d.]+),[\d.]+V[\d.]+H([\d.]+)", path) == [("0.5", "1.5"), ("9.5", "10.5"), ("11.5", "12.5")]
    assert ribbon_path(np.array([0.0, 1.0]), np.array([False, False])) == ""


@pytest.mark.parametrize("count", [0, 1, 2])
def test_hardly_any_rows_still_make_a_page(count: int) -> None:
    result, p = example()
    assert p.nominal is not None
    measured, predicted, nominal, v = (x[:, :count] for x in (p.measured, p.predicted, p.nominal, p.v))
    short = Prediction(p.run, p.joints, p.t[:count], v, measured, predicted, nominal, p.scored[:, :count] & False, True)
    joint = figures(render(result, (short,), TITLE))[0]["joints"][0]
    go.Figure(joint["figure"])
    assert len(joint["figure"]["data"][0]["x"]) == count
    assert f"0 of {count} rows are scored" in joint["caption"]


@pytest.mark.parametrize(
    ("value", "deviation", "shown"),
    [
        (1.24816, 0.02503, ("1.248", "0.025")),
        (-0.00001, 0.0123, ("0.000", "0.012")),
        (1234.6, 321.0, ("1235", "321")),
        (2e6, 50.0, ("2000000", "50")),
        (5.0, 2e7, ("5", "2.0e+07")),
        (2.0, 1e-15, ("2", "1.0e-15")),
        (2.0, 0.0, ("2.000", "0")),
        (2.0, np.nan, ("2.000", "—")),
        (np.nan, np.nan, ("—", "—")),
    ],
)
def test_as_many_digits_as_the_error_bar_allows(value: float, deviation: float, shown: tuple[str, str]) -> None:
    assert value_and_deviation(value, deviation) == shown


def test_numbers_in_print() -> None:
    assert [share(x) for x in (0.0, 0.0477, 0.1208, 3.2, np.inf, np.nan, -0.5, -np.inf)] == [
        "0.00%",
        "4.77%",
        "12.1%",
        "320%",
        "> 999%",
        "—",
        "-50.0%",
        "< -999%",
    ]
    assert [percent(x) for x in (0.0477, 1e9, np.nan)] == ["4.77", "> 999", "—"]
    assert [estimate(2.0, x) for x in (0.0, 0.03, np.nan)] == ["2", "2.000 ± 0.030", "2.000 ± —"]
    assert [number(x, 3) for x in (0.06, 1465.0, np.inf, np.nan)] == ["0.0600", "1465", "∞", "—"]
    assert spoken("Explains nan% of it") == "Explains — of it"
    assert [quality(1.0, x) for x in (0.05, 0.1, 0.5, np.inf, np.nan)] == [
        "good",
        "fair",
        "weak",
        "weak",
        "no error bar",
    ]
    assert [gauge_length(x) for x in (np.nan, 0.0, 0.1, np.inf)] == [0.0, 0.0, 50.0, 100.0]


def test_most_severe_findings_first() -> None:
    mixed = [
        Finding("gaps", "info", ""),
        Finding("missing-value", "error", ""),
        Finding("loop-singular", "warning", ""),
        Finding("constant-channel", "error", ""),
    ]
    ordered = ["missing-value", "constant-channel", "loop-singular", "gaps"]
    assert [finding.code for finding in ordered_findings(mixed)] == ordered


def test_embedding_is_safe_and_faithful() -> None:
    value = {"text": "</script><!-- & \u2028 é", "x": [1.5, None]}
    text = str(embedded_json(value))
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == value
    assert unescape(text) == text
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded_json([np.nan])
    assert "</script" not in embedded_script('x = "</script>"')
