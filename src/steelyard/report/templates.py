"""The templates of pages and of parts of pages. Values are escaped; only `Markup` is taken as HTML."""

from __future__ import annotations

from functools import cache
from importlib import import_module, resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from steelyard.errors import printable
from steelyard.report import numerals


def file_text(name: str) -> str:
    """A file of this folder."""
    return resources.files("steelyard.report").joinpath(name).read_text(encoding="utf-8")


def rendered(template: str, title: str, **values: Any) -> str:
    """A page from its template; the same values give the same bytes."""
    return _environment().get_template(template).render(title=title, style=Markup(file_text("style.css")), **values)


def fragment(template: str, **values: Any) -> Markup:
    """A part of a page from its template."""
    return Markup(_environment().get_template(template).render(**values))


def _shown(value: Any) -> Any:
    """A text without control characters, which a browser would obey or drop."""
    return printable(value, kept="\n\t") if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(file_text),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # imported when used: the printers make parts of pages themselves
    environment.filters["table_html"] = lambda table: import_module("steelyard.report.printers").html(table)
    environment.filters |= {"number": numerals.number, "given": numerals.given, "share": numerals.share}
    return environment
