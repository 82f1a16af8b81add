"""Pages of the commands that judge and design: one offline file each, with the verdict of the command; opened in a
browser where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.report.figures.changes import MOST_ROWS, change_figure
from testbed.browser import Opened, browser, need_browser, opened
from testbed.command import Run
from testbed.pages import Outline, without_plotly

# The sections of every page.
PAGES = {
    "validate": {"errors", "effort", "friction"},
    "crossvalidate": {"folds"},
    "compare": {"changes", "results"},
    "trends": {"trends", "results"},
    "twin": {"bias", "twin"},
    "payload": {"body", "errors"},
    "watched": {"parameters", "robot", "separation", "provenance"},
    "convergence": {"history", "changes"},
    "preview": {"forecast", "robot", "motion", "limits", "search"},
}
# Pages with a table that is long enough to be searched, and those with a robot that a slider moves.
SEARCHED, SLIDERS = {"watched": "table.parameters"}, ("preview",)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three demos of a planar arm, and a folder for pages."""
    from steelyard.project.demos.demo import demo

    folder = tmp_path_factory.mktemp("judged")
    for seed in (1, 2, 3):
        demo("planar2r", folder / f"day{seed}", seed)
    (folder / "pages").mkdir()
    return folder


@pytest.fixture(scope="module")
def launched() -> Iterator[Any]:
    need_browser()
    with browser() as found:
        yield found


@pytest.fixture
def written(demos: Path, steelyard: Run) -> dict[str, tuple[Path, str]]:
    """Every page with the text that its command printed; made by the first test that needs them."""
    pages = {name: (demos / "pages" / f"{name}.html", demos / "pages" / f"{name}.txt") for name in PAGES}
    if not pages["preview"][0].is_file():
        _write(demos, pages, steelyard)
    return {name: (page, said.read_text("utf-8")) for name, (page, said) in pages.items()}


def _write(demos: Path, pages: dict[str, tuple[Path, Path]], steelyard: Run) -> None:
    one, two, three = (demos / f"day{k}" / "project-run" for k in (1, 2, 3))
    project = demos / "day1" / "project.toml"
    calls = {
        "validate": ("validate", one, demos / "day1" / "validate.csv"),
        "crossvalidate": ("crossvalidate", project, "--folds", "5"),
        "compare": ("compare", one, two),
        "trends": ("compare", one, two, three),
        "twin": ("twin", one, "--runs", "5"),
        # the arm of another day, whose links have other masses
        "payload": ("payload", one, demos / "day2" / "validate.csv"),
    }
    for name, call in calls.items():
        page, said = pages[name]
        told = steelyard(*call, "--report", page)
        assert told.code in (0, 1), told.err
        assert f"Report: {page}" in told.err
        said.write_text(told.err, "utf-8")
    told = steelyard("watch", project, "--until-idle", 0, "--refresh", 1, "--out", demos / "seen")
    assert told.code == 0, told.err
    for name, file in (("watched", "report.html"), ("convergence", "convergence.html")):
        pages[name][0].write_bytes((demos / "seen" / file).read_bytes())
        pages[name][1].write_text(told.err, "utf-8")
    page, said = pages["preview"]
    told = steelyard("excite", "planar2r", "--duration", "4", "--iterations", "3", "--starts", "1", "--preview", page)
    assert told.code == 0, told.err
    said.write_text(told.err, "utf-8")


