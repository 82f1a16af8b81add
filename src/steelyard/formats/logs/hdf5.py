"""HDF5 logs and MATLAB files of version 7.3, through h5py, in windows of rows. Which arrays are channels: see `arrays`.

MATLAB writes its arrays transposed: they are transposed back, so that a 7.3 file reads as an older one of the same
data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import DataError, MissingExtraError
from steelyard.formats.damage import DamagedError, intact_rows, salvaged
from steelyard.formats.logs.array_columns import Arrangement, arrange, joined
from steelyard.formats.reader_process.limits import check_declared
from steelyard.signals.recording import Chunk, LogFile, Recording

# Exceptions of the HDF5 library for damaged files.
_TROUBLE = (OSError, RuntimeError, KeyError, ValueError)


def read_hdf5(path: Path, salvage: bool = False) -> Recording:
    """The recording in an HDF5 file; only the shapes are read here, or all of it to salvage it."""
    h5py = _h5py()
    file = LogFile.at(path)
    with path.open("rb") as stream:
        is_matlab = stream.read(6) == b"MATLAB"
    shapes, homes, others = {}, {}, []
    try:
        with h5py.File(path, "r") as root:
            for name, leaf in _leaves(h5py, "", root, is_matlab):
                if isinstance(leaf, str):
                    others.append(f"{name} ({leaf})")
                else:
                    shapes[name], homes[name] = leaf.shape[::-1] if is_matlab else leaf.shape, leaf.name
    except _TROUBLE as error:
        raise DataError(
            f"'{path}' is not a readable HDF5 file ({_brief(error)}). If it is incomplete, nothing of it can be read, "
            "and salvage does not help: copy it again or export the log again."
        ) from None
    check_declared(str(path), sum(prod(shape) for shape in shapes.values()), file.size)
    arrangement = arrange(path, shapes, others)
    recording = Recording(
        path.name,
        tuple(arrangement.channels),
        str(path),
        arrangement.rows,
        _Hdf5Rows(file, arrangement, homes, is_matlab),
        others=arrangement.others,
    )
    return salvaged(recording, recording.columns) if salvage else recording


@dataclass(frozen=True)
class _Hdf5Rows:
    file: LogFile
    arrangement: Arrangement
    homes: Mapping[str, str]
    is_matlab: bool

    def digest(self) -> str:
        return self.file.digest()

    def blocks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        self.file.check_unchanged()
        file = self.file.path
        with _h5py().File(file, "r") as root:

            def read(name: str, side: int, rows: slice) -> NDArray[Any]:
                data = root[self.homes[name]]
                if not data.shape:
                    return np.atleast_1d(data[()])
                if self.is_matlab:
                    return data[(slice(None),) * (data.ndim - 1 - side) + (rows,)].T
                return data[(slice(None),) * side + (rows,)]

            def checked(name: str, side: int, rows: slice) -> NDArray[Any]:
                try:
                    return read(name, side, rows)
                except _TROUBLE as error:
                    size = rows.stop - rows.start
                    good = rows.start + intact_rows(
                        lambda n: read(name, side, slice(rows.start, rows.start + n)), size, _TROUBLE
                    )
                    raise DamagedError(
                        f"Row {good + 1} of '{name}' in '{file.name}' cannot be decoded ({_brief(error)}).", good
                    ) from None

            yield from self.arrangement.blocks(columns, checked)


def _leaves(h5py: ModuleType, name: str, node: Any, is_matlab: bool) -> Iterator[tuple[str, Any]]:
    """Datasets of numbers under their full names; for anything else its kind."""
    if isinstance(node, h5py.Group):
        fields = [field for field in node if not (is_matlab and field.startswith("#"))]
        for field in fields:
            child = node[field]
            if is_matlab and _is_references(h5py, child) and "MATLAB_class" not in child.attrs:
                # the field of a structure array: one reference per element
                for k, reference in enumerate(child[()].ravel()):
                    yield from _leaves(h5py, joined(f"{name}[{k}]", field, fields), child.file[reference], is_matlab)
            else:
                yield from _leaves(h5py, joined(name, field, fields), child, is_matlab)
    elif _is_references(h5py, node):
        for k, reference in enumerate(node[()].ravel()):
            yield from _leaves(h5py, f"{name}[{k}]", node.file[reference], is_matlab)
    elif is_matlab and "MATLAB_empty" in node.attrs:
        yield name, "empty"
    elif is_matlab and node.attrs.get("MATLAB_class") == b"char":
        yield name, "text"
    elif isinstance(node, h5py.Dataset) and node.dtype.kind in "fiub" and node.shape is not None:
        yield name, node
    else:
        yield name, str(getattr(node, "dtype", type(node).__name__))


def _is_references(h5py: ModuleType, node: Any) -> bool:
    return isinstance(node, h5py.Dataset) and h5py.check_ref_dtype(node.dtype) is h5py.Reference


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]


def _h5py() -> ModuleType:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py", "hdf5", "Reading HDF5 and MATLAB 7.3 logs") from None
    return h5py
