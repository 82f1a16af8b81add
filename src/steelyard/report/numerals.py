"""Numbers as a reader wants them: as many digits as the error bar allows, and never a NaN."""

from __future__ import annotations

import math

DASH = "—"

# A relative size above this says nothing more than "above this".
LARGEST_SHARE = 9.99


def number(x: float, digits: int = 4) -> str:
    """`digits` significant digits, trailing zeros kept: 0.0600, 23.40, 14702, 1.470e+06."""
    if math.isnan(x):
        return DASH
    if math.isinf(x):
        return "∞" if x > 0 else "-∞"
    if 10.0**digits <= abs(x) < 1e6:
        return f"{x:.0f}"
    return f"{x:#.{digits}g}".removesuffix(".") if x else "0"


def given(x: float) -> str:
    """A number as a file states it, without digits it does not have: 0.000785."""
    return f"{x:.4g}" if math.isfinite(x) else number(x)


def share(x: float) -> str:
    """A ratio in percent with three digits or so: 0.42%, 4.77%, 12.1%, 320%."""
    if math.isnan(x):
        return DASH
    if x > LARGEST_SHARE:
        return f"> {LARGEST_SHARE:.0%}"
    percent = 100.0 * x
    decimals = 2 if percent < 10.0 else 1 if percent < 100.0 else 0
    return f"{percent:z.{decimals}f}%"


def value_and_deviation(value: float, deviation: float) -> tuple[str, str]:
    """Both to the second significant digit of the deviation: 1.248 and 0.025."""
    if not math.isfinite(value):
        return DASH, DASH
    if not math.isfinite(deviation) or deviation <= 0.0:
        return number(value), number(deviation, 2)
    decimals = 1 - math.floor(math.log10(deviation))
    if 0 <= decimals <= 6:
        return f"{value:z.{decimals}f}", f"{deviation:.{decimals}f}"
    return f"{value:.6g}", number(deviation, 2)


def unit(name: str) -> str:
    """`kg.m2` as kg·m²."""
    return name.replace(".", "·").replace("2", "²").replace("3", "³")
