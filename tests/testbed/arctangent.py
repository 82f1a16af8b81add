"""A friction law that is not built in, with its term, as a user would write them: Fa (2/π) atan(v / speed)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from steelyard.model.terms import Law, LawColumn, LawTerm, Offer
from steelyard.model.terms.term import Cycles

ARCTANGENT = Law(
    "arctangent",
    value=lambda x, speed: 2.0 / np.pi * np.arctan(x / speed),
    slope=lambda x, speed: 2.0 / np.pi * speed / (speed**2 + x**2),
    code=lambda let, x, speed: f"{2.0 / np.pi}*atan({x}/{speed})",
    passive=True,
)


@dataclass(frozen=True)
class Arctangent(LawTerm):
    """τ_j += Fa_j (2/π) atan(q̇_j / speed)  [N·m]."""

    speed: float = 0.3
    name: ClassVar[str] = "arctangent"

    def columns(self) -> tuple[LawColumn, ...]:
        return (LawColumn("Fa", "N.m", ARCTANGENT, (self.speed,)),)

    @classmethod
    def offers(cls, cycles: Cycles) -> tuple[Offer, ...]:
        return (Offer("arctangent 0.3", cls(0.3)),)
