"""The columns of a ROS message: by joint name if it names joints, else by the path of the number."""

from __future__ import annotations

import re
from typing import NamedTuple

from steelyard.formats.bags.layout import MessageLayout, Numbers

# Every topic has these two: the time a message was sent, if known, and the time it was recorded.
STAMP, RECEIVE = TIME_COLUMNS = ("stamp", "receive")
JOINT_STATE = "sensor_msgs/msg/JointState"
CONTROLLER_STATE = "control_msgs/msg/JointTrajectoryControllerState"
DYNAMIC_STATE = "control_msgs/msg/DynamicJointState"
_ARRAYS = ("std_msgs/msg/Float64MultiArray", "std_msgs/msg/Float32MultiArray")
# Types among which a topic is chosen by default; a topic that is named may have any type.
USUAL_TYPES = (
    JOINT_STATE,
    CONTROLLER_STATE,
    DYNAMIC_STATE,
    *_ARRAYS,
    "std_msgs/msg/Float64",
    "std_msgs/msg/Float32",
    "geometry_msgs/msg/WrenchStamped",
)
# Fields whose texts name columns.
NAMING_FIELDS = {
    JOINT_STATE: frozenset({"name"}),
    CONTROLLER_STATE: frozenset({"joint_names"}),
    DYNAMIC_STATE: frozenset({"joint_names", "interface_names"}),
}
# A message with more numbers than this is an image or a point cloud.
MOST_NUMBERS = 4096
_POINT = re.compile(r"(?P<point>\w+)\.(?P<field>positions|velocities|accelerations|effort)")
_SINGULAR = {"positions": "position", "velocities": "velocity", "accelerations": "acceleration", "effort": "effort"}


class MessageCell(NamedTuple):
    """One number of a message: its array and its index there."""

    numbers: Numbers
    place: int


class MessageColumns(NamedTuple):
    """Columns of messages of one layout, and the fields that had to be left out."""

    cells: dict[str, MessageCell]
    problems: tuple[str, ...] = ()


def columns_of(kind: str, layout: MessageLayout) -> MessageColumns:
    """Columns of a message of type `kind`: `<joint>.position`, `<joint>.feedback.velocity`, `data[0]`, `force.x`, …"""
    if sum(numbers.size for numbers in layout.numbers.values()) > MOST_NUMBERS:
        return MessageColumns({}, (f"a message has more than {MOST_NUMBERS} numbers, too many for a row of a log",))
    if kind == JOINT_STATE:
        fields = ("position", "velocity", "effort")
        arrays = {field: layout.numbers[field] for field in fields if field in layout.numbers}
        return _by_joint(layout.texts.get("name", ()), arrays)
    if kind == CONTROLLER_STATE:
        points = [(match, numbers) for path, numbers in layout.numbers.items() if (match := _POINT.fullmatch(path))]
        arrays = {f"{match['point']}.{_SINGULAR[match['field']]}": numbers for match, numbers in points}
        return _by_joint(layout.texts.get("joint_names", ()), arrays)
    if kind == DYNAMIC_STATE:
        return _by_interface(layout)
    cells: dict[str, MessageCell] = {}
    for path, numbers in layout.numbers.items():
        if path.startswith("header.") or (kind in _ARRAYS and path != "data"):
            continue
        for place in range(numbers.size):
            name = f"{path}[{place}]" if numbers.is_array else path
            cells[f"message.{name}" if name in TIME_COLUMNS else name] = MessageCell(numbers, place)
    return MessageColumns(cells)


def _by_joint(joints: tuple[str, ...], arrays: dict[str, Numbers]) -> MessageColumns:
    """Arrays with one number per joint; an empty one was not measured."""
    if len(set(joints)) < len(joints):
        return MessageColumns({}, (f"a message contains a joint twice ({', '.join(joints)}) and was left out",))
    cells: dict[str, MessageCell] = {}
    problems: list[str] = []
    for field, numbers in arrays.items():
        if numbers.size == len(joints):
            cells |= {f"{joint}.{field}": MessageCell(numbers, place) for place, joint in enumerate(joints)}
        elif numbers.size:
            problems.append(f"'{field}' has {numbers.size} values for {len(joints)} joints and was left out")
    return MessageColumns(cells, tuple(problems))


def _by_interface(layout: MessageLayout) -> MessageColumns:
    cells: dict[str, MessageCell] = {}
    problems: list[str] = []
    for element, joint in enumerate(layout.texts.get("joint_names", ())):
        names = layout.texts.get(f"interface_values[{element}].interface_names", ())
        numbers = layout.numbers.get(f"interface_values[{element}].values")
        if numbers is None or numbers.size != len(names):
            problems.append(f"the interfaces of joint '{joint}' do not match their values and were left out")
            continue
        cells |= {f"{joint}.{name}": MessageCell(numbers, place) for place, name in enumerate(names)}
    return MessageColumns(cells, tuple(problems))
