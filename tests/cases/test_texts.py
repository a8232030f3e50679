"""What a text may say and how long it may be, whoever reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest
from builders import node, pod
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import decode
from scheduler.core import engine, explain, fit, unblocking
from scheduler.core.messages import Filter, NodeSeen, PodSeen, Synced
from scheduler.core.quoting import TEXT_LIMIT, bounded
from scheduler.settings import Settings

from .story import Story

# ── who is named to whom ──


def held(story: Story, pod: str, *names: str) -> str:
    """All that the scheduler is told of a pod: it goes into Events and the pod's condition."""
    answer = story.filter(pod, *names)
    return str({key: said for key, said in answer.items() if key != "nodes"})


def with_seat_kept() -> Story:
    """Of secret/A, which runs on n1 and n2, the member on n2 is lost, and its seat kept."""
    story = Story(grace_s=60)
    story.node("n1", gpu=1)
    story.node("n2", gpu=1)
    for at in range(2):
        story.pod(f"secret/A-{at}", gpu=1, gang="A", min=2)
    story.delete("secret/A-1")
    return story


def with_nodes_kept() -> Story:
    """secret/A has waited long for two nodes, of which n2 is busy."""
    story = Story(backfill_wait_s=60)
    story.node("n1", gpu=1)
    story.node("n2", gpu=1)
    story.pod("other/x", gpu=1, node="n2", scheduler="default-scheduler")
    for at in range(2):
        story.pod(f"secret/A-{at}", gpu=1, gang="A", min=2)
    story.advance(61)
    return story


@pytest.mark.parametrize("kept", [with_seat_kept, with_nodes_kept])
def test_a_hold_tells_no_other_namespace_for_whom_room_is_kept(kept: Any) -> None:
    story = kept()
    story.pod("t/f", gpu=1)

    said = held(story, "t/f")

    assert "capacity is kept for a gang of another namespace" in said
    assert "secret" not in said
    assert "secret/A" in story.why("t/f")["blocked_by"], "who may see all sees the name"


@pytest.mark.parametrize("kept", [with_seat_kept, with_nodes_kept])
def test_a_hold_tells_its_own_namespace_for_whom_room_is_kept(kept: Any) -> None:
    story = kept()
    story.pod("secret/f", gpu=1)

    assert "capacity is kept for gang secret/A" in held(story, "secret/f")


def test_a_plain_pod_is_told_of_reserved_room_and_not_whose_it_is() -> None:
    story = Story(start="follow")
    story.node("n1", gpu=1, cpu="8")
    story.pod("secret/A-0", gpu=1, cpu="6", gang="A", min=1)
    story.pod("t/plain", cpu="4")

    said = held(story, "t/plain", "n1")
    assert "room is reserved for a gang that starts now" in said
    assert "secret" not in said
    refused = story.bind("t/plain", "n1") or ""
    assert "room is reserved" in refused
    assert "secret" not in refused


# ── how long ──


