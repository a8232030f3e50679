"""A full collection of the serving process looks at what is new only, and at all once an hour."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from scheduler.cli import build
from scheduler.commands import garbage
from scheduler.commands.garbage import short_collections
from scheduler.errors import ClusterError


class Cycle:
    """Refers to itself, so that only a collection can free it."""

    def __init__(self) -> None:
        self.me = self


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _only_when_asked() -> Iterator[None]:
    """No collection comes by itself between those of a story, however much the process holds."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def clock() -> Iterator[Clock]:
    made = Clock()
    with short_collections(made, whole_every_s=3600.0):
        yield made


def old_cycle() -> weakref.ref[Cycle]:
    """A cycle that outlives a full collection, and is then given up."""
    cycle = Cycle()
    gc.collect()
    return weakref.ref(cycle)


def test_what_outlives_a_full_collection_is_not_looked_at_again(clock: Clock) -> None:
    lasting = [{"name": f"n{at}"} for at in range(1000)]
    gc.collect()
    looked_at = {id(each) for each in gc.get_objects()}
    assert not looked_at & {id(each) for each in lasting}


def test_cycles_that_die_young_are_collected(clock: Clock) -> None:
    gc.collect()
    young = weakref.ref(Cycle())
    gc.collect()
    assert young() is None


def test_cycles_that_die_old_are_collected_within_the_hour(clock: Clock) -> None:
    old = old_cycle()
    gc.collect()
    assert old() is not None, "a full collection looked at all objects"
    clock.now = 3600.0
    gc.collect()
    assert old() is None


def test_cycles_that_die_old_are_collected_before_they_are_many(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "MOST_LEFT_OUT", 1000)
    there = len(gc.get_objects())
    gc.collect()
    old = old_cycle()
    lasting = [[at] for at in range(there // 2)]
    gc.collect()
    assert old() is not None, "a full collection looked at all objects"
    gc.collect()
    assert old() is None
    assert len(lasting) == there // 2

    old = old_cycle()
    gc.collect()
    assert old() is not None, "what was left out was counted twice"


def test_after_the_whole_one_collections_are_short_again(clock: Clock) -> None:
    clock.now = 3600.0
    gc.collect()
    old = old_cycle()
    gc.collect()
    assert old() is not None


def test_lesser_collections_freeze_nothing(clock: Clock) -> None:
    gc.unfreeze()
    gc.collect(1)
    assert gc.get_freeze_count() == 0


def test_afterwards_collections_are_as_they_were() -> None:
    callbacks = list(gc.callbacks)
    with short_collections():
        old = old_cycle()
    gc.collect()
    assert old() is None
    assert (gc.callbacks, gc.get_freeze_count()) == (callbacks, 0)


def test_the_serving_process_collects_so(monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[object] = list(gc.callbacks)
    during: list[object] = []

    def refused(*_: object, **__: object) -> None:
        during.extend(each for each in gc.callbacks if each not in before)
        raise ClusterError("no such cluster")

    monkeypatch.setattr("scheduler.cluster.Connection", refused)
    with pytest.raises(ClusterError):
        build(["serve"])(["serve"])
    assert len(during) == 1
