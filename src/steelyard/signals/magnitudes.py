"""Magnitudes: what a logged number can mean. Larger ones are refused; smaller ones are zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import LARGEST, Array
from steelyard.errors import DataError

# Below this a number is noise of the arithmetic in any unit, and its reciprocal would overflow.
SMALLEST = 1.0 / LARGEST


def measurable(x: Array, log: str, columns: Sequence[str], rows: Sequence[int] | NDArray[np.int64]) -> Array:
    """Values (columns, rows) with zero for what is too small to be measured; an error for what is too large. `rows` are
    counted from 0."""
    size = np.abs(x)
    if np.any(size > LARGEST):
        column, row = np.argwhere(size > LARGEST)[0]
        raise DataError(
            f"Log '{log}': column '{columns[column]}' is {x[column, row]:.3g} in row {rows[row] + 1}: no unit has "
            f"numbers beyond {LARGEST:g}. Correct the log, or remove the row."
        )
    return np.where(size < SMALLEST, 0.0, x) if np.any((size < SMALLEST) & (x != 0.0)) else x
