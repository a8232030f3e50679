"""What people read of gangs: the list, the reasons, and that they say what the JSON says."""

from __future__ import annotations

import pytest
from people_site import LEVELS, Site, muster

from scheduler import decode
from scheduler.commands import client
from scheduler.core import engine
from scheduler.core.messages import NodeSeen, PodSeen, Synced, Tick
from scheduler.core.unblocking import holders
from scheduler.model import GangKey
from scheduler.settings import Settings
from tests import builders


def test_the_list_shows_every_gang_with_its_state_and_reason(here: Site) -> None:
    here.gang("runs", 2, 8)
    here.gang("waits", 9, 8)
    here.pod("u/half-0", gpu=8, gang="half", min=2)

    ran = muster("gangs", "--server", here.url)

    assert ran.status == 0
    head, *rows = ran.out.splitlines()
    assert head.split() == [
        *("NAMESPACE", "NAME", "STATE", "BOUND", "MIN", "PODS", "PRIORITY", "REASON")
    ]
    found = {row.split()[1]: row.split() for row in rows}
    assert found["runs"][:7] == ["t", "runs", "running", "2", "2", "2", "0"]
    assert found["waits"][2:4] == ["queued", "0"]
    assert "short by" in " ".join(found["waits"][7:])
    assert found["half"][:3] == ["u", "half", "forming"]


def test_one_namespace_and_all_of_them(here: Site) -> None:
    here.gang("runs", 2, 8)
    here.pod("u/half-0", gpu=8, gang="half", min=2)

    one = muster("gangs", "-n", "u", "--server", here.url)
    everything = muster("gangs", "-n", "u", "-A", "--server", here.url)
    none = muster("gangs", "-n", "v", MUSTER_SERVER=here.url)

    assert [row.split()[0] for row in one.out.splitlines()] == ["NAME", "half"]
    assert len(everything.out.splitlines()) == 3
    assert (none.status, none.out) == (0, "")
    assert none.err == "There are no gangs in namespace v; -A lists all.\n"


def test_wide_adds_where_they_are_and_json_is_the_answer_itself(here: Site) -> None:
    here.gang("runs", 2, 8)

    wide = muster("gangs", "-o", "wide", "--server", here.url)
    as_json = muster("gangs", "-o", "json", "--server", here.url)

    row = wide.out.splitlines()[1].split()
    assert row[7:] == ["b0/r0", "0", "b0-r0-0,", "b0-r0-1"]
    assert as_json.json == here.get("/v1/gangs")
    assert muster("gangs", "--json", "--server", here.url).json == as_json.json


def test_why_of_a_gang_without_room_says_what_is_short_where_and_who_is_there(here: Site) -> None:
    here.gang("other", 7, 8)
    here.gang("train", 2, 8, options={"topology-required": "rack"})

    ran = muster("why", "t/train", "--server", here.url)
    why = here.get("/v1/gangs/t/train/why")

    assert ran.status == 0
    assert ran.out.splitlines()[0] == f"t/train is queued: {why['reason']}"
    assert ran.line("pods") == "2 there, 0 bound, 2 needed at once"
    assert ran.line("short by") == "8 nvidia.com/gpu, in one rack"
    assert ran.line("best place now") == "b1/r1: 1 pod fits"
    assert ran.line("held there by") == "t/other (8)"
    assert ran.line("blocked by") == "t/other"
    assert ran.line("next") == "8 nvidia.com/gpu must come free in b1/r1; there t/other holds 8"
    assert why["next"] == ran.line("next")


def test_what_why_promises_comes_true(here: Site) -> None:
    here.gang("other", 7, 8)
    here.gang("train", 2, 8, options={"topology-required": "rack"})
    freed = [pod for pod, node in here.binder.bound.items() if node.startswith("b1-r1")]

    for key in freed:
        here.pod(key, gpu=8, gang="other", min=7, node=here.binder.bound[key], phase="Succeeded")
    # The others of that gang might end as well, and are waited for.
    here.clock.now += Settings().settle_s
    here.service.post(Tick())

    assert muster("why", "t/train", "--server", here.url).out.splitlines()[:1] == [
        "t/train is running"
    ]
    assert {here.binder.bound[f"t/train-{at}"] for at in (0, 1)} == {"b1-r1-0", "b1-r1-1"}


def test_a_broken_gang_is_told_what_its_rack_lacks(here: Site) -> None:
    rack = {"topology-required": "rack"}
    here.gang("train", 2, 6, options=rack)
    lost = here.binder.bound["t/train-1"]
    here.node(lost, gpu=8, block="b0", rack="r0", unschedulable=True)
    here.pod("t/train-1", gpu=6, gang="train", min=2, options=rack, node=lost, phase="Failed")
    here.pod("t/train-2", gpu=6, gang="train", min=2, options=rack)

    ran = muster("why", "t/train", "--server", here.url)

    assert ran.out.startswith("t/train is broken: ")
    assert ran.line("next") == "6 nvidia.com/gpu must come free in one rack"
    assert "blocked by" not in ran.out


