"""The fields of a ROS message, from the definition in the bag or from the standard ROS messages.

The only module that uses rosbags, and only to parse definitions: registering a type there would compile and run code
made from the bag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from steelyard.errors import DataError, MissingExtraError

SEQUENCE = -1
_IDL_SEPARATOR = "=" * 80 + "\n"


@dataclass(frozen=True)
class Definition:
    """A type as stated in a bag: its name, the text that defines it, and the language of that text.

    `language` is "ros1msg", "ros2msg", "ros2idl", "omgidl", or empty if the bag has no definition.
    """

    type: str
    language: str
    text: str


class Field(NamedTuple):
    """One field: `kind` is a primitive such as "float64", or the name of a message type if `nested`.

    `length` is None for a single value, SEQUENCE for a length given in the message, else the length of the array.
    """

    name: str
    kind: str
    nested: bool
    length: int | None


Types = Mapping[str, tuple[Field, ...]]


def normal_type(name: str) -> str:
    """package/msg/Name, as in ROS 2; ROS 1 leaves out the middle part."""
    package, _, last = name.partition("/")
    return name if "/" in last or not last else f"{package}/msg/{last}"


@lru_cache(maxsize=64)
def message_types(definition: Definition) -> Types:
    """Fields of a message type and of all types in it."""
    interfaces, typesys = _rosbags()
    try:
        if definition.language in ("ros1msg", "ros2msg"):
            found = typesys.get_types_from_msg(definition.text, definition.type)
        elif definition.language in ("ros2idl", "omgidl"):
            found = {}
            for part in definition.text.split(_IDL_SEPARATOR):
                body = part.split("\n", 1)[1] if part.startswith("IDL: ") else part
                if body.strip():
                    found |= typesys.get_types_from_idl(body)
        else:
            found = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE).fielddefs
        # Time and Duration are built in and have no definition.
        known = typesys.get_typestore(typesys.Stores.EMPTY).fielddefs | found
    except (typesys.TypesysError, ValueError, IndexError, RecursionError) as error:
        reason = " ".join(str(error).split())[:160]
        raise DataError(f"The definition of '{definition.type}' in the bag cannot be read ({reason}).") from None
    if definition.type not in known:
        raise DataError(
            f"The bag does not define the message type '{definition.type}', and it is not a standard ROS type. Record "
            "to MCAP, which stores the definitions, or choose another topic."
        )
    return {name: tuple(_field(interfaces, *entry) for entry in fields) for name, (_, fields) in known.items()}


def _field(interfaces: Any, name: str, description: Any) -> Field:
    node, content = description
    kinds = interfaces.Nodetype
    if node in (kinds.ARRAY, kinds.SEQUENCE):
        inner = _field(interfaces, name, content[0])
        return inner._replace(length=content[1] if node == kinds.ARRAY else SEQUENCE)
    return Field(name, content if node == kinds.NAME else content[0], node == kinds.NAME, None)


def _rosbags() -> tuple[Any, Any]:
    try:
        from rosbags import interfaces, typesys
    except ImportError:
        raise MissingExtraError("rosbags", "bags", "Reading a ROS bag or an MCAP file") from None
    return interfaces, typesys
