"""The documentation is true: its programs run, its references are complete, its examples work."""

from __future__ import annotations

import ast
import contextlib
import io
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
from steelyard.cli import COMMANDS, load_command
from steelyard.estimators import ESTIMATORS
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
from steelyard.signals.channels import EFFORT_UNITS, POSITION_UNITS, TIME_UNITS, VELOCITY_UNITS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
README = (ROOT / "README.md").read_text("utf-8")
REAL = (ROOT / "examples" / "real" / "README.md").read_text("utf-8")
ALL_TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)

# Every ```python block of a page is a whole program; a ```text block right under it is what it prints.
PROGRAM = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<shown>.*?)```)?", re.DOTALL)
PROGRAMS = [
    pytest.param(match["code"], match["shown"] or "", id=f"{page.relative_to(DOCS)}:{k}")
    for page in PAGES
    for k, match in enumerate(PROGRAM.finditer(page.read_text("utf-8")))
]
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
    with contextlib.redirect_stdout(heard), unittest.mock.patch.dict(ESTIMATORS):  # it may register one
        # without the __future__ imports of this file, as a user would run it
        exec(compile(code, where, "exec", dont_inherit=True), {"__name__": "__main__"})  # noqa: S102
    return heard.getvalue()


def shape(text: str) -> str:
    """The words of an output: numbers may differ in the last digit from machine to machine."""
    return re.sub(r"-?\d+(\.\d+)?", "#", " ".join(text.split()))


@pytest.mark.slow
def test_readme_program_runs_and_prints_what_it_shows(workplace: Path, demo_folder: Path) -> None:
    shutil.copytree(demo_folder, workplace / "runs" / "demo-tx40")
    match = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert match
    code, shown = match.groups()
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 12
    assert shape(printed(code, "README.md")) == shape(shown)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "shown"), PROGRAMS)
def test_programs_run_and_print_what_they_show(
    code: str, shown: str, workplace: Path, request: pytest.FixtureRequest
) -> None:
    if "runs/demo-tx40" in code:
        shutil.copytree(request.getfixturevalue("demo_folder"), workplace / "runs" / "demo-tx40")
    assert shape(printed(code, "docs")) == shape(shown)


def test_programs_were_found() -> None:
    assert len(PROGRAMS) >= 5


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = {DOCS / "index.md"}
    for page in PAGES:
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            names = [line.strip() for line in tree.splitlines() if line.strip() and not line.startswith(":")]
            listed |= {page.parent / f"{name}.md" for name in names}
    assert listed == set(PAGES)


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "examples" / "real" / "README.md", *PAGES],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_readme_project_is_valid(workplace: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
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
        assert f"`{name}`" in README
        assert f"| `{name}` |" in (DOCS / "robots.md").read_text("utf-8")


def findings() -> dict[str, set[str]]:
    """Severities by code of every Finding(…) in the sources; of a formatted code, the part before the braces."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / "src" / "steelyard").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Finding"
                and node.args
            ):
                code = node.args[0]
                if isinstance(code, ast.JoinedStr):
                    code = code.values[0]
                assert isinstance(code, ast.Constant), f"{file.name}: a code that cannot be looked up"
                severities = {str(n.value) for n in ast.walk(node.args[1]) if isinstance(n, ast.Constant)}
                found.setdefault(str(code.value), set()).update(severities)
    return found


@pytest.mark.slow
def test_every_finding_is_explained_and_no_other() -> None:
    page = (DOCS / "getting-started.md").read_text("utf-8")
    section = page.split("## Findings, and what to do\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", section, re.MULTILINE)
    explained = {code: set(cell.split(", ")) for codes, cell in rows for code in re.findall(r"`([\w-]+)`", codes)}
    codes = findings()
    assert len(codes) > 5
    assert not [name for name in explained if not any(name.startswith(code) for code in codes)]
    for code, severities in codes.items():
        names = [name for name in explained if name == code or (code.endswith("-") and name.startswith(code))]
        assert names, code
        assert all(explained[name] == severities for name in names), code


def test_every_command_and_option_is_in_the_readme() -> None:
    commands = {name: load_command(name) for name in COMMANDS}
    assert set(re.findall(r"^\| `steelyard (\w+)", README, re.MULTILINE)) == set(commands)
    for name, command in commands.items():
        row = next(line for line in README.splitlines() if line.startswith(f"| `steelyard {name}"))
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        assert "--json" in options
        assert set(re.findall(r"--[a-z-]+", row)) == options - {"--json", "--help"}, name


def test_names_page_lists_exactly_the_public_names() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    tables, namespaces = page.split("\n## Namespaces\n")
    assert re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE) == list(steelyard._NAMES)
    listed = re.findall(r"^\| `sy\.(\w+)` \|", namespaces, re.MULTILINE)
    assert sorted(listed) == sorted(steelyard._NAMESPACES)
    held = dict(re.findall(r"^### sy\.(\w+)\n\n(.*)\n", namespaces, re.MULTILINE))
    assert list(held) == listed
    for name, row in held.items():
        assert re.findall(r"`(\w+)`", row) == getattr(steelyard, name).__all__, name


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_page(name: str) -> None:
    assert (DOCS / "estimators" / f"{name}.md").is_file()
    assert f"[`{name}`]({name}.md)" in (DOCS / "estimators" / "index.md").read_text("utf-8")
    assert f"[`{name}`](docs/estimators/{name}.md)" in README


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
