"""A pod with `exact-gpus` is bound with the very GPUs that it may use, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import decode
from scheduler.core import fit
from scheduler.core.messages import Bind, BindCall, Nominate, PodGone
from tests.builders import pod
from tests.engine.gpu_worlds import EXACT, UUIDS, World, agent, asking, told


def visible(annotations: dict[str, str], *pods: dict[str, Any]) -> dict[str, str | None]:
    """Pod -> the devices that its Binding gives it."""
    world = World()
    world.node(annotations)
    world.pods(*pods)
    return world.given


# ── given ──


def test_a_member_that_asks_for_it_is_given_its_very_gpus() -> None:
    members = [asking(f"t/a-{at}", gang="a", min=2) for at in range(2)]
    assert visible(agent(), *members) == {"a-0": "GPU-a,GPU-b", "a-1": "GPU-c,GPU-d"}
    assert visible(agent(uuids=[]), *members) == {"a-0": "0,1", "a-1": "2,3"}


def test_nobody_is_given_gpus_unasked() -> None:
    assert visible(agent(), pod("t/a", gpu=2)) == {"a": None}


def test_a_member_without_accelerators_needs_no_agent() -> None:
    assert visible({}, asking(gpu=0, gang="a", min=1)) == {"a": None}


def test_accelerators_of_an_own_name_are_given_by_the_same_table() -> None:
    world = World("example.com/gpu")
    world.node(agent(), gpu=0, allocatable={"example.com/gpu": 4})
    world.pods(asking(gpu=0, requests={"example.com/gpu": 2}))
    assert world.given == {"a": "GPU-a,GPU-b"}


def test_gpus_that_were_given_are_not_given_again_after_a_restart() -> None:
    first = asking(node="n1", annotations=told([0, 1]))
    assert visible(agent(), first, asking("t/b")) == {"b": "GPU-c,GPU-d"}


def test_what_a_pod_s_owner_makes_of_its_hint_later_gives_nobody_other_gpus() -> None:
    for forged in ([2, 3], [0, 1, 2, 3]):
        first = asking("x/a", node="n1", annotations=told([0, 1]))
        changed = asking("x/a", node="n1", annotations=told(forged))
        assert visible(agent(), first, changed, asking("t/b")) == {"b": "GPU-c,GPU-d"}


def test_who_has_gpus_that_the_node_does_not_have_may_have_any() -> None:
    """A hint that was made up, before Muster first saw it or while it was away."""
    for forged in ([-1, -2], [62, 63], [0, 4]):
        first = asking("x/a", node="n1", annotations=told(forged))
        assert visible(agent(), first, asking("t/b")) == {}


def test_what_it_was_told_to_take_counts_whatever_the_agent_says_of_it() -> None:
    first = asking("x/a", node="n1", uid="u-a", annotations=told([0, 1]))
    assert visible(agent({"u-a": [2, 3]}), first, asking("t/b")) == {"b": "GPU-c,GPU-d"}


def test_those_who_leave_the_choice_to_the_kubelet_choose_last() -> None:
    amd = {"amd.com/gpu": 1}
    members = [
        pod("t/a-0", gpu=1, gang="a", min=2, requests=amd),
        asking("t/a-1", gpu=2, gang="a", min=2),
    ]
    world = World()
    world.node(agent(), allocatable=amd)
    world.pods(*members)
    assert world.given == {"a-0": None, "a-1": "GPU-a,GPU-b"}


# ── numbered anew ──

TURNED = agent(uuids=["GPU-c", "GPU-d", "GPU-a", "GPU-b"])
"""The same four GPUs after the driver was loaded again."""


def test_gpus_stay_whose_they_are_when_their_order_changes() -> None:
    world = World()
    world.node(agent())
    world.pods(asking())
    world.node(TURNED)
    world.pods(asking("t/b"))
    assert world.given == {"a": "GPU-a,GPU-b", "b": "GPU-c,GPU-d"}


def test_gpus_stay_whose_they_are_when_muster_was_away_while_their_order_changed() -> None:
    before = World()
    before.node(agent())
    before.pods(asking())
    [bound] = [effect for effect in before.effects if isinstance(effect, Bind)]
    running = asking(node="n1", annotations=dict(bound.annotations))
    assert visible(TURNED, running, asking("t/b")) == {"b": "GPU-c,GPU-d"}


def test_a_seat_keeps_its_very_gpus_when_they_are_numbered_anew_before_it_is_bound() -> None:
    world = World()
    world.node(agent())
    world.pods(asking(options={"start": "nominate"}))
    [nominated] = [effect for effect in world.effects if isinstance(effect, Nominate)]
    world.node(TURNED)
    world.step(BindCall(nominated.ref, "n1"))
    assert world.given == {"a": "GPU-a,GPU-b"}
    assert (world.hint["a"]["gpus"], world.hint["a"]["uuids"]) == ([2, 3], ["GPU-a", "GPU-b"])


def test_while_a_pod_has_a_gpu_that_is_gone_its_node_is_shut_to_others_that_ask() -> None:
    world = World()
    world.node(agent())
    world.pods(asking(uid="u-a"))
    left = agent(gpus=3, links={}, uuids=["GPU-b", "GPU-c", "GPU-d"])
    world.node(left, gpu=3)
    world.pods(asking("t/b", gpu=1))
    assert world.given == {"a": "GPU-a,GPU-b"}
    assert world.why("b").endswith(
        "on n1 because t/a was given some that its agent does not show any more"
    )
    world.step(PodGone("u-a"))
    assert world.given == {"a": "GPU-a,GPU-b", "b": "GPU-b"}


def test_whose_gpu_is_gone_is_not_said_to_another_namespace() -> None:
    world = World()
    world.node(agent())
    world.pods(asking("secret/a"))
    left = agent(gpus=3, links={}, uuids=["GPU-b", "GPU-c", "GPU-d"])
    world.node(left, gpu=3)
    world.pods(asking("t/b", gpu=1))
    assert world.why("b").endswith(
        "on n1 because a pod of another namespace was given some that its agent does not show any "
        "more"
    )


def test_a_gpu_that_was_free_may_go_and_nothing_changes_for_others() -> None:
    first = asking(node="n1", annotations=told([2, 3], ["GPU-c", "GPU-d"]))
    world = World()
    world.node(agent(gpus=3, links={}, uuids=["GPU-b", "GPU-c", "GPU-d"]), gpu=3)
    world.pods(first, asking("t/b", gpu=1))
    assert world.given == {"b": "GPU-b"}


def test_where_uuids_are_known_no_more_it_is_not_known_who_has_which() -> None:
    world = World()
    world.node(agent())
    world.pods(asking())
    world.node(agent(uuids=[]))
    world.pods(asking("t/b"))
    assert world.given == {"a": "GPU-a,GPU-b"}
    world.node(TURNED)
    assert world.given == {"a": "GPU-a,GPU-b", "b": "GPU-c,GPU-d"}


def test_a_hint_with_uuids_that_cannot_be_read_says_nothing() -> None:
    for uuids in ([], "GPU-a", ["GPU-a"], [1, 2], ["GPU-a", "GPU-a"], ["GPU-a", "GPU-x"]):
        first = asking("x/a", node="n1", annotations=told([0, 1], uuids))
        expected = {"b": "GPU-c,GPU-d"} if uuids == [] else {}
        assert visible(agent(), first, asking("t/b")) == expected


# ── not given ──

UNKNOWN = {
    "no agent": ({}, "no agent has published muster.scheduler/gpu-topology"),
    "a table that cannot be read": (
        {"muster.scheduler/gpu-topology": "{"},
        "muster.scheduler/gpu-topology cannot be read",
    ),
    "a table of other GPUs": (
        agent(gpus=8, links={}, uuids=[]),
        "it offers 4 nvidia.com/gpu and its agent counts 8",
    ),
    "MIG": (agent(mig=[3]), "some are split into MIG instances"),
}


@pytest.mark.parametrize(("annotations", "cause"), UNKNOWN.values(), ids=list(UNKNOWN))
def test_where_gpus_are_not_known_it_waits_and_says_why_until_they_are(
    annotations: dict[str, str], cause: str
) -> None:
    world = World()
    world.node(annotations)
    world.pods(asking())
    assert world.given == {}
    assert world.why("a") == (
        "no room: 0 of 1 placeable, exact-gpus shuts 1 node with room: "
        f"it is not known which GPUs are free, on n1 because {cause}"
    )
    world.node(agent())
    assert world.given == {"a": "GPU-a,GPU-b"}


def test_beside_a_pod_whose_gpus_nobody_knows_it_waits_until_the_agent_tells() -> None:
    world = World()
    world.node(agent())
    world.pods(pod("t/x", gpu=1, node="n1", uid="u-x"), asking())
    assert world.given == {}
    assert "on n1 because pods there have some of which nobody says which" in world.why("a")
    world.node(agent({"u-x": [1]}))
    assert world.given == {"a": "GPU-c,GPU-d"}


def test_a_hint_that_names_more_gpus_than_its_pod_has_is_not_believed() -> None:
    boasting = pod("x/a", gpu=1, node="n1", annotations=told([0, 1, 2, 3]))
    assert visible(agent(), boasting, asking("t/b")) == {}


def test_a_whole_gang_waits_if_one_of_its_members_could_not_be_given_its_gpus() -> None:
    world = World()
    world.node(agent())
    world.node({}, "n2")
    members = [asking(f"t/a-{at}", gpu=4, gang="a", min=2) for at in range(2)]
    world.pods(*members)
    assert world.given == {}
    assert "1 of 2 placeable, exact-gpus shuts 1 node with room" in world.why("a")
    world.node(agent(), "n2")
    assert world.given == dict.fromkeys(("a-0", "a-1"), ",".join(UUIDS))


def test_others_may_use_the_nodes_that_are_shut_to_it() -> None:
    assert visible({}, asking(), pod("t/b", gpu=2)) == {"b": None}


def test_two_sorts_of_accelerators_cannot_be_given_by_one_table() -> None:
    world = World()
    world.node(agent(), allocatable={"amd.com/gpu": 4})
    world.pods(asking(requests={"amd.com/gpu": 1}))
    assert world.given == {}
    want = "exact-gpus is for one sort of accelerators, and t/a asks for amd.com/gpu and nvidia"
    assert want in world.why("a")


def test_a_seat_that_it_may_take_away_is_no_reason_to_wait() -> None:
    """Nobody says which GPUs the other would get, but it has none yet."""
    world = World()
    world.node({key: text for key, text in agent().items() if "topology" in key})
    world.pods(pod("t/low", gpu=1, options={"start": "nominate"}))
    assert len(world.state.reservations) == 1
    world.pods(asking("t/b", gpu=4, priority=10))
    assert world.given == {"b": ",".join(UUIDS)}


def test_asking_whether_it_would_fit_gives_the_same_answer() -> None:
    world = World()
    world.node({})
    answer = fit.would_fit(world.state, [decode.pod(asking())])
    assert (answer["fits"], answer["never"]) == (False, False)
    assert "exact-gpus shuts 1 node with room" in answer["reason"]
    world.node(agent())
    assert fit.would_fit(world.state, [decode.pod(asking())])["fits"] is True
    pairs = [decode.pod(asking(f"t/{name}")) for name in "abc"]
    assert fit.would_fit(world.state, pairs[:2])["fits"] is True
    assert fit.would_fit(world.state, pairs)["fits"] is False


def test_a_seat_ends_if_its_gpus_are_not_known_any_more_before_it_is_bound() -> None:
    world = World()
    world.node(agent())
    world.pods(asking(options={"start": "nominate"}))
    [nominated] = [effect for effect in world.effects if isinstance(effect, Nominate)]
    world.node({})
    assert world.state.reservations == {}
    world.step(BindCall(nominated.ref, "n1"))
    assert world.given == {}
    world.node(agent())
    world.step(BindCall(nominated.ref, "n1"))
    assert world.given == {"a": "GPU-a,GPU-b"}


# ── whatever happens ──

AGENTS: tuple[dict[str, str], ...] = (
    {},
    agent(),
    agent({"u-1": [0]}),
    agent({"u-1": [3], "u-2": [0, 1]}),
    agent(mig=[0]),
    agent(gpus=3, links={}, uuids=[]),
    agent(uuids=UUIDS[::-1]),
    agent({"u-1": [0]}, uuids=[*UUIDS[2:], *UUIDS[:2]]),
    agent(uuids=[*UUIDS[1:], "GPU-new"]),
)
nodes = st.tuples(st.just("node"), st.sampled_from(("n1", "n2")), st.sampled_from(AGENTS))
pods = st.tuples(
    st.sampled_from(("exact", "plain")),
    st.integers(1, 4),
    st.sampled_from((None, "g", "h")),
)


@given(st.lists(nodes | pods, max_size=14))
def test_no_pod_that_asks_for_its_gpus_is_ever_bound_without_or_with_another_s(
    story: list[Any],
) -> None:
    world = World()
    wanted: dict[str, int] = {}
    for number, (what, *how) in enumerate(story):
        if what == "node":
            world.node(how[1], how[0])
            continue
        gpus, gang = how
        options = EXACT if what == "exact" else {}
        grouped = {"gang": gang, "min": 2} if gang else {}
        world.pods(pod(f"t/p{number}", gpu=gpus, uid=f"u-{number}", options=options, **grouped))
        wanted |= {f"p{number}": gpus} if what == "exact" else {}
    given_to = {name: _devices(world.given[name]) for name in wanted if name in world.given}
    assert {name: len(gpus) for name, gpus in given_to.items()} == {
        name: wanted[name] for name in given_to
    }
    for at in ("n1", "n2"):
        on_node = [gpus for name, gpus in given_to.items() if world.node_of[name] == at]
        assert len({gpu for gpus in on_node for gpu in gpus}) == sum(map(len, on_node))


def _devices(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]
