"""ExportTarget: a format that an identified model can be written in, and the request that it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.errors import OutputError, choices
from steelyard.export.export import Export
from steelyard.export.file_fit.judged import judged_file
from steelyard.export.file_fit.rows import ReadRows, bare_load, moved_to, rows_or_fault
from steelyard.export.file_fit.values import FileFormat, FileValues, file_values
from steelyard.export.file_fit.worth import (
    FILE,
    IDENTIFIED,
    ORIGINAL,
    FileWorth,
    unscored_load,
    worth_of,
    worth_of_result,
)
from steelyard.export.parameter_set import SAME_TORQUE, IdentifiedModel, identified_model
from steelyard.export.robot_files.matching import as_held
from steelyard.export.robot_files.xml_edit import commented, source_bytes
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot
from steelyard.model.terms import TIME, uses
from steelyard.physical.constraints import PHYSICAL, Constraints


@dataclass(frozen=True)
class ExportRequest:
    """What to export: a result with its model, and the options of the target.

    `load` is the load case: a payload of the project, made part of the link that carries it. `source` is the robot file
    to edit (None: make a new one), `name` the name of files and functions (None: the robot's). `regroupings` adds the
    sums that base parameters stand for. `allow_infeasible` takes the values as identified, physical or not. `exact`
    writes the identified values into a robot file that cannot hold all of them, without a new fit.

    `rows` reads the logs of the result again if they are needed; `constraints` are those of its estimator. `form` is
    set for targets that write robot files.
    """

    model: Model
    result: Identification
    load: str = UNLOADED
    source: Path | None = None
    name: str | None = None
    regroupings: bool = False
    allow_infeasible: bool = False
    exact: bool = False
    rows: ReadRows | None = None
    constraints: Constraints = PHYSICAL
    form: FileFormat | None = None

    @cached_property
    def identified(self) -> IdentifiedModel:
        """The full standard parameter set, physical unless `allow_infeasible`; computed when first used.

        Its remarks are the scores of a file that holds all of it.
        """
        worth = self.worth_of_code
        return replace(self._chosen, remarks=(worth,) if isinstance(worth, str) else worth.sentences)

    @cached_property
    def _chosen(self) -> IdentifiedModel:
        return identified_model(self.model, self.result, self.load, self.allow_infeasible)

    @cached_property
    def file_values(self) -> FileValues:
        """The values of a robot file: fitted over what the format can hold, or the identified ones."""
        assert self.form is not None
        before = None if self.source is None else _read(self.form, self.source, self.model.robot)
        return file_values(
            self.form, self.model, self.result, self.rows, self.load, self.exact, self.constraints, before
        )  # fmt: skip

    @property
    def written(self) -> IdentifiedModel:
        """The set that the files hold."""
        return self.identified if self.form is None else self.file_values.chosen

    @cached_property
    def worth_of_code(self) -> FileWorth | str:
        """The scores of files that hold the whole model, or a sentence on why there are none: those of the result where
        all of its runs carry the load of the files, else over its logs."""
        chosen, carried = self._chosen, {bare_load(run.load, self.model.loads) for run in self.result.runs}
        if chosen.torque_change <= SAME_TORQUE and TIME not in self.model.uses and carried == {self.load}:
            return worth_of_result(self.result, self.load)
        if self.load not in carried:
            return unscored_load(self.load, self.model.loads)
        rows = rows_or_fault(self.rows)
        if isinstance(rows, str):
            return f"The errors of this file are not known: {rows}."
        theta = chosen.theta.copy()  # code is the robot at the start of a run
        for filling in chosen.model.fillings:
            if TIME in uses(filling.term):
                theta[[chosen.model.layout.index(entry.column.name) for entry in filling.entries]] = 0.0
        layout, own = chosen.model.layout, self.result.base.layout
        values = {FILE: (theta, layout), IDENTIFIED: (np.nan_to_num(self.result.theta), own)}
        if layout.nominal is not None:
            values[ORIGINAL] = layout.nominal, layout
        return worth_of(rows, {key: moved_to(rows.layout, *one) for key, one in values.items()}, self.load)


def _read(form: FileFormat, source: Path, robot: Robot) -> Robot:
    """The robot of the file to edit, with those joints held that were held in the identification."""
    return as_held(form.read(source_bytes(source), source), robot)


# The options that a target may take.
_GIVEN = ("model", "result", "rows", "constraints", "form")
OPTIONS = tuple(field.name for field in fields(ExportRequest) if field.name not in _GIVEN)


@dataclass(frozen=True)
class ExportTarget:
    """A format: how it is called, which options it takes, and the function that makes its files.

    `make` turns a request into an `Export`; it writes nothing to disk. `ending` is the suffix of the one file that it
    makes (".urdf"); a target without an ending makes a folder of files. `options` are those of `OPTIONS` that it takes.
    `root` is the root tag of the robot files that it can edit ("robot" for URDF): with it, the result's own robot file
    is the default `source`. `standard` says that the files hold the standard parameters of `request.written`, whose
    certificate is then reported; a target that writes base parameters sets it to False. `form` is the format of a robot
    file with the terms that it can hold: `request.file_values` are then fitted over these, and their scores are written
    into the file as a comment. Without it the files hold the whole identified model.
    """

    name: str
    make: Callable[[ExportRequest], Export]
    ending: str = ""
    options: frozenset[str] = frozenset({"load"})
    root: str = ""
    standard: bool = True
    form: FileFormat | None = None

    def request(
        self,
        model: Model,
        result: Identification,
        rows: ReadRows | None = None,
        constraints: Constraints = PHYSICAL,
        **options: Any,
    ) -> ExportRequest:
        """The request with these options; one that the target does not take is refused."""
        for option in options:
            if option not in OPTIONS:
                raise OutputError(f"Export target '{self.name}': " + choices("option", option, OPTIONS))
            if option not in self.options:
                taken = ", ".join(one for one in OPTIONS if one in self.options)
                raise OutputError(
                    f"Export target '{self.name}' does not take the option '{option}': leave it out. "
                    f"It takes: {taken or 'no options'}."
                )
        return ExportRequest(model, result, rows=rows, constraints=constraints, form=self.form, **options)

    def export(self, request: ExportRequest) -> Export:
        """The files of a request, checked: one file, or at least one for a folder, each with a plain name."""
        made = self.make(request)
        if not isinstance(made, Export):
            raise OutputError(f"Export target '{self.name}': `make` returned {type(made).__name__}, not an Export.")
        if self.ending and len(made.files) != 1:
            raise OutputError(
                f"Export target '{self.name}' made {len(made.files)} files; a target with an ending makes one. "
                "Leave out `ending` to make a folder."
            )
        if not made.files:
            raise OutputError(f"Export target '{self.name}' made no files.")
        for name, content in made.files.items():
            self._check_file(name, content)
        return self._with_worth(made, request) if self.standard else made

    def _with_worth(self, made: Export, request: ExportRequest) -> Export:
        """The export with its scores, in robot files also as a comment."""
        if self.form is None:
            worth = request.worth_of_code
            if isinstance(worth, str):
                return replace(made, unscored=worth)
            return replace(made, worth=worth, notes=(*made.notes, *worth.faults))
        values, ((name, content),) = request.file_values, made.files.items()
        judged = judged_file(values, self.form, request.result, content, request.source or Path(name))
        worth, left_out = judged.worth, (*values.left_out, *made.left_out)
        reason = (values.reason,) if values.reason else ()
        scores = (worth,) if isinstance(worth, str) else worth.sentences
        lacks = (f"Left out: {' '.join(left_out)}",) if left_out else ()
        comment = (*scores, f"Parameters: {values.chosen.rule}.", *reason, *lacks)
        return replace(
            made,
            files={name: commented(content, comment)},
            left_out=left_out,
            notes=(*reason, *judged.notes, *made.notes),
            worth=None if isinstance(worth, str) else worth,
            unscored=worth if isinstance(worth, str) else "",
        )

    def _check_file(self, name: Any, content: Any) -> None:
        """Raises an error unless a file has a plain name, which cannot lead out of the folder, and bytes."""
        if not isinstance(name, str):
            raise TypeError(f"the file name {name!r} is not a text")
        if name in ("", ".", "..") or any(one in "/\\" or not one.isprintable() for one in name):
            raise OutputError(
                f"Export target '{self.name}' made a file called {name!r}, which is not a plain file name: nothing was "
                "written. Names must not contain folders."
            )
        if not isinstance(content, bytes):
            raise TypeError(f"the content of '{name}' is {type(content).__name__}, not bytes")
