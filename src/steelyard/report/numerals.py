"""Numbers as text for people, in terminal, page and LaTeX: as many digits as the error bar allows, and no NaN."""

from __future__ import annotations

import math

DASH = "—"

# A ratio above this is printed as "above this".
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
    """A number as a file states it, without trailing zeros: 0.000785."""
    return f"{x:.4g}" if math.isfinite(x) else number(x)


def share(x: float) -> str:
    """A ratio in percent with about three digits: 0.42%, 4.77%, 12.1%, 320%."""
    if math.isnan(x):
        return DASH
    if abs(x) > LARGEST_SHARE:
        return f"{'>' if x > 0 else '<'} {math.copysign(LARGEST_SHARE, x):.0%}"
    percent = 100.0 * x
    decimals = 2 if abs(percent) < 10.0 else 1 if abs(percent) < 100.0 else 0
    return f"{percent:z.{decimals}f}%"


def percent(x: float) -> str:
    """A ratio as a number of percent, for a column with the percent sign in its heading: 4.77, > 999."""
    return f"{100.0 * x:.3g}" if abs(x) <= LARGEST_SHARE else share(x).removesuffix("%")


def value_and_deviation(value: float, deviation: float) -> tuple[str, str]:
    """Both to the second significant digit of the deviation, or to whole numbers: 1.248 and 0.025, 1234 and 321."""
    if not math.isfinite(value):
        return DASH, DASH
    if not math.isfinite(deviation) or deviation <= 0.0:
        return number(value), number(deviation, 2)
    decimals = max(0, 1 - math.floor(math.log10(deviation)))
    if decimals <= 6 and deviation < 1e6 and abs(value) < 1e9:
        return f"{value:z.{decimals}f}", f"{deviation:.{decimals}f}"
    return f"{value:.6g}", number(deviation, 2)


def estimate(value: float, deviation: float) -> str:
    """`1.248 ± 0.025`; the value alone where it is exact (σ = 0)."""
    if deviation == 0.0:
        return given(value)
    shown, spread = value_and_deviation(value, deviation)
    return shown if shown == DASH else f"{shown} ± {spread}"


def unit(name: str) -> str:
    """`kg.m2` as kg·m²."""
    return name.replace(".", "·").replace("2", "²").replace("3", "³")
