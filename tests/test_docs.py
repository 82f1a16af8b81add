"""The documentation is true: its programs run, its references are complete, its examples work."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import json
import re
import runpy
import shutil
import tomllib
import unittest.mock
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

import steelyard
from steelyard import builtin_robots
from steelyard.cli import COMMANDS
from steelyard.estimators import ESTIMATORS
from steelyard.export import TARGETS
from steelyard.findings import CODES
from steelyard.formats.logs import KNOWN
from steelyard.formats.robots.toml import DhRow, MdhRow, RobotTable
from steelyard.identification.term_selection import candidate_terms
from steelyard.model.terms import GEAR_TERMS, TERMS
from steelyard.project.demos.demo import demo
from steelyard.project.project import (
    ChannelsSpec,
    ControllerSpec,
    EstimatorSpec,
    ExperimentSpec,
    LoopSpec,
    PayloadSpec,
    PrepareSpec,
    ProjectSpec,
    RunSpec,
    SignalSpec,
    TermSpec,
    TimeSpec,
    read_project,
)
from steelyard.report.lamps import LampLimits
from steelyard.signals.channels import EFFORT_UNITS, POSITION_UNITS, TIME_UNITS, VELOCITY_UNITS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
README = (ROOT / "README.md").read_text("utf-8")
REAL = (ROOT / "examples" / "real" / "README.md").read_text("utf-8")
ALL_TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)

# Every ```python block of a page is a whole program; a ```text block right under it is what it prints. Those of the
# tutorial are files of its folder, which tests/test_tutorial.py follows.
PROGRAM = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<shown>.*?)```)?", re.DOTALL)
PROGRAMS = [
    pytest.param(match["code"], match["shown"] or "", id=f"{page.relative_to(DOCS)}:{k}")
    for page in PAGES
    if page.name != "tutorial.md"
    for k, match in enumerate(PROGRAM.finditer(page.read_text("utf-8")))
]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# Largest relative difference of a number that a page shows.
SAME_NUMBER = 0.05
SECTIONS: dict[str, type[msgspec.Struct]] = {
    "## Top level": ProjectSpec,
    "### terms": TermSpec,
    "## [estimator]": EstimatorSpec,
    "## [prepare]": PrepareSpec,
    "## [channels]": ChannelsSpec,
    "### [channels] time": TimeSpec,
    "### [channels] q, v, effort": SignalSpec,
    "## [[run]]": RunSpec,
    "## [[payload]]": PayloadSpec,
    "## [experiment]": ExperimentSpec,
    "## [controller]": ControllerSpec,
    "## [loop]": LoopSpec,
    "## [lamps]": LampLimits,
}


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make demo` leaves behind, made once."""
    folder = tmp_path_factory.mktemp("docs") / "runs" / "demo-tx40"
    demo("tx40", folder)
    return folder


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(code: str, where: str) -> str:
    """What a program prints, run in a namespace of its own."""
    heard = io.StringIO()
    registries = (ESTIMATORS, TERMS, TARGETS, COMMANDS, CODES)  # which it may add to
    with contextlib.redirect_stdout(heard), contextlib.ExitStack() as undone:
        for registry in registries:
            undone.enter_context(unittest.mock.patch.dict(registry))
        undone.enter_context(unittest.mock.patch("sys.argv", ["python"]))
        # without the __future__ imports of this file, as a user would run it
        exec(compile(code, where, "exec", dont_inherit=True), {"__name__": "__main__"})  # noqa: S102
    return heard.getvalue()


def shape(text: str) -> str:
    """The words of an output."""
    return NUMBER.sub("#", " ".join(text.split()))


def assert_same_output(found: str, shown: str) -> None:
    """The same words; numbers may differ in the last digits from machine to machine."""
    assert shape(found) == shape(shown)
    numbers = [[float(x[0]) for x in NUMBER.finditer(text)] for text in (found, shown)]
    assert numbers[0] == pytest.approx(numbers[1], rel=SAME_NUMBER)


@pytest.mark.slow
def test_readme_program_runs_and_prints_what_it_shows(workplace: Path, demo_folder: Path) -> None:
    shutil.copytree(demo_folder, workplace / "runs" / "demo-tx40")
    match = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert match
    code, shown = match.groups()
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 12
    assert_same_output(printed(code, "README.md"), shown)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "shown"), PROGRAMS)
