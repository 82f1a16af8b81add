"""What is identified besides rigid bodies: one effect per file, the laws behind them, and the names of project files.

A term of your own is a `LawTerm` made of `Law`s, or any class with the methods of `Term`, which fills `Entry`s, each a
joint and a `Column`, from `Motion`. `register` makes it known by its name.
"""

from __future__ import annotations

from steelyard._kernels.machine_code import compilable
from steelyard.model.parameters import Column
from steelyard.model.terms.compensator import Compensator
from steelyard.model.terms.coupling import Coupling
from steelyard.model.terms.dahl import Dahl
from steelyard.model.terms.drift import Drift
from steelyard.model.terms.friction import (
    AsymmetricCoulomb,
    AsymmetricViscous,
    BearingFriction,
    Coulomb,
    LoadFriction,
    Offset,
    PowerLaw,
    Stribeck,
    Viscous,
)
from steelyard.model.terms.law import AppliedLaw, Law
from steelyard.model.terms.law_term import LawColumn, LawTerm
from steelyard.model.terms.laws import smooth_sign, smooth_sign_code, smooth_sign_slope
from steelyard.model.terms.on_joints import OnJoints, on_joints
from steelyard.model.terms.registry import (
    DEFAULT_TERMS,
    GEAR_TERMS,
    TERMS,
    named_term,
    named_terms,
    plain_terms,
    register,
    rich_terms,
    unregister,
)
from steelyard.model.terms.ripple import Ripple
from steelyard.model.terms.rotor import Rotor
from steelyard.model.terms.springs import Springs
from steelyard.model.terms.term import LOAD, PAST, TIME, Entry, Motion, Offer, Term, Width, uses

__all__ = [
    "DEFAULT_TERMS",
    "GEAR_TERMS",
    "LOAD",
    "PAST",
    "TERMS",
    "TIME",
    "AppliedLaw",
    "AsymmetricCoulomb",
    "AsymmetricViscous",
    "BearingFriction",
    "Column",
    "Compensator",
    "Coulomb",
    "Coupling",
    "Dahl",
    "Drift",
    "Entry",
    "Law",
    "LawColumn",
    "LawTerm",
    "LoadFriction",
    "Motion",
    "Offer",
    "Offset",
    "OnJoints",
    "PowerLaw",
    "Ripple",
    "Rotor",
    "Springs",
    "Stribeck",
    "Term",
    "Viscous",
    "Width",
    "compilable",
    "named_term",
    "named_terms",
    "on_joints",
    "plain_terms",
    "register",
    "rich_terms",
    "smooth_sign",
    "smooth_sign_code",
    "smooth_sign_slope",
    "unregister",
    "uses",
]
