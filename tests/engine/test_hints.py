"""What a member is told of its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import decode
from scheduler.core import engine, hints
from scheduler.core.messages import Bind, Event, NodeSeen, PodSeen, Synced
from scheduler.model import Node
from scheduler.settings import Settings
from tests.builders import node, pod


def hint(node: Node | None = None, **fields: Any) -> dict[str, Any]:
    return hints.make(
        **(
            {
                "gang": "t/A",
                "generation": "job-1",
                "rank": 3,
                "size": 8,
                "least": 6,
                "role": "worker",
                "node": node or Node("n1"),
                "levels": ["topo/block", "topo/rack"],
                "path": ["b1", None],
            }
            | fields
        )
    )


def test_a_hint_says_who_where_and_with_how_many() -> None:
    told = hint(Node("n1", labels={"nvidia.com/gpu.clique": "c.1"}))

    assert told == {
        "v": 1,
        "gang": "t/A",
        "id": "job-1",
        "rank": 3,
        "size": 8,
        "min": 6,
        "role": "worker",
        "node": "n1",
        "levels": ["topo/block", "topo/rack"],
        "path": ["b1", None],
        "clique": "c.1",
        "gpus": None,
        "spot": False,
    }


def test_what_is_written_can_be_read() -> None:
    assert hints.read(hints.text(hint())) == hint()


@pytest.mark.parametrize("label", hints.SPOT, ids=lambda label: label[0])
def test_machines_that_may_be_taken_away_are_known_by_their_labels(label: tuple[str, str]) -> None:
    key, value = label

    assert hints.is_spot(Node("n1", labels={key: value}))
    assert not hints.is_spot(Node("n1", labels={key: "something else"}))


@pytest.mark.parametrize(
    "annotation",
    ["", "{", "[]", "null", "7", '"text"', '{"v":2,"rank":1}', '{"rank":1}', "[" * 100_000],
    ids=["empty", "broken", "list", "null", "number", "text", "later", "no version", "deep"],
)
def test_what_cannot_be_read_says_nothing(annotation: str) -> None:
    assert hints.read(annotation) == {}
    assert hints.rank_of(annotation) is None


@pytest.mark.parametrize("rank", [-1, True, 1.0, "1", None, [1]])
def test_a_rank_is_a_whole_number_from_zero(rank: object) -> None:
    assert hints.rank_of(json.dumps({"v": 1, "rank": rank})) is None


@given(
    st.lists(st.text(max_size=300), max_size=40),
    st.text(max_size=300),
    st.integers(0, 2**40),
)
def test_a_hint_never_exceeds_its_limit_and_keeps_its_rank(
    values: list[str], role: str, rank: int
) -> None:
    told = hint(levels=values, path=values, role=role, rank=rank)

    written = hints.text(told)

    assert len(written.encode()) <= hints.LIMIT
    assert hints.rank_of(written) == rank


def test_gpus_stay_with_their_uuids_or_go_with_them() -> None:
    def kept(length: int) -> tuple[int, int]:
        told = hints.told_of(hints.text(hint(gpus=range(32), uuids=["x" * length] * 32)))
        assert told is not None
        return len(told.gpus), len(told.uuids)

    assert kept(40) == (32, 32)
    assert kept(128) == (0, 0), "as if nothing was told, and not as if no UUID was known"


@pytest.mark.parametrize(
    "made_up", ['"\\ud800"', '"\\u0000"', f'"{"x" * 10_000}"', '["job-1"]', '{"a": 1}', "true", "7"]
)
def test_a_generation_that_somebody_made_up_is_not_passed_on(made_up: str) -> None:
    """A pod that came with a node and a hint of its own is a member as others are."""
    state = engine.new_state(Settings())
    forged = {hints.KEY: f'{{"v": 1, "rank": 0, "id": {made_up}}}'}
    seated = pod("t/a-0", gang="a", min=2, node="n1", annotations=forged)
    events: list[Event] = [Synced(), NodeSeen(decode.node(node("n1", gpu=8)))]
    events += [PodSeen(decode.pod(obj)) for obj in (seated, pod("t/a-1", gang="a", min=2))]
    effects = [effect for event in events for effect in engine.step(state, event, 0.0).effects]
    bound = [effect for effect in effects if isinstance(effect, Bind)]
    assert [effect.ref.name for effect in bound] == ["a-1"]
    assert hints.read(bound[0].annotations[hints.KEY])["id"] == "t/a-1"


def test_one_that_was_given_out_is_kept() -> None:
    assert hints.generation_of(hints.text(hint())) == "job-1"
    assert hints.generation_of("") == ""
