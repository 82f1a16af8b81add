"""Pages as a reader sees them: opened in Chromium without a network, drawn, sorted, filtered, moved, narrow, dark,
printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.report.page import render
from steelyard.report.registry import SECTIONS
from testbed.browser import Opened, browser, need_browser, opened
from testbed.command import Run
from testbed.pages import HOSTILE, identified, model_of_example
from testbed.places import shared_data

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def launched() -> Iterator[Any]:
    need_browser()
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a planar demo, with a fitted and an unseen run."""
    from steelyard.project.demos.demo import demo

    need_browser()
    folder = tmp_path_factory.mktemp("pages")
    demo("planar2r", folder / "demo")
    return folder / "demo" / "project-run" / "report.html"


def check_quiet(seen: Opened) -> None:
    assert seen.errors == []
    assert seen.requests == []
    assert seen.overflow <= 0


def test_a_report_is_drawn_without_a_network(launched: Any, report: Path) -> None:
    seen = opened(launched, report)
    seen.scroll()
    check_quiet(seen)
    there = set(seen.page.evaluate("[...document.querySelectorAll('section[id]')].map((one) => one.id)"))
    expected = {
        "answer",
        "findings",
        "effort",
        "errors",
        "robot",
        "friction",
        "parameters",
        "data",
        "estimators",
        "repeat",
    }
    assert expected <= there
    assert there - {"answer"} <= set(SECTIONS)
    for name in ("effort", "robot", "friction", "parameters", "separation", "data", "estimators"):
        shares = seen.drawn_pixels(f"#{name} .plot")
        assert shares, name
        assert min(shares) > 0.005, name


def test_the_unseen_run_is_first_and_a_zoom_applies_to_all_joints(launched: Any, report: Path) -> None:
    seen = opened(launched, report)
    page = seen.page
    assert "unseen" in page.evaluate("document.querySelector('#effort select').selectedOptions[0].text")
    page.locator("#effort .plot").nth(1).scroll_into_view_if_needed()
    seen.wait("document.querySelectorAll('#effort .plot.js-plotly-plot').length === 2")
    page.evaluate("Plotly.relayout(document.querySelectorAll('#effort .plot')[0], {'xaxis.range': [3, 5]})")
    seen.wait("document.querySelectorAll('#effort .plot')[1]._fullLayout.xaxis.range[0] === 3")
    page.select_option("#effort select", index=1)
    seen.wait("document.querySelector('#effort .plot')._fullData?.length > 3")
    # one legend hides a curve in every figure
    page.click("#effort .legend button:has-text('nominal')")
    nominal = "one.data.find((t) => t.meta === 'nominal').visible === false"
    seen.wait(f"[...document.querySelectorAll('#effort .plot.js-plotly-plot')].every((one) => {nominal})")


def test_tables_sort_filter_and_save(launched: Any, report: Path, tmp_path: Path) -> None:
    seen = opened(launched, report)
    page = seen.page
    rows = "[...document.querySelectorAll('table.parameters tbody tr')].filter((row) => !row.hidden)"
    names = f"{rows}.map((row) => row.cells[0].textContent.trim())"
    before = page.evaluate(names)
    page.click("table.parameters thead button:has-text('Value')")
    after = page.evaluate(f"{rows}.map((row) => Number(row.cells[1].dataset.sort))")
    assert after == sorted(after)
    assert sorted(page.evaluate(names)) == sorted(before)
    page.fill("#parameters input[type=search]", "link1")
    assert page.evaluate(names) == [name for name in page.evaluate(names) if "link1" in name]
    assert 0 < len(page.evaluate(names)) < len(before)
    with page.expect_download() as got:
        page.click("table.parameters >> xpath=ancestor::div[1]/following-sibling::button[1]")
    got.value.save_as(tmp_path / "parameters.csv")
    lines = (tmp_path / "parameters.csv").read_text("utf-8").splitlines()
    assert lines[0].startswith("name,value,std")
    assert len(lines) == 1 + len(before)


def test_the_slider_moves_the_robot(launched: Any, report: Path) -> None:
    seen = opened(launched, report)
    page = seen.page
    page.locator("#robot .plot").scroll_into_view_if_needed()
    seen.wait("document.querySelector('#robot .plot')?._transitionData?._frames?.length > 2")
    first = page.evaluate("document.querySelector('#robot .plot')._fullData[0].x.join()")
    slider = page.locator("#robot .slider-rail-touch-rect")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])
    page.wait_for_timeout(500)
    assert page.evaluate("document.querySelector('#robot .plot')._fullData[0].x.join()") != first


