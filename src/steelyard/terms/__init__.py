"""What is identified besides rigid bodies: one effect a file, and the names project files use for them."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.errors import ModelError, choices
from steelyard.terms.compensator import Compensator
from steelyard.terms.coupling import Coupling
from steelyard.terms.friction import AsymmetricCoulomb, Coulomb, Offset, Viscous
from steelyard.terms.rotor import Rotor
from steelyard.terms.term import Entry, Motion, Term

__all__ = [
    "TERMS",
    "AsymmetricCoulomb",
    "Compensator",
    "Coulomb",
    "Coupling",
    "Entry",
    "Motion",
    "Offset",
    "Rotor",
    "Term",
    "Viscous",
    "named_terms",
]

TERMS: dict[str, type[Term]] = {
    kind.name: kind for kind in (Rotor, Viscous, Coulomb, AsymmetricCoulomb, Offset, Coupling, Compensator)
}
DEFAULT_TERMS = ("rotor", "viscous", "coulomb", "offset")


def named_terms(names: Iterable[str], sign_width: float = 0.0) -> tuple[Term, ...]:
    """Terms from their names; `sign_width` > 0 makes every sign(v) a tanh(v / width)."""
    terms = []
    for name in names:
        if name not in TERMS:
            raise ModelError(choices("term", name, TERMS))
        kind = TERMS[name]
        terms.append(
            kind(width=sign_width) if sign_width and kind in (Coulomb, AsymmetricCoulomb, Coupling) else kind()
        )
    return tuple(terms)
