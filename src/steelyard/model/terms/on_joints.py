"""A term on some joints only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, final

from steelyard._arrays import Array
from steelyard.errors import ModelError, choices
from steelyard.model.robot import Robot
from steelyard.model.terms.law import AppliedLaw
from steelyard.model.terms.term import Entry, Motion, Term, laws_of, uses


def on_joints(term: Term, joints: Sequence[str]) -> Term:
    """The term on the named joints only."""
    if isinstance(term, OnJoints):
        return on_joints(term.term, [name for name in joints if name in term.joints])
    if not joints:
        raise ModelError(f"Term '{term.name}' is on no joint: name one or more, or leave the term out.")
    # its name is that of the inner term, so it is a property and no class attribute
    return cast(Term, OnJoints(term, joints))


@final
@dataclass(frozen=True)
class OnJoints:
    """`term`, but only the columns of the named joints."""

    term: Term
    joints: Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", tuple(self.joints))

    @property
    def name(self) -> str:
        return self.term.name

    @property
    def needs(self) -> tuple[str, ...]:
        return getattr(self.term, "needs", ())

    @property
    def uses(self) -> tuple[str, ...]:
        return uses(self.term)

    def _kept(self, robot: Robot) -> list[int]:
        for joint in self.joints:
            if joint not in robot.joint_names:
                raise ModelError(f"Term '{self.name}': " + choices("joint", joint, robot.joint_names))
        kept = [k for k, entry in enumerate(self.term.entries(robot)) if entry.column.owner in self.joints]
        if not kept:
            raise ModelError(
                f"Term '{self.name}' has no column of {', '.join(self.joints)}. Leave out 'joints', or name others."
            )
        return kept

    def entries(self, robot: Robot) -> tuple[Entry, ...]:
        every = self.term.entries(robot)
        return tuple(every[k] for k in self._kept(robot))

    def fill(self, robot: Robot, motion: Motion) -> Array:
        if motion.past is not None:
            # the same term may be listed again for other joints: each listing has a memory of its own
            motion = motion._replace(past=motion.past.setdefault(f"on {' '.join(self.joints)}", {}))
        return self.term.fill(robot, motion)[self._kept(robot)]

    def laws(self, robot: Robot) -> tuple[AppliedLaw, ...] | None:
        every = laws_of(self.term, robot)
        return None if every is None else tuple(every[k] for k in self._kept(robot))
