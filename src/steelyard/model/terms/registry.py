"""The terms by name: the built-in ones and those that a user registers."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from steelyard.errors import ModelError, choices
from steelyard.model.robot import Robot
from steelyard.model.terms.compensator import Compensator
from steelyard.model.terms.coupling import Coupling
from steelyard.model.terms.dahl import Dahl
from steelyard.model.terms.drift import Drift
from steelyard.model.terms.friction import (
    AsymmetricCoulomb,
    AsymmetricViscous,
    BearingFriction,
    Coulomb,
    LoadFriction,
    Offset,
    PowerLaw,
    Stribeck,
    Viscous,
)
from steelyard.model.terms.law_term import LawTerm
from steelyard.model.terms.on_joints import on_joints
from steelyard.model.terms.ripple import Ripple
from steelyard.model.terms.rotor import Rotor
from steelyard.model.terms.springs import Springs
from steelyard.model.terms.term import LOAD, PAST, TIME, Cycles, Offer, Term, Width, uses

_Kind = TypeVar("_Kind", bound=type[Term])

# In the order in which a selection offers them.
TERMS: dict[str, type[Term]] = {
    kind.name: kind
    for kind in (
        Rotor, Viscous, Coulomb, AsymmetricCoulomb, Offset, Stribeck, PowerLaw, LoadFriction, BearingFriction, Dahl,
        AsymmetricViscous, Drift, Ripple, Coupling, Compensator, Springs,
    )
}  # fmt: skip
_BUILT_IN = frozenset(TERMS)
# The papers' drive chain (P0 eq. 3).
DEFAULT_TERMS = ("rotor", "viscous", "coulomb", "offset")
# In addition to it these halve the error of real gears without tuning: shear-thinning, load and pre-sliding.
GEAR_TERMS = ("power-law", "load", "dahl")


def plain_terms(robot: Robot) -> tuple[str, ...]:
    """The terms the robot file names, else the papers' drive chain, and its springs if it has any."""
    if robot.terms is not None:
        return robot.terms
    return (*DEFAULT_TERMS, Springs.name) if robot.springs else DEFAULT_TERMS


def rich_terms(robot: Robot) -> tuple[str, ...]:
    """The plain terms and the friction of real gears."""
    plain = plain_terms(robot)
    return plain + tuple(name for name in GEAR_TERMS if name not in plain)


def named_term(
    name: str, options: Mapping[str, Any] | None = None, joints: Sequence[str] | None = None, sign_width: float = 0.0
) -> Term:
    """A term from its name and options, on the named joints or all; `sign_width` > 0 makes its sign(v) a tanh."""
    if name not in TERMS:
        raise ModelError(choices("term", name, TERMS))
    kind = TERMS[name]
    known = [option.name for option in fields(kind)]  # type: ignore[arg-type]
    given = dict(options or {})
    for option in given:
        if option not in known:
            raise ModelError(
                f"Term '{name}': " + choices("option", option, known) if known else f"Term '{name}' has no options."
            )
    if sign_width and issubclass(kind, Width):
        given.setdefault("width", sign_width)
    try:
        term = kind(**given)
    except (TypeError, ValueError) as error:
        raise ModelError(f"Term '{name}': {error}") from None
    return term if joints is None else on_joints(term, joints)


def named_terms(names: Iterable[str], sign_width: float = 0.0) -> tuple[Term, ...]:
    """Terms from their names; `sign_width` > 0 makes every sign(v) a tanh(v / width)."""
    return tuple(named_term(name, sign_width=sign_width) for name in names)


def nonnegative_symbols() -> tuple[str, ...]:
    """Symbols of columns whose parameters are never negative, of all known terms with their default options and with
    those that they offer to a selection."""
    return tuple(
        dict.fromkeys(
            symbol for kind in TERMS.values() for term in _shapes(kind) for symbol in getattr(term, "nonnegative", ())
        )
    )


def _shapes(kind: Any) -> tuple[Any, ...]:
    """The term with its default options, and the ones it offers where the gears are unknown."""
    return (kind(), *(offer.term for offer in (kind.offers(None) if hasattr(kind, "offers") else ())))


