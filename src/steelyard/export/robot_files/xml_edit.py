"""XML edited as text: elements with their byte ranges, and edits that change nothing else.

Writing a parsed tree would lose the places of comments, the order of attributes, spaces and line ends. Therefore expat
is used only to find the byte range of each element, and edits replace bytes there.
"""

from __future__ import annotations

import codecs
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from steelyard.errors import OutputError, RobotError
from steelyard.formats.robots.urdf import root_tag

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_WIDE = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}  # UTF-16 without a mark
_DECLARED = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")
_ATTRIBUTE = re.compile(rb"""\s+([^\s=>/]+)\s*=\s*("[^"]*"|'[^']*')""")
_TAG = re.compile(rb"""<[^\s>/]+(?:\s+[^\s=>/]+\s*=\s*(?:"[^"]*"|'[^']*'))*\s*/?>""")


class TextEdit(NamedTuple):
    """Bytes `start` to `end` become `text`."""

    start: int
    end: int
    text: bytes


@dataclass
class Element:
    """An element and its byte range: its tag from `start` to `opened`, its content to `closing`, all of it to `end`.

    An element without content (<a/>) has opened = closing = end.
    """

    tag: str
    attributes: dict[str, str]
    start: int
    opened: int = 0
    closing: int = 0
    end: int = 0
    children: list[Element] = field(default_factory=list)

    def find(self, tag: str) -> Element | None:
        return next((child for child in self.children if child.tag == tag), None)

    def findall(self, tag: str) -> list[Element]:
        return [child for child in self.children if child.tag == tag]

    def walk(self) -> Iterator[Element]:
        """This element and all elements inside it, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class XmlText:
    """A well-formed XML file: its content as UTF-8, and the encoding of the file."""

    content: bytes
    encoding: str = "utf-8"
    mark: bytes = b""

    @staticmethod
    def of(content: bytes, where: str) -> XmlText:
        """The text of an XML file; a file with a DOCTYPE is refused before its declarations are read."""
        root_tag(content, where)
        mark, encoding = next(((m, e) for m, e in _MARKS if content.startswith(m)), (b"", ""))
        if not encoding:
            declared = _DECLARED.match(content)
            encoding = _WIDE.get(content[:2]) or (declared[1].decode("ascii") if declared else "utf-8")
        body = content[len(mark) :]
        try:
            text = body.decode(encoding)
            if text.encode(encoding) != body:
                raise UnicodeError
        except (UnicodeError, LookupError):
            raise RobotError(
                f"'{where}' cannot be edited in its encoding '{encoding}'. Save it as UTF-8 and try again."
            ) from None
        found = XmlText(text.encode("utf-8"), encoding, mark)
        try:
            _ = found.root
        except expat.ExpatError as problem:
            raise RobotError(f"'{where}' is not well-formed XML: {problem}.") from problem
        return found

    @property
    def file(self) -> bytes:
        """The text in the encoding of the file."""
        return self.mark + self.content.decode("utf-8").encode(self.encoding, "xmlcharrefreplace")

    @cached_property
    def root(self) -> Element:
        parser = expat.ParserCreate("utf-8")
        top: list[Element] = []
        open_elements: list[Element] = []

        def start(tag: str, attributes: dict[str, str]) -> None:
            at = parser.CurrentByteIndex
            found = _TAG.match(self.content, at)
            assert found is not None
            element = Element(tag, attributes, at, found.end())
            (open_elements[-1].children if open_elements else top).append(element)
            open_elements.append(element)

        def end(_: str) -> None:
            element = open_elements.pop()
            if self.content[element.opened - 2 : element.opened] == b"/>":
                element.closing = element.end = element.opened
            else:
                element.closing = parser.CurrentByteIndex
                element.end = self.content.index(b">", element.closing) + 1

        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.Parse(self.content, True)
        return top[0]

    def edited(self, edits: Sequence[TextEdit]) -> XmlText:
        """The text with all edits made; they must not overlap. Insertions at one place keep their order."""
        content, before = [], 0
        for edit in sorted(edits, key=lambda edit: edit.start):
            content += [self.content[before : edit.start], edit.text]
            before = edit.end
        return XmlText(b"".join([*content, self.content[before:]]), self.encoding, self.mark)

    # --- Edits ---------------------------------------------------------------------------------------------------

    def attributes(self, element: Element, values: Mapping[str, str | None]) -> list[TextEdit]:
        """Attributes of an element set to other values, added after its last one, or removed where None."""
        tag = self.content[element.start : element.opened]
        found = {m[1].decode(): m for m in _ATTRIBUTE.finditer(tag)}
        last = max([m.end() for m in found.values()], default=1 + len(element.tag.encode()))
        edits, added = [], ""
        for name, value in values.items():
            if name not in found:
                added += "" if value is None else f" {name}={_quoted(value)}"
            elif value is None:
                edits.append(TextEdit(element.start + found[name].start(), element.start + found[name].end(), b""))
            elif value != element.attributes[name]:
                low, high = found[name].span(2)
                edits.append(TextEdit(element.start + low + 1, element.start + high - 1, escaped(value).encode()))
        at = element.start + last
        return [*edits, TextEdit(at, at, added.encode())] if added else edits

    def inserted(self, parent: Element, lines: Sequence[str], *, last: bool = False) -> list[TextEdit]:
        """Lines of XML put into an element, before or after its children, in the indentation of the file.

        In `lines` two spaces are one level; if the element is on one line in the file, one line is inserted.
        """
        own, step = self._indent(parent.start), self._step
        inside = self._indent(parent.children[0].start) if parent.children else None if own is None else own + step
        if own is None or inside is None:
            text, below = "".join(line.strip() for line in lines), ""
        else:
            depths = [(len(line) - len(line.lstrip())) // 2 for line in lines]
            rows = [inside + step * depth + line.lstrip() for depth, line in zip(depths, lines, strict=True)]
            text, below = "".join(self._line_end + row for row in rows), self._line_end + own
        if parent.opened == parent.end:  # <a/> becomes <a>…</a>
            slash = self.content.rindex(b"/", parent.start, parent.opened)
            cut = parent.start + len(self.content[parent.start : slash].rstrip())
            return [TextEdit(cut, parent.end, f">{text}{below}</{parent.tag}>".encode())]
        if not self.content[parent.opened : parent.closing].strip():
            return [TextEdit(parent.opened, parent.closing, (text + below).encode())]
        at = parent.children[-1].end if last and parent.children else parent.opened
        return [TextEdit(at, at, text.encode())]

    @cached_property
    def _line_end(self) -> str:
        return "\r\n" if b"\r\n" in self.content else "\n"

    def _indent(self, at: int) -> str | None:
        """Spaces before a place at the start of its line; None if there is other text before it."""
        blank = self.content[self.content.rfind(b"\n", 0, at) + 1 : at]
        return None if blank.strip() else blank.decode()

    @cached_property
    def _step(self) -> str:
        """One level of indentation: that of the first child that starts a line."""
        outer = self._indent(self.root.start) or ""
        for child in self.root.children:
            inner = self._indent(child.start)
            if inner is not None and len(inner) > len(outer):
                return inner[len(outer) :]
        return "  "


def source_bytes(source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as problem:
        raise RobotError(f"Cannot read the robot file '{source}': {problem}.") from problem


def robot_source(source: Path, root: str, form: str) -> bytes:
    """The user's file of `form`, whose root element is <`root`>."""
    content = source_bytes(source)
    if (found := root_tag(content, str(source))) != root:
        raise OutputError(
            f"'{source}' is not {form}: its root is <{found}>, not <{root}>. Give the {form} file to edit, or "
            "leave out the source to get a new file."
        )
    return content


