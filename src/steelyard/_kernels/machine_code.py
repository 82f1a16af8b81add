"""Functions of a user as machine code that compiled kernels call by its address.

A kernel that took a function as an argument would be compiled again for every function, and could not be loaded from
the cache. An address is data: it fits into a row of numbers, exactly, because no address reaches 2^53.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import cfunc, float64, njit, types
from numba.core.errors import NumbaError
from numba.extending import intrinsic, overload, register_jitable

from steelyard._kernels.spatial import OPTIONS

# Numbers that a function takes besides x.
NUMBERS = 6

# A decorator for functions that such a function calls: they run in NumPy and as compiled code.
compilable: Callable[[Callable[..., Any]], Callable[..., Any]] = register_jitable


def machine_code(function: Callable[..., Any], count: int) -> float:
    """Address of function(x, *numbers) with `count` numbers, compiled for single floats.

    A ValueError with the compiler's reason where it cannot be compiled.
    """
    try:
        return float(_compiled(function, count).address)
    except NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reasons = [line for line in lines if line and not line.startswith("Failed in nopython mode")]
        raise ValueError(" ".join(reasons[:1])) from None


@cache
def _compiled(function: Callable[..., Any], count: int) -> Any:
    """The compiled function. The cache keeps it alive, since its callers hold nothing but the address."""
    inner = njit(function, **{key: value for key, value in OPTIONS.items() if key != "cache"})

    def called(x, a, b, c, d, e, f):
        return _number(inner(x, *(a, b, c, d, e, f)[:count]))

    return cfunc(float64(*(float64,) * (1 + NUMBERS)))(called)


def _number(x: Any) -> float:
    """A float from a number, or from the array without axes that np.where gives."""
    return float(x)


@overload(_number)
def _compiled_number(x):
    return (lambda x: float(x.item())) if isinstance(x, types.Array) else (lambda x: float(x))


def _call_at(_context, address, x, a, b, c, d, e, f):
    """The function at an address, of x and six numbers."""

    def generate(_context, builder, _signature, arguments):
        number = ir.DoubleType()
        pointer = ir.FunctionType(number, [number] * (1 + NUMBERS)).as_pointer()
        return builder.call(builder.inttoptr(builder.fptoui(arguments[0], ir.IntType(64)), pointer), arguments[1:])

    return float64(*(float64,) * (2 + NUMBERS)), generate


call_at: Any = intrinsic(_call_at)
