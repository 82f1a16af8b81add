"""The limits of a reader process, and the environment variables that raise them."""

from __future__ import annotations

import os

from steelyard.errors import DataError

# Variable, default, and what it limits.
UNPACKED_GB = ("STEELYARD_UNPACKED_GB", 8.0, "gigabytes")  # of a packed log, or declared by a binary one [1e9 bytes]
MEMORY_GB = ("STEELYARD_READER_GB", 4.0, "gigabytes")  # memory of the process that reads a binary log [1e9 bytes]
PIECE_S = ("STEELYARD_READER_SECONDS", 60.0, "seconds")  # of processor time for one piece of a binary log
# A piece may take this many times its processor time by the clock: on a busy machine the reader waits for its turn.
MOST_WAITS = 30
# No honest file unpacks to more than this many times its size: the largest ratio of the usual compression is 1032.
MOST_TIMES = 1000


def limit(kind: tuple[str, float, str]) -> float:
    """The value of the environment variable, or the default."""
    variable, default, unit = kind
    stated = os.environ.get(variable, "")
    try:
        value = float(stated) if stated else default
    except ValueError:
        value = -1.0
    if not 0.0 < value < float("inf"):
        raise DataError(f"{variable} must be a positive number of {unit}, not '{stated}'.")
    return value


def check_declared(shown: str, cells: int, size: int) -> None:
    """Raises an error if a file of `size` bytes declares far more numbers than it can hold."""
    most = limit(UNPACKED_GB)
    if 8 * cells > max(most * 1e9, MOST_TIMES * size):
        raise DataError(
            f"'{shown}' has {size} bytes but declares {cells:.3g} numbers, more than {most:g} GB: it is damaged or "
            f"made to fill the memory. If it is right, set the environment variable {UNPACKED_GB[0]} to more."
        )