def offered_terms(cycles: Cycles = None) -> tuple[Offer, ...]:
    """What a selection tries: the offers of all known terms; `cycles` per joint turn of the gears where known."""
    found = tuple(
        offer for kind in TERMS.values() if hasattr(kind, "offers") for offer in kind.offers(cycles)  # type: ignore[attr-defined]
    )  # fmt: skip
    labels = [offer.label for offer in found]
    for offer in found:
        if labels.count(offer.label) > 1:
            raise ModelError(f"Two terms are offered as '{offer.label}': give the offers of your own another label.")
        if offer.rival is not None and offer.rival not in labels:
            raise ModelError(f"Offer '{offer.label}': " + choices("rival", offer.rival, labels))
    return found


# --- Terms of a user --------------------------------------------------------------------------------------------------


def register(kind: _Kind) -> _Kind:
    """Make a term known by its name to project files, the command line, the selection of terms and `named_term`.

    It is a frozen dataclass as `Term` describes, most easily a `LawTerm`; anything else is refused. A name may be
    registered again, which replaces the class, but not that of a built-in term. Returns the class, so that it can
    decorate one.
    """
    _check_contract(kind)
    if kind.name in _BUILT_IN:
        raise ModelError(f"Term '{kind.name}' is built in: give yours another name.")
    TERMS[kind.name] = kind
    return kind


def unregister(name: str) -> None:
    """Forget a term that was registered."""
    if name in _BUILT_IN:
        raise ModelError(f"Term '{name}' is built in and stays.")
    if name not in TERMS:
        raise ModelError(choices("term", name, TERMS))
    del TERMS[name]


def _check_contract(kind: Any) -> None:
    """Refuse a class that is not a valid term, and say what is wrong."""
    who = f"'{getattr(kind, '__name__', kind)}' cannot be registered as a term"
    if not (isinstance(kind, type) and is_dataclass(kind) and kind.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        raise ModelError(f"{who}: it must be a class decorated with @dataclass(frozen=True).")
    name = getattr(kind, "name", None)
    if not (isinstance(name, str) and name and not any(map(str.isspace, name))):
        raise ModelError(f"{who}: the class attribute `name` must be a word (name: ClassVar[str]), not {name!r}.")
    if not_options := {"name", "needs", "uses"} & {field.name for field in fields(kind)}:
        raise ModelError(f"{who}: `{min(not_options)}` is the same for all of them: annotate it as a ClassVar.")
    given = [x.name for x in fields(kind) if x.init and x.default is MISSING and x.default_factory is MISSING]
    if given:
        raise ModelError(f"{who}: option '{given[0]}' needs a default value.")
    if inspect.isabstract(kind):
        raise ModelError(f"{who}: it needs a method columns(self) that returns a tuple of LawColumn.")
    for method, arguments in (("entries", ("robot",)), ("fill", ("robot", "motion"))):
        try:
            inspect.signature(getattr(kind, method, None)).bind("self", *arguments)  # type: ignore[arg-type]
        except TypeError:
            raise ModelError(f"{who}: it needs a method {method}(self, {', '.join(arguments)}).") from None
    term: Any = kind()
    for used in uses(term):
        if used not in (TIME, LOAD, PAST):
            raise ModelError(f"{who}: " + choices("value in `uses`", used, (TIME, LOAD, PAST)))
    offered = getattr(kind, "offers", lambda cycles: ())(None)
    if not all(isinstance(offer, Offer) for offer in offered):
        raise ModelError(f"{who}: offers(cycles) must return a tuple of Offer, not {offered!r:.80}.")
    symbols: dict[str, str] = {}
    for offer in offered:
        for column in offer.term.columns() if isinstance(offer.term, LawTerm) else ():
            if column.symbol in symbols:
                raise ModelError(
                    f"{who}: the offers '{symbols[column.symbol]}' and '{offer.label}' have the same column "
                    f"'{column.symbol}', and a model may contain both. Make the symbol depend on the options."
                )
            symbols[column.symbol] = offer.label
    for shape in _shapes(kind):
        for column in shape.columns() if isinstance(shape, LawTerm) else ():
            column.law.check(column.shape)
