"""Parts: an identified model as named constants and laws, from which its equations are written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError, choices
from steelyard.export.code.expressions import ZERO, Expression, named, number
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot
from steelyard.model.springs import Anchor, ConstantForceSpring, CrankSpring, JointSpring
from steelyard.model.terms import TIME, AppliedLaw, Entry, Springs, Term, uses
from steelyard.model.terms.compensator import gas_law
from steelyard.model.terms.term import laws_of


class Constant(NamedTuple):
    """A number of the model and its name in the code."""

    name: str
    value: float
    about: str


class SpringPull(NamedTuple):
    """Torque of a spring between two points at a joint: stretch · L ∂L/∂q + slope · ∂L/∂q."""

    ends: tuple[Anchor, Anchor]
    row: int
    stretch: float
    slope: float


class Remembered(NamedTuple):
    """Dahl's state of one joint: its index among the states, and its length [rad | m]."""

    state: int
    joint: int
    length: float


class Effect(NamedTuple):
    """τ[row] += weight · value."""

    row: int
    weight: Expression
    value: AppliedLaw | SpringPull | Remembered


@dataclass(frozen=True)
class Parts:
    """A tree of links with ten constants each, and the effects of its terms.

    `carried` are the links whose load causes load friction, `held` the springs and cylinders that carry part of that
    load; None and empty if no friction depends on the load. `left_out` lists what is not in the equations.
    """

    robot: Robot
    links: tuple[tuple[Expression, ...], ...]
    effects: tuple[Effect, ...]
    carried: tuple[tuple[Expression, ...], ...] | None
    held: tuple[Effect, ...]
    constants: tuple[Constant, ...]
    left_out: tuple[str, ...]

    @property
    def memory(self) -> tuple[Remembered, ...]:
        """Dahl's states, in order."""
        return tuple(effect.value for effect in self.effects if isinstance(effect.value, Remembered))


def parts(model: Model, theta: Array, load: str = UNLOADED) -> Parts:
    """The parts of a model with standard parameters theta (C,) [SI], with the payload of a load case on its link."""
    if model.robot.loops:
        raise ModelError(
            f"'{model.robot.name}' has loops, which code cannot close without iterating: C and Python are written for "
            "open robots and trees. Use Model.torque from Python, or --to mjcf."
        )
    if load not in (UNLOADED, *model.loads):
        raise ModelError(choices("load", load, (UNLOADED, *model.loads)))
    if theta.shape != (len(model.layout),) or not np.all(np.isfinite(theta)):
        raise ModelError(f"theta must hold {len(model.layout)} finite standard parameters.")
    own = model.bearing(theta, load)
    table = _Constants()
    links = table.links(model, model.link_inertias(own), "{symbol}_{k}", "")
    names = _Names(model)
    effects: list[Effect] = []
    left_out: list[str] = []
    for term, places in _places(model):
        if places is None:
            left_out.append(_lost(term))
            continue
        for entry, value in places:
            x = float(own[model.layout.index(entry.column.name)])
            weight = table.add(names[entry.column.owner, entry.column.symbol], x, entry.column.name, entry.column.unit)
            if x == 0.0:
                continue
            if isinstance(value, AppliedLaw):
                weight = weight * number(value.share)
                if value.law.steady is not None:
                    joint = int(np.argmax(value.along))
                    value = Remembered(sum(isinstance(e.value, Remembered) for e in effects), joint, value.shape[0])
            effects.append(Effect(entry.row, weight, value))
    rubs = any(isinstance(e.value, AppliedLaw) and e.value.law.loaded for e in effects)
    if rubs and not model.knows_load:
        raise ModelError(
            f"Load friction needs the inertias that the gears of '{model.robot.name}' carry, and its file gives none. "
            "Give them as Model(carried=…)."
        )
    carried = table.links(model, model.load_links(load), "carried_{symbol}_{k}", "carried ") if rubs else None
    held = tuple(_held(model.robot)) if rubs else ()
    return Parts(model.robot, links, tuple(effects), carried, held, tuple(table.constants), tuple(left_out))


