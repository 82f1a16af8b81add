"""The API reference: a directive that documents every public name of a namespace, and docstrings made readable.

```{public-names} terms
```

documents what `steelyard.terms.__all__` lists; without an argument, the names at the top. An object that is public in
two places is documented in the first and linked from the second, so that every name has an entry.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import TypeAliasForwardRef

import steelyard

Names = dict[str, object]

# A line break that was made by hand: the next word would have fitted well below the line length of the sources.
FULL_LINE = 100
# `name      what it is`, or several names: a row of a table in a docstring.
ROW = re.compile(r"(?P<names>[`\w]+(?:, [`\w]+)*)  +(?P<text>\S.*)")
SPACED = re.compile(r"\S {2,}\S")
GAP = "\u2003"  # an em space: HTML would make one of several spaces
LOOKS_LIKE_A_LIST = re.compile(r"(\w{1,4}[.)]|[-+•:]|\.\.)(\s|$)")


def public_names() -> Iterator[tuple[str, Names]]:
    """Each namespace with its names; the top level first, as an empty string."""
    yield "", {name: getattr(steelyard, name) for name in steelyard._NAMES}
    for namespace in sorted(steelyard._NAMESPACES):
        module = getattr(steelyard, namespace)
        yield namespace, {name: getattr(module, name) for name in module.__all__}


def full_name(namespace: str, name: str) -> str:
    return ".".join(part for part in ("steelyard", namespace, name) if part)


def homes() -> dict[int, str]:
    """Where an object, by its id, is documented: the first of its public names."""
    found: dict[int, str] = {}
    for namespace, names in public_names():
        for name, value in names.items():
            if callable(value):
                found.setdefault(id(value), full_name(namespace, name))
    return found


class PublicNames(SphinxDirective):
    """Documents every public name of a namespace."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        namespace = self.arguments[0] if self.arguments else ""
        where = homes()
        lines = ["```{eval-rst}"]
        for name, value in dict(public_names())[namespace].items():
            lines += [*entry(full_name(namespace, name), value, where), ""]
        lines += ["```"]
        node = nodes.container()
        self.state.nested_parse(StringList(lines, self.env.docname), 0, node)
        return node.children


def entry(name: str, value: Any, where: dict[int, str]) -> list[str]:
    """reStructuredText of one name."""
    module, _, short = name.rpartition(".")
    if not callable(value):
        keys = ", ".join(f"``{key}``" for key in value) if isinstance(value, dict) else ""
        held = f"Keys: {keys}." if keys else f"Value: ``{value!r}``."
        return [f".. py:data:: {short}", f"   :module: {module}", "", f"   {held}"]
    kind = "class" if inspect.isclass(value) else "function"
    home = where[id(value)]
    if home != name:
        return [f".. py:{kind}:: {short}", f"   :module: {module}", "", f"   The same as :py:obj:`{home}`."]
    members = ["   :members:", "   :undoc-members:"] if kind == "class" else []
    return [f".. auto{kind}:: {name}", *members]


def skip_fields(app: Sphinx, what: str, name: str, value: object, skip: bool, options: Any) -> bool | None:
    """Leave out fields, which the parameters of the class list, and methods that only do what their protocol says."""
    if isinstance(value, property | cached_property):
        return None
    return None if callable(value) and value.__doc__ else True


def plain_docstring(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Our docstrings are plain text: `names` in backticks, formulas on lines of their own, tables by alignment."""
    if what == "class" and is_dataclass(value) and lines and lines[0].startswith(f"{name.split('.')[-1]}("):
        lines[:] = []  # the signature that a dataclass without a docstring gets
    lines[:] = as_rst(lines, parameters_of(value))


def parameters_of(value: Any) -> set[str]:
    """Names of the arguments of a function, or of the fields of a class; none where Python knows no signature."""
    try:
        return set(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return set()


def no_protocol_signature(app: Sphinx, what: str, name: str, value: Any, *rest: Any) -> tuple[str, str] | None:
    """A protocol is not called: the `(*args, **kwargs)` that Python gives it says nothing."""
    return ("", "") if what == "class" and getattr(value, "_is_protocol", False) else None


def as_rst(lines: list[str], parameters: set[str]) -> list[str]:
    """reStructuredText of the lines of a docstring; rows of its tables that are `parameters` go to their list."""
    out: list[str] = []
    for block in blocks(lines):
        if ROW.fullmatch(block[0]) and all(ROW.fullmatch(line) or line.startswith("  ") for line in block):
            out += table(block, parameters)
        else:
            out += paragraphs(block)
        out.append("")
    return out


def blocks(lines: list[str]) -> Iterator[list[str]]:
    """Runs of lines between blank ones."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def table(block: list[str], parameters: set[str]) -> list[str]:
    """Rows `name   text` as parameters or as a definition list; lines that are indented continue the text."""
    out: list[str] = []
    for line in block:
        row = ROW.fullmatch(line)
        if row and row["names"] in parameters:
            out += ["", f":param {row['names']}: {escaped(row['text'])}"]
        elif row:
            names = ", ".join(f"``{name.strip('`')}``" for name in row["names"].split(", "))
            out += ["", names, f"   {escaped(row['text'])}"]
        elif SPACED.search(line):  # a row of a table inside the table
            out += ["", f"   {escaped(' '.join(line.split()))}"]
        else:
            out.append(f"   {escaped(line.strip())}")
    return out


def paragraphs(block: list[str]) -> list[str]:
    """Prose that flows; lines that are indented or spaced out are formulas and stay lines."""
    out: list[str] = []
    after_formula = False
    for line, follows in zip(block, [*block[1:], ""], strict=True):
        formula = line.startswith("  ") or bool(re.search(r"\S {3,}\S", line))
        if formula != after_formula:
            out.append("")
        if formula:
            out.append("| " + re.sub(" {2,}", GAP, escaped(line.strip())))
        else:
            out.append(escaped(line))
            if follows and len(line) + 1 + len(follows.split()[0]) <= FULL_LINE:
                out.append("")
        after_formula = formula
    return out


def escaped(text: str) -> str:
    """Text without markup, but for `names` in backticks."""
    parts = re.split(r"`([^`]+)`", text)
    out = "".join(
        f"``{part}``\\ " if k % 2 else re.sub(r"([\\*_|`])", r"\\\1", part) for k, part in enumerate(parts)
    ).strip()
    return f"\\ {out}" if LOOKS_LIKE_A_LIST.match(out) else out


def setup(app: Sphinx) -> dict[str, bool]:
    # In a union (`Array | None`) Sphinx 9 prints its stand-in for the alias instead of the alias.
    TypeAliasForwardRef.__repr__ = lambda self: self.name  # type: ignore[method-assign]
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-signature", no_protocol_signature)
    app.connect("autodoc-process-docstring", plain_docstring)
    return {"parallel_read_safe": True}
