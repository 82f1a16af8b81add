"""MATLAB files up to version 7.2, through SciPy; version 7.3 is HDF5. Which arrays are channels: see `arrays`.

The file is split into its variables, and each is read separately: memory holds only the requested variables, and damage
to one does not affect the others. Objects (`timeseries`, `table`, `datetime`) cannot be read; save `struct("Time",
ts.Time, "Data", ts.Data)` instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io.matlab import MatlabFunction, MatlabOpaque, loadmat

from steelyard.errors import DataError
from steelyard.formats.logs.array_columns import Arrangement, arrange, joined
from steelyard.formats.logs.mat_variables import BrokenVariableError, Variable, unpacked, variables
from steelyard.signals.recording import Chunk, LogFile, Recording


def read_mat(path: Path, salvage: bool = False) -> Recording:
    """The recording in a MATLAB file of version 4 to 7.2. Salvaging leaves out the variables that are damaged."""
    file = LogFile.at(path)
    found, damage = variables(path, file.size)
    homes: dict[str, Variable] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    others: list[str] = []
    for variable in found:
        try:
            content = _load(path, variable)
        except BrokenVariableError as error:
            damage.append(f"the variable at byte {variable.start} cannot be decoded ({error})")
            continue
        for name, value in _leaves("", content):
            if isinstance(value, str):
                others.append(f"{name} ({value})")
            else:
                homes[name], shapes[name] = variable, value.shape
    if damage and not shapes:
        raise DataError(f"'{path.name}' is damaged: {'; '.join(damage)}. Nothing of it can be read: copy it again.")
    arrangement = arrange(path, shapes, others)
    problem = f"'{path.name}' is damaged: {'; '.join(damage)}."
    intact = f"{', '.join(shapes)} ({arrangement.rows} rows)"
    if damage and not salvage:
        raise DataError(
            f"{problem} Intact: {intact}. Copy it again, or set salvage = true in the [[run]] to use only what is "
            "intact."
        )
    return Recording(
        path.name,
        tuple(arrangement.channels),
        str(path),
        arrangement.rows,
        _MatRows(file, arrangement, homes),
        notes=(f"{problem} Only what is intact was read: {intact}.",) if damage else (),
        others=arrangement.others,
    )


@dataclass(frozen=True)
class _MatRows:
    file: LogFile
    arrangement: Arrangement
    homes: Mapping[str, Variable]

    def digest(self) -> str:
        return self.file.digest()

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        self.file.check_unchanged()
        asked = {self.arrangement.channels[name].array for name in columns}
        arrays: dict[str, NDArray[Any]] = {}
        for variable in dict.fromkeys(self.homes[name] for name in asked):
            leaves = dict(_leaves("", _load(self.file.path, variable)))
            arrays |= {name: array for name, array in leaves.items() if name in asked and not isinstance(array, str)}

        def read(name: str, side: int, rows: slice) -> NDArray[Any]:
            array = np.atleast_1d(arrays[name])
            return array[(slice(None),) * side + (rows,)]

        yield from self.arrangement.blocks(columns, read)


def _load(path: Path, variable: Variable) -> dict[str, Any]:
    """A variable by its name, read from a file that holds only this variable."""
    alone = BytesIO(unpacked(path, variable))
    try:
        found = loadmat(alone)
    except MemoryError:
        raise
    except Exception as error:  # SciPy may raise any exception on a damaged file
        raise BrokenVariableError(" ".join(str(error).split())[:120] or type(error).__name__) from None
    return {name: value for name, value in found.items() if not name.startswith("__")}


def _leaves(name: str, value: Any) -> Iterator[tuple[str, NDArray[Any] | str]]:
    """Arrays of numbers under their full names; for anything else its kind."""
    if isinstance(value, dict):
        for field, content in value.items():
            yield from _leaves(field, content)
    elif isinstance(value, (MatlabFunction, MatlabOpaque)):
        yield name, "a MATLAB object"
    elif not isinstance(value, np.ndarray):
        yield name, "empty" if value is None else "a sparse matrix"
    elif value.dtype.names:
        # MATLAB uses column-major order
        for k, element in enumerate(value.ravel("F")):
            parent = name if value.size == 1 else f"{name}[{k}]"
            for field in value.dtype.names:
                yield from _leaves(joined(parent, field, value.dtype.names), element[field])
    elif value.dtype == object:
        for k, element in enumerate(value.ravel("F")):
            yield from _leaves(f"{name}[{k}]", element)
    elif value.dtype.kind in "fiub":
        yield name, value
    else:
        yield name, "complex numbers" if value.dtype.kind == "c" else "text"
