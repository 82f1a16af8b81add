"""A section of the report is one object: registered in a few lines, it is in every page that is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from steelyard import report
from steelyard.errors import OutputError
from steelyard.report import Figure, ReportSubject, Section, TableColumn
from steelyard.report.registry import BUILT_IN
from steelyard.report.section import Piece
from steelyard.report.table import table
from testbed.command import Run
from testbed.pages import HOSTILE, Outline, example, without_plotly


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """A test starts with the built-in sections, and what it registers is removed again."""
    before = dict(report.SECTIONS)
    for name in before.keys() - BUILT_IN:
        report.unregister(name)
    yield
    report.SECTIONS.clear()
    report.SECTIONS.update(before)


def wear(subject: ReportSubject) -> Sequence[Piece]:
    """The section of this file: friction per joint, with a remark."""
    columns = (TableColumn("name", "Joint", "code"), TableColumn("value", "Viscous", "number", unit="N.m.s"))
    pairs = zip(subject.result.base.names, subject.result.value, strict=True)
    rows = [pair for pair in pairs if pair[0].endswith(".Fv")]
    return ["Gears wear.", table("wear", "Wear", columns, rows), Markup("<p>See the <b>manual</b>.</p>")]


WEAR = Section("wear", "Wear of the gears", wear, "Wear")


@pytest.mark.slow
def test_a_section_of_ones_own_is_in_the_report_of_identify(steelyard: Run, project: Path) -> None:
    report.register(WEAR, before="data")
    told = steelyard("identify", project)
    assert told.code == 0, told.err
    source = (project.parent / "project-run" / "report.html").read_text("utf-8")
    assert '<a href="#wear">Wear</a>' in source
    (body,) = re.findall(r'<section id="wear">.*?</section>', source, re.DOTALL)
    text = Outline(body).text
    assert text.startswith("Wear of the gears Gears wear. Joint Viscous [N·m·s]")
    assert ".Fv" in text
    assert "<p>See the <b>manual</b>.</p>" in body
    assert source.index('id="parameters"') < source.index('id="wear"') < source.index('id="data"')


def page(**pieces: Sequence[Piece]) -> str:
    for name, own in pieces.items():
        report.register(Section(name, name.title(), lambda _, own=own: own))
    result, _ = example()
    return report.render(result, (), "page")


def test_texts_of_a_section_are_escaped() -> None:
    columns = (TableColumn("a", HOSTILE[0]), TableColumn("b", "B", "code"))
    rows = table("t", HOSTILE[1], columns, [(HOSTILE[0], HOSTILE[1])], notes=[HOSTILE[0]])
    source = page(own=[HOSTILE[1], rows])
    outline, plain = Outline(source), Outline(page())
    assert len(outline.scripts) == len(plain.scripts)
    assert "img" not in {tag for tag, _ in outline.tags}
    assert not any(name.startswith("on") for _, attributes in outline.tags for name in attributes)
    for text in HOSTILE:
        assert " ".join(text.split()) in outline.text


def test_a_figure_brings_plotly_and_its_caption() -> None:
    drawn = {"data": [{"x": [0, 1], "y": [1, 2]}], "layout": {"xaxis": {"title": {"text": "time [s]"}}}}
    source = page(picture=[Figure(drawn, "A line </script>.")])
    assert source.count("* plotly.js v") == 1
    *_, data = re.findall(r'<script type="application/json">(.*?)</script>', without_plotly(source), re.DOTALL)
    assert '"y":[1,2]' in data
    assert "A line" in data


def test_a_section_that_does_not_apply_is_left_out() -> None:
    assert 'id="nothing"' not in page(nothing=[])


def test_a_section_that_fails_says_so_and_the_page_is_written() -> None:
    def broken(subject: ReportSubject) -> Sequence[Piece]:
        raise KeyError("<b>temperature")

    report.register(Section("broken", "Broken", broken))
    source = page(wrong=[3.5])  # type: ignore[list-item]
    text = Outline(source).text
    assert "Section 'broken' failed (KeyError: '<b>temperature'): fix its `pieces` function." in text
    assert "TypeError: a piece of a section is a text, Markup, Table or Figure, not float" in text
    assert 'id="provenance"' in source


@pytest.mark.parametrize(("made", "kind"), [(None, "NoneType"), ({"a": "b"}, "dict"), (3, "int")])
def test_what_is_no_list_of_pieces_is_reported(made: Any, kind: str) -> None:
    report.register(Section("mine", "Mine", lambda _: made))
    result, _ = example()
    faults: list[str] = []
    source = report.render(result, (), "page", on_fault=faults.append)
    assert faults == [
        f"Section 'mine' failed (TypeError: it returned {kind}, not a list of pieces; return [] to leave the section "
        "out): fix its `pieces` function."
    ]
    assert faults[0] in Outline(source).text


def test_a_single_piece_is_a_list_of_one() -> None:
    one = table("t", "T", (TableColumn("a", "A"),), [("x",)])
    source = page(words="A sentence.", tabled=one)  # type: ignore[arg-type]
    assert '<p class="note">A sentence.</p>' in source
    assert "failed" not in Outline(source[source.index('id="words"') :]).text


@pytest.mark.slow
def test_identify_names_the_section_that_failed(steelyard: Run, project: Path) -> None:
    report.register(Section("mine", "Mine", lambda _: 1 / 0))  # type: ignore[arg-type,return-value]
    told = steelyard("identify", project)
    assert told.code == 0
    assert "Section 'mine' failed (ZeroDivisionError: division by zero): fix its `pieces` function." in told.err


def test_sections_are_ordered_replaced_and_removed() -> None:
    report.register(WEAR, before="errors")
    names = list(report.SECTIONS)
    assert names.index("wear") == names.index("errors") - 1
    report.register(Section("wear", "Again", wear))
    assert list(report.SECTIONS)[-1] == "wear"
    assert report.SECTIONS["wear"].title == "Again"
    report.unregister("wear")
    assert "wear" not in report.SECTIONS


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (Section("errors", "Mine", wear), "Report section 'errors' is built in: give yours another name"),
        (Section("My section", "Mine", wear), "cannot be called 'My section': use lower-case letters"),
        (Section("mine", "", wear), "Report section 'mine' needs a title"),
        (Section("mine", "Mine", "text"), r"needs a title and a function `pieces\(subject\)`"),  # type: ignore[arg-type]
        (wear, "is not a report section: register a `steelyard.report.Section`"),
    ],
)
def test_what_is_no_section_is_refused(section: Section, said: str) -> None:
    with pytest.raises(OutputError, match=said):
        report.register(section)


def test_names_that_are_not_there_are_refused() -> None:
    with pytest.raises(OutputError, match=r"Unknown report section 'eror'\. Did you mean 'errors'"):
        report.register(WEAR, before="eror")
    with pytest.raises(OutputError, match="Unknown report section 'wear'"):
        report.unregister("wear")
    with pytest.raises(OutputError, match="'errors' is built in and cannot be removed"):
        report.unregister("errors")
