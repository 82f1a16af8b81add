"""Rotor inertia seen from the joint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from steelyard.model.terms.law_term import LawColumn, LawTerm
from steelyard.model.terms.laws import ACCELERATION


@final
@dataclass(frozen=True)
class Rotor(LawTerm):
    """Inertia of motor and gear, N² J [kg·m²]:  τ_j += Ia_j q̈_j  (P0 eq. 3)."""

    name: ClassVar[str] = "rotor"

    def columns(self) -> tuple[LawColumn, ...]:
        return (LawColumn("Ia", "kg.m2", ACCELERATION, drive="rotor"),)
