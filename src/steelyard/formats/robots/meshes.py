"""The vertices of meshes, for shapes that enclose them: STL, binary or text, and OBJ. Nothing else is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import RobotError

SUFFIXES = (".stl", ".obj")
# A binary STL file: a header, the number of triangles, and for each a normal, three vertices and two bytes.
_HEADER, _TRIANGLE = 84, np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])


def mesh_corners(path: Path) -> Array:
    """(N, 3) vertices of a mesh in the file's own unit and frame."""
    if path.suffix.lower() not in SUFFIXES:
        raise RobotError(
            f"The mesh '{path}' has an unsupported format. Valid: {', '.join(SUFFIXES)}. Convert it, or add a capsule "
            "for its link."
        )
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise RobotError(f"Cannot read the mesh '{path}': {problem}.") from problem
    corners = _stl(content) if path.suffix.lower() == ".stl" else _lines(content, b"v")
    if corners is None or not len(corners) or not np.all(np.isfinite(corners)):
        raise RobotError(f"The mesh '{path}' contains no readable vertices: it is damaged, or not {path.suffix}.")
    return corners


def _stl(content: bytes) -> Array | None:
    """Vertices of an STL file. Text files start with the word solid, but so do some binary ones: the length decides."""
    if len(content) >= _HEADER:
        count = int.from_bytes(content[80:84], "little")
        if len(content) == _HEADER + count * _TRIANGLE.itemsize:
            return np.frombuffer(content, _TRIANGLE, count, _HEADER)["corners"].reshape(-1, 3).astype(float)
    return _lines(content, b"vertex")


def _lines(content: bytes, word: bytes) -> Array | None:
    """The three numbers after a word, for every line that starts with it; None if a line has others."""
    rows = [line.split()[1:4] for line in content.splitlines() if line.split()[:1] == [word]]
    try:
        return np.array(rows, float).reshape(-1, 3)
    except ValueError:
        return None