def test_on_a_phone_nothing_is_cut_off(launched: Any, report: Path) -> None:
    seen = opened(launched, report, width=390, scheme="dark")
    seen.scroll()
    wide = "[...document.querySelectorAll('.plot')].filter((one) => one.getBoundingClientRect().width > 390).length"
    for scheme in ("dark", "light"):
        seen.page.emulate_media(color_scheme=scheme)
        seen.page.wait_for_timeout(200)
        check_quiet(seen)
        assert seen.page.evaluate(wide) == 0


def test_print_shows_every_joint(launched: Any, report: Path) -> None:
    seen = opened(launched, report)
    seen.print()
    headings = seen.page.evaluate("[...document.querySelectorAll('#effort .printed h3')].map((one) => one.textContent)")
    assert [heading.rpartition(" · ")[2] for heading in headings] == ["joint1", "joint2"]
    drawn = "[...document.querySelectorAll('#effort .printed .js-plotly-plot')].map((one) => one.offsetWidth)"
    assert all(width > 600 for width in seen.page.evaluate(drawn))
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert seen.page.evaluate("document.querySelectorAll('.printed *').length") == 0


def test_names_of_a_user_do_no_harm(launched: Any, tmp_path: Path) -> None:
    from dataclasses import replace

    model = model_of_example()
    joints = tuple(replace(j, name=n) for j, n in zip(model.robot.joints, HOSTILE, strict=True))
    links = tuple(replace(k, name=f"<img src=x>{k.name}") for k in model.robot.links)
    robot = replace(model.robot, joints=joints, links=links)
    result, prediction = identified(robot)
    file = tmp_path / "hostile.html"
    file.write_text(render(result, (prediction,), HOSTILE[1], model=replace(model, robot=robot)), "utf-8")
    seen = opened(launched, file)
    dialogs: list[str] = []
    seen.page.on("dialog", lambda one: dialogs.append(one.message))
    seen.scroll()
    check_quiet(seen)
    assert not dialogs
    assert seen.page.evaluate("document.querySelectorAll('img').length") == 0


def test_a_page_without_data_holds_no_signals(launched: Any, report: Path, tmp_path: Path, steelyard: Run) -> None:
    file = tmp_path / "shared.html"
    assert steelyard("report", report.parent, "--no-data", "--out", file).code == 0
    seen = opened(launched, file)
    seen.scroll()
    check_quiet(seen)
    assert seen.page.evaluate("document.querySelector('#effort .plot, #friction')") is None
    # the delays are estimates and stay; spectra are those of the raw signals
    assert "accel. [" in report.read_text("utf-8")
    assert "accel. [" not in file.read_text("utf-8")
    assert seen.page.evaluate("document.querySelectorAll('#parameters .plot').length") > 0
    assert len(file.read_bytes()) < len(report.read_bytes())


def check_page(launched: Any, page: Path, sections: set[str]) -> None:
    """Wide and on a phone: drawn without a network, with these sections, and every figure printed."""
    for width in (1200, 390):
        seen = opened(launched, page, width)
        seen.scroll()
        check_quiet(seen)
        if width == 1200:
            there = seen.page.evaluate("[...document.querySelectorAll('section[id]')].map((one) => one.id)")
            assert sections <= set(there)
            assert min(seen.drawn_pixels(".multiples .plot")) > 0.003
            seen.print()
            count = "document.querySelectorAll('{} .js-plotly-plot').length"
            assert seen.page.evaluate(count.format(".printed")) == seen.page.evaluate(count.format(".multiples")) > 0
        seen.page.context.close()


WHOLE = {"answer", "effort", "errors", "robot", "friction", "parameters", "separation", "data", "estimators", "repeat"}


@pytest.mark.evidence
@pytest.mark.parametrize("robot", ["tx40", "orthoglide"])
def test_pages_of_larger_robots(launched: Any, robot: str, tmp_path: Path) -> None:
    from steelyard.project.demos.demo import demo

    done = demo(robot, tmp_path / "demo")
    check_page(launched, done.run.folder / "report.html", WHOLE)
    if done.control_page is not None:
        check_page(launched, done.control_page, {"gains", "tracking", "calm", "fast"})


@pytest.mark.evidence
def test_page_of_a_recorded_robot_with_gains(launched: Any, tmp_path: Path, steelyard: Run) -> None:
    shared_data("ur10e")
    told = steelyard("identify", ROOT / "examples" / "gains" / "ur10e.toml", "--out", tmp_path / "run")
    assert told.code in (0, 4), told.err
    check_page(launched, tmp_path / "run" / "report.html", WHOLE | {"gains"})