def test_holders_are_others_in_that_domain_the_largest_first() -> None:
    state = engine.new_state(Settings(levels=LEVELS))
    for at, rack in enumerate(("r0", "r0", "r1")):
        node = builders.node(f"n{at}", gpu=8, block="b0", rack=rack)
        engine.step(state, NodeSeen(decode.node(node)), 0)
    engine.step(state, Synced(), 0)
    for name, at, gpu in (("own", 0, 1), ("small", 0, 2), ("large", 1, 6), ("away", 2, 8)):
        pod = builders.pod(f"t/{name}-0", gpu=gpu, gang=name, min=1, node=f"n{at}", phase="Running")
        engine.step(state, PodSeen(decode.pod(pod)), 1)

    found = holders(state, ["b0", "r0"], state.gangs[GangKey("t", "own")])

    assert [(item["gang"], item["accelerators"]) for item in found] == [
        ("t/large", 6),
        ("t/small", 2),
    ]


def test_why_of_a_gang_that_is_not_all_there_says_how_many_are_missing(here: Site) -> None:
    here.pod("t/half-0", gpu=8, gang="half", min=3)
    here.pod("t/half-1", gpu=8, gang="half", min=3, gates=["later"])

    ran = muster("why", "t/half", "--server", here.url)

    assert ran.out.startswith("t/half is forming: ")
    assert ran.line("missing") == "2 pods"
    assert ran.line("gated") == "t/half-1"
    assert ran.line("next") == "the scheduling gates of t/half-1 have to be removed"


def test_never_is_not_later(here: Site) -> None:
    here.gang("vast", 1, 16)

    ran = muster("why", "t/vast", "--server", here.url)

    assert "never fits" in ran.out.splitlines()[0]
    assert ran.line("next").startswith("it cannot start on these nodes")
    assert "must come free" not in ran.out


def test_an_invalid_declaration_is_named_with_its_pod(here: Site) -> None:
    here.pod("t/wrong-0", gpu=8, gang="wrong", min="many")

    ran = muster("why", "t/wrong", "--server", here.url)

    assert "min-available" in ran.line("fault in t/wrong-0")
    assert ran.line("next") == "correct the declaration of t/wrong-0 and create the pods anew"


def test_why_takes_a_pods_name_for_its_gang_and_a_gang_of_one_by_its_pod(here: Site) -> None:
    here.gang("train", 9, 8)
    here.pod("t/alone", gpu=8)

    assert muster("why", "t/train-7", "--server", here.url).out.startswith("t/train is queued")
    alone = muster("why", "alone", "-n", "t", "--server", here.url)
    assert alone.out.startswith("t/alone#pod is running")
    assert (alone.line("placed in"), alone.line("nodes")) == ("b0/r0", "b0-r0-0")


def test_who_is_not_there_is_said_with_the_command_that_lists_all(here: Site) -> None:
    here.gang("train", 2, 8)

    ran = muster("why", "t/nobody", "--server", here.url)

    assert (ran.status, ran.out) == (1, "")
    listing = f"muster gangs -A --server {here.url}"
    assert ran.err == f"muster why: there is no gang t/nobody; `{listing}` lists all\n"
    assert "train" in muster(*listing.split()[1:]).out


@pytest.mark.parametrize(
    ("program", "options", "command"),
    [
        ("/usr/bin/muster", {}, "muster gangs -A"),
        ("kubectl-muster", {}, "kubectl muster gangs -A"),
        ("muster", {"kubeconfig": client.KUBECONFIG, "home": client.HOME}, "muster gangs -A"),
        (
            "muster",
            {"kubeconfig": "/a b/config", "context": "c", "home": "other"},
            "muster gangs -A --kubeconfig '/a b/config' --context c --muster-namespace other",
        ),
        ("muster", {"server": "x:1", "kubeconfig": "k"}, "muster gangs -A --server x:1"),
    ],
)
def test_a_command_is_told_as_it_has_to_be_typed(
    program: str, options: dict[str, str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [program])
    assert client.typed("gangs -A", **options) == command


@pytest.mark.parametrize("name", ["", "/", "a/", "/a", "a/b/c"])
def test_what_is_no_name_is_bad_usage(idle: Site, name: str) -> None:
    assert muster("why", name, "--server", idle.url).status == 2


def test_without_a_terminal_there_are_no_colours(here: Site) -> None:
    here.gang("waits", 9, 8)
    for command in (["gangs"], ["why", "t/waits"], ["status"], ["top"]):
        ran = muster(*command, "--server", here.url)
        assert "\x1b" not in ran.out + ran.err


def test_wide_names_every_node_of_a_gang(here: Site) -> None:
    for at in range(8):
        here.node(f"x{at}", gpu=8, block="b2", rack="r0")
    here.gang("runs", 16, 8)

    short = muster("why", "t/runs", "--server", here.url)
    wide = muster("why", "t/runs", "-o", "wide", "--server", here.url)

    assert short.line("nodes").endswith("and 8 more")
    assert len(wide.line("nodes").split(", ")) == 16
