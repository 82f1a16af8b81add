"""Pages of the commands that judge and design: one offline file each, with the verdict of the command; opened in a
browser where there is one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from steelyard.report.figures.changes import MOST_ROWS, change_figure
from testbed.browser import CHROMIUM, browser, opened
from testbed.command import Run
from testbed.pages import Outline, without_plotly

PAGES = ("validate", "crossvalidate", "compare", "trends", "twin", "preview")


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three demos of a planar arm, and a folder for pages."""
    from steelyard.project.demos.demo import demo

    folder = tmp_path_factory.mktemp("judged")
    for seed in (1, 2, 3):
        demo("planar2r", folder / f"day{seed}", seed)
    (folder / "pages").mkdir()
    return folder


@pytest.fixture
def written(demos: Path, steelyard: Run) -> dict[str, tuple[Path, str]]:
    """Every page with the text that its command printed; made by the first test that needs them."""
    one, two, three = (demos / f"day{k}" / "project-run" for k in (1, 2, 3))
    calls = {
        "validate": ("validate", one, demos / "day1" / "validate.csv"),
        "crossvalidate": ("crossvalidate", demos / "day1" / "project.toml", "--folds", "5"),
        "compare": ("compare", one, two),
        "trends": ("compare", one, two, three),
        "twin": ("twin", one, "--runs", "5"),
    }
    found: dict[str, tuple[Path, str]] = {}
    for name, call in calls.items():
        page, said = demos / "pages" / f"{name}.html", demos / "pages" / f"{name}.txt"
        if not page.is_file():
            told = steelyard(*call, "--report", page)
            assert told.code in (0, 1), told.err
            assert f"Report: {page}" in told.err
            said.write_text(told.err, "utf-8")
        found[name] = page, said.read_text("utf-8")
    page = demos / "pages" / "preview.html"
    if not page.is_file():
        told = steelyard(
            "excite", "planar2r", "--duration", "4", "--iterations", "3", "--starts", "1", "--preview", page
        )
        assert told.code == 0, told.err
    found["preview"] = page, ""
    return found


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
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_every_page_is_drawn_without_a_network(written: dict[str, tuple[Path, str]]) -> None:
    with browser() as launched:
        for name, (page, _) in written.items():
            seen = opened(launched, page)
            seen.scroll()
            assert min(seen.drawn_pixels(".plot")) > 0.003, name
            for width in (1200, 390):
                seen.page.set_viewport_size({"width": width, "height": 900})
                # figures follow the window
                seen.wait("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
                assert (seen.errors, seen.requests) == ([], []), (name, width)


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