def _lost(term: Term) -> str:
    if TIME in uses(term):
        return f"term '{term.name}': it depends on the time; the code is the robot at the start of a run."
    return f"term '{term.name}': it has no law that could be written as code."


class _Constants:
    """The constants so far; zeros are not named."""

    def __init__(self) -> None:
        self.constants: list[Constant] = []

    def add(self, name: str, value: float, about: str, unit: str) -> Expression:
        if value == 0.0:
            return ZERO
        if all(one.name != name for one in self.constants):  # several terms may share a column
            self.constants.append(Constant(name, value, f"{about} [{unit}]"))
        return named(name)

    def links(self, model: Model, inertias: Array, name: str, what: str) -> tuple[tuple[Expression, ...], ...]:
        units = ("kg.m2",) * 6 + ("kg.m",) * 3 + ("kg",)
        return tuple(
            tuple(
                self.add(name.format(symbol=symbol, k=k + 1), float(x), f"{what}{link.name}.{symbol}", unit)
                for symbol, x, unit in zip(INERTIAL, row, units, strict=True)
            )
            for k, (link, row) in enumerate(zip(model.robot.links, inertias, strict=True))
        )


class _Names(dict[tuple[str, str], str]):
    """(owner, symbol) of a term's column → its name in the code: Fv_3 of joint 3, Kr_balancer of a spring."""

    def __init__(self, model: Model) -> None:
        numbers = {name: str(k + 1) for k, name in enumerate(model.robot.joint_names)}
        for column in model.layout.columns[: model.own_columns]:
            if column.kind == "link":
                continue
            owner = numbers.get(column.owner) or identifier(column.owner, "spring")
            name = f"{identifier(column.symbol, 'x')}_{owner}"
            while name in self.values():  # the names of two springs differ only in characters that are left out
                name += "_"
            self[column.owner, column.symbol] = name


def identifier(text: str, otherwise: str) -> str:
    """A name that C, Python and file systems accept, from any text."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return f"{otherwise}_{plain}" if plain[:1].isdigit() else plain or otherwise


# --- Places of the terms ----------------------------------------------------------------------------------------------

Places = Sequence[tuple[Entry, AppliedLaw | SpringPull]]


def _places(model: Model) -> Iterator[tuple[Term, Places | None]]:
    """Every term with its places and their values; None for one that cannot be written as code."""
    for filling in model.fillings:
        if isinstance(filling.term, Springs):
            yield filling.term, _spring_places(model.robot)
            continue
        found = laws_of(filling.term, model.robot)
        if found is None:
            yield filling.term, None
            continue
        kept = range(len(found)) if filling.kept is None else filling.kept
        yield filling.term, tuple(zip(filling.entries, (found[k] for k in kept), strict=True))


def _spring_places(robot: Robot) -> Places:
    """Springs one by one: those on a joint or a crank have laws, those between two points pull."""
    out: list[tuple[Entry, AppliedLaw | SpringPull]] = []
    for spring in robot.springs:
        alone, term = replace(robot, springs=(spring,)), Springs()
        entries = term.entries(alone)
        if isinstance(spring, JointSpring | CrankSpring):
            out += zip(entries, term.laws(alone) or (), strict=True)
            continue
        free = 0.0 if isinstance(spring, ConstantForceSpring) or spring.free is None else spring.free
        for entry in entries:
            shares = (1.0, -free) if entry.column.symbol == "Kr" else (0.0, 1.0)
            out.append((entry, SpringPull(spring.ends, entry.row, *shares)))
    return out


def _held(robot: Robot) -> Iterator[Effect]:
    """Elements that carry part of the load in addition to the gears: the gas cylinder, and springs at their nominal
    values."""
    if robot.compensator is not None:
        yield Effect(robot.joint_index(robot.compensator.joint), number(1.0), gas_law(robot, robot.compensator))
    for entry, value in _spring_places(robot):
        if entry.column.nominal:
            share = value.share if isinstance(value, AppliedLaw) else 1.0
            yield Effect(entry.row, number(share * entry.column.nominal), value)
