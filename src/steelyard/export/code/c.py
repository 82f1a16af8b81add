"""C99: inverse dynamics, gravity and mass matrix of an identified model, with a self-test; no allocation, no state."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from steelyard._arrays import Array
from steelyard.errors import OutputError
from steelyard.export.code.equations import LEGEND, gravity, inverse_dynamics, mass_matrix
from steelyard.export.code.expressions import Program
from steelyard.export.code.parts import Constant, Parts, parts
from steelyard.export.code.test_vectors import Vectors, vectors
from steelyard.export.code.text import body, code_name, header_lines, left_out_lines, plain, wrapped
from steelyard.export.export import Export
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.export.parity import LEAST_SCALE, Parity

# Tolerance of the self-test: the largest difference relative to the largest torque of a joint.
TOLERANCE = 1e-12
FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
_SIGN = """static double sign(double x)
{
    return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
}
"""


def c_files(identified: IdentifiedModel, name: str | None = None) -> Export:
    """NAME.h, NAME.c and test_NAME.c: `cc -O2 -o test *.c -lm && ./test`. Every function name starts with `name`, by
    default the robot's. The files are compiled and run before they are returned if there is a compiler."""
    name = code_name(identified, name)
    made = parts(identified.model, identified.theta, identified.load)
    left_out = left_out_lines(made, f"for consecutive states use {name}_inverse_dynamics_after")
    files = {
        f"{name}.h": _header(identified, made, name, left_out),
        f"{name}.c": _source(made, name),
        f"test_{name}.c": _test(name, vectors(identified)),
    }
    contents = {file: text.encode("utf-8") for file, text in files.items()}
    parity = compiled_parity(contents)
    unchecked = "" if parity else "Not compiled: no 'cc' on this machine. Run the self-test on one with a compiler."
    return Export("c", contents, left_out, parity=parity, read_back=unchecked)


