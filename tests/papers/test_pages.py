"""The commands of the papers: their pages, their counts, and the gallery made from them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import ProjectError
from steelyard.project.papers import p4
from steelyard.project.papers.misprints import PROOFS, misprint_table
from steelyard.project.papers.page.claims import Claim
from steelyard.project.papers.page.comparison import Compared, comparison
from steelyard.project.papers.page.paper_page import PaperPage, PaperRequest, markdown
from steelyard.project.papers.printed_tables import lines_of, printed
from steelyard.project.papers.recorded import project_in
from steelyard.project.papers.registry import EXPERIMENTS, PAPERS, reproduced, write_page
from steelyard.project.papers.setups.tx40 import rows
from steelyard.report.table import Table
from testbed.browser import browser, need_browser, opened
from testbed.command import Run
from testbed.pages import Outline, without_plotly
from testbed.places import shared_data

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
PLACE = re.compile(r"<!-- paper: (?P<paper>\w+) (?P<name>[\w-]+) -->\n\n(?P<held>.*?)\n\n<!-- end paper -->", re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# Largest relative difference of a number of the gallery from what comes out on another machine.
SAME_NUMBER = 0.05


@cache
def small(paper: str, experiments: int = 1) -> PaperPage:
    return reproduced(paper, PaperRequest(experiments))


def held(paper: str) -> dict[str, str]:
    """The tables of the gallery that come from a paper's command, by name."""
    text = "".join(file.read_text("utf-8") for file in GALLERY.glob("*.md"))
    return {found["name"]: found["held"] for found in PLACE.finditer(text) if found["paper"] == paper}


def assert_as_held(own: Table, paper: str) -> None:
    """The gallery's table has these rows: the same words, and numbers that differ in the last digits only."""
    shown, found = held(paper)[own.name], markdown(own)
    assert shape(found) == shape(shown)
    numbers = [np.array([float(x[0]) for x in NUMBER.finditer(text)]) for text in (found, shown)]
    # a difference in σ near zero, or a residual of rounding, has no digits to compare
    assert numbers[0] == pytest.approx(numbers[1], rel=SAME_NUMBER, abs=0.05)


def shape(text: str) -> str:
    """The words of a table; a number beyond 3 σ may fall short of it on another machine."""
    return NUMBER.sub("#", " ".join(text.replace("*", "").split()))


# --- What is printed --------------------------------------------------------------------------------------------------


def test_printed_tables_are_whole() -> None:
    assert len(rows()) == 76
    assert {len(one) for one in rows().values()} == {5}
    assert [len(lines_of(printed("p2")["table_3"][name])) for name in ("gains", "parameters")] == [6, 29]
    assert len(lines_of(printed("p3")["table_3"]["rows"])) == 22
    for name in ("table_1", "table_3"):
        assert {len(one) for one in lines_of(printed("p4")[name]["rows"]).values()} == {6}
        assert len(lines_of(printed("p4")[name]["rows"])) == 28


def test_printed_differences_of_table_2_are_those_of_its_columns() -> None:
    for name, one in rows().items():
        assert abs(one.base - one.ref) == pytest.approx(one.base_apart, abs=0.0051), name
        assert abs(one.essential - one.ref) == pytest.approx(one.essential_apart, abs=0.0051), name


@pytest.mark.parametrize(
    ("paper", "count"),
    [("p0", 387), ("p1", 5), *(pytest.param(*x, marks=pytest.mark.slow) for x in (("p2", 83), ("p3", 111)))],
)
def test_printed_numbers_stand_next_to_ours(paper: str, count: int) -> None:
    page = small(paper)
    assert page.printed_numbers == count
    assert f"{count} printed numbers" in page.verdict
    assert not page.broken


# --- The table of comparison ------------------------------------------------------------------------------------------


def test_difference_counts_our_sigma_with_a_truth_and_both_without() -> None:
    assert Compared("a", 5.0, 1.3, 0.1, 0.4, truth=1.0).difference == pytest.approx(3.0)
    assert Compared("a", 1.0, 2.0, 0.3, 0.4).difference == pytest.approx(2.0)
    assert np.isnan(Compared("a", 1.0, 2.0, 0.0).difference)


