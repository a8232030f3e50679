"""Whether a node's GPUs can be told apart is looked at once for each change of that node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import decode
from scheduler.core import engine, exactness, indexing, rooming
from scheduler.core.kinds import kind_of
from scheduler.core.messages import (
    Bind,
    EffectDone,
    Event,
    NodeGone,
    NodeSeen,
    Outcome,
    PodGone,
    PodSeen,
    Synced,
)
from scheduler.settings import Settings
from tests.builders import node, pod
from tests.engine.gpu_worlds import EXACT, World, agent, asking, told

KIND = kind_of(decode.pod(asking()))


def shut(state: Any) -> list[str]:
    """Nodes on which GPUs cannot be told apart."""
    room = rooming.open_room(state)
    everywhere = np.ones(len(room.frame.names), np.bool_)
    found = exactness.assignable(state, KIND, room.frame, room.free, everywhere)
    return [name for name, good in zip(room.frame.names, found.tolist(), strict=True) if not good]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes that were looked at."""
    seen: list[str] = []
    real = indexing.unknown

    def counted(state: Any, name: str, resource: str, **more: Any) -> str:
        seen.append(name)
        return real(state, name, resource, **more)

    monkeypatch.setattr(indexing, "unknown", counted)
    return seen


def test_only_what_has_changed_is_looked_at_again(looks: list[str]) -> None:
    world = World()
    for at in range(5):
        world.node(agent() if at else {}, f"n{at}")
    assert shut(world.state) == ["n0"]

    looks.clear()
    assert shut(world.state) == ["n0"]
    assert looks == []

    world.pods(pod("t/x", gpu=1, node="n3", uid="u-x"))
    assert shut(world.state) == ["n0", "n3"]
    assert set(looks) == {"n3"}


def test_nodes_that_come_and_go_make_nobody_look_at_the_others(looks: list[str]) -> None:
    world = World()
    for name in ("n1", "n3"):
        world.node(agent(), name)
    shut(world.state)

    looks.clear()
    world.node(agent(), "n2")
    assert shut(world.state) == []
    assert set(looks) == {"n2"}

    world.step(NodeGone("n1"))
    world.node({}, "n1")
    assert shut(world.state) == ["n1"], "a node that was made anew has not what the last one had"


def test_of_a_binding_that_was_given_up_it_is_not_known_any_more_what_it_took() -> None:
    state = engine.new_state(Settings())
    members = [pod(f"t/p{at}", gpu=1, uid=f"u-{at}", gang="g", min=2) for at in range(2)]
    for event in (
        Synced(),
        NodeSeen(decode.node(node("n1", gpu=4, annotations=agent()))),
        *(PodSeen(decode.pod(member)) for member in members),
    ):
        engine.step(state, event, 0.0)
    assert len(state.binding) == 2
    assert shut(state) == []

    engine.step(state, PodGone("u-0"), 1.0)
    assert shut(state) == ["n1"], "it may land any moment, and on which GPU nobody says"


# ── whatever happens, it is what a fresh look gives ──

AGENTS = ({}, agent(), agent({"u-1": [0]}), agent(by_name={"t/p1": [2]}, at=200), agent(mig=[0]))
NAMES = st.sampled_from(("n1", "n2"))
NUMBERS = st.integers(0, 5)
EVENTS = st.one_of(
    st.tuples(st.just("node"), NAMES, st.sampled_from(AGENTS)),
    st.tuples(st.just("no node"), NAMES),
    st.tuples(st.just("pod"), NUMBERS, st.sampled_from(("exact", "plain")), st.booleans()),
    st.tuples(st.just("no pod"), NUMBERS),
    st.tuples(st.just("runs"), NUMBERS, NAMES, st.sampled_from(({}, told([0]), told([3])))),
    st.tuples(st.just("outcome"), st.sampled_from(tuple(Outcome))),
)


def _event(what: str, *how: Any, open_binds: list[int]) -> Event | None:
    match what:
        case "node":
            return NodeSeen(decode.node(node(how[0], gpu=4, annotations=how[1])))
        case "no node":
            return NodeGone(how[0])
        case "pod":
            number, sort, other = how
            gang = {"gang": f"g{number % 2}", "min": 2, "options": EXACT if sort == "exact" else {}}
            found = pod(f"t/p{number}", gpu=2 if other else 1, uid=f"u-{number}", **gang)
            return PodSeen(decode.pod(found))
        case "runs":
            status = {"phase": "Running", "startTime": "1970-01-01T00:01:40Z"}
            number, name, hint = how
            found = pod(
                f"t/p{number}",
                gpu=1,
                uid=f"u-{number}",
                node=name,
                status=status,
                annotations=hint,
            )
            return PodSeen(decode.pod(found))
        case "no pod":
            return PodGone(f"u-{how[0]}")
    return EffectDone(open_binds.pop(0), how[0]) if open_binds else None


@given(st.lists(EVENTS, max_size=25))
def test_what_is_kept_is_what_a_fresh_look_gives(story: list[Any]) -> None:
    state = engine.new_state(Settings())
    engine.step(state, Synced(), 0.0)
    open_binds: list[int] = []
    for at, (what, *how) in enumerate(story):
        event = _event(what, *how, open_binds=open_binds)
        if event is None:
            continue
        step = engine.step(state, event, float(at))
        open_binds += [effect.id for effect in step.effects if isinstance(effect, Bind)]
        kept, known = shut(state), dict(state.apart)
        state.apart.clear()
        assert kept == shut(state)
        state.apart.update(known)
