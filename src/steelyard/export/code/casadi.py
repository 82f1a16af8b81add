"""CasADi: one module with the same functions as symbolic ones, for programs that optimise over a robot's motion."""

from __future__ import annotations

import importlib.util
import re

import numpy as np

from steelyard._arrays import Array
from steelyard.export.code.c import TOLERANCE
from steelyard.export.code.equations import LEGEND, gravity, inverse_dynamics, mass_matrix
from steelyard.export.code.expressions import FUNCTIONS, Program
from steelyard.export.code.parts import Parts, parts
from steelyard.export.code.python import imported_module, table_lines
from steelyard.export.code.test_vectors import exported_torque, vectors
from steelyard.export.code.text import body, code_name, header_lines, left_out_lines, plain, wrapped
from steelyard.export.export import Export
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.export.parity import LEAST_SCALE, Parity, checked_parity, random_states

# The module of a robot stands next to that for NumPy, NAME.py.
ENDING = "_casadi.py"
# Functions that CasADi lacks, by those that it has.
_MISSING = {
    "pow": "def pow(x, y):\n    return x**y\n",
    "cbrt": "def cbrt(x):\n    return sign(x)*fabs(x)**(1.0/3.0)\n",
    "log2": "def log2(x):\n    return log(x)/0.6931471805599453\n",
    "exp2": "def exp2(x):\n    return 2.0**x\n",
}
_NEEDED = {"cbrt": ("sign", "fabs"), "log2": ("log",)}
_SELF_TEST = '''def self_test():
    """The largest difference from the test vectors, over the largest number of its row."""
    def apart(given, wanted):
        wanted = np.array(wanted)
        own = np.abs(wanted).max(axis=-1)
        scale = np.maximum(own, max(LEAST_SCALE*own.max(), 1e-300))
        return float((np.abs(given - wanted).max(axis=-1)/scale).max())

    q, v, a = (np.array(_VECTORS[key]) for key in "qva")
    torque, held = np.array(inverse_dynamics(q, v, a)), np.array(gravity(q))
    mass = np.stack([np.array(mass_matrix(q[:, s])) for s in range(q.shape[1])], axis=-1)
    return max(
        apart(torque, _VECTORS["torque"]),
        apart(np.hstack([held, torque]), np.hstack([_VECTORS["gravity"], _VECTORS["torque"]])),
        apart(mass.reshape(1, -1), np.array(_VECTORS["mass"]).reshape(1, -1)),
    )
'''
_MAIN = """

if __name__ == "__main__":
    worst = self_test()
    print(f"relative difference from the test vectors: {worst:.3g}")
    raise SystemExit(0 if worst <= TOLERANCE else 1)
"""


def casadi_file(identified: IdentifiedModel, name: str | None = None) -> Export:
    """NAME_casadi.py with `inverse_dynamics`, `gravity` and `mass_matrix` as casadi.Function; run, it tests itself.

    It is imported and compared before it is returned if the package casadi is installed.
    """
    name = code_name(identified, name)
    made = parts(identified.model, identified.theta, identified.load)
    left_out = left_out_lines(made, "C and Python have consecutive states too")
    content = _module(identified, made, left_out).encode("utf-8")
    installed = importlib.util.find_spec("casadi") is not None
    unchecked = (
        "" if installed else f"Not evaluated: the package casadi is not installed. Where it is: python {name}{ENDING}"
    )
    parity = evaluated_parity(identified, content) if installed else None
    return Export("casadi", {f"{name}{ENDING}": content}, left_out, parity=parity, read_back=unchecked)


def evaluated_parity(identified: IdentifiedModel, content: bytes) -> Parity:
    """Import the module, run its self-test, and compare torques on other random states."""
    module = imported_module(content, "The CasADi module")

    def wanted(q: Array, v: Array, a: Array) -> Array:
        return exported_torque(identified, q, v, a)

    def given(q: Array, v: Array, a: Array) -> Array:
        return np.array(module.inverse_dynamics(q, v, a))

    return checked_parity(wanted, given, random_states(identified.model), "The CasADi module", TOLERANCE)


def _module(identified: IdentifiedModel, made: Parts, left_out: tuple[str, ...]) -> str:
    programs = {"inverse_dynamics": inverse_dynamics(made), "gravity": gravity(made), "mass_matrix": mass_matrix(made)}
    used = set[str]().union(*(program.live()[1] for program in programs.values()))
    used |= {"sign"} if made.memory else set()
    missing = [name for name in _MISSING if name in used]
    used |= {needed for name in missing for needed in _NEEDED.get(name, ())}
    functions = [name for name in sorted(FUNCTIONS) if name in used and name not in _MISSING]
    lines = [*wrapped(header_lines(identified, left_out), "# "), "#", *wrapped(LEGEND, "# "), "", "import numpy as np"]
    lines += [f"from casadi import {', '.join(['SX', 'Function', *functions])}"]
    lines += ["", f"JOINTS = {made.robot.dof}", f"TOLERANCE = {TOLERANCE!r}", f"LEAST_SCALE = {LEAST_SCALE!r}"]
    lines += [f"{one.name} = {one.value!r}  # {plain(one.about)}" for one in made.constants if one.name in used]
    lines += ['q, v, a = (SX.sym(name, JOINTS) for name in "qva")']
    blocks = [_MISSING[name] for name in missing]
    sliding = [f"z = [{', '.join(f'sign(v[{one.joint}])' for one in made.memory)}]"] if made.memory else []
    blocks += [_function("inverse_dynamics", programs["inverse_dynamics"], "qva", "tau", sliding)]
    blocks += [_function("gravity", programs["gravity"], "q", "tau", [])]
    blocks += [_function("mass_matrix", programs["mass_matrix"], "q", "mass", [])]
    calls = [
        f'{name} = Function("{name}", [{given}], [_{name}({given})], [{quoted}], ["{out}"])'
        for name, given, quoted, out in (
            ("inverse_dynamics", "q, v, a", '"q", "v", "a"', "tau"),
            ("gravity", "q", '"q"', "tau"),
            ("mass_matrix", "q", '"q"', "mass"),
        )
    ]
    blocks += ["\n".join([*calls, ""]), _SELF_TEST, "\n".join(table_lines(vectors(identified)))]
    return "\n".join(lines) + "\n\n\n" + "\n\n".join(blocks) + _MAIN


def _function(name: str, program: Program, arguments: str, out: str, first: list[str]) -> str:
    shape = "JOINTS, JOINTS" if out == "mass" else "JOINTS"
    lines = [
        f"def _{name}({', '.join(arguments)}):",
        f"    {out} = SX.zeros({shape})",
        *(f"    {one}" for one in first),
    ]
    lines += [re.sub(r"\bmass\[(\d+)\]\[(\d+)\]", r"mass[\1, \2]", line) for line in body(program, "", "", "# {}")]
    return "\n".join([*lines, f"    return {out}", ""])
