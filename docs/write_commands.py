"""Write docs/commands.md from the commands themselves: `python docs/write_commands.py`.

tests/test_docs.py compares the page with what this program makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from steelyard.cli import COMMANDS, Command, ExitCode

PAGE = Path(__file__).with_name("commands.md")
INTRODUCTION = """\
# Commands

<!-- Made by `python docs/write_commands.py` from the commands themselves: do not edit. -->

`steelyard --help` lists the commands, `steelyard NAME --help` the options of one.

- Text for people goes to stderr. `--json` prints one object with a schema name on stdout (`watch`: one per line).
  Without it stdout stays empty; redirect `2>` to keep a table.
- RESULT is a run folder or its `result.json`. PROJECT is a [project file](project-file.md).
- ROBOT is a built-in name or a file. A built-in name takes precedence: write `./tx40` for a file of that name.
- `steelyard --install-completion` makes the shell complete commands, options and their values;
  `steelyard --show-completion` prints the script.

## Exit codes

The same for all commands.
"""
ERRORS = """\
With `--json` an error is one object on stdout: `{"schema": "steelyard.error/1", "error": "…", "code": 2}`. A defect (3)
writes a report `steelyard-defect-TIME.txt` to the current folder, or to the temporary folder if that cannot be written:
versions, command line and traceback, and no data.
"""
OWN = """\
## Write your own command

A command is a function whose signature [Typer](https://typer.tiangolo.com) can read, with a name and a sentence. It
returns None or an exit code.

```python
import sys

from steelyard.cli import Command, ExitCode, main, register


def heavier(robot: str, than: float = 10.0) -> ExitCode:
    import steelyard as sy

    links = sy.read_robot(robot).links
    mass = sum(link.inertia[-1] for link in links if link.inertia is not None)  # XX … ZZ, MX, MY, MZ, M
    print(f"{robot}: {mass:.1f} kg")
    return ExitCode.JUDGED if mass > than else ExitCode.DONE


register(Command("heavier", heavier, "Test whether a robot is heavier than a limit [kg]."))
sys.argv = ["steelyard", "heavier", "tx40", "--than", "50"]  # from a shell: python mine.py heavier tx40 --than 50
try:
    main()
except SystemExit as ended:
    print("exit code", int(ended.code))
```

```text
tx40: 8.9 kg
exit code 0
```

The same program may register [estimators](estimators/index.md#write-your-own) and
[export targets](export.md#write-your-own-target), which the built-in commands then know. An installed package declares
its commands as entry points instead. They are listed under "Plug-ins", and the package is imported only when its
command is called:

```toml
[project.entry-points."steelyard.commands"]
heavier = "mine:heavier"
```
"""


def page() -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION, "\n".join(_exit_codes()), ERRORS]
    for group, commands in groupby(COMMANDS.values(), key=lambda command: command.group):
        parts.append(f"## {group}\n")
        parts += ["\n".join(_section(command)) for command in commands]
    return "\n".join([*parts, OWN])


def _exit_codes() -> Iterator[str]:
    yield from ("| code | name | meaning |", "|---|---|---|")
    yield from (f"| {code:d} | `{code.name}` | {code.meaning} |" for code in ExitCode)
    yield ""


def _section(command: Command) -> Iterator[str]:
    """Sentence, usage, example, exit code 1, arguments and options of a command."""
    loaded = command.load()
    arguments = [one for one in loaded.params if one.param_type_name == "argument"]
    options = [one for one in loaded.params if one.param_type_name == "option" and "--help" not in one.opts]
    yield from (f"### {command.name}", "", f"{' '.join((loaded.help or '').split())}", "")
    usage = " ".join([f"steelyard {command.name}", *map(_argument, arguments), "[OPTIONS]"])
    yield from ("```text", usage, *([command.example] if command.example != f"steelyard {command.name}" else []), "```")
    if command.judged:
        yield from ("", f"Exit code 1: {command.judged}.")
    yield from _table("argument", [(f"`{_argument(one)}`", _meaning(one)) for one in arguments])
    for heading in dict.fromkeys([*command.headings, None]):
        rows = [(_option(one), _meaning(one)) for one in options if _heading(command, one) == heading]
        yield from _table("option" if heading is None else f"option ({heading.lower()})", rows)
    yield ""


def _table(kind: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield from ("", f"| {kind} | meaning |", "|---|---|")
        yield from (f"| {name} | {meaning} |" for name, meaning in rows)


def _argument(one: Any) -> str:
    name = f"{one.name.upper()}{'…' if one.nargs == -1 else ''}"
    return name if one.required else f"[{name}]"


def _option(one: Any) -> str:
    return f"`{' '.join([*one.opts, *([one.metavar] if one.metavar else [])])}`"


def _meaning(one: Any) -> str:
    default = "" if one.default in (None, "", "none") or one.default is False else f" Default: `{one.default}`."
    return f"{one.help}{default}".replace("|", "\\|")


def _heading(command: Command, one: Any) -> str | None:
    return next((heading for heading, names in command.headings.items() if one.name in names), None)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
