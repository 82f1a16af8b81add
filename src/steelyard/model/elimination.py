"""Elimination order of the unknowns of a sparse least-squares problem, from its pattern."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._kernels.loops.elimination import Plan


class Elimination(NamedTuple):
    """A `Plan`; `order` (n,): the unknown that step k eliminates; `slot`: index of the entry (row, column), where
    columns from n on are right-hand sides."""

    plan: Plan
    order: NDArray[np.int64]
    slot: dict[tuple[int, int], int]


def elimination(pattern: NDArray[np.bool_], right: NDArray[np.bool_]) -> Elimination:
    """Plan for unknowns with pattern (m, n) and right-hand sides with pattern (m, r).

    The next unknown is the one whose joined rows have the fewest entries (minimum degree): those of a leg come before
    those that legs share, such as the platform's, which causes little fill-in.
    """
    m, n = pattern.shape
    touched = [set(np.flatnonzero(pattern[r]).tolist()) for r in range(m)]
    sides = [set(np.flatnonzero(right[r]).tolist()) for r in range(m)]
    fresh = {(r, c) for r in range(m) for c in touched[r]} | {(r, n + a) for r in range(m) for a in sides[r]}
    remaining, open_rows = set(range(n)), set(range(m))
    order: list[int] = []
    slot: dict[tuple[int, int], int] = {}
    steps: list[tuple[list[int], list[int], list[int]]] = []
    while remaining:
        best: tuple[int, int] | None = None
        for c in sorted(remaining):
            rows = [r for r in open_rows if c in touched[r]]
            joined = len(set().union(*(touched[r] for r in rows)))
            if rows and (best is None or len(rows) * joined < best[0]):
                best = len(rows) * joined, c
        if best is None:
            raise ValueError("The pattern has fewer independent rows than unknowns.")
        c = best[1]
        rows = sorted(r for r in open_rows if c in touched[r])
        inner = set().union(*(touched[r] for r in rows)) - {c}
        outer = set().union(*(sides[r] for r in rows))
        steps.append((rows, [c, *sorted(inner)], sorted(outer)))
        for column in (c, *sorted(inner), *(n + a for a in sorted(outer))):
            for r in rows:
                slot.setdefault((r, column), len(slot))
        for r in rows:
            touched[r], sides[r] = set(inner), set(outer)
        open_rows.discard(rows[0])
        remaining.discard(c)
        order.append(c)
    # rows without unknowns keep a slot for the values written to them
    for place in sorted(fresh):
        slot.setdefault(place, len(slot))
    return Elimination(_flat(steps, slot, fresh, order, m, right.shape[1]), np.array(order, np.int64), slot)


def _flat(
    steps: list[tuple[list[int], list[int], list[int]]],
    slot: dict[tuple[int, int], int],
    fresh: set[tuple[int, int]],
    order: list[int],
    rows: int,
    right: int,
) -> Plan:
    n = len(order)
    number = {c: k for k, c in enumerate(order)}
    slots: list[int] = []
    columns: list[int] = []
    places: list[int] = []
    step: list[tuple[int, ...]] = []
    for here, inner, outer in steps:
        step.append((len(here), len(inner), len(inner) + len(outer), len(slots), len(columns), len(places)))
        slots += [slot[r, c] for c in (*inner, *(n + a for a in outer)) for r in here]
        columns += [number[c] for c in inner] + outer
        places += here
    blank = [place for place in slot if place not in fresh]
    unknown = [slot[r, c] for r, c in blank if c < n]
    return Plan(
        step=np.array(step, np.int64).reshape(-1, 6),
        slot=np.array(slots, np.int64),
        column=np.array(columns, np.int64),
        row=np.array(places, np.int64),
        blank=np.array(unknown + [slot[r, c] for r, c in blank if c >= n], np.int64),
        inner_blank=len(unknown),
        slots=len(slot),
        rows=rows,
        right=right,
    )
