"""Rotor inertia and friction of the joints in robot files, and the parts of a model that such files cannot hold.

URDF has damping and friction of a joint, MuJoCo also armature: τ = armature q̈ + damping q̇ + friction sign(q̇). For a
model with only Fv and Fc these values are written, for asymmetric friction the mean (Fcp + Fcn)/2; for a model with
more terms, the line nearest to its whole friction curve (`friction_line`). Everything else is reported by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.export.robot_files.friction_line import Curves, FrictionLine, curves, line
from steelyard.model.model import Model
from steelyard.model.parameters import Column
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Drive
from steelyard.model.terms import LOAD, PAST, AsymmetricCoulomb, Coulomb, Coupling
from steelyard.model.terms.term import linear_unit
from steelyard.physical.consistency import negative_drive

ARMATURE, DAMPING, FRICTION = "armature", "damping", "friction"
UNITS: Mapping[str, str] = {ARMATURE: "kg.m2", DAMPING: "N.m.s", FRICTION: "N.m"}
# Symbol of a column → the attribute it is written to, and the fraction of it.
_GOES: Mapping[str, tuple[str, float]] = {
    "Ia": (ARMATURE, 1.0),
    "Fv": (DAMPING, 1.0),
    "Fc": (FRICTION, 1.0),
    "Fcp": (FRICTION, 0.5),
    "Fcn": (FRICTION, 0.5),
}
# A loss below this fraction of a curve is not reported.
ROUNDING = 1e-9
_NAMES: Mapping[str, str] = {"Ia": "The rotor inertia Ia", "off": "The offset"}


@dataclass(frozen=True)
class JointDrives:
    """joint → {armature, damping, friction}, as far as identified, and sentences on what cannot be written.

    `springs` holds the stiffness of springs that the file states, by the names of their columns. `lines` lists the
    joints whose friction the file holds only in part; `notes` says what to do if that is not enough.
    """

    values: Mapping[str, Mapping[str, float]]
    springs: Mapping[str, float]
    left_out: tuple[str, ...]
    lines: tuple[FrictionLine, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        poor = [one.joint for one in self.lines if one.much]
        if not poor:
            return ()
        return (
            f"Much of the friction of {', '.join(poor)} is lost in this format; C, Python and CasADi hold the whole "
            "curve.",
        )

    def drive(self, joint: str, before: Drive) -> Drive:
        """The drive of a joint in the file to write.

        Friction that the file states and the model lacks becomes zero, as an armature does: the identified efforts do
        not have it, and a reader would add it.
        """
        own = self.values.get(joint)
        if own is None:
            return Drive(None, before.viscous, before.coulomb)
        viscous, coulomb = (None if x is None else 0.0 for x in (before.viscous, before.coulomb))
        return Drive(own.get(ARMATURE), own.get(DAMPING, viscous), own.get(FRICTION, coulomb))


def drives(
    model: Model,
    theta: Array,
    kinds: tuple[str, ...],
    form: str,
    springs: Collection[str] = (),
    load: str = UNLOADED,
) -> JointDrives:
    """The values of theta (C,) that a file of `form` holds, of `kinds` armature, damping and friction, and `springs`.

    A format with armatures gets one for every joint, zero if the model has no rotors: their inertia is then part of the
    identified links. Every format has damping and friction. `load` names the payload that theta already includes in its
    links.
    """
    if negative := negative_drive(model.layout, theta):
        raise ModelError(
            f"{', '.join(f'{name} = {value:.3g}' for name, value in negative)}: a drive that gives energy instead of "
            f"storing or losing it, which readers of {form} refuse. Write a consistent set: the estimator "
            "'consistent', or the nearest feasible set (steelyard consistency)."
        )
    driven = [joint.name for joint in model.robot.joints if not joint.bare]
    values: dict[str, dict[str, float]] = {name: {ARMATURE: 0.0} if ARMATURE in kinds else {} for name in driven}
    stiffness: dict[str, float] = {}
    missing: dict[str, list[str]] = defaultdict(list)
    found = curves(model, theta, _GOES)
    for column, value in zip(model.layout.columns, theta.tolist(), strict=True):
        kind, part = _GOES.get(column.symbol, ("", 0.0))
        if column.kind == "term" and column.owner in values and kind in kinds:
            values[column.owner][kind] = values[column.owner].get(kind, 0.0) + part * value
        elif column.name in springs:
            stiffness[column.name] = value
        elif column.kind not in ("link", "payload") and value and column.name not in found.columns:
            missing[_called(column)].append(column.owner)
    missed = [f"{what} of {', '.join(dict.fromkeys(owners))}" for what, owners in missing.items()]
    missed += _simplified(model, theta, kinds)
    sentences = [f"{what}: not written, {form} has no place for it here." for what in missed]
    lines = _lines(model, theta, found, values)
    for one in lines:
        if (one.damping, one.friction) != _plain(values[one.joint]):
            values[one.joint] |= {DAMPING: one.damping, FRICTION: one.friction}
    sentences += _lost(model, found, lines)
    if apart := [payload.name for payload in model.payloads if payload.name != load]:
        names = ", ".join(apart)
        sentences.append(f"The payload {names} is not part of the robot; --load adds a payload to its link.")
    return JointDrives(values, stiffness, tuple(sentences), lines)


def _plain(own: Mapping[str, float]) -> tuple[float, float]:
    return own.get(DAMPING, 0.0), own.get(FRICTION, 0.0)


def _lines(
    model: Model, theta: Array, found: Curves, values: Mapping[str, Mapping[str, float]]
) -> tuple[FrictionLine, ...]:
    """The joints whose friction curve is not a line, each with the nearest line."""
    out = []
    for j, joint in enumerate(model.robot.joints):
        if joint.name not in values:
            continue
        levels = [
            float(theta[model.layout.index(name)])
            for name in (f"{joint.name}.Fcp", f"{joint.name}.Fcn")
            if name in model.layout.names
        ]
        uneven = 0.5 * (levels[0] - levels[1]) if len(levels) == 2 else 0.0
        unit = linear_unit(UNITS[FRICTION]) if joint.is_prismatic else UNITS[FRICTION]
        out.append(line(joint.name, unit, found.speeds[j], found.rows[j], _plain(values[joint.name]), uneven))
    return tuple(one for one in out if one is not None)


def _lost(model: Model, found: Curves, lines: Sequence[FrictionLine]) -> list[str]:
    """What the lines lose, joint by joint, and how they were found."""
    if not lines:
        return []
    how = ["each joint moving alone"]
    symbols = list(dict.fromkeys(c.symbol for c in model.layout.columns if c.name in found.columns))
    if LOAD in model.uses:
        how.append("load friction at the mean load of random postures at rest")
    if PAST in model.uses:
        how.append("pre-sliding as steady sliding")
    what = f" ({', '.join(symbols)})" if symbols else ""
    first = f"Friction beyond Fv and Fc{what}: the line nearest to the whole curve is written, {', '.join(how)}."
    return [first, *(f"Friction of {one}." for one in lines if one.lost > ROUNDING * one.rms)]


def _called(column: Column) -> str:
    return _NAMES.get(column.symbol, f"The {'spring' if column.kind == 'spring' else 'term'} parameter {column.symbol}")


def _simplified(model: Model, theta: Array, kinds: tuple[str, ...]) -> list[str]:
    """Parts of the identified model that are written in a simplified form."""
    out = []
    layout, terms = model.layout, [getattr(term, "term", term) for term in model.terms]
    uneven = [
        column.owner
        for column, value in zip(layout.columns, theta.tolist(), strict=True)
        if column.symbol == "Fcp" and value != theta[layout.index(f"{column.owner}.Fcn")]
    ]
    if uneven and FRICTION in kinds:
        out.append(f"The difference Fcp − Fcn of {', '.join(uneven)} (their mean is written)")
    if FRICTION in kinds and any(isinstance(term, Coulomb | AsymmetricCoulomb) and term.width for term in terms):
        out.append("The width over which Coulomb friction changes its sign")
    if ARMATURE in kinds and any(isinstance(term, Coupling) for term in terms):
        out.append("The cross inertia of rotors that turn with several joints")
    return out


def new_values(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """The attributes whose values change."""
    return {key: value for key, value in after.items() if before.get(key) != value}
