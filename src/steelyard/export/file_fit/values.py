"""FileValues: the standard set that a robot file gets, and how it was chosen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from steelyard.errors import EstimationError
from steelyard.export.file_fit.bodies import unlike_file
from steelyard.export.file_fit.fit import FileFit, base_moves, fit_for_file
from steelyard.export.file_fit.rows import (
    NO_FRICTION,
    LoggedRows,
    ReadRows,
    clause,
    file_model,
    moved_to,
    rows_or_fault,
)
from steelyard.export.parameter_set import IdentifiedModel, identified_model
from steelyard.export.robot_files.matching import restated
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot
from steelyard.physical.certificates import unphysical
from steelyard.physical.constraints import PHYSICAL, Constraints

# Base values named in the note on what differs.
NAMED = 4


class FileFormat(NamedTuple):
    """A format of robot files: its name, the terms that it can hold, how the content of one that is at a path is read,
    and whether its files state gravity."""

    name: str
    holds: tuple[str, ...]
    read: Callable[[bytes, Path], Robot]
    has_gravity: bool = False


@dataclass(frozen=True)
class FileValues:
    """The set to write and the fit it comes from (None: the identified values, and `reason` says why where the format
    cannot hold them all).

    `filed` is the model with the values of the robot file before; `logged` are the rows of the result, or why they are
    not known. `left_out` are sentences, `moves` the identified base values that a fit changes by more than 3 σ.
    """

    chosen: IdentifiedModel
    filed: Model
    logged: LoggedRows | str
    fit: FileFit | None = None
    reason: str = ""
    left_out: tuple[str, ...] = ()
    moves: tuple[tuple[str, float, float], ...] = ()

    @property
    def moved(self) -> tuple[str, ...]:
        """The base values that differ, as a sentence."""
        if not self.moves:
            return ()
        some = ", ".join(f"{name} {value:.3g} → {written:.3g}" for name, value, written in self.moves[:NAMED])
        more = ", …" if len(self.moves) > NAMED else ""
        return (f"Base parameters that differ from the identified by more than 3 σ: {len(self.moves)} ({some}{more}).",)


def file_values(
    form: FileFormat,
    model: Model,
    result: Identification,
    rows: ReadRows | None = None,
    load: str = UNLOADED,
    exact: bool = False,
    constraints: Constraints = PHYSICAL,
    before: Robot | None = None,
) -> FileValues:
    """The identified set where the format holds all of it and its bodies are like the file's; else a fit to the rows.

    `before` is the robot of the file that is edited (default: that of the result): the bodies to be pulled to.
    `exact` keeps the identified values in any case. Without rows these are written too, and the reason says so.
    """
    logged = rows_or_fault(rows)
    filed = model if before is None else replace(model, robot=restated(model.robot, before))
    fit, why = _fit(form, filed, result, logged, exact, constraints)
    if fit is None:
        reason = f"The file holds the identified values as far as {form.name} can, because {why}." if why else ""
        return FileValues(identified_model(model, result, load), filed, logged, reason=reason)
    chosen = IdentifiedModel(fit.model, fit.theta, fit.rule, load, result.estimator_chosen)
    wide = moved_to(result.base.layout, fit.theta, fit.model.layout)
    moves = base_moves(result.base, result.value, result.std, wide)
    return FileValues(chosen, filed, logged, fit, left_out=_left_out(form, filed), moves=moves)


def _fit(
    form: FileFormat,
    model: Model,
    result: Identification,
    logged: LoggedRows | str,
    exact: bool,
    constraints: Constraints,
) -> tuple[FileFit | None, str]:
    """The fit over what the format can hold, or None, with the reason where it is needed and cannot be made."""
    own = result.standard
    reference = None if own is None or unphysical(model.layout, own) else own
    held = file_model(model, form.holds).layout
    whole = all(column.name in held for column in model.layout.columns)
    # friction that the robot file states and the model lacks would stay in an edited file
    whole &= not any(column.nominal for column in held.columns if column.name not in model.layout)
    if whole and reference is not None and not unlike_file(model.layout, reference):
        return None, ""
    if exact:
        return None, "--exact keeps them"
    if isinstance(logged, str):
        return None, logged
    try:
        return fit_for_file(logged, model, form.holds, reference, constraints), ""
    except EstimationError as error:
        return None, f"no physical bodies could be fitted ({clause(error)})"


def _left_out(form: FileFormat, model: Model) -> tuple[str, ...]:
    """Identified effects that the format has no place for, and the friction that its line stands for."""
    held = file_model(model, form.holds).layout
    missing: dict[str, list[str]] = defaultdict(list)
    curved: list[str] = []
    effects = {entry.column.name: filling.term.name for filling in model.fillings for entry in filling.entries}
    for column in model.layout.columns:
        if column.name in held:
            continue
        if (effect := effects.get(column.name, "")) in NO_FRICTION:
            missing[effect].append(column.owner)
        else:
            curved.append(column.symbol)
    said = [
        f"{effect} of {', '.join(dict.fromkeys(owners))}: {form.name} has no place for it here; all other values were "
        "fitted without it."
        for effect, owners in missing.items()
    ]
    if curved:
        symbols = ", ".join(dict.fromkeys(curved))
        said.append(
            f"Friction beyond damping and friction ({symbols}): the line that fits the logged motion is written."
        )
    return tuple(said)
