"""Running information: rows of a stream into triangles, in constant memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import ModelError
from steelyard.model.model import Model
from steelyard.regression.forgetting import Forgetting, appended
from steelyard.regression.information import MOST_BLOCKS, BlockKey, Information, Triangle
from steelyard.regression.observe import RowBatch

# Rows gathered before an open block is reduced to a triangle.
_GATHER = 512


class JointColumns:
    """Indices of the columns that affect each joint: `columns` (c_j,) in the layout, `places` (c_j,) in a row batch."""

    def __init__(self, model: Model) -> None:
        if model.payloads:
            raise ModelError(
                "A stream identifies a robot without declared payloads: remove the payloads from its model."
            )
        rows, names = model.places[:, 0], model.places[:, 1]
        self.columns: list[NDArray[np.int64]] = []
        self.places: list[NDArray[np.int64]] = []
        for j in range(model.robot.dof):
            where = np.full(len(model.layout), -1)
            where[names[rows == j]] = np.flatnonzero(rows == j)
            reached = np.flatnonzero(model.nonzero[j])
            self.columns.append(reached)
            self.places.append(where[reached])


class RunningInformation:
    """Information of a running log: closed blocks of time, and one that is open.

    Without forgetting, neighbours are merged when there are MOST_BLOCKS of them, and blocks are twice as long from then
    on. With exponential forgetting, blocks have a fixed length, and those older than eight memories, of weight exp(−8),
    are dropped. With directional forgetting, closed blocks are merged into one triangle per joint.
    """

    def __init__(self, model: Model, name: str, load: str, rule: Forgetting, size: int) -> None:
        self.model, self.name, self.load, self.rule, self.size = model, name, load, rule, max(1, size)
        self.where = JointColumns(model)
        self.blocks: dict[BlockKey, Triangle] = {}
        n = model.robot.dof
        self.block = 0
        self.parts: list[list[Array]] = [[] for _ in range(n)]
        self.held = np.zeros(n, np.int64)
        self.rows = np.zeros(n, np.int64)
        self.total = 0

    def add(self, batch: RowBatch, keep: NDArray[np.bool_]) -> None:
        """Add rows in order of their numbers; keep (n, m) marks the joints for which they are used."""
        blocks = batch.number // self.size
        for block in np.unique(blocks):
            if block != self.block:
                self._close()
                # lengths may have doubled
                self.block = int(batch.number[blocks == block][0] // self.size)
            own = keep & (blocks == block)
            for j in np.flatnonzero(own.any(axis=1)):
                rows = np.concatenate([batch.w[self.where.places[j]][:, own[j]], batch.y[:1, j, own[j]]]).T
                self.parts[j].append(rows)
                self.held[j] += len(rows)
                self.rows[j] += len(rows)
                if self.held[j] >= _GATHER:
                    self.parts[j] = [Triangle.of(np.concatenate(self.parts[j]), 0).r]
                    self.held[j] = len(self.parts[j][0])
        self.total += int(keep.any(axis=0).sum())

    def information(self) -> Information:
        """The information of all blocks, including the open one."""
        blocks = dict(self.blocks)
        for j in np.flatnonzero(self.rows):
            key = self._key(self.block, int(j))
            new = Triangle.of(np.concatenate(self.parts[j]), int(self.rows[j]))
            blocks[key] = blocks[key] + new if key in blocks else new
        robot = self.model.robot
        return Information(
            self.model.layout, robot.axis_names, tuple(self.where.columns), ("effort",), blocks, {self.name: self.size}
        )

    def _key(self, block: int, joint: int) -> BlockKey:
        return BlockKey(self.name, self.load, block, joint)

    def _close(self) -> None:
        """Add the open block to the closed ones."""
        for j in np.flatnonzero(self.rows):
            new = Triangle.of(np.concatenate(self.parts[j]), int(self.rows[j]))
            key = self._key(self.block, int(j))
            if self.rule.rule == "directional":
                self._fold(int(j), new)
            else:
                self.blocks[key] = self.blocks[key] + new if key in self.blocks else new
            self.parts[j] = []
        self.held[:] = self.rows[:] = 0
        if self.rule.rule == "exponential":
            self.blocks = {k: t for k, t in self.blocks.items() if k.block > self.block - MOST_BLOCKS}
        while self.rule.rule == "none" and len({key.block for key in self.blocks}) >= MOST_BLOCKS:
            merged: dict[BlockKey, Triangle] = {}
            for key, triangle in self.blocks.items():
                wider = self._key(key.block // 2, key.joint)
                merged[wider] = merged[wider] + triangle if wider in merged else triangle
            self.blocks, self.size, self.block = merged, 2 * self.size, self.block // 2

    def _fold(self, joint: int, new: Triangle) -> None:
        before = next((key for key in self.blocks if key.joint == joint), None)
        if before is not None:
            share = self.rule.left((self.block - before.block) * self.size)
            new = appended(self.blocks.pop(before), new, share, len(self.where.columns[joint]))
        self.blocks[self._key(self.block, joint)] = new
