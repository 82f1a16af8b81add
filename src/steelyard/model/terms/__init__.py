"""What is identified besides rigid bodies: one effect per file, and the names project files use for them.

A term of your own is a class with the methods of `Term`; it fills `Entry`s, each a joint and a `Column`, from `Motion`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from steelyard.errors import ModelError, choices
from steelyard.model.parameters import Column
from steelyard.model.robot import Robot
from steelyard.model.terms.compensator import Compensator
from steelyard.model.terms.coupling import Coupling
from steelyard.model.terms.dahl import Dahl
from steelyard.model.terms.drift import Drift
from steelyard.model.terms.friction import AsymmetricCoulomb, AsymmetricViscous, Coulomb, Offset, Viscous
from steelyard.model.terms.load_friction import LoadFriction
from steelyard.model.terms.on_joints import OnJoints, on_joints
from steelyard.model.terms.power_law import PowerLaw
from steelyard.model.terms.ripple import Ripple
from steelyard.model.terms.rotor import Rotor
from steelyard.model.terms.springs import Springs
from steelyard.model.terms.stribeck import Stribeck
from steelyard.model.terms.term import LOAD, PAST, TIME, Entry, Motion, Term, Width, uses

__all__ = [
    "LOAD",
    "PAST",
    "TERMS",
    "TIME",
    "AsymmetricCoulomb",
    "AsymmetricViscous",
    "Column",
    "Compensator",
    "Coulomb",
    "Coupling",
    "Dahl",
    "Drift",
    "Entry",
    "LoadFriction",
    "Motion",
    "Offset",
    "OnJoints",
    "PowerLaw",
    "Ripple",
    "Rotor",
    "Springs",
    "Stribeck",
    "Term",
    "Viscous",
    "named_term",
    "named_terms",
    "on_joints",
    "plain_terms",
    "rich_terms",
    "uses",
]

TERMS: dict[str, type[Term]] = {
    kind.name: kind
    for kind in (
        Rotor, Viscous, Coulomb, AsymmetricViscous, AsymmetricCoulomb, Offset, PowerLaw, Stribeck, LoadFriction, Dahl,
        Ripple, Drift, Coupling, Compensator, Springs,
    )
}  # fmt: skip
# The papers' drive chain (P0 eq. 3).
DEFAULT_TERMS = ("rotor", "viscous", "coulomb", "offset")
# What halves the error of real gears beside it, untuned: shear-thinning, load and pre-sliding.
GEAR_TERMS = ("power-law", "load", "dahl")


def plain_terms(robot: Robot) -> tuple[str, ...]:
    """The terms the robot file names, else the papers' drive chain, and its springs if it has any."""
    if robot.terms is not None:
        return robot.terms
    return (*DEFAULT_TERMS, Springs.name) if robot.springs else DEFAULT_TERMS


def rich_terms(robot: Robot) -> tuple[str, ...]:
    """The plain terms and the friction of real gears."""
    plain = plain_terms(robot)
    return plain + tuple(name for name in GEAR_TERMS if name not in plain)


def named_term(
    name: str, options: Mapping[str, Any] | None = None, joints: Sequence[str] | None = None, sign_width: float = 0.0
) -> Term:
    """A term from its name and options, on the named joints or all; `sign_width` > 0 makes its sign(v) a tanh."""
    if name not in TERMS:
        raise ModelError(choices("term", name, TERMS))
    kind = TERMS[name]
    known = [option.name for option in fields(kind)]  # type: ignore[arg-type]
    given = dict(options or {})
    for option in given:
        if option not in known:
            raise ModelError(
                f"Term '{name}': " + choices("option", option, known) if known else f"Term '{name}' has no options."
            )
    if sign_width and issubclass(kind, Width):
        given.setdefault("width", sign_width)
    try:
        term = kind(**given)
    except (TypeError, ValueError) as error:
        raise ModelError(f"Term '{name}': {error}") from None
    return term if joints is None else on_joints(term, joints)


def named_terms(names: Iterable[str], sign_width: float = 0.0) -> tuple[Term, ...]:
    """Terms from their names; `sign_width` > 0 makes every sign(v) a tanh(v / width)."""
    return tuple(named_term(name, sign_width=sign_width) for name in names)