def compiled_parity(files: Mapping[str, bytes]) -> Parity | None:
    """Compile the files with warnings as errors, and run their self-test; None if there is no `cc`."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        sources = [name for name in files if name.endswith(".c")]
        build = _run([compiler, *FLAGS, "-o", "selftest", *sources, "-lm"], folder)
        if build.returncode:
            raise OutputError(f"The C files were not written: they do not compile here. {_first(build.stderr)}")
        test = _run([str(Path(folder) / "selftest")], folder)
    found = re.search(r"(\d+) states, largest difference (\S+), relative (\S+)", test.stdout)
    if test.returncode or found is None:
        raise OutputError(f"The C files were not written: their self-test failed. {_first(test.stdout + test.stderr)}")
    return Parity(int(found[1]), float(found[2]), float(found[3]))


def _run(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OutputError(f"The C files were not written: '{command[0]}' could not be run: {error}.") from None


def _first(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return " / ".join(lines[:3])


# --- Header -----------------------------------------------------------------------------------------------------------


def _header(identified: IdentifiedModel, made: Parts, name: str, left_out: tuple[str, ...]) -> str:
    n, guard = made.robot.dof, f"{name.upper()}_H"
    about = wrapped(header_lines(identified, left_out), " * ")
    lines = ["/*", *about, " */", f"#ifndef {guard}", f"#define {guard}", ""]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    lines += [f"#define {name.upper()}_JOINTS {n}", ""]
    lines += _declared(
        "The torque tau that moves the robot with acceleration a at q and v. tau must not overlap with q, v and a.",
        f"{_torque_head(name, n)};",
    )
    lines += _declared(
        "The torque tau that holds the robot at rest at q: gravity, springs and offsets.", f"{_gravity_head(name, n)};"
    )
    lines += _declared(
        "The mass matrix at q, rotor inertias included: tau = mass a + (torque for a = 0).", f"{_mass_head(name, n)};"
    )
    if made.memory:
        states = len(made.memory)
        lines += _declared(
            "Pre-sliding of the gears along consecutive positions (Dahl): start where the robot stands, then call "
            "inverse_dynamics_after for one state after another.",
            f"typedef struct {{ double q[{states}]; double z[{states}]; }} {name}_memory;",
            f"{_start_head(name, n)};",
            f"{_after_head(name, n)};",
        )
    lines += ["#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    return "\n".join(lines)


def _declared(about: str, *declarations: str) -> list[str]:
    return ["/*", *wrapped([about], " * "), " */", *declarations, ""]


def _torque_head(name: str, n: int) -> str:
    return (
        f"void {name}_inverse_dynamics(const double q[{n}], const double v[{n}], const double a[{n}], double tau[{n}])"
    )


def _gravity_head(name: str, n: int) -> str:
    return f"void {name}_gravity(const double q[{n}], double tau[{n}])"


def _mass_head(name: str, n: int) -> str:
    return f"void {name}_mass_matrix(const double q[{n}], double mass[{n}][{n}])"


def _start_head(name: str, n: int) -> str:
    return f"void {name}_start({name}_memory *memory, const double q[{n}])"


def _after_head(name: str, n: int) -> str:
    return (
        f"void {name}_inverse_dynamics_after({name}_memory *memory,\n"
        f"    const double q[{n}], const double v[{n}], const double a[{n}], double tau[{n}])"
    )


# --- Source -----------------------------------------------------------------------------------------------------------


def _source(made: Parts, name: str) -> str:
    n = made.robot.dof
    programs = (inverse_dynamics(made), gravity(made), mass_matrix(made))
    used = set[str]().union(*(program.live()[1] for program in programs))
    lines = ["/*", *wrapped(LEGEND, " * "), " */", f'#include "{name}.h"', "", "#include <math.h>", ""]
    lines += [*_constants(made.constants, used), ""]
    if "sign" in used or made.memory:
        lines += [_SIGN]
    if made.memory:
        states = len(made.memory)
        head = f"static void torque(const double q[{n}], const double v[{n}], const double a[{n}], "
        lines += _function(f"{head}const double z[{states}],\n    double tau[{n}])", programs[0], "qvaz")
        lines += _remembering(made, name)
    else:
        lines += _function(_torque_head(name, n), programs[0], "qva")
    lines += _function(_gravity_head(name, n), programs[1], "q")
    lines += _function(_mass_head(name, n), programs[2], "q")
    return "\n".join(lines)


def _constants(constants: tuple[Constant, ...], used: set[str]) -> Iterator[str]:
    for one in constants:
        if one.name in used:
            yield f"static const double {one.name} = {one.value!r}; /* {plain(one.about)} */"


def _function(head: str, program: Program, arguments: str) -> list[str]:
    lines = list(body(program, "const double ", ";", "/* {} */"))
    used = program.live()[1]
    unread = [f"    (void){one};" for one in arguments if one not in used]
    return [head, "{", *unread, *lines, "}", ""]


def _remembering(made: Parts, name: str) -> list[str]:
    """Dahl's states: those of steady sliding for independent states; z ← s + (z − s) exp(−|Δq| / length) for
    consecutive ones."""
    n, states = made.robot.dof, len(made.memory)
    lines = [_torque_head(name, n), "{", f"    double z[{states}];"]
    lines += [f"    z[{one.state}] = sign(v[{one.joint}]);" for one in made.memory]
    lines += ["    torque(q, v, a, z, tau);", "}", ""]
    lines += [_start_head(name, n), "{"]
    for one in made.memory:
        lines += [f"    memory->q[{one.state}] = q[{one.joint}];", f"    memory->z[{one.state}] = 0.0;"]
    lines += ["}", ""]
    lines += [
        "static void follow(double *before, double *z, double q, double length)",
        "{",
        "    const double way = sign(q - *before);",
        "    *z = way + (*z - way)*exp(-fabs(q - *before)/length);",
        "    *before = q;",
        "}",
        "",
    ]
    lines += [_after_head(name, n), "{"]
    lines += [
        f"    follow(&memory->q[{one.state}], &memory->z[{one.state}], q[{one.joint}], {one.length!r});"
        for one in made.memory
    ]
    return [*lines, "    torque(q, v, a, memory->z, tau);", "}", ""]


# --- Self-test --------------------------------------------------------------------------------------------------------


def _test(name: str, given: Vectors) -> str:
    n, count = given.states.q.shape
    tables = {"q": given.states.q, "v": given.states.v, "a": given.states.a, "wanted_torque": given.torque}
    tables |= {"wanted_gravity": given.gravity, "wanted_mass": given.mass.reshape(n * n, count)}
    if given.walk is not None:
        states, torque = given.walk
        tables |= {"walk_q": states.q, "walk_v": states.v, "walk_a": states.a, "walk_torque": torque}
    lines = [
        "/* Self-test: test vectors computed by the model that was exported. */",
        f'#include "{name}.h"',
        "",
        "#include <math.h>",
        "#include <stdio.h>",
        "",
        f"enum {{ JOINTS = {n}, STATES = {count} }};",
        "",
    ]
    for table, values in tables.items():
        lines += _table(table, values.T)
    lines += [
        "static double largest = 0.0, relative = 0.0;",
        "",
        "/* compares one number with what it should be, on the scale of the largest of its kind */",
        "static void compare(double given, double wanted, double scale)",
        "{",
        "    const double apart = fabs(given - wanted);",
        "    if (!(apart <= largest)) largest = apart;",
        "    if (!(apart/scale <= relative)) relative = apart/scale;",
        "}",
        "",
        "int main(void)",
        "{",
        "    double tau[JOINTS], mass[JOINTS][JOINTS];",
        "    int s, j, k;",
        f"    const double torque_scale[JOINTS] = {_row(_scale(given.torque))};",
        f"    const double mass_scale = {max(float(abs(given.mass).max()), 1e-300)!r};",
    ]
    walking = []
    if given.walk is not None:
        lines += [f"    {name}_memory memory;", f"    {name}_start(&memory, walk_q[0]);"]
        walking = [
            f"        {name}_inverse_dynamics_after(&memory, walk_q[s], walk_v[s], walk_a[s], tau);",
            "        for (j = 0; j < JOINTS; ++j) compare(tau[j], walk_torque[s][j], torque_scale[j]);",
        ]
    lines += [
        "    for (s = 0; s < STATES; ++s) {",
        f"        {name}_inverse_dynamics(q[s], v[s], a[s], tau);",
        "        for (j = 0; j < JOINTS; ++j) compare(tau[j], wanted_torque[s][j], torque_scale[j]);",
        f"        {name}_gravity(q[s], tau);",
        "        for (j = 0; j < JOINTS; ++j) compare(tau[j], wanted_gravity[s][j], torque_scale[j]);",
        f"        {name}_mass_matrix(q[s], mass);",
        "        for (j = 0; j < JOINTS; ++j)",
        "            for (k = 0; k < JOINTS; ++k) compare(mass[j][k], wanted_mass[s][j*JOINTS + k], mass_scale);",
        *walking,
        "    }",
        f'    printf("{name}: %d states, largest difference %.17g, relative %.3g\\n", STATES, largest, relative);',
        f"    return relative <= {TOLERANCE!r} ? 0 : 1;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _table(name: str, rows: Array) -> Iterator[str]:
    yield f"static const double {name}[{rows.shape[0]}][{rows.shape[1]}] = {{"
    for row in rows:
        yield f"    {_row(row)},"
    yield "};"
    yield ""


def _row(values: Array) -> str:
    return "{" + ", ".join(repr(float(x)) for x in values) + "}"


def _scale(torque: Array) -> Array:
    """As in `parity`: the largest torque of a joint, or a thousandth of the robot's."""
    own = abs(torque).max(axis=1)
    return own.clip(max(LEAST_SCALE * float(own.max()), 1e-300))
