"""The export targets by name: the built-in ones and those that a user registers."""

from __future__ import annotations

import re
from collections.abc import Set

from steelyard.errors import OutputError, choices
from steelyard.export.targets.c import C
from steelyard.export.targets.casadi import CASADI
from steelyard.export.targets.latex import LATEX
from steelyard.export.targets.mjcf import MJCF
from steelyard.export.targets.python import PYTHON
from steelyard.export.targets.sdf import SDF
from steelyard.export.targets.target import OPTIONS, ExportTarget
from steelyard.export.targets.urdf import URDF

TARGETS: dict[str, ExportTarget] = {target.name: target for target in (URDF, MJCF, SDF, C, PYTHON, CASADI, LATEX)}
_BUILT_IN = frozenset(TARGETS)
_NAME, _ENDING = re.compile(r"\w[\w-]*"), re.compile(r"(\.\w[\w.-]*)?")


def named_target(name: str) -> ExportTarget:
    """An export target by name."""
    if name not in TARGETS:
        raise OutputError(choices("export target", name, TARGETS))
    return TARGETS[name]


def register(target: ExportTarget) -> ExportTarget:
    """Make an export target known by its name to `steelyard export --to` and `named_target`. Returns the target.

    A name may be registered again, which replaces the target, but not the name of a built-in target.
    """
    _check_contract(target)
    if target.name in _BUILT_IN:
        raise OutputError(f"Export target '{target.name}' is built in: give yours another name.")
    TARGETS[target.name] = target
    return target


def unregister(name: str) -> None:
    """Forget an export target that was registered."""
    if name in _BUILT_IN:
        raise OutputError(f"Export target '{name}' is built in and cannot be removed.")
    if name not in TARGETS:
        raise OutputError(choices("export target", name, TARGETS))
    del TARGETS[name]


def _check_contract(target: object) -> None:
    """Refuse an object that is not a valid export target, and say what is wrong."""
    if not isinstance(target, ExportTarget):
        raise OutputError(f"{target!r} cannot be registered as an export target: make it an ExportTarget(name, make).")
    who = f"Export target '{target.name}' cannot be registered"
    if not (isinstance(target.name, str) and _NAME.fullmatch(target.name)):
        raise OutputError(f"{who}: `name` must be one word of letters, digits, '-' and '_'.")
    if not callable(target.make):
        raise OutputError(f"{who}: `make` must be a function make(request) that returns an Export.")
    if not (isinstance(target.ending, str) and _ENDING.fullmatch(target.ending)):
        raise OutputError(f"{who}: `ending` is a suffix such as '.json', or empty for a folder, not {target.ending!r}.")
    if not (isinstance(target.options, Set) and all(isinstance(option, str) for option in target.options)):
        raise OutputError(f"{who}: `options` must be a set of names out of {', '.join(OPTIONS)}.")
    if not isinstance(target.root, str):
        raise OutputError(f"{who}: `root` must be the root tag of a robot file, or empty.")
    if unknown := sorted(set(target.options) - set(OPTIONS)):
        raise OutputError(f"{who}: " + choices("option", unknown[0], OPTIONS))
    if bool(target.root) != ("source" in target.options):
        raise OutputError(f"{who}: a target that edits robot files states both `root` and the option 'source'.")
