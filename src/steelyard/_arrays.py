"""The array type of the package, and one BLAS thread for many small matrices.

The triangles are small: splitting them over threads costs more than it gives (up to ten times on a busy machine), and
makes the last digits depend on the number of cores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Array = NDArray[np.float64]
# Numbers from files beyond this are refused, in any unit: their squares and fourth powers must stay finite.
LARGEST = 1e30

P = ParamSpec("P")
R = TypeVar("R")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded(function: Callable[P, R]) -> Callable[P, R]:
    """The function with BLAS held to one thread while it runs."""

    @wraps(function)
    def held(*args: P.args, **kwargs: P.kwargs) -> R:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return held
