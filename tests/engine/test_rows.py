"""Rows for people that are made anew only where something has changed say what fresh ones say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scheduler.core import engine, explain
from scheduler.core.gang_rows import GangRows
from scheduler.core.messages import Event, GroupGone, GroupSeen
from scheduler.core.node_rows import NodeRows
from scheduler.core.state import State

from . import kits, sequences
from .operations import do
from .trial import Trial


class Looking(Trial):
    """A trial in which somebody looks after every third event."""

    def __init__(self, kit: kits.Kit) -> None:
        self.seen: State | None = None
        self.looks = 0
        self.kept = 0
        super().__init__(kit)

    def feed(self, event: Event, outside: Sequence[str] = ()) -> engine.Step:
        if self.seen is not self.state:
            self.seen, self.node_rows, self.gang_rows = self.state, NodeRows(), GangRows()
        if isinstance(event, GroupSeen | GroupGone):
            key = event.group.key if isinstance(event, GroupSeen) else event.key
            self.node_rows.regrouped(self.state, key)
        step = super().feed(event, outside)
        self.looks += 1
        if self.looks % 3 == 0:
            self.look()
        return step

    def look(self) -> None:
        before = {
            id(row) for row in (*self.node_rows.all(self.state), *self.gang_rows.all(self.state))
        }
        assert self.node_rows.all(self.state) == explain.nodes(self.state)
        assert self.gang_rows.all(self.state) == explain.gangs(self.state)
        self.kept += len(before)


@pytest.mark.parametrize("seed", range(24))
def test_what_is_kept_is_what_is_true(seed: int) -> None:
    trial = Looking(kits.make(seed))
    for op in sequences.draw(seed):
        do(trial, op)
    trial.look()
    assert trial.kept


def test_rows_of_what_did_not_change_are_the_same_objects() -> None:
    trial = Looking(kits.make(1))
    for op in sequences.draw(1):
        do(trial, op)
    rows = [*trial.node_rows.all(trial.state), *trial.gang_rows.all(trial.state)]
    again = [*trial.node_rows.all(trial.state), *trial.gang_rows.all(trial.state)]
    assert rows
    assert [id(row) for row in rows] == [id(row) for row in again]
