"""The cluster in a few figures: on the command line, as JSON, as metrics and over time."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from people_site import Site, muster, site

from scheduler.core import engine, overview
from scheduler.core.messages import PodSeen
from scheduler.model import Pod
from scheduler.settings import Settings


def metric(text: str, name: str) -> float:
    found = re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert len(found) == 1, f"{name}: {found}"
    return float(found[0])


def test_status_says_what_there_is_and_ends_with_0(here: Site) -> None:
    here.gang("runs", 3, 8)
    here.gang("small", 1, 2)
    here.gang("waits", 9, 8)
    here.clock.now += 90
    here.node("b1-r1-1", gpu=8, block="b1", rack="r1", unschedulable=True)

    ran = muster("status", "--server", here.url)

    assert ran.status == 0
    assert re.match(rf"Muster \S+ at {here.url} is ready\n", ran.out)
    assert ran.line("nodes") == "8, of which 7 take new pods"
    assert ran.line("levels") == "topo/block > topo/rack, by the settings"
    assert ran.line("GPUs") == "26 of 64 used (41 %)"
    assert (
        ran.line("free") == "24 on whole nodes, 6 on nodes in use, 8 on nodes that take no new pods"
    )
    assert ran.line("gangs") == "1 queued, 2 running"
    assert ran.line("waiting") == "1 gang with 9 pods, the longest for 90s"


def test_status_tells_of_nodes_in_no_domain_and_of_levels_that_look_wrong(here: Site) -> None:
    assert (here.get("/v1/status")["outside"], here.get("/v1/status")["levels_doubts"]) == ({}, [])
    here.node("b0-r0-0", gpu=8, block="b0")
    here.node("cpu")
    here.node("b1-r0-0", gpu=8, rack="r0")

    ran = muster("status", "--server", here.url)

    assert ran.line("outside") == "of the nodes with GPUs, 1 in no block, 2 in no rack"
    assert "doubtful" not in ran.out

    for at in range(2):
        for number in range(2):
            for rack in range(2):
                here.node(f"b{at}-r{rack}-{number}", gpu=8, rack="r0")
    assert "no node has topo/block" in muster("status", "--server", here.url).line("doubtful")


def test_gangs_are_counted_as_they_are_listed(here: Site) -> None:
    here.gang("runs", 2, 8)
    here.pod("t/alone", gpu=8)
    here.pod("t/large", gpu=9)
    here.pod("t/half-0", gpu=8, gang="half", min=2)
    listed = Counter(gang["state"] for gang in here.get("/v1/gangs")["gangs"])
    assert here.get("/v1/status")["gangs"] == dict(listed) == {"running": 2, "forming": 1}


def test_status_of_a_service_that_does_not_know_the_cluster_yet_ends_with_1() -> None:
    with site() as made:
        made.service.set_unready_reason("cannot list nodes: 403 Forbidden")
        ran = muster("status", "--server", made.url)
        as_json = muster("status", "--json", "--server", made.url)

    assert ran.status == as_json.status == 1
    assert "is not ready: cannot list nodes: 403 Forbidden" in ran.out.splitlines()[0]
    assert as_json.json["ready"] is False


def test_top_shows_the_largest_gangs_the_emptiest_racks_and_the_queue(here: Site) -> None:
    here.gang("runs", 2, 8)
    here.gang("part", 1, 4)
    here.gang("waits", 9, 8)

    ran = muster("top", "--server", here.url)

    lines = [line.split() for line in ran.out.splitlines()]
    assert ["rack", "16", "8", "4", "2", "nvidia.com/gpu"] in lines
    assert ["cluster", "44", "22", "11", "5", "nvidia.com/gpu"] in lines
    racks = [line[:4] for line in lines if line[:1] and re.fullmatch(r"b\d/r\d", line[0])]
    assert [rack[3] for rack in racks] == ["16", "16", "12", "0"]
    assert next(line for line in lines if line[:1] == ["t/waits"])[:3] == [
        "t/waits",
        "queued",
        "0/9",
    ]
    assert not [line for line in lines if line[:1] == ["t/runs"]]


def test_top_shortens_long_lists_and_says_so(here: Site) -> None:
    for at in range(4):
        here.gang(f"waits{at}", 9, 8)

    ran = muster("top", "--rows", "1", "--server", here.url)

    assert "and 3 more with no more free" in ran.out
    assert "and 3 more; see muster gangs -A" in ran.out
    assert len(muster("top", "--json", "--server", here.url).json["topology"]["domains"]) == 6


def test_a_cluster_without_labels_accelerators_or_gangs_is_no_problem() -> None:
    with site() as made:
        made.node("bare")
        made.synced()
        ran = muster("top", "--server", made.url)
        assert (ran.status, muster("status", "--server", made.url).status) == (0, 0)
        assert "muster_nodes" in made.text("/metrics")
    assert ran.line("gangs") == "none"


def test_the_metrics_are_the_same_figures(here: Site) -> None:
    here.gang("runs", 3, 8)
    here.gang("waits", 6, 8)
    here.clock.now += 30
    here.gang("never", 1, 16)
    here.pod("t/ended", gpu=16, node="b0-r0-0", phase="Succeeded")

    text = here.text("/metrics")

    assert metric(text, 'muster_gangs{state="queued"}') == 2
    assert metric(text, 'muster_gang_reasons{reason="NoRoom"}') == 1
    assert metric(text, 'muster_gang_reasons{reason="NeverFits"}') == 1
    assert metric(text, "muster_waiting_gangs") == 2
    assert metric(text, "muster_waiting_pods") == 7
    assert metric(text, "muster_longest_wait_seconds") == 30
    assert metric(text, 'muster_free_gpus{completeness="whole"}') == 40
    assert metric(text, 'muster_gpus{which="used"}') == 24
    rack = 'gpus_per_pod="8",level="topo/rack",resource="nvidia.com/gpu"'
    assert metric(text, f"muster_largest_gang{{{rack}}}") == 2
    # Of 10 pods one asks for 16 GPUs, which no node has: it can use none of what is free.
    assert abs(metric(text, "muster_fragmentation") - 1 / 10) < 1e-9


def test_waits_and_starts_are_measured_once_a_gang_by_its_size(here: Site) -> None:
    here.gang("first", 8, 8)
    here.gang("second", 2, 8)
    here.clock.now += 40
    for key, node in list(here.binder.bound.items()):
        here.pod(key, gpu=8, gang="first", min=8, node=node, phase="Succeeded")

    text = here.text("/metrics")

    assert metric(text, 'muster_gang_wait_seconds_count{members="2-8"}') == 2
    assert metric(text, 'muster_gang_wait_seconds_sum{members="2-8"}') == 40
    assert metric(text, 'muster_gang_start_seconds_count{members="2-8"}') == 2


def test_a_gang_that_binds_more_than_its_min_has_started_once(here: Site) -> None:
    for at in range(4):
        here.pod(f"t/grows-{at}", gpu=8, gang="grows", min=2)

    text = here.text("/metrics")

    assert len(here.binder.bound) == 4
    counts = re.findall(r"^muster_gang_wait_seconds_count.* (\S+)$", text, re.MULTILINE)
    assert sum(map(float, counts)) == 1


def test_of_many_pods_the_mix_is_an_even_sample() -> None:
    state = engine.new_state(Settings())
    for at in range(2 * overview.SAMPLE + 500):
        gpus = 8 if at % 4 == 0 else 1
        pod = Pod("t", f"p{at}", f"u{at}", requests={"nvidia.com/gpu": gpus, "pods": 1})
        engine.step(state, PodSeen(pod), 0)

    small, whole = overview.current_mix(state)

    assert small.weight + whole.weight <= overview.SAMPLE
    assert (small.requests["nvidia.com/gpu"], whole.requests["nvidia.com/gpu"]) == (1, 8)
    assert abs(whole.weight / (small.weight + whole.weight) - 1 / 4) < 0.01


def test_the_watchs_lag_is_measured_from_each_bindings_confirmation(here: Site) -> None:
    here.gang("train", 2, 8)
    here.clock.now += 3
    for key, node in here.binder.bound.items():
        for _ in range(2):
            here.pod(key, gpu=8, gang="train", min=2, node=node)

    text = here.text("/metrics")

    assert metric(text, "muster_watch_lag_seconds_count") == 2
    assert metric(text, "muster_watch_lag_seconds_sum") == 6


def test_the_history_has_a_point_a_minute_from_the_first_full_list_on() -> None:
    with site() as made:
        made.nodes(1, 1, 2)
        made.clock.now += 120
        made.synced()
        made.gang("runs", 1, 8)
        made.clock.now += 59
        made.gang("waits", 2, 8)
        made.clock.now += 1
        made.pod("t/plain")
        made.clock.now += 30
        points = made.get("/v1/history")["points"]

    shown = [(one["ago_s"], one["gpus"], one["used"], one["waiting_gangs"]) for one in points]
    assert shown == [(90.0, 16, 0, 0), (30.0, 16, 8, 1)]


def test_top_of_one_namespace_lists_its_gangs_in_the_room_of_all(here: Site) -> None:
    here.gang("waits", 9, 8)
    here.pod("u/half-0", gpu=8, gang="half", min=2)

    everything = muster("top", "--server", here.url)
    one = muster("top", "-n", "u", "--server", here.url)

    assert "t/waits" in everything.out
    assert "t/waits" not in one.out
    assert "u/half" in one.out
    assert one.out.partition("NOT RUNNING")[0] == everything.out.partition("NOT RUNNING")[0]


def test_wide_shortens_no_list(here: Site) -> None:
    for at in range(3):
        here.pod(f"u/half{at}-0", gpu=8, gang=f"half{at}", min=2)

    short = muster("top", "--rows", "1", "--server", here.url)
    wide = muster("top", "--rows", "1", "-o", "wide", "--server", here.url)

    assert "and 2 more; see muster gangs -A" in short.out
    assert " more" not in wide.out
    assert all(f"u/half{at}" in wide.out for at in range(3))


@pytest.mark.parametrize("words", [["status"], ["top"], ["why", "t/runs"], ["gangs"]])
def test_json_can_be_asked_for_as_kubectl_does(here: Site, words: list[str]) -> None:
    here.gang("runs", 2, 8)

    as_json = muster(*words, "--json", "--server", here.url)

    assert muster(*words, "-o", "json", "--server", here.url) == as_json
    assert as_json.json
