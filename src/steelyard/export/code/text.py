"""What C and Python files share: the text of their statements and what their first lines tell."""

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
# Headers of C; a file of that name could be taken for one of them.
HEADERS = (
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits", "locale", "math", "setjmp",
    "signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "stdnoreturn",
    "string", "tgmath", "threads", "time", "uchar", "wchar", "wctype",
)  # fmt: skip
RESERVED = frozenset((*HEADERS, "numpy", "steelyard", *keyword.kwlist, *keyword.softkwlist, *sys.stdlib_module_names))


def code_name(identified: IdentifiedModel, name: str | None) -> str:
    """The name that files and functions begin with: the robot's, or the one asked for."""
    if name is None:
        return own_name(identified.model.robot.name)
    if name in RESERVED:
        raise ModelError(
            f"'{name}' is a word of Python, a module or a header of C, which a file of that name would hide. Use "
            f"another, e.g. {own_name(name)}."
        )
    if identifier(name, "robot") != name:
        raise ModelError(f"'{name}' is no name for code. Use letters, digits and _, e.g. {identifier(name, 'robot')}.")
    return name


def own_name(robot: str) -> str:
    """The name that files of a robot get unless another is asked for."""
    plain = identifier(robot, "robot").lower()
    return f"robot_{plain}" if plain in RESERVED else plain


def told(identified: IdentifiedModel, left_out: Sequence[str]) -> list[str]:
    """What the reader of an exported file must know, a line each."""
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
        *(f"Left out: {one}" for one in left_out),
    ]


def told_left_out(parts: Parts, how: str) -> tuple[str, ...]:
    """What the code does not hold; `how` says where Dahl's states are to be had."""
    names = [parts.robot.joint_names[one.joint] for one in parts.memory]
    if not names:
        return parts.left_out
    where = ", ".join(dict.fromkeys(names))
    return (*parts.left_out, f"pre-sliding of {where} in states that stand alone: z = sign(v) there; {how}.")


def body(program: Program, declare: str, end: str, comment: str, indent: str = "    ") -> Iterator[str]:
    """The lines of a program: its live statements under their headings, then what it gives."""
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
    """A text that is safe inside a comment or a string of C and of Python: names of joints may hold anything."""
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
