"""Codes of findings: each has one entry, the sources raise no other, and the documentation is made from the table."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steelyard.errors import SteelyardError
from steelyard.findings import CODES, Finding, FindingCode, register, unregister
from steelyard.findings.page import page

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "steelyard"
UNKNOWN: dict[str, Any] = {"code": "from-the-future", "severity": "warning", "message": "m", "where": "w", "fix": ""}


def raised() -> Iterator[tuple[str, str, str]]:
    """Code, severity and room of every Finding(…) in the sources; each is written out or one of two alternatives."""
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                for code in alternatives(node.args[0], f"{file.name}:{node.lineno}"):
                    for severity in alternatives(node.args[1], f"{file.name}:{node.lineno}"):
                        yield code, severity, room


def alternatives(node: ast.expr, where: str) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from alternatives(node.body, where)
        yield from alternatives(node.orelse, where)
    else:
        assert isinstance(node, ast.Constant), f"{where}: a code or severity that is not written out"
        yield str(node.value)


@pytest.fixture
def low_battery() -> Iterator[FindingCode]:
    yield register("low-battery", "info", "warning", stage="log", meaning="the supply is low", remedy="charge `it`")
    unregister("low-battery")


def test_the_sources_raise_exactly_the_registered_codes() -> None:
    severities, rooms = defaultdict(set), defaultdict(set)
    for code, severity, room in raised():
        severities[code].add(severity)
        rooms[code].add(room)
    assert len(severities) > 80
    assert {code: set(entry.severities) for code, entry in CODES.items()} == severities
    assert {code: entry.rooms for code, entry in CODES.items()} == {code: tuple(sorted(x)) for code, x in rooms.items()}


def test_every_code_has_a_meaning_and_a_remedy() -> None:
    for entry in CODES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.code)
        for text in (entry.meaning, entry.remedy):
            assert text.strip() == text
            assert not text.endswith(".")
            assert "|" not in text
        assert entry.meaning
        assert entry.remedy, entry.code
        assert not entry.page or (ROOT / "docs" / entry.page.partition("#")[0]).is_file(), entry.page


def test_a_misspelt_code_or_severity_is_an_error_that_names_the_right_one() -> None:
    with pytest.raises(ValueError, match=r"Unknown finding code 'gapps'. Did you mean 'gaps'\?.*register\(\)"):
        Finding("gapps", "info", "three gaps")
    with pytest.raises(ValueError, match="Finding 'gaps' has the severity info, not 'error'"):
        Finding("gaps", "error", "three gaps")


def test_a_finding_without_a_fix_shows_the_remedy_of_its_code(low_battery: FindingCode) -> None:
    assert str(Finding("low-battery", "info", "21 V", "a.csv")) == "info: low-battery [a.csv]: 21 V → charge 'it'"
    assert str(Finding("low-battery", "info", "21 V", fix="wait")) == "info: low-battery: 21 V → wait"
    assert str(Finding("iterations", "info", "9 iterations")).startswith(
        "info: iterations: 9 iterations → set the options"
    )


def test_findings_with_codes_of_another_version_can_be_read() -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(UNKNOWN), type=Finding)
    assert {name: getattr(decoded, name) for name in UNKNOWN} == UNKNOWN
    assert str(decoded) == "warning: from-the-future [w]: m"


def test_own_codes_can_be_registered_replaced_and_removed(low_battery: FindingCode) -> None:
    register("low-battery", "error", meaning="the supply is very low")
    assert CODES["low-battery"].severities == ("error",)
    assert CODES["low-battery"].rooms == ("user",)
    with pytest.raises(ValueError, match="not 'info'"):
        Finding("low-battery", "info", "21 V")


@pytest.mark.parametrize(
    ("code", "severities", "options", "message"),
    [
        ("gaps", ("info",), {}, "built in"),
        ("low battery", ("info",), {}, "one word"),
        ("low-battery", (), {}, "at least one severity"),
        ("low-battery", ("warn",), {}, "Did you mean 'warning'"),
        ("low-battery", ("info",), {"stage": "logs"}, "Did you mean 'log'"),
        ("low-battery", ("info",), {"meaning": " "}, "meaning"),
        ("low-battery", ("info",), {"meaning": None}, "meaning"),
        ("low-battery", ("info",), {"remedy": None}, "`remedy` must be a text"),
    ],
)
def test_a_bad_registration_is_refused(code: str, severities: tuple, options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"meaning": "m"} | options
    with pytest.raises(SteelyardError, match=message):
        register(code, *severities, **given)
    assert "low-battery" not in CODES


def test_built_in_and_unknown_codes_cannot_be_removed() -> None:
    with pytest.raises(SteelyardError, match="built in"):
        unregister("gaps")
    with pytest.raises(SteelyardError, match="Unknown finding code"):
        unregister("low-battery")


def test_the_page_of_findings_is_made_from_the_table() -> None:
    text = (ROOT / "docs" / "findings.md").read_text("utf-8")
    assert text == page(CODES.values()), "run: python -m steelyard.findings > docs/findings.md"
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)) == sorted(CODES)


def test_the_migration_page_leads_to_codes_that_exist() -> None:
    text = (ROOT / "docs" / "migration.md").read_text("utf-8")
    section = text.split("## Finding codes\n")[1].split("\n## ")[0]
    renamed = dict(re.findall(r"^\| `([\w-]+)` \| `([\w-]+)` \|", section, re.MULTILINE))
    assert len(renamed) > 40
    assert not set(renamed) & set(CODES)
    assert set(renamed.values()) <= set(CODES)
