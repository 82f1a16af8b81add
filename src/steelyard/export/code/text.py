"""Common parts of C and Python files: the text of their statements and their first lines."""

from __future__ import annotations

import keyword
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from steelyard.errors import ModelError
from steelyard.export.code.expressions import Program, Statement
from steelyard.export.code.parts import Parts, identifier
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.model.payload import UNLOADED

WIDTH = 112
# C headers: a file of such a name could be mistaken for one.
HEADERS = (
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits", "locale", "math", "setjmp",
    "signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "stdnoreturn",
    "string", "tgmath", "threads", "time", "uchar", "wchar", "wctype",
)  # fmt: skip
RESERVED = frozenset(
    (*HEADERS, "casadi", "numpy", "steelyard", *keyword.kwlist, *keyword.softkwlist, *sys.stdlib_module_names)
)


def code_name(identified: IdentifiedModel, name: str | None) -> str:
    """The name that files and functions start with: the requested one, or the robot's."""
    if name is None:
        return own_name(identified.model.robot.name)
    if name in RESERVED:
        raise ModelError(
            f"'{name}' is a keyword or module in Python or a header in C; a file with that name would hide it. Use "
            f"another name, e.g. {own_name(name)}."
        )
    if identifier(name, "robot") != name:
        raise ModelError(
            f"'{name}' cannot be a name in code. Use letters, digits and _, e.g. {identifier(name, 'robot')}."
        )
    return name


def own_name(robot: str) -> str:
    """The default name of the files of a robot."""
    plain = identifier(robot, "robot").lower()
    return f"robot_{plain}" if plain in RESERVED else plain


def header_lines(identified: IdentifiedModel, left_out: Sequence[str]) -> list[str]:
    """What the reader of an exported file must know, one text per line."""
    robot = identified.model.robot
    found = f", identified by {identified.estimator}" if identified.estimator else ""
    joints = [f"{k}: {joint.name} [{'m' if joint.is_prismatic else 'rad'}]" for k, joint in enumerate(robot.joints)]
    carried = "nothing" if identified.load == UNLOADED else f"'{identified.load}', as part of its link"
    return [
        f"Dynamics of '{robot.name}'{found}. Written by Steelyard {version('steelyard')}.",
        f"Joints: {', '.join(joints)}.",
        "q [rad | m], v [rad/s | m/s], a [rad/s2 | m/s2], tau [N.m | N], mass [kg.m2 | kg], all seen from the joints.",
        f"Carries: {carried}. Gravity [m/s2]: {', '.join(f'{g:g}' for g in robot.gravity)}.",
        f"Parameters: {identified.rule}. {identified.cost}".strip(),
        identified.certificate,
        *identified.remarks,
        *(f"Left out: {one}" for one in left_out),
    ]


def left_out_lines(parts: Parts, how: str) -> tuple[str, ...]:
    """What the code does not contain; `how` says which function uses Dahl's states."""
    names = [parts.robot.joint_names[one.joint] for one in parts.memory]
    if not names:
        return parts.left_out
    where = ", ".join(dict.fromkeys(names))
    return (*parts.left_out, f"pre-sliding of {where} in independent states: z = sign(v); {how}.")


def body(program: Program, declare: str, end: str, comment: str, indent: str = "    ") -> Iterator[str]:
    """The lines of a program: the statements in use under their headings, then its outputs."""
    statements, _ = program.live()
    heading = ""
    for one in (*statements, *(output._replace(heading="result") for output in program.outputs)):
        if one.heading != heading:
            heading = one.heading
            yield indent + comment.format(plain(heading))
        given = one.heading == "result"
        yield from _statement(one, "" if given else declare, end, indent)


def _statement(one: Statement, declare: str, end: str, indent: str) -> Iterator[str]:
    line = f"{indent}{declare}{one.name} = {one.text}{end}"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"{indent}{declare}{one.name} = ("
    yield from textwrap.wrap(one.text, WIDTH, initial_indent=2 * indent, subsequent_indent=2 * indent,
                             break_long_words=False, break_on_hyphens=False)  # fmt: skip
    yield f"{indent}){end}"


def plain(text: str) -> str:
    """A text that is safe inside a comment or string in C and in Python: names of joints may contain any character."""
    one_line = " ".join(text.split())
    for mark, safe in (("\\", "/"), ("*/", "* /"), ("/*", "/ *"), ("?", "? "), ('"', "'")):
        one_line = one_line.replace(mark, safe)
    return one_line.strip()


def wrapped(lines: Sequence[str], prefix: str) -> list[str]:
    """Texts as comment lines."""
    return [
        f"{prefix}{part}".rstrip()
        for line in lines
        for part in textwrap.wrap(plain(line), WIDTH - len(prefix), subsequent_indent="  ") or [""]
    ]