def test_programs_run_and_print_what_they_show(
    code: str, shown: str, workplace: Path, request: pytest.FixtureRequest
) -> None:
    if "runs/demo-tx40" in code:
        shutil.copytree(request.getfixturevalue("demo_folder"), workplace / "runs" / "demo-tx40")
    assert_same_output(printed(code, "docs"), shown)


def test_programs_were_found() -> None:
    assert len(PROGRAMS) >= 5


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = {DOCS / "index.md"}
    for page in PAGES:
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            names = [line.strip() for line in tree.splitlines() if line.strip() and not line.startswith(":")]
            listed |= {page.parent / f"{name}.md" for name in names}
    assert listed == set(PAGES)


def anchors(page: Path) -> set[str]:
    """What `page.md#…` may name: headings, as code hosts and MyST spell them, and MyST's own `(targets)=`."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "real" / "README.md", *PAGES],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if target.startswith("http"):
            continue
        place = page.parent / target if target else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), f"{target}#{anchor}"


def test_first_project_is_valid(workplace: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (DOCS / "getting-started.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 1
    (workplace / "project.toml").write_text(blocks[0], "utf-8")
    assert read_project(workplace / "project.toml").model().robot.name == "tx40"


@pytest.mark.parametrize(("heading", "spec"), SECTIONS.items(), ids=SECTIONS)
def test_project_reference_lists_exactly_the_keys(heading: str, spec: type[msgspec.Struct]) -> None:
    page = (DOCS / "project-file.md").read_text("utf-8")
    assert page.count(f"\n{heading}\n") == 1
    section = re.split(r"\n##+ ", page.split(f"\n{heading}\n")[1])[0]
    table = re.split(r"\n\|(?:---\|)+\n", section)[1].split("\n\n")[0]
    keys = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(keys) == sorted(spec.__struct_fields__)


def test_project_reference_lists_exactly_the_specs() -> None:
    page = (DOCS / "project-file.md").read_text("utf-8")
    with_keys = re.findall(r"^(##+ .*)\n(?:(?!##).*\n)*?\| key ", page, re.MULTILINE)
    assert with_keys == list(SECTIONS)


def test_project_reference_lists_units_and_formats() -> None:
    page = (DOCS / "project-file.md").read_text("utf-8")
    for unit in (*POSITION_UNITS, *VELOCITY_UNITS, *EFFORT_UNITS):
        assert f"`{unit}`" in page, unit
    for unit in TIME_UNITS:
        assert f'`"{unit}"`' in page, unit
    for suffix in KNOWN:
        assert f"`{suffix}`" in page, suffix


def test_project_example_is_valid(workplace: Path) -> None:
    page = (DOCS / "project-file.md").read_text("utf-8")
    example = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0]
    (workplace / "project.toml").write_text(example, "utf-8")
    assert read_project(workplace / "project.toml").spec.run[1].role == "validate"


def test_robot_reference_lists_every_key() -> None:
    page = (DOCS / "robots.md").read_text("utf-8")
    for kind in (RobotTable, MdhRow, DhRow):
        for key in kind.__struct_fields__:
            assert re.search(rf"`\[*{key}\]*`", page), key


def test_every_builtin_robot_is_documented() -> None:
    for name in builtin_robots():
        assert f"| `{name}` |" in (DOCS / "robots.md").read_text("utf-8")


def test_the_page_of_commands_is_made_from_the_commands() -> None:
    made = runpy.run_path(str(DOCS / "write_commands.py"))
    text = made["PAGE"].read_text("utf-8")
    assert text == made["page"](), "python docs/write_commands.py makes it anew"
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == list(COMMANDS)
    for name, command in COMMANDS.items():
        section = re.split(r"\n##+ ", text.split(f"\n### {name}\n")[1])[0]
        options = {option for parameter in command.load().params for option in parameter.opts if option[0] == "-"}
        assert "--json" in options
        assert set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE)) == options - {"--help"}, name


def test_names_page_lists_exactly_the_public_names() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    tables, namespaces = page.split("\n## Namespaces\n")
    assert re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE) == list(steelyard._NAMES)
    rows = re.findall(r"^\| \[`sy\.(\w+)`\]\(reference/(\w+)\.md\) \|", namespaces, re.MULTILINE)
    listed = [name for name, _ in rows]
    assert sorted(listed) == sorted(steelyard._NAMESPACES)
    assert listed == [page for _, page in rows]
    held = dict(re.findall(r"^### sy\.(\w+)\n\n(.*)\n", namespaces, re.MULTILINE))
    assert list(held) == listed
    for name, row in held.items():
        assert re.findall(r"`(\w+)`", row) == getattr(steelyard, name).__all__, name


def test_the_reference_has_a_page_for_every_namespace() -> None:
    """The directive lists every public name by itself; `tests/test_built_docs.py` looks for them in the pages."""
    pages = {page.stem: page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md")}
    asked = {
        stem: re.findall(r"^```\{public-names\} ?(\w*)$", text, re.MULTILINE)
        for stem, text in pages.items()
        if stem != "index"
    }
    assert asked == {"steelyard": [""]} | {name: [name] for name in steelyard._NAMESPACES}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_page(name: str) -> None:
    assert (DOCS / "estimators" / f"{name}.md").is_file()
    assert f"[`{name}`]({name}.md)" in (DOCS / "estimators" / "index.md").read_text("utf-8")


def test_every_term_is_documented_with_its_options() -> None:
    page = (DOCS / "terms.md").read_text("utf-8")
    for name, kind in TERMS.items():
        row = re.search(rf"^\| `{name}` \| `{kind.__name__}\((.*?)\)`", page, re.MULTILINE)
        assert row, name
        options = {option.name: option.default for option in fields(kind)}  # type: ignore[arg-type]
        assert {key: ast.literal_eval(value) for key, value in re.findall(r"(\w+)=([^,]+)", row[1])} == options, name


def test_friction_page_marks_the_default_set_and_the_candidates() -> None:
    page = (DOCS / "friction.md").read_text("utf-8")
    rows = re.findall(r"^\| \[?`([\w-]+)`.* \| ([^|]+) \|$", page, re.MULTILINE)
    assert {name for name, cell in rows if cell == "yes"} == set(GEAR_TERMS)
    assert {name for name, cell in rows if cell.startswith("offered")} == {
        offer.term.name for offer in candidate_terms(1.0)
    }


def test_readme_names_the_two_commands_and_shows_a_picture() -> None:
    assert "make demo" in README
    assert "make test" in README
    picture = ROOT / re.findall(r"!\[.*?\]\((.*?)\)", README)[0]
    assert 0 < picture.stat().st_size < 250_000


def test_the_plan_lists_every_room_on_its_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    assert len(layers) <= 12
    # rooms in parentheses are planned, not built
    stated = [{room for room in re.split(r"[ :|]+", layer) if "(" not in room} for layer in layers]
    rows = re.findall(r"^\| (\d+) \| (.*?[^\\]) \|", (DOCS / "architecture.md").read_text("utf-8"), re.MULTILINE)
    shown: dict[int, set[str]] = {}
    for layer, rooms in rows:
        shown.setdefault(int(layer), set()).update(re.findall(r"`(\w+)/?`", rooms))
    assert [shown[k] for k in sorted(shown, reverse=True)] == stated
    entries = {entry.stem for entry in (ROOT / "src" / "steelyard").iterdir() if entry.suffix in ("", ".py")}
    assert set().union(*stated) == entries - {"__init__", "__main__", "__pycache__"}


def test_quoted_figures_are_those_that_were_measured() -> None:
    """Nobody edits them by hand. After a change of numbers: `make figures`; of words: `evidence/quoted.py --fill`."""
    spec = importlib.util.spec_from_file_location("quoted", ROOT / "evidence" / "quoted.py")
    assert spec
    assert spec.loader
    quoted = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(quoted)
    data = json.loads(quoted.DATA.read_text("utf-8"))
    pages = {page: page.read_text("utf-8") for page in quoted.pages()}
    for page, text in pages.items():
        assert text.count("<!-- figures: ") == text.count("<!-- end figures -->") == len(quoted.PLACE.findall(text)), (
            page
        )
        assert quoted.filled(text, data) == text, f"{page.name}: figures differ from docs/figures.json: make figures"
    used = {match["name"] for text in pages.values() for match in quoted.PLACE.finditer(text)}
    assert used == set(quoted.RENDERERS)


def test_every_real_project_is_described() -> None:
    for project in (ROOT / "examples" / "real").glob("*.toml"):
        assert f"| `{project.name}` |" in REAL, project.name


def test_no_machine_is_named() -> None:
    for text in (README, REAL, ALL_TEXT):
        assert not re.search(r"(?<![\w.])/(work|root|home|tmp)\b", text)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(example: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
    assert len(example.read_text("utf-8").splitlines()) < 50
