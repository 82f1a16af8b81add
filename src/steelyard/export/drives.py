"""Rotor inertia and friction of the joints as robot files hold them, and what of a model they cannot hold.

URDF knows damping and friction of a joint, MuJoCo armature too: τ = armature q̈ + damping q̇ + friction sign(q̇). Of
asymmetric friction the even part fits, (Fcp + Fcn)/2. All else is told by name, never dropped in silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from steelyard.consistency import negative_drive
from steelyard.errors import ModelError
from steelyard.model import Model
from steelyard.parameters import Array, Column
from steelyard.robot import Drive
from steelyard.terms import AsymmetricCoulomb, Coulomb, Coupling

ARMATURE, DAMPING, FRICTION = "armature", "damping", "friction"
UNITS: Mapping[str, str] = {ARMATURE: "kg.m2", DAMPING: "N.m.s", FRICTION: "N.m"}
# Symbol of a column → where it goes, and which part of it.
_GOES: Mapping[str, tuple[str, float]] = {
    "Ia": (ARMATURE, 1.0),
    "Fv": (DAMPING, 1.0),
    "Fc": (FRICTION, 1.0),
    "Fcp": (FRICTION, 0.5),
    "Fcn": (FRICTION, 0.5),
}
_NAMES: Mapping[str, str] = {"Ia": "The rotor inertia Ia", "off": "The offset"}


@dataclass(frozen=True)
class Drives:
    """joint → {armature, damping, friction}, of these what was identified, and sentences on what does not fit.

    `springs` has the stiffness of springs that the file knows, by the names of their columns.
    """

    values: Mapping[str, Mapping[str, float]]
    springs: Mapping[str, float]
    left_out: tuple[str, ...]

    def drive(self, joint: str, before: Drive) -> Drive:
        """The drive of a joint in the file to be written: friction that was not identified stays as it was."""
        own = self.values.get(joint, {})
        return Drive(own.get(ARMATURE), own.get(DAMPING, before.viscous), own.get(FRICTION, before.coulomb))


def drives(model: Model, theta: Array, kinds: tuple[str, ...], form: str, springs: Collection[str] = ()) -> Drives:
    """The values of theta (C,) that a file of `form` holds, of `kinds` armature, damping and friction, and `springs`.

    A format that knows armatures gets one for every joint, zero where the model has no rotors: the inertia that the
    file gave them is then part of the identified links.
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
    for column, value in zip(model.layout.columns, theta.tolist(), strict=True):
        kind, part = _GOES.get(column.symbol, ("", 0.0))
        if column.kind == "term" and column.owner in values and kind in kinds:
            values[column.owner][kind] = values[column.owner].get(kind, 0.0) + part * value
        elif column.name in springs:
            stiffness[column.name] = value
        elif column.kind not in ("link", "payload") and value:
            missing[_called(column)].append(column.owner)
    told = [f"{what} of {', '.join(dict.fromkeys(owners))}" for what, owners in missing.items()]
    told += _simplified(model, theta, kinds)
    sentences = [f"{what}: not written, {form} has no place for it here." for what in told]
    if model.payloads:
        names = ", ".join(payload.name for payload in model.payloads)
        sentences.append(f"The payload {names}: no part of the robot. One that --load names is part of its link.")
    return Drives(values, stiffness, tuple(sentences))


def _called(column: Column) -> str:
    return _NAMES.get(column.symbol, f"The {'spring' if column.kind == 'spring' else 'term'} parameter {column.symbol}")


def _simplified(model: Model, theta: Array, kinds: tuple[str, ...]) -> list[str]:
    """What is written, but not all of what was identified."""
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
    """The attributes that change."""
    return {key: value for key, value in after.items() if before.get(key) != value}