def test_what_is_far_off_gets_a_sentence() -> None:
    made = [Compared("near", 1.0, 1.1, 0.1), Compared("far", 1.0, 1.5, 0.1), Compared("biased", 1.0, 0.0, 0.1)]
    own = comparison("t", "T", made, 11, {"biased": "it leans."})
    assert [row.emphasis for row in own] == ["", "warning", "warning"]
    assert own.notes[:2] == (
        "far is 5.0 σ from the printed number.",
        "biased is 10.0 σ from the printed number: it leans.",
    )
    # P(|t₁₀| > 5) = 5.4e-4, for the farthest of three
    assert own.notes[2] == "With σ from 11 blocks, one of 3 right values is 5.0 σ off with probability 0.16 %."
    assert not comparison("t", "T", made[:1], 11).notes


@pytest.mark.parametrize(
    "paper",
    [
        "p0",
        "p1",
        pytest.param("p2", marks=pytest.mark.slow),
        *(pytest.param(one, marks=[pytest.mark.slow, pytest.mark.evidence]) for one in ("p3", "p4")),
    ],
)
def test_every_number_that_is_far_off_has_its_sentence(paper: str) -> None:
    for own in small(paper, EXPERIMENTS[paper][1]).tables.values():
        for column in own.columns:
            if column.unit != "σ":
                continue
            for row in own:
                apart = own.cell(row, column.key)
                if isinstance(apart, float) and abs(apart) > 3.0:
                    assert abs(apart) < 1e6, "a σ that is rounding"
                    name = str(row.cells[0])
                    assert any(note.startswith(f"{name} is") or f"{name} {apart:+.1f} σ" in note for note in own.notes)


# --- Pages and the gallery --------------------------------------------------------------------------------------------


def test_a_page_is_written_whole_and_reads_back(tmp_path: Path) -> None:
    page = small("p0")
    report = write_page(page, tmp_path / "p0")
    seen = Outline(without_plotly(report.read_text("utf-8")))
    assert "P0 reproduced" in seen.text
    assert page.verdict in seen.text
    assert not [tag for tag, attributes in seen.tags if "http" in str(attributes.get("src") or attributes.get("href"))]
    assert sum(tag == "section" for tag, _ in seen.tags) == len(page.parts) + 1
    data = json.loads((tmp_path / "p0" / "paper.json").read_text("utf-8"))
    assert data["printed_numbers"] == page.printed_numbers
    assert [row["name"] for row in data["tables"]["table_2"]["rows"]] == list(rows())
    assert data["broken"] == 0


def test_gallery_of_p0_is_what_comes_out() -> None:
    page = small("p0", EXPERIMENTS["p0"][1])
    # what comes from a recording is not in a page without one
    own = [name for name in held("p0") if name in page.tables]
    assert len(own) >= 7
    for name in own:
        assert_as_held(page.tables[name], "p0")


@pytest.mark.slow
def test_gallery_of_p2_to_p4_is_what_comes_out() -> None:
    """The tables that do not depend on the number of experiments."""
    for name in ("counts", "table_3", "maker", "cross_test", "payloads", "units", "coupling"):
        assert_as_held(small("p2").tables[name], "p2")
    for name in ("counts", "table_3"):
        assert_as_held(small("p3").tables[name], "p3")
    nominal = p4.Nominal.of(0)
    for own in (
        p4.counts(nominal),
        p4.estimate_table("table_1", nominal, nominal.right),
        p4.estimate_table("table_3", nominal, nominal.biased),
        p4.residual_table(nominal),
    ):
        assert_as_held(own, "p4")
    # P4: 28 rows of value and σ by three estimators in two tables, Table II, and five counts
    assert 2 * 28 * 6 + 6 + 5 == 347


def test_gallery_names_tables_that_exist_and_fills_them() -> None:
    for paper in PAPERS:
        assert held(paper), paper
        assert all(text.startswith("| ") for text in held(paper).values())