@pytest.mark.slow
def test_every_page_is_one_offline_file_with_the_verdict(written: dict[str, tuple[Path, str]]) -> None:
    assert set(written) == set(PAGES)
    for name, (page, said) in written.items():
        source = page.read_text("utf-8")
        assert source.count("* plotly.js v") == 1
        assert not re.search(r"https?://|url\(|@import|\bfetch\(", without_plotly(source)), name
        text = Outline(source).text
        if name not in ("trends", "preview"):
            (verdict,) = re.findall(r'<p class="verdict">(.*?)</p>', source)
            assert " ".join(Outline(verdict).text.split()) in " ".join(said.split()), name
        assert "nan" not in text.split(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_without_a_network(launched: Any, written: dict[str, tuple[Path, str]], name: str) -> None:
    seen = opened(launched, written[name][0])
    seen.scroll()
    assert (seen.errors, seen.requests) == ([], [])
    there = set(seen.page.evaluate("[...document.querySelectorAll('section[id]')].map((one) => one.id)"))
    assert PAGES[name] <= there
    shares = seen.drawn_pixels(".multiples .plot")
    assert shares
    assert min(shares) > 0.003
    check_tables(seen, SEARCHED.get(name))
    if name in SLIDERS:
        move_the_slider(seen)
    seen.page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(launched: Any, written: dict[str, tuple[Path, str]], name: str, scheme: str) -> None:
    seen = opened(launched, written[name][0], width=390, scheme=scheme)
    seen.scroll()
    assert (seen.errors, seen.requests) == ([], [])
    assert seen.overflow <= 0
    wide = "[...document.querySelectorAll('.plot')].filter((one) => one.getBoundingClientRect().width > 390).length"
    assert seen.page.evaluate(wide) == 0
    seen.page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_print_shows_every_figure(launched: Any, written: dict[str, tuple[Path, str]], name: str) -> None:
    seen = opened(launched, written[name][0])
    seen.print()
    count = "[...document.querySelectorAll('.figures')].map((one) => one.querySelectorAll('{}').length)"
    shown, printed = (seen.page.evaluate(count.format(one)) for one in (".multiples .plot", ".printed .js-plotly-plot"))
    assert printed == shown
    assert min(shown) > 0
    seen.page.context.close()


def check_tables(seen: Opened, searched: str | None) -> None:
    """Every table can be saved with all its rows; a long one is sorted and filtered."""
    page = seen.page
    saved = page.locator("button:has-text('Save as CSV')")
    assert saved.count() == page.locator("table").count() > 0
    if searched is None:
        return
    table = page.locator(searched)
    rows = "[...table.tBodies[0].rows].filter((row) => !row.hidden)"
    shown = f"(table) => {rows}.map((row) => row.cells[0].textContent.trim())"
    before = table.evaluate(shown)
    heading = table.locator("thead th[data-sorts='1'] button")
    heading.click()
    values = table.evaluate("(table) => [...table.tBodies[0].rows].map((row) => row.cells[1].dataset.sort)")
    known = [float(x) for x in values if x is not None]
    assert known == sorted(known)
    assert len(known) > 3
    search = table.locator("xpath=ancestor::div[1]/preceding-sibling::div[1]//input[@type='search']")
    search.fill(before[0])
    assert before[0] in table.evaluate(shown)
    assert len(table.evaluate(shown)) < len(before)
    search.fill("")
    assert sorted(table.evaluate(shown)) == sorted(before)


def move_the_slider(seen: Opened) -> None:
    page, plot = seen.page, "document.querySelector('#robot .plot')"
    page.locator("#robot .plot").scroll_into_view_if_needed()
    seen.wait(f"{plot}?._transitionData?._frames?.length > 2")
    first = page.evaluate(f"{plot}._fullData[0].x.join()")
    box = page.locator("#robot .slider-rail-touch-rect").bounding_box()
    page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])
    seen.wait(f"{plot}._fullData[0].x.join() !== '{first}'")


def test_a_page_must_be_html(steelyard: Run, tmp_path: Path) -> None:
    told = steelyard("compare", tmp_path, tmp_path, "--report", tmp_path / "page.pdf")
    assert told.code == 2
    assert "give a name that ends in .html" in told.err


def test_the_largest_changes_come_first_and_the_significant_ones_in_colour() -> None:
    t = np.array([5.0, -3.0, *[0.1] * 100])
    names = [f"link{k}.MX" for k in range(len(t))]
    figure = change_figure(names, t, {"link0.MX"})
    parts = {trace["meta"]: trace for trace in figure["data"]}
    assert parts["change"]["x"].tolist() == [5.0]
    assert len(parts["quiet"]["x"]) == MOST_ROWS - 1
    assert figure["layout"]["yaxis"]["ticktext"][:2] == ["link0.MX", "link1.MX"]