def texts(found: Any) -> Iterator[str]:
    """All texts in an answer, an effect or a reply."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, Mapping):
        for key, value in found.items():
            yield from texts(key)
            yield from texts(value)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from texts(value)
    elif is_dataclass(found):
        yield from texts([getattr(found, field.name) for field in fields(found)])


def long(prefix: str, length: int) -> str:
    return prefix + "x" * max(0, length - len(prefix))


@dataclass(frozen=True)
class Sizes:
    """How much of everything a gang states."""

    members: int
    models: int
    roles: int
    levels: int
    name: int
    """Characters of names; those of labels are cut at 63."""
    differ: bool
    """Whether each member states something else."""
    amiss: str
    """What is wrong with the gang beside that it has no room."""


def member(sizes: Sizes, at: int) -> dict[str, Any]:
    models = [long(f"m{at if sizes.differ else 0}-{model}-", 63) for model in range(sizes.models)]
    roles = {long(f"r{role}-", 63): 2 for role in range(sizes.roles)}
    options = {
        "gpu-model-preferred": ",".join(models),
        "topology-preferred": long(f"p{at if sizes.differ else 0}", 60),
        **({"gpu-model-required": ",".join(models)} if sizes.amiss == "model" else {}),
        **({"topology-required": long("no", 60)} if sizes.amiss == "level" else {}),
        **({"role-min": json.dumps(roles)} if sizes.amiss == "role" else {}),
        **({"timeout": "x" * 5000, "start": "y" * 5000} if sizes.amiss == "value" else {}),
    }
    selector = {f"example.com/{long(f'{key}', 60)}": long("v", 63) for key in range(16)}
    return pod(
        f"t/{long(f'p{at}-', sizes.name)}",
        gpu=4,
        gang=long("g", 63),
        min=sizes.members,
        options=options,
        role=long(f"r{at % sizes.roles}-", 63),
        index=0,
        gates=["quota"] if sizes.amiss == "gate" else [],
        requests={f"example.com/{long(f'{at}', 60)}": "1"} if sizes.amiss == "resource" else None,
        spec={"nodeSelector": selector} if sizes.amiss == "selector" else None,
    )


def said_of(sizes: Sizes) -> list[str]:
    """All texts that people, the scheduler and Events get to see of such a gang."""
    levels = [f"example.com/{long(f'tier-{at}-', 60)}" for at in range(sizes.levels)]
    state = engine.new_state(Settings(levels=tuple(levels)))
    where = node(long("n", sizes.name), gpu=1, labels=dict.fromkeys(levels, long("v", 63)))
    members = [decode.pod(member(sizes, at)) for at in range(sizes.members)]
    holder = decode.pod(pod(f"t/{long('h', 250)}", gpu=1, node=long("n", sizes.name)))
    seen = [NodeSeen(decode.node(where)), PodSeen(holder), *map(PodSeen, members)]
    done = [engine.step(state, event, 1.0) for event in (*seen, Synced())]
    held = [engine.step(state, Filter(one.ref, [long("n", sizes.name)]), 1.0) for one in members]
    gangs = list(state.gangs.values())
    shown = [
        *(unblocking.answer(state, gang) for gang in gangs),
        *(explain.gang_row(state, gang, "g") for gang in gangs),
        *(step.reply for step in held),
        *(effect for step in done for effect in step.effects),
        fit.would_fit(state, members),
    ]
    return [text for one in shown for text in texts(one)]


SOME = st.sampled_from([1, 2, 16])


@settings(max_examples=60, derandomize=True, database=None)
@given(
    st.builds(
        Sizes,
        members=SOME,
        models=SOME,
        roles=SOME,
        levels=st.sampled_from([0, 3, 300]),
        name=st.sampled_from([20, 63, 250]),
        differ=st.booleans(),
        amiss=st.sampled_from(
            ["", "level", "model", "role", "resource", "gate", "value", "selector"]
        ),
    )
)
def test_no_text_is_longer_than_the_limit(sizes: Sizes) -> None:
    said = said_of(sizes)

    assert len(said) > 20
    assert max(map(len, said)) <= TEXT_LIMIT, max(said, key=len)


def test_texts_would_be_longer_than_the_limit_if_nobody_cut_them() -> None:
    most = [
        max(map(len, said_of(Sizes(16, 16, 16, 300, 250, differ=True, amiss=amiss))))
        for amiss in ("", "level", "model", "role", "resource", "gate", "selector")
    ]

    assert max(most) == TEXT_LIMIT
    assert most.count(TEXT_LIMIT) >= 5, most


@pytest.mark.parametrize("length", [0, 1, TEXT_LIMIT - 1, TEXT_LIMIT, TEXT_LIMIT + 1, 10**6])
def test_a_text_is_cut_at_the_limit_and_says_so(length: int) -> None:
    text = bounded("x" * length)

    assert len(text) == min(length, TEXT_LIMIT)
    assert text.endswith("…") is (length > TEXT_LIMIT)