def test_every_misprint_is_proved() -> None:
    own = misprint_table(PAPERS)
    records = own.records()
    assert {row["paper"] for row in records} == {"P0", "P1", "P2", "P3", "P4"}
    named = [one["proof"] for one in printed("misprints")["misprint"] if "proof" in one]
    assert sorted(named) == sorted(PROOFS)
    # a torque, a length, a coefficient or a formula that is exact as corrected and far off as printed
    exact = [row for row in records if row["error_corrected"] is not None and abs(row["error_corrected"]) < 1e-8]
    assert len(exact) >= 11
    assert all(row["error_printed"] > 1e-2 for row in exact)
    assert_as_held(own, "all")


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["p0", *(pytest.param(one, marks=pytest.mark.evidence) for one in PAPERS[1:])])
def test_a_page_is_drawn_without_a_network(paper: str, tmp_path: Path) -> None:
    """Wide and on a phone: every figure drawn, every curve of it named in a legend, every figure printed."""
    need_browser()
    report = write_page(small(paper, EXPERIMENTS[paper][1]), tmp_path / paper)
    with browser() as launched:
        for width in (1200, 390):
            seen = opened(launched, report, width)
            seen.scroll()
            assert (seen.errors, seen.requests) == ([], [])
            assert seen.overflow <= 0
            if width == 1200:
                assert min(seen.drawn_pixels(".multiples .plot")) > 0.003
                assert not seen.page.evaluate(UNNAMED)
                seen.print()
                count = "document.querySelectorAll('{} .js-plotly-plot').length"
                assert seen.page.evaluate(count.format(".printed")) == seen.page.evaluate(count.format(".multiples"))
            seen.page.context.close()


# Curves of a figure with several of them that no legend names.
UNNAMED = """[...document.querySelectorAll('.figures')].flatMap((box) => {
  const named = new Set([...box.querySelectorAll('.legend button')].map((one) => one.textContent));
  return [...box.querySelectorAll('.multiples .plot')].flatMap((plot) => {
    const shown = plot.data.filter((one) => one.name && one.showlegend !== false);
    return shown.length < 2 || plot._fullLayout.showlegend ? [] : shown.filter((one) => !named.has(one.name));
  });
}).map((one) => one.name)"""


# --- The commands -----------------------------------------------------------------------------------------------------


def test_unknown_paper_and_folder_without_project(tmp_path: Path, steelyard: Run) -> None:
    told = steelyard("paper", "p9", "--out", tmp_path / "x")
    assert told.code == 2
    assert "p0, p1, p2, p3, p4" in told.err
    told = steelyard("paper", "p1", "--quick", "--data", tmp_path / "none", "--out", tmp_path / "x")
    assert told.code == 2
    assert "is not a folder" in told.err
    with pytest.raises(ProjectError, match=r"no project file 'tx40.toml' \(project files there: none\)"):
        project_in(PaperRequest(1, 0, tmp_path), "tx40.toml")


def test_a_broken_claim_fails_the_command(tmp_path: Path, steelyard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Claim.of("the moon is cheese", "yes", False, "{:.0%}", 0.0)
    page = PaperPage("p1", PaperRequest(1), (), (broken,))
    monkeypatch.setattr("steelyard.project.papers.registry.reproduced", lambda paper, request: page)
    told = steelyard("paper", "p1", "--quick", "--out", tmp_path / "p1", "--json")
    assert told.code == 1
    assert told.document["broken"] == 1
    assert "Broken: the moon is cheese." in told.err
    assert (tmp_path / "p1" / "report.html").is_file()


@pytest.mark.slow
def test_recorded_robot_by_the_same_test(tmp_path: Path) -> None:
    """P0's test and P4's Table I on the user's own recording."""
    shared_data("staubli_tx40")
    page = reproduced("p0", PaperRequest(1, 0, ROOT / "examples" / "real"))
    own = page.tables["own_set"].records()
    assert [row["set"] for row in own] == ["nominal", "(30)", "(32)"]
    assert [row["passing_0"] for row in own] == [4, 1, 4]


def test_adapt_learns_any_robot(tmp_path: Path, steelyard: Run) -> None:
    told = steelyard("adapt", "planar2r", "--motions", "8", "--out", tmp_path / "page", "--json")
    assert told.code == 0
    data = told.document
    assert data["enough"]
    assert data["error"][0] == pytest.approx(0.5)
    assert data["error"][-1] < 1e-2
    assert all(abs(row["value"] - row["truth"]) < 0.02 for row in data["parameters"])
    assert (tmp_path / "page" / "report.html").is_file()
    refused = steelyard("adapt", "planar2r", "--rule", "best")
    assert refused.code == 2
    assert "normalised, published" in refused.err