def escaped(value: str) -> str:
    """Text as the value of an attribute."""
    return escape(value, {'"': "&quot;", "'": "&apos;"})


def opening(name: str, values: Mapping[str, str]) -> str:
    """The start tag of an element: <name key="value" …>."""
    return f"<{name}{''.join(f' {key}={_quoted(value)}' for key, value in values.items())}>"


def tag(name: str, values: Mapping[str, str]) -> str:
    """An element without content: <name key="value" …/>."""
    return opening(name, values)[:-1] + "/>"


def _quoted(value: str) -> str:
    return f'"{escaped(value)}"'


# --- The comment of an export -----------------------------------------------------------------------------------------

_REMARK = "Written by Steelyard. "
_OLD_REMARK = re.compile(rb"[ \t]*<!--\s*" + _REMARK.encode() + rb".*?-->\r?\n?", re.DOTALL)


def commented(content: bytes, sentences: Sequence[str], where: str = "the file") -> bytes:
    """The file with the sentences as a comment inside its root element, in the place of that of an earlier export."""
    text = XmlText.of(content, where)
    text = XmlText(_OLD_REMARK.sub(b"", text.content), text.encoding, text.mark)
    said = (_REMARK + " ".join(sentences)).replace("--", "- -")  # XML allows no -- in a comment
    lines = textwrap.wrap(said, 100, initial_indent="<!-- ", subsequent_indent="     ", break_on_hyphens=False)
    return text.edited(text.inserted(text.root, [*lines[:-1], f"{lines[-1]} -->"])).file
