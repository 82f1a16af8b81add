"""Friction of the joints, one law or two per term, and a constant offset."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final, get_args

import numpy as np

from steelyard.errors import choices
from steelyard.model.terms.law_term import LawColumn, LawTerm, Neighbour
from steelyard.model.terms.laws import (
    ABSOLUTE,
    CONSTANT,
    LOAD,
    NEGATIVE_SIGN,
    POSITIVE_SIGN,
    POWER,
    SMOOTH_SIGN,
    STRIBECK,
    VISCOUS,
)
from steelyard.model.terms.term import Cycles, Offer, Width, shape_name

NEIGHBOURS: tuple[Neighbour, ...] = get_args(Neighbour)


@final
@dataclass(frozen=True)
class Viscous(LawTerm):
    """τ_j += Fv_j q̇_j  [N·m·s]."""

    name: ClassVar[str] = "viscous"

    def columns(self) -> tuple[LawColumn, ...]:
        return (LawColumn("Fv", "N.m.s", VISCOUS, drive="viscous"),)


@final
@dataclass(frozen=True)
class Coulomb(LawTerm, Width):
    """τ_j += Fc_j sign(q̇_j)  [N·m], with tanh(q̇ / width) for a stated width."""

    name: ClassVar[str] = "coulomb"

    def columns(self) -> tuple[LawColumn, ...]:
        return (LawColumn("Fc", "N.m", SMOOTH_SIGN, (self.width,), drive="coulomb"),)


@final
@dataclass(frozen=True)
class AsymmetricCoulomb(LawTerm, Width):
    """Two levels: τ_j += Fcp_j max(s, 0) + Fcn_j min(s, 0) with s = sign(q̇_j), both positive for real friction [N·m].

    In a model with an offset, one of the three is a linear combination of the others (Fcp − Fcn moves into the offset):
    the base parameters show the regrouping.
    """

    name: ClassVar[str] = "asymmetric-coulomb"

    def columns(self) -> tuple[LawColumn, ...]:
        return (
            LawColumn("Fcp", "N.m", POSITIVE_SIGN, (self.width,), drive="coulomb"),
            LawColumn("Fcn", "N.m", NEGATIVE_SIGN, (self.width,), drive="coulomb"),
        )


@final
@dataclass(frozen=True)
class AsymmetricViscous(LawTerm):
    """The even part of viscous friction: τ_j += Fve_j |q̇_j|  [N·m·s]; Fv ± Fve are the slopes of the two directions."""

    name: ClassVar[str] = "asymmetric-viscous"
    needs: ClassVar[tuple[str, ...]] = ("viscous",)

    def columns(self) -> tuple[LawColumn, ...]:
        return (LawColumn("Fve", "N.m.s", ABSOLUTE),)

    @classmethod
    def offers(cls, cycles: Cycles) -> tuple[Offer, ...]:
        return (Offer("asymmetric viscous", cls()),)


@final
@dataclass(frozen=True)
class Offset(LawTerm):
    """τ_j += off_j  [N·m]: offset of the current, and the even part of asymmetric friction."""

    name: ClassVar[str] = "offset"

    def columns(self) -> tuple[LawColumn, ...]:
        return (LawColumn("off", "N.m", CONSTANT, drive="offset"),)


@final
@dataclass(frozen=True)
class PowerLaw(LawTerm):
    """τ_j += Fp_j sign(q̇_j) |q̇_j|^exponent  [N·m·s^p]; column `joint.Fp50` for the default, the square root.

    Lubricated gears shear-thin: their friction bends between the Coulomb level and the viscous slope, as the root does.
    Motors that turn with several joints (`[coupling]`) get a column `joint.Fp50m` on their own speed.
    """

    exponent: float = 0.5
    name: ClassVar[str] = "power-law"

    def __post_init__(self) -> None:
        if not 0.0 < self.exponent <= 4.0:
            raise ValueError(f"The exponent of a power law must lie above 0 and up to 4, not {self.exponent!r}.")

    def columns(self) -> tuple[LawColumn, ...]:
        symbol = f"Fp{shape_name(round(100.0 * self.exponent, 6))}"
        return (LawColumn(symbol, "N.m.s^p", POWER, (self.exponent,), motors=True, correction=True),)

    @classmethod
    def offers(cls, cycles: Cycles) -> tuple[Offer, ...]:
        return (Offer("power 1/3", cls(1.0 / 3.0)), Offer("power 2", cls(2.0)))


@final
@dataclass(frozen=True)
class Stribeck(LawTerm, Width):
    """τ_j += Fs_j sign(q̇_j) exp(−(|q̇_j| / speed)²)  [N·m]: friction beyond Coulomb's at the lowest speeds.

    Column `joint.Fs100` for a speed of 100 mrad/s (mm/s for a prismatic joint).
    """

    speed: float = 0.1
    # by name only, so that the speed comes first
    width: float = field(default=0.0, kw_only=True)
    name: ClassVar[str] = "stribeck"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.speed) and self.speed > 0.0):
            raise ValueError(f"The Stribeck speed must be positive [rad/s | m/s], not {self.speed!r}.")

    def columns(self) -> tuple[LawColumn, ...]:
        symbol = f"Fs{shape_name(round(1e3 * self.speed, 6))}"
        return (LawColumn(symbol, "N.m", STRIBECK, (self.width, self.speed), motors=True, correction=True),)

    @classmethod
    def offers(cls, cycles: Cycles) -> tuple[Offer, ...]:
        return tuple(Offer(f"stribeck {speed:g}", cls(speed)) for speed in (0.03, 0.1, 0.3))


@final
@dataclass(frozen=True)
class LoadFriction(LawTerm, Width):
    """τ_j += Fl_j sign(q̇_j) |τ_rigid,j|^exponent  [1]: friction of teeth and bearings grows with the load.

    τ_rigid is the torque of the rigid bodies (and of a gravity compensator) for parameters known beforehand: the
    robot file's nominal ones, or those of a first fit without this term (`Model.carried`). Column `joint.Fl`, or
    `joint.Fl200` for an exponent of 2.
    """

    exponent: float = 1.0
    name: ClassVar[str] = "load"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.exponent <= 4.0:
            raise ValueError(f"The exponent of load friction must lie above 0 and up to 4, not {self.exponent!r}.")

    def columns(self) -> tuple[LawColumn, ...]:
        plain = self.exponent == 1.0
        symbol = "Fl" if plain else f"Fl{shape_name(round(100.0 * self.exponent, 6))}"
        unit = "1" if plain else "(N.m)^(1-p)"
        return (LawColumn(symbol, unit, LOAD, (self.width, self.exponent), correction=True),)

    @classmethod
    def offers(cls, cycles: Cycles) -> tuple[Offer, ...]:
        return (Offer("load squared", cls(exponent=2.0)),)


@final
@dataclass(frozen=True)
class BearingFriction(LawTerm, Width):
    """τ_j += Fb_j sign(q̇_j) |τ_rigid,k|  [1], k a neighbour: friction of a bearing under the moment that tilts it.

    A joint on a vertical axis carries the weight of the arm as a moment across its axis, which its own torque does not
    show; the torque of the next joint does, as it acts on this joint's link. `neighbour` is the "next" joint (column
    `joint.Fb`) or the "previous" one (`joint.Fbp`), which a last joint has too. Joints whose neighbour's axis is within
    45° of their own have no column (`Robot.tilting`). τ_rigid is that of `LoadFriction`. The moment itself would need
    inertias that motion does not determine; τ_rigid of a neighbour depends on base parameters alone.
    """

    neighbour: Neighbour = "next"
    name: ClassVar[str] = "bearing"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbour not in NEIGHBOURS:
            raise ValueError(choices("neighbour", self.neighbour, NEIGHBOURS))

    def columns(self) -> tuple[LawColumn, ...]:
        symbol = "Fb" if self.neighbour == "next" else "Fbp"
        return (LawColumn(symbol, "1", LOAD, (self.width, 1.0), correction=True, neighbour=self.neighbour),)

    @classmethod
    def offers(cls, cycles: Cycles) -> tuple[Offer, ...]:
        return tuple(Offer(f"bearing, {neighbour} joint", cls(neighbour=neighbour)) for neighbour in NEIGHBOURS)
