"""ExportTarget: a format that an identified model can be written in, and the request that it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from steelyard.errors import OutputError, choices
from steelyard.export.export import Export
from steelyard.export.parameter_set import IdentifiedModel, identified_model
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED


@dataclass(frozen=True)
class ExportRequest:
    """What to export: a result with its model, and the options of the target.

    `load` is the load case: a payload of the project, made part of the link that carries it. `source` is the robot file
    to edit (None: make a new one), `name` the name of files and functions (None: the robot's). `regroupings` adds the
    sums that base parameters stand for. `allow_infeasible` takes the values as identified, physical or not.
    """

    model: Model
    result: Identification
    load: str = UNLOADED
    source: Path | None = None
    name: str | None = None
    regroupings: bool = False
    allow_infeasible: bool = False

    @cached_property
    def identified(self) -> IdentifiedModel:
        """The full standard parameter set, physical unless `allow_infeasible`; computed when first used."""
        return identified_model(self.model, self.result, self.load, self.allow_infeasible)


# The options that a target may take.
OPTIONS = tuple(field.name for field in fields(ExportRequest) if field.name not in ("model", "result"))


@dataclass(frozen=True)
class ExportTarget:
    """A format: how it is called, which options it takes, and the function that makes its files.

    `make` turns a request into an `Export`; it writes nothing to disk. `ending` is the suffix of the one file that it
    makes (".urdf"); a target without an ending makes a folder of files. `options` are those of `OPTIONS` that it takes.
    `root` is the root tag of the robot files that it can edit ("robot" for URDF): with it, the result's own robot file
    is the default `source`. `standard` says that the files hold the standard parameters of `request.identified`, whose
    certificate is then reported; a target that writes base parameters sets it to False.
    """

    name: str
    make: Callable[[ExportRequest], Export]
    ending: str = ""
    options: frozenset[str] = frozenset({"load"})
    root: str = ""
    standard: bool = True

    def request(self, model: Model, result: Identification, **options: Any) -> ExportRequest:
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
        return ExportRequest(model, result, **options)

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
        return made

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
