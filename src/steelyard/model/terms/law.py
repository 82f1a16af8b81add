"""Law: a function f(x; shape) of one coordinate x of a joint, described once for every room that uses it.

A term multiplies a law by a parameter: τ_j += F_j f(x_j; shape). The description holds the value (regressor, in NumPy),
the slope (design of motions), the C text (exported code) and whether the law is passive (bounds of the parameters). The
built-in ones are in `laws`. A law of your own is compiled from `value` and `slope` when a simulation first needs it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, final

import numpy as np

from steelyard._arrays import Array
from steelyard._kernels import laws as switch
from steelyard._kernels.machine_code import NUMBERS, machine_code
from steelyard.errors import ModelError, choices

# What a value may take besides x and the shape: the torque that the gear carries; the coordinate and the state at the
# sample before.
INPUTS = ("load", "before", "state")
# Speeds or positions at which a law is tried, both ways [rad/s | m/s | rad | m], the step of a difference there, and
# the share of them that may lie too close to a kink for it.
_TRIED, _STEP, _KINKS = np.geomspace(1e-2, 10.0, 40), 1e-6, 0.1
# Two x this close to zero, on either side, show a jump.
_JUMP = 1e-9


# Functions that C text may call: those of math.h that NumPy has too, and sign.
CODE_FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "pow", "cbrt", "ceil", "copysign", "cos", "cosh", "exp",
    "exp2", "expm1", "fabs", "floor", "fmax", "fmin", "fmod", "hypot", "log", "log10", "log1p", "log2", "sign", "sin",
    "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")


class Code(Protocol):
    """A value in exported code: a sum of products of names. It adds and multiplies as a number does."""

    def __add__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, factor: float) -> Any: ...


@final
@dataclass(frozen=True, eq=False)
class Law:
    """f(x; shape), where the names of the shape parameters are those of the arguments of `value` after x.

    name      for messages
    value     (x, *shape) → f, elementwise in NumPy
    slope     (x, *shape) → ∂f/∂x, elementwise in NumPy
    code      (let, x, *shape) → C text of f: a string, a number or `Code`. `let(text)` gives a C expression a name and
              returns it as `Code`; the same text is computed once. x is a name (a linear law gets `Code`). Functions:
              those of C's math.h that NumPy has too, and sign(x). None where the exporters write the recursion
    of        what x is made of: positions "q", velocities "v", accelerations "a"; None for a constant
    linear    f(x) = x, or x minus a number
    passive   a positive parameter dissipates energy (x f(x) ≥ 0 for a law of "v") or stores it as inertia
    kind      of a built-in law in the compiled switch `_kernels.laws`; None for a law of your own
    steady    (v) → value of a law with memory in steady motion with velocity v; None for a law without memory

    A law of your own must compile for single numbers as well: arithmetic, comparisons, `np.where`, NumPy functions
    of numbers, and functions decorated with `compilable`. A simulation needs it without a jump: for a sign take
    `smooth_sign(x, width)` with a shape parameter named `width`. Global names that it uses keep, in simulations, the
    values that they had when it was compiled: make them shape parameters.
    """

    name: str
    value: Callable[..., Any]
    slope: Callable[..., Any]
    code: Callable[..., Any] | None
    of: Literal["q", "v", "a"] | None = "v"
    linear: bool = False
    passive: bool = False
    kind: int | None = None
    steady: Callable[[Array], Array] | None = None

    def __post_init__(self) -> None:
        for what, function, extra in (("slope", self.slope, ()), ("code", self.code, ("let",))):
            wanted = (*extra, *self._arguments)
            if function is not None and len(_arguments(function)) != len(wanted):
                raise ModelError(f"Law '{self.name}': `{what}` must be a function of ({', '.join(wanted)}).")
        if self.kind is not None:
            return
        if self.of not in ("q", "v"):
            raise ModelError(f"Law '{self.name}': `of` must be 'q' or 'v' for a law of your own, not {self.of!r}.")
        if {"before", "state"} & {*self._arguments}:
            raise ModelError(
                f"Law '{self.name}': a law of your own has no memory. Write a term with uses = ('past',) instead."
            )
        if self.loaded and self._arguments[1] != "load":
            raise ModelError(f"Law '{self.name}': `load` must be the second argument of `value`, next to x.")
        if self.linear or self.steady is not None:
            raise ModelError(
                f"Law '{self.name}': `linear` and `steady` are for built-in laws. Leave them out; for friction that is "
                "proportional to the speed use the term 'viscous'."
            )
        if len(self.shape) > NUMBERS:
            raise ModelError(
                f"Law '{self.name}' has {len(self.shape)} shape parameters; at most {NUMBERS} are allowed."
            )

    @cached_property
    def _arguments(self) -> tuple[str, ...]:
        return _arguments(self.value)

    @cached_property
    def shape(self) -> tuple[str, ...]:
        """Names of the shape parameters."""
        return tuple(name for name in self._arguments[1:] if name not in INPUTS)

    @property
    def loaded(self) -> bool:
        """True where the value takes the torque that the gear carries: value(x, load, *shape)."""
        return "load" in self._arguments

    def jumps(self, shape: tuple[float, ...]) -> bool:
        """True where the law contains a sign(x) for this shape: its width is zero."""
        return "width" in self.shape and shape[self.shape.index("width")] == 0.0

    def row(self, shape: tuple[float, ...]) -> Array:
        """The law as the compiled switch takes it, (JOINT,): kind, shape, and the addresses of a law of your own."""
        row = np.zeros(switch.JOINT)
        row[1 : len(shape) + 1] = shape
        if self.kind is not None:
            row[0] = self.kind
            return row
        if self.loaded:
            raise ModelError(f"Law '{self.name}' depends on the load; of these only the built-in one can be simulated.")
        row[0] = switch.OWN_OF_POSITION if self.of == "q" else switch.OWN_OF_SPEED
        row[switch.VALUE] = self._address("value", self.value)
        row[switch.SLOPE] = self._address("slope", self.slope)
        return row

    def _address(self, what: str, function: Callable[..., Any]) -> float:
        try:
            return machine_code(function, len(self.shape))
        except ValueError as error:
            raise ModelError(
                f"Law '{self.name}': its {what} cannot be compiled for a simulation ({error}). Use arithmetic, "
                "comparisons, `np.where` and NumPy functions of single numbers, and decorate functions that it "
                "calls with @compilable of steelyard.model.terms."
            ) from None

    def check_text(self, text: str) -> None:
        """Refuse C text that calls an unknown function."""
        for function in _CALLED.findall(text):
            if function not in CODE_FUNCTIONS:
                raise ModelError(f"The code of the law '{self.name}': " + choices("function", function, CODE_FUNCTIONS))

    def _check_code(self, shape: tuple[float, ...]) -> None:
        """Make the C text once, with names in the place of x and the load."""
        if self.code is None:
            return

        def let(text: str) -> _TrialCode:
            self.check_text(text)
            return _TrialCode("y")

        x = _TrialCode("x") if self.linear else "x"
        loads = (_TrialCode("load"),) if self.loaded else ()
        try:
            found = self.code(let, x, *loads, *(float(number) for number in shape))
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"Law '{self.name}': its code fails for the shape {shape}: {type(error).__name__}: {error}."
            ) from error
        if isinstance(found, str):
            self.check_text(found)

    def check(self, shape: tuple[float, ...]) -> None:
        """Refuse a law whose C text cannot be made or calls an unknown function, whose value is not an elementwise
        function, whose slope is not its derivative, or which is stated as passive and is not. Of a law of the load only
        the C text is tried."""
        self._check_code(shape)
        if self.loaded:
            return
        x = np.concatenate([-_TRIED[::-1], [0.0], _TRIED])
        f, slope = self._tried("value", x, shape), self._tried("slope", x, shape)
        for what, found in (("value", f), ("slope", slope)):
            if found.shape != x.shape or not np.all(np.isfinite(found)):
                raise ModelError(
                    f"Law '{self.name}': its {what} must be a finite number for every element of an array x, and gives "
                    f"{found!r:.80}."
                )
        below, above = self._tried("value", np.array([-_JUMP, _JUMP]), shape)
        if "width" not in self.shape and abs(above - below) > 0.01 * np.max(np.abs(f)):
            raise ModelError(
                f"Law '{self.name}' jumps at x = 0 from {below:.4g} to {above:.4g}. For a sign take "
                "smooth_sign(x, width) with a shape parameter named `width`."
            )
        difference = (self.value(x + _STEP, *shape) - self.value(x - _STEP, *shape)) / (2.0 * _STEP)
        wrong = np.abs(slope - difference) > 1e-4 * np.maximum(1.0, np.abs(difference))
        if np.mean(wrong) > _KINKS:
            at = int(np.argmax(wrong))
            raise ModelError(
                f"Law '{self.name}': its slope is not the derivative of its value, e.g. {slope[at]:.6g} and "
                f"{difference[at]:.6g} at x = {x[at]:.4g} with the shape {shape}."
            )
        if self.passive and self.of == "v" and np.any(x * f < 0.0):
            at = int(np.argmin(x * f))
            raise ModelError(
                f"Law '{self.name}' is stated as passive, but x f(x) is negative at x = {x[at]:.4g}: it would feed "
                "energy into the joint. State passive = False."
            )

    def _tried(self, what: Literal["value", "slope"], x: Array, shape: tuple[float, ...]) -> Array:
        """The value or the slope at x; an error that names the law if it fails for an array."""
        try:
            with np.errstate(all="ignore"):
                return np.asarray(getattr(self, what)(x, *shape), float)
        except Exception as error:  # whatever a user's function raises
            raise ModelError(
                f"Law '{self.name}': its {what} fails for an array x and the shape {shape}: {error}. Write it with "
                "NumPy functions, and np.where instead of `a if c else b` for conditions on x."
            ) from error


@dataclass(frozen=True)
class _TrialCode:
    """`Code` that only has a name."""

    name: str

    def __str__(self) -> str:
        return self.name

    def __neg__(self) -> _TrialCode:
        return self

    def __add__(self, other: Any) -> _TrialCode:
        return self

    __sub__ = __mul__ = __rmul__ = __add__


def _arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


class AppliedLaw(NamedTuple):
    """The value of an entry as data: share · f(x; shape).

    The coordinate x is along · q, along · q̇ or along · q̈ with `along` (n,), as `law.of` says: a joint's own position or
    velocity, or the speed of a motor that turns with several joints. A law of the load takes the load of the joint
    `load_of`; None: of the entry's row.
    """

    law: Law
    along: Array
    shape: tuple[float, ...] = ()
    share: float = 1.0
    load_of: int | None = None
