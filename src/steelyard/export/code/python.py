"""Python: one module that needs NumPy alone, with inverse dynamics, gravity and mass matrix of an identified model."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import OutputError
from steelyard.export.code.c import TOLERANCE
from steelyard.export.code.equations import LEGEND, gravity, inverse_dynamics, mass_matrix
from steelyard.export.code.expressions import FUNCTIONS, Program
from steelyard.export.code.parts import Parts, parts
from steelyard.export.code.test_vectors import Vectors, exported_torque, vectors
from steelyard.export.code.text import body, code_name, header_lines, left_out_lines, plain, wrapped
from steelyard.export.export import Export
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.export.parity import LEAST_SCALE, Parity, checked_parity, random_states

_TORQUE = '''def inverse_dynamics(q, v, a):
    """The torque tau (n, ...) that moves the robot with acceleration a at q and v, each (n,) or (n, samples)."""
    q, v, a = _signals(q, v, a)
'''
_REMEMBERING = '''def start(q):
    """The memory of a robot that stands at q (n,): last positions and Dahl's states, for `inverse_dynamics`."""
    return np.stack([np.asarray(q, float)[list(_JOINTS)], np.zeros(len(_JOINTS))])


def inverse_dynamics(q, v, a, memory=None):
    """The torque tau (n, ...) that moves the robot with acceleration a at q and v, each (n,) or (n, samples).

    Without `memory` the states are independent, with sliding gears. With `memory` = start(q0) they are consecutive, and
    the memory is updated.
    """
    q, v, a = _signals(q, v, a)
    moving = q[list(_JOINTS)]
    if memory is None:
        return _torque(q, v, a, sign(v[list(_JOINTS)]))
    lanes = moving.reshape(len(_JOINTS), -1)
    z = np.empty_like(lanes)
    for s in range(lanes.shape[1]):
        step = lanes[:, s] - memory[0]
        way = sign(step)
        memory[1] = way + (memory[1] - way)*exp(-fabs(step)/np.array(_LENGTHS))
        memory[0] = lanes[:, s]
        z[:, s] = memory[1]
    return _torque(q, v, a, z.reshape(moving.shape))
'''
_GRAVITY = '''def gravity(q):
    """The torque tau (n, ...) that holds the robot at rest at q: gravity, springs and offsets."""
    (q,) = _signals(q)
'''
_MASS = '''def mass_matrix(q):
    """The mass matrix (n, n, ...) at q, rotor inertias included."""
    (q,) = _signals(q)
'''
_SIGNALS = """def _signals(*signals):
    arrays = [np.asarray(x, float) for x in signals]
    if any(x.ndim not in (1, 2) or x.shape != arrays[0].shape or len(x) != JOINTS for x in arrays):
        raise ValueError(f"give arrays of equal shape ({JOINTS},) or ({JOINTS}, samples), one row per joint")
    return arrays
"""
_SELF_TEST = '''def self_test():
    """The largest difference from the test vectors, over the largest number of its row."""
    def apart(given, wanted):
        wanted = np.array(wanted)
        own = np.abs(wanted).max(axis=-1)
        scale = np.maximum(own, max(LEAST_SCALE*own.max(), 1e-300))
        return float((np.abs(given - wanted).max(axis=-1)/scale).max())

    q, v, a = (np.array(_VECTORS[key]) for key in "qva")
    mass = mass_matrix(q)
    differences = [
        apart(inverse_dynamics(q, v, a), _VECTORS["torque"]),
        apart(np.column_stack([inverse_dynamics(q[:, s], v[:, s], a[:, s]) for s in range(q.shape[1])]),
              _VECTORS["torque"]),
        apart(np.hstack([gravity(q), inverse_dynamics(q, v, a)]), np.hstack([_VECTORS["gravity"], _VECTORS["torque"]])),
        apart(mass.reshape(1, -1), np.array(_VECTORS["mass"]).reshape(1, -1)),
    ]
