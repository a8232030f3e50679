"""Loads and arms of the cluster benchmark: what is created, and what the command line says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import cluster
from benchmarks.cluster_arms import ARMS, GROUP_VERSION
from benchmarks.cluster_client import is_whole
from benchmarks.cluster_loads import Arrival, churn, load
from benchmarks.cluster_run import bindings, requests
from tests.e2e.controlplane.objects import BLOCK, RACK

# ── loads ──


def test_a_load_of_gangs_is_named_by_how_many_there_are_of_how_many_pods() -> None:
    made = load("100x16", "x", churn_s=1.0)
    assert (len(made.arrivals), made.pods, made.largest) == (100, 1_600, 16)
    assert len({arrival.name for arrival in made.arrivals}) == 100


@pytest.mark.parametrize("name", ["", "x", "5", "5x", "x5", "0x5", "5x0", "5x-1", "axb", "1x2x3"])
def test_another_name_is_no_load(name: str) -> None:
    with pytest.raises(ValueError, match="GANGSxPODS"):
        load(name, "x", churn_s=1.0)


def test_a_churn_is_the_same_every_time_and_its_arrivals_are_in_order() -> None:
    first, second = churn("a", 20.0), churn("a", 20.0)
    assert first == second
    assert [arrival.at_s for arrival in first] == sorted(arrival.at_s for arrival in first)
    assert 0 <= first[0].at_s <= first[-1].at_s <= 20.0


def test_a_churn_has_gangs_and_singles_and_all_of_them_end() -> None:
    made = churn("a", 20.0)
    assert sum(arrival.size > 0 for arrival in made) == 30
    assert sum(arrival.size == 0 for arrival in made) == 120
    assert all(arrival.run_s for arrival in made)
    assert len({arrival.name for arrival in made}) == 150


# ── arms ──


def test_muster_gangs_are_declared_by_annotations() -> None:
    first, *_ = ARMS["nominate"].pods(Arrival("g", 3), "space")
    assert first["metadata"]["annotations"] == {
        "muster.scheduler/start": "nominate",
        "muster.scheduler/gang": "g",
        "muster.scheduler/min-available": "3",
    }
    assert first["spec"]["schedulerName"] == "muster"
    assert ARMS["nominate"].groups(Arrival("g", 3), "space") == []


def test_native_gangs_are_objects_and_only_one_arm_constrains_them() -> None:
    plain = ARMS["native"].groups(Arrival("g", 3), "space")
    bound = ARMS["native-topology"].groups(Arrival("g", 3), "space")
    assert plain[0]["apiVersion"] == GROUP_VERSION
    assert plain[0]["spec"] == {"schedulingPolicy": {"gang": {"minCount": 3}}}
    assert bound[0]["spec"]["schedulingConstraints"] == {"topology": [{"key": RACK}]}
    pods = ARMS["native"].pods(Arrival("g", 3), "space")
    assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {"g"}


def test_a_gang_that_no_rack_holds_is_constrained_to_a_block() -> None:
    for size, key in ((64, RACK), (65, BLOCK)):
        made = ARMS["native-topology"].groups(Arrival("g", size), "space")
        assert made[0]["spec"]["schedulingConstraints"] == {"topology": [{"key": key}]}


@pytest.mark.parametrize("name", list(ARMS))
def test_a_single_pod_is_in_no_gang_in_any_arm(name: str) -> None:
    single = Arrival("s", 0, run_s=2.5)
    [made] = ARMS[name].pods(single, "space")
    assert "schedulingGroup" not in made["spec"]
    assert "muster.scheduler/gang" not in made["metadata"]["annotations"]
    assert made["metadata"]["annotations"]["muster.bench/run-seconds"] == "2.50s"
    assert ARMS[name].groups(single, "space") == []


def test_arms_differ_in_nothing_but_who_schedules_and_what_they_wait_behind() -> None:
    def alike(name: str) -> str:
        pod = ARMS[name].pods(Arrival("g", 2), "space")[0]
        for field in ("schedulerName", "schedulingGroup", "schedulingGates"):
            pod["spec"].pop(field, None)
        return json.dumps(pod["spec"], sort_keys=True)

    assert len({alike(name) for name in ARMS}) == 1


def test_every_pod_of_a_load_is_one_request_in_order() -> None:
    made = load("2x3", "p", churn_s=1.0)
    sent = requests(ARMS["stock"], made, "space")
    names = [json.loads(request.body)["metadata"]["name"] for request in sent]
    assert names == ["p-g0-0", "p-g0-1", "p-g0-2", "p-g1-0", "p-g1-1", "p-g1-2"]
    assert {request.path for request in sent} == {"/api/v1/namespaces/space/pods"}


def test_the_raw_client_fills_each_node_before_the_next() -> None:
    sent = bindings([f"p-{at}" for at in range(6)], ["a", "b"], "space")
    assert [json.loads(one.body)["target"]["name"] for one in sent] == [*"aaaa", *"bb"]
    assert sent[5].path == "/api/v1/namespaces/space/pods/p-5/binding"


@pytest.mark.parametrize(
    ("head", "body", "want"),
    [
        (b"http/1.1 201 created\r\ncontent-length: 4", b"{}", False),
        (b"http/1.1 201 created\r\ncontent-length: 4\r\ndate: x", b"{  }", True),
        (b"http/1.1 204 no content", b"", True),
        (b"http/1.1 201 x\r\ntransfer-encoding: chunked", b"2\r\n{}\r\n", False),
        (b"http/1.1 201 x\r\ntransfer-encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n", True),
    ],
)
def test_an_answer_is_read_to_its_end(head: bytes, body: bytes, want: bool) -> None:
    assert is_whole(head, body) is want


# ── the command line ──


def plan(*words: str) -> cluster.Plan:
    return cluster.plan_of(cluster.arguments(words))


def test_without_arguments_everything_is_measured() -> None:
    found = plan()
    assert found.nodes == (1_000, 5_000)
    assert found.loads == ("1x500", "1x1000", "100x16", "churn")
    assert [arm.name for arm in found.arms] == list(ARMS)
    assert (found.repeats, found.kubeconfig) == (3, None)


def test_quick_is_small_but_what_is_said_besides_still_counts() -> None:
    assert plan("--quick").nodes == (200,)
    assert plan("--quick").repeats == 1
    assert plan("--quick", "--nodes", "30,40", "--repeats", "2").nodes == [30, 40]
    assert plan("--quick", "--nodes", "30,40", "--repeats", "2").repeats == 2


def test_arms_loads_and_a_cluster_can_be_chosen() -> None:
    found = plan("--arms", "burst,stock", "--loads", "4x8,churn", "--kubeconfig", "some/file")
    assert [arm.name for arm in found.arms] == ["burst", "stock"]
    assert found.loads == ["4x8", "churn"]
    assert found.kubeconfig == Path("some/file")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--arms", "burst,best"), "no arm 'best'; there are stock"),
        (("--loads", "4y8"), "load '4y8' is neither"),
        (("--nodes", "1000,many"), "'many' is not a whole number above 0"),
        (("--repeats", "0"), "'0' is not a whole number above 0"),
    ],
)
def test_what_makes_no_sense_is_said(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        plan(*words)
    assert said in capsys.readouterr().err
