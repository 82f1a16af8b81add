"""FileValues: the standard set that a robot file gets, how it was chosen, and the errors of the file with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from steelyard._arrays import Array
from steelyard.errors import EstimationError, SteelyardError
from steelyard.export.file_fit.bodies import unlike_file
from steelyard.export.file_fit.fit import FileFit, base_moves, fit_for_file
from steelyard.export.file_fit.rows import NO_FRICTION, LoggedRows, file_model, moved_to
from steelyard.export.file_fit.worth import FileWorth, worth_of
from steelyard.export.parameter_set import IdentifiedModel, identified_model
from steelyard.export.robot_files.drives import ARMATURE, DAMPING, FRICTION, drives
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.physical.certificates import unphysical
from steelyard.physical.constraints import PHYSICAL, Constraints

# Reads the logs of a result again.
ReadRows = Callable[[], LoggedRows]
_SYMBOLS: Mapping[str, str] = {ARMATURE: "Ia", DAMPING: "Fv", FRICTION: "Fc"}
# Base values named in the note on what differs.
NAMED = 4


class FileFormat(NamedTuple):
    """The name of a format of robot files and the terms that it can hold."""

    name: str
    holds: tuple[str, ...]


@dataclass(frozen=True)
class FileValues:
    """The set to write, the fit it comes from (None: the identified values), the scores (None: not known), and what to
    report: `left_out` and `notes` are sentences, `moves` the identified base values that it changes by more than 3 σ.
    """

    chosen: IdentifiedModel
    fit: FileFit | None = None
    worth: FileWorth | None = None
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    moves: tuple[tuple[str, float, float], ...] = ()


def file_values(
    form: FileFormat,
    model: Model,
    result: Identification,
    rows: ReadRows | None = None,
    load: str = UNLOADED,
    exact: bool = False,
    constraints: Constraints = PHYSICAL,
) -> FileValues:
    """The identified set where the format holds all of it and its bodies are like the file's; else a fit to the rows.

    `exact` keeps the identified values in any case. Without rows these are written too, and a note says so.
    """
    logged = _logged(rows)
    fit, why = _fit(form, model, result, logged, exact, constraints)
    held = file_model(model, form.holds)
    if fit is not None:
        chosen = IdentifiedModel(fit.model, fit.theta, fit.rule, load, result.estimator)
        theta, left_out = fit.theta, _left_out(form, model)
    else:
        chosen, left_out = identified_model(model, result, load), ()
        theta = _truncated(form, chosen, held)
    notes = unlike_file(held.layout, theta)
    if why:
        unknown = "; the errors of the file are not known" if isinstance(logged, str) else ""
        notes = (
            f"The file holds the identified values without what {form.name} lacks, because {why}{unknown}.",
            *notes,
        )
    worth = None if isinstance(logged, str) else worth_of(logged, result, theta, held.layout, held.layout.nominal)
    notes = (*(() if worth is None else worth.doubts), *notes)
    wide = moved_to(result.base.layout, theta, held.layout)
    moves = () if fit is None else base_moves(result.base, result.value, result.std, wide)
    if moves:
        some = ", ".join(f"{name} {value:.3g} → {written:.3g}" for name, value, written in moves[:NAMED])
        more = ", …" if len(moves) > NAMED else ""
        notes = (
            *notes,
            f"Base parameters that differ from the identified by more than 3 σ: {len(moves)} ({some}{more}).",
        )
    return FileValues(chosen, fit, worth, left_out, notes, moves)


def _logged(rows: ReadRows | None) -> LoggedRows | str:
    """The rows of the result, or why they cannot be read."""
    if rows is None:
        return "its logs were not given"
    try:
        return rows()
    except (SteelyardError, OSError) as error:
        return f"its logs cannot be read again ({str(error).rstrip('.')})"


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
        return None, f"no physical bodies could be fitted ({str(error).rstrip('.')})"


def _truncated(form: FileFormat, chosen: IdentifiedModel, held: Model) -> Array:
    """The values (C,) of the held model that a file gets from the identified ones."""
    theta = moved_to(held.layout, chosen.theta, chosen.model.layout)
    kinds = tuple(kind for kind, symbol in _SYMBOLS.items() if any(c.symbol == symbol for c in held.layout.columns))
    values = drives(chosen.model, chosen.theta, kinds, form.name, held.layout.names, chosen.load).values
    for joint, own in values.items():
        for kind, value in own.items():
            if (name := f"{joint}.{_SYMBOLS[kind]}") in held.layout:
                theta[held.layout.index(name)] = value
    return theta


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
