"""The scheduler writes hints and the trainer reads them; neither imports the other."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core import hints as written
from scheduler.model import Node
from trainer import hints as read

TEXTS = st.text(min_size=1, max_size=40)


@given(
    rank=st.integers(0, 511),
    size=st.integers(1, 512),
    role=st.sampled_from(["", "worker", "master"]),
    path=st.lists(st.none() | TEXTS, max_size=4),
    labels=st.dictionaries(st.sampled_from([written.CLIQUE, "cloud.google.com/gke-spot"]), TEXTS),
)
def test_the_trainer_reads_what_the_scheduler_writes(
    rank: int, size: int, role: str, path: list[str | None], labels: dict[str, str]
) -> None:
    levels = [f"level-{number}" for number in range(len(path))]
    hint = written.make(
        gang="ns/name",
        generation="uid-1",
        rank=rank,
        size=size,
        least=1,
        role=role,
        node=Node("n1", labels=labels),
        levels=levels,
        path=path,
    )
    found = read.parse(written.text(hint))
    assert (found.v, found.gang, found.id, found.node) == (1, "ns/name", "uid-1", "n1")
    assert (found.rank, found.size, found.min, found.role) == (rank, size, 1, role or None)
    assert list(found.levels) == levels
    assert list(found.path) == path
    assert found.clique == (labels.get(written.CLIQUE) or None)
    assert found.spot is (labels.get("cloud.google.com/gke-spot") == "true")
    assert found.gpus is None


def test_a_later_version_is_refused_by_both() -> None:
    later = json.dumps({"v": 2, "rank": 0})
    assert written.read(later) == {}
    with pytest.raises(Exception, match="2"):
        read.parse(later)


def test_unknown_fields_are_ignored_by_both() -> None:
    hint = written.make(
        gang="ns/a",
        generation="u",
        rank=3,
        size=8,
        least=8,
        role="",
        node=Node("n1"),
        levels=["topo/rack"],
        path=["r1"],
    )
    text = json.dumps(hint | {"future": [1, 2]})
    assert written.rank_of(text) == 3
    assert read.parse(text).rank == 3


def test_a_hint_that_is_too_long_keeps_its_rank() -> None:
    path = ["x" * 2000, "y" * 2000, "z" * 2000]
    hint = written.make(
        gang="ns/a",
        generation="u",
        rank=7,
        size=8,
        least=8,
        role="",
        node=Node("n1"),
        levels=["a", "b", "c"],
        path=list(path),
    )
    text = written.text(hint)
    assert len(text.encode()) <= written.LIMIT
    assert read.parse(text).rank == 7
