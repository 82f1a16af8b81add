"""The house rules that a tool can check: how big rooms and modules are, what they are called, who imports whom."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "steelyard"
MOST_MODULES, MOST_LINES = 14, 400
FLAT = {"__init__", "__main__", "errors", "_arrays", "_notebook"}
# Names that say nothing about what is inside.
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}


@cache
def modules() -> dict[str, Path]:
    """The file of every module, by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Modules of the package that a module imports anywhere: at the top, in a function, or for type checkers only."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module in modules():
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules() else node.module


def test_no_room_has_too_many_modules() -> None:
    rooms: dict[Path, int] = defaultdict(int)
    for path in modules().values():
        rooms[path.parent] += path.name != "__init__.py"
    crowded = {str(room.relative_to(PACKAGE)): count for room, count in rooms.items() if count > MOST_MODULES}
    assert not crowded, "give part of each a room of its own"


def test_no_module_is_too_long() -> None:
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules().items()}
    assert not {name: length for name, length in lengths.items() if length > MOST_LINES}


def test_flat_modules_are_those_that_every_room_needs() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == FLAT


def test_names_of_modules_and_rooms_say_what_is_inside() -> None:
    named = {part.strip("_") for name in modules() for part in name.split(".")}
    assert not named & DRAWERS


def test_no_two_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for name, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def test_no_modules_import_each_other() -> None:
    """Not by way of others either, nor inside a function or under TYPE_CHECKING. The layers of pyproject.toml hold
    between rooms, this inside them."""
    graph = {name: set(imported(path)) - {name} for name, path in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None
