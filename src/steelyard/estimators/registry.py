"""The estimators by name: the built-in ones and those registered by a user."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from steelyard.errors import EstimationError, ModelError, choices
from steelyard.estimators.auto import Auto
from steelyard.estimators.consistent.consistent import Consistent
from steelyard.estimators.consistent.consistent_gains import ConsistentGains
from steelyard.estimators.essential import Essential
from steelyard.estimators.estimator import Estimator, checked_needs
from steelyard.estimators.gains.gains import Gains
from steelyard.estimators.gains.tls import TLS
from steelyard.estimators.gains.tls_mixed import TLSMixed
from steelyard.estimators.gradient.recursive import Recursive
from steelyard.estimators.huber import Huber
from steelyard.estimators.ls import LS
from steelyard.estimators.regularised.map import MAP
from steelyard.estimators.regularised.ridge import Ridge
from steelyard.estimators.rls import RLS
from steelyard.estimators.simulated.didim import DIDIM
from steelyard.estimators.simulated.iv import IV
from steelyard.estimators.simulated.output_error import OutputErrorMethod
from steelyard.estimators.wls import WLS
from steelyard.physical.constraints import Constraints
from steelyard.physical.prior import Widths

_Kind = TypeVar("_Kind", bound=type[Estimator])

ESTIMATORS: dict[str, type[Estimator]] = {
    kind.name: kind
    for kind in (
        Auto, LS, WLS, Consistent, Huber, MAP, Ridge, Essential, RLS, Recursive, Gains, ConsistentGains, TLSMixed, TLS,
        IV, DIDIM, OutputErrorMethod,
    )
}  # fmt: skip
_BUILT_IN = frozenset(ESTIMATORS)
# Options whose value is a table.
TABLES = {"widths": Widths, "constraints": Constraints}


def named_estimator(name: str, options: Mapping[str, Any] | None = None) -> Estimator:
    """An estimator by name, with options by the names of its fields."""
    if name not in ESTIMATORS:
        raise EstimationError(choices("estimator", name, ESTIMATORS))
    kind = ESTIMATORS[name]
    given = dict(options or {})
    valid = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for key, value in given.items():
        if key not in valid:
            raise EstimationError(f"Estimator '{name}': " + choices("option", key, valid))
        if key in TABLES:
            try:
                given[key] = TABLES[key](**value)
            except (TypeError, ValueError):
                raise EstimationError(
                    f"Estimator '{name}': {key} takes {', '.join(vars(TABLES[key]()))}, not {value!r}."
                ) from None
            except ModelError as error:
                raise EstimationError(f"Estimator '{name}': {error}") from None
    try:
        return kind(**given)
    except TypeError:
        raise EstimationError(f"Estimator '{name}': an option has a value of the wrong type: {given!r}.") from None


def register(kind: _Kind) -> _Kind:
    """Register an estimator by its name for project files, the command line and `named_estimator`.

    It is a frozen dataclass as `Estimator` describes; anything else raises an error. Registering a name again replaces
    the class; built-in names cannot be replaced. Returns the class, so that it can be used as a decorator.
    """
    _check_contract(kind)
    if kind.name in _BUILT_IN:
        raise EstimationError(f"Estimator '{kind.name}' is built in: choose another name.")
    ESTIMATORS[kind.name] = kind
    return kind


def unregister(name: str) -> None:
    """Remove a registered estimator."""
    if name in _BUILT_IN:
        raise EstimationError(f"Estimator '{name}' is built in and cannot be removed.")
    if name not in ESTIMATORS:
        raise EstimationError(choices("estimator", name, ESTIMATORS))
    del ESTIMATORS[name]


def _check_contract(kind: Any) -> None:
    """Raises an error for a class that is not an estimator, naming what is missing."""
    who = f"'{getattr(kind, '__name__', kind)}' cannot be registered as an estimator"
    if not (isinstance(kind, type) and is_dataclass(kind) and kind.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        raise EstimationError(f"{who}: it must be a class decorated with @dataclass(frozen=True).")
    name = getattr(kind, "name", None)
    if not (isinstance(name, str) and name and not any(map(str.isspace, name))):
        raise EstimationError(f"{who}: the class attribute `name` must be a word (name: ClassVar[str]), not {name!r}.")
    if not_options := {"name", "needs"} & {field.name for field in fields(kind)}:
        raise EstimationError(
            f"{who}: `{min(not_options)}` must be the same for all instances: annotate it as a ClassVar."
        )
    checked_needs(kind)  # type: ignore[arg-type]
    given = [x.name for x in fields(kind) if x.init and x.default is MISSING and x.default_factory is MISSING]
    if given:
        raise EstimationError(f"{who}: option '{given[0]}' needs a default value.")
    method = getattr(kind, "estimate", None)
    try:
        inspect.signature(method).bind("self", "problem", "base", "information", "progress")  # type: ignore[arg-type]
    except TypeError:
        raise EstimationError(
            f"{who}: it needs a method estimate(self, problem, base, information, progress=None)."
        ) from None