'''
_WALK = """    walk = [np.array(_VECTORS["walk_" + key]) for key in "qva"]
    differences.append(apart(inverse_dynamics(*walk, memory=start(walk[0][:, 0])), _VECTORS["walk_torque"]))
"""
_MAIN = """

if __name__ == "__main__":
    worst = self_test()
    print(f"relative difference from the test vectors: {worst:.3g}")
    raise SystemExit(0 if worst <= TOLERANCE else 1)
"""


def python_file(identified: IdentifiedModel, name: str | None = None) -> Export:
    """NAME.py: `python NAME.py` runs its self-test. It is imported and compared before it is returned."""
    name = code_name(identified, name)
    made = parts(identified.model, identified.theta, identified.load)
    left_out = left_out_lines(made, "for consecutive states use inverse_dynamics(…, memory=start(q))")
    content = _module(identified, made, left_out).encode("utf-8")
    return Export("python", {f"{name}.py": content}, left_out, parity=imported_parity(identified, content))


def imported_parity(identified: IdentifiedModel, content: bytes) -> Parity:
    """Import the module, run its self-test, and compare torques on other random states."""
    module = imported_module(content, "The Python module")

    def wanted(q: Array, v: Array, a: Array) -> Array:
        return exported_torque(identified, q, v, a)

    states = random_states(identified.model)
    return checked_parity(wanted, module.inverse_dynamics, states, "The Python module", TOLERANCE)


def imported_module(content: bytes, what: str) -> ModuleType:
    """A module that was just written, imported; an error, with `what` it is, unless its self-test passes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exported_dynamics.py"
        file.write_bytes(content)
        module = _imported(file)
    worst = float(module.self_test())
    if not worst <= TOLERANCE:
        raise OutputError(f"{what} was not written: its self-test is off by {worst:.3g} (relative).")
    return module


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


def _module(identified: IdentifiedModel, made: Parts, left_out: tuple[str, ...]) -> str:
    programs = (inverse_dynamics(made), gravity(made), mass_matrix(made))
    used = set[str]().union(*(program.live()[1] for program in programs))
    if made.memory:
        used |= {"sign", "exp", "fabs"}
    functions = ", ".join(x for name, x in sorted(FUNCTIONS.items()) if name in used)
    n = made.robot.dof
    lines = [*wrapped(header_lines(identified, left_out), "# "), "#", *wrapped(LEGEND, "# ")]
    lines += ["", "import numpy as np"]
    lines += [f"from numpy import {functions}"] if functions else []
    lines += ["", f"JOINTS = {n}", f"TOLERANCE = {TOLERANCE!r}", f"LEAST_SCALE = {LEAST_SCALE!r}"]
    lines += [f"{one.name} = {one.value!r}  # {plain(one.about)}" for one in made.constants if one.name in used]
    blocks = []
    if made.memory:
        joints, lengths = tuple(one.joint for one in made.memory), tuple(one.length for one in made.memory)
        lines += ["# Dahl's states: their joints and lengths", f"_JOINTS = {joints}", f"_LENGTHS = {lengths}"]
        blocks += [_REMEMBERING, "def _torque(q, v, a, z):\n" + _body(programs[0], "tau", "q.shape")]
    else:
        blocks += [_TORQUE + _body(programs[0], "tau", "q.shape")]
    blocks += [_GRAVITY + _body(programs[1], "tau", "q.shape")]
    blocks += [_MASS + _body(programs[2], "mass", "(JOINTS, *q.shape)"), _SIGNALS]
    given = vectors(identified)
    blocks += [
        _SELF_TEST + (_WALK if given.walk else "") + "    return max(differences)\n",
        "\n".join(table_lines(given)),
    ]
    return "\n".join(lines) + "\n\n\n" + "\n\n".join(blocks) + _MAIN


def _body(program: Program, out: str, shape: str) -> str:
    lines = [*body(program, "", "", "# {}"), f"    return {out}", ""]
    return f"    {out} = np.empty({shape})\n" + "\n".join(lines)


def table_lines(given: Vectors) -> Iterator[str]:
    """The test vectors as Python text."""
    tables = {"q": given.states.q, "v": given.states.v, "a": given.states.a}
    tables |= {"torque": given.torque, "gravity": given.gravity, "mass": given.mass}
    if given.walk is not None:
        states, torque = given.walk
        tables |= {"walk_q": states.q, "walk_v": states.v, "walk_a": states.a, "walk_torque": torque}
    yield "_VECTORS = {"
    for name, values in tables.items():
        yield f'    "{name}": ['
        for row in np.asarray(values):
            yield f"        {row.tolist()!r},"
        yield "    ],"
    yield "}"
