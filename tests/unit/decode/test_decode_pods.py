"""A pod of the API becomes the pod that the engine sees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler import decode
from scheduler.errors import DecodeError
from scheduler.model import Owner, Phase, Pod
from tests import builders
from tests.builders import GPU


def read(**changes: Any) -> Pod:
    return decode.pod(builders.pod("t/A-0", **changes))


# ── Who it is ──


def test_a_member_of_a_gang_is_read_whole() -> None:
    pod = read(
        gpu=4,
        gang="A",
        min=3,
        priority=7,
        gates=["wait"],
        labels={"app": "train"},
        created="2026-01-05T08:00:01Z",
        annotations={"muster.scheduler/hint": '{"v":1}'},
        status={"nominatedNodeName": "n2", "startTime": "1970-01-02T00:00:00Z"},
    )
    assert (pod.key, pod.uid, pod.scheduler) == ("t/A-0", "t/A-0", "muster")
    assert pod.requests == {"cpu": 1000, "memory": 2**30, GPU: 4, "pods": 1}
    assert pod.declaration is not None
    assert (pod.declaration.name, pod.declaration.options.min_available) == ("A", 3)
    assert (pod.priority, pod.gates, pod.labels) == (7, ("wait",), {"app": "train"})
    assert (pod.node, pod.nominated, pod.hint) == ("", "n2", '{"v":1}')
    assert pod.started == 86_400
    assert (pod.phase, pod.deleting, pod.fault, pod.nominate_because) == ("Pending", False, "", "")


def test_a_bound_pod_holds_its_node_until_it_has_ended() -> None:
    assert read(node="n1", phase="Running").holds_node
    assert read(node="n1", phase="Running", deleting=True).holds_node
    assert not read(node="n1", phase="Succeeded").holds_node
    assert read(deleting=True).deleting


def test_what_is_not_stated_has_a_default() -> None:
    pod = decode.pod({"metadata": {"name": "p"}})
    assert pod == Pod("default", "p", "default/p", requests={"pods": 1})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T00:01:00+00:00", 60.0),
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("2026-01-05T08:00:00Z", 1_767_600_000.0),
        ("yesterday", 0.0),
        ("", 0.0),
        ("9" * 1000, 0.0),
        (None, 0.0),
        (5, 0.0),
    ],
)
def test_the_time_of_creation(text: Any, seconds: float) -> None:
    assert read(created=text).created == seconds


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        ("Running", Phase.RUNNING),
        ("", Phase.PENDING),
        (None, Phase.PENDING),
        ("running", Phase.UNKNOWN),
        ("Lost", Phase.UNKNOWN),
        (3, Phase.UNKNOWN),
        ({}, Phase.UNKNOWN),
    ],
)
def test_the_phase(phase: Any, want: Phase) -> None:
    assert read(phase=phase).phase is want


@pytest.mark.parametrize(
    ("phase", "reason", "rejected"),
    [
        ("Failed", "OutOfcpu", True),
        ("Failed", "OutOfnvidia.com/gpu", True),
        ("Failed", "UnexpectedAdmissionError", True),
        ("Failed", "NodePorts", True),
        ("Failed", "Evicted", False),
        ("Failed", None, False),
        ("Failed", 3, False),
        ("Pending", "OutOfcpu", False),
    ],
)
def test_a_pod_that_the_kubelet_refused_is_told_from_one_that_failed(
    phase: str, reason: Any, rejected: bool
) -> None:
    obj = builders.pod("t/A-0", phase=phase, status={"reason": reason})
    assert decode.pod(obj).rejected is rejected
    assert decode.pod_bytes(json.dumps(obj).encode()).rejected is rejected


@pytest.mark.parametrize(
    ("priority", "want"),
    [(5, 5), (256, 256), (-1, -1), (2_000_001_000, 2_000_001_000), (None, 0), ("5", 0), (True, 0)],
)
def test_the_priority(priority: Any, want: int) -> None:
    assert read(priority=priority).priority == want


def test_the_owner_is_the_controller_or_else_the_jobset_above_it() -> None:
    job = ("Job", "train-worker-0", "u1")
    assert read().owner is None
    assert read(owner=job).owner == Owner(*job)
    named = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/jobset-uid": "u0"}
    assert read(owner=job, labels=named).owner == Owner("JobSet", "train", "u0")
    assert read(owner=job, annotations=named).owner == Owner("JobSet", "train", "u0")
    without_uid = {"jobset.sigs.k8s.io/jobset-name": "train"}
    assert read(owner=job, labels=without_uid).owner == Owner(*job)


def test_a_reference_that_does_not_control_is_no_owner() -> None:
    obj = builders.pod("t/A-0")
    obj["metadata"]["ownerReferences"] = [
        {"kind": "ConfigMap", "name": "c", "uid": "u1"},
        {"kind": "Job", "name": "j", "uid": "u2", "controller": True},
    ]
    assert decode.pod(obj).owner == Owner("Job", "j", "u2")


# ── Its index ──


COMPLETION = "batch.kubernetes.io/job-completion-index"
REPLICA = "training.kubeflow.org/replica-index"
BY_PRECEDENCE = [
    "muster.scheduler/index",
    COMPLETION,
    REPLICA,
    "leaderworkerset.sigs.k8s.io/worker-index",
    "kueue.x-k8s.io/pod-group-pod-index",
    "gang.scheduling.koordinator.sh/network-topology-index",
    "volcano.sh/task-index",
    "apps.kubernetes.io/pod-index",
]


@pytest.mark.parametrize("at", range(len(BY_PRECEDENCE)))
def test_the_index_comes_from_the_first_key_that_is_there(at: int) -> None:
    keys = {key: str(number) for number, key in enumerate(BY_PRECEDENCE) if number >= at}
    assert read(labels=keys).index == at
    assert read(annotations=keys).index == at


@pytest.mark.parametrize("text", ["007", "-1", "x", "", "1.0", "+1", " 1", "٣", "9" * 30])
def test_a_controllers_label_that_is_no_index_is_none_and_no_fault(text: str) -> None:
    pod = read(labels={COMPLETION: text, REPLICA: "3"})
    assert (pod.index, pod.fault) == (None, "")
    assert [text.partition(":")[0] for text in pod.warnings] == [COMPLETION]


@pytest.mark.parametrize("text", ["007", "-1", "x", ""])
def test_our_own_index_that_cannot_be_read_is_a_fault(text: str) -> None:
    pod = read(index=text, labels={COMPLETION: "3"})
    assert pod.index is None
    assert pod.fault.startswith(f'muster.scheduler/index: "{text}" is not a whole number')


def test_an_annotation_wins_over_a_label() -> None:
    assert read(labels={COMPLETION: "1"}, annotations={COMPLETION: "2"}).index == 2
    assert read(index=0, labels={"muster.scheduler/index": "5"}).index == 0


KAI_POINTER = "kai.scheduler/pod-index-label"
KUEUE_POINTER = "kueue.x-k8s.io/pod-group-pod-index-label"
OFFSET = "kueue.x-k8s.io/pod-index-offset"


@pytest.mark.parametrize("pointer", [KAI_POINTER, KUEUE_POINTER])
def test_an_annotation_may_name_the_label_with_the_index(pointer: str) -> None:
    labels = {"corp/place": "4", COMPLETION: "1"}
    assert read(labels=labels, annotations={pointer: "corp/place"}).index == 4
    assert read(labels=labels, annotations={pointer: ""}).index == 1
    assert read(index=2, labels=labels, annotations={pointer: "corp/place"}).index == 2


def test_a_named_label_that_is_not_there_is_no_index_and_told() -> None:
    pod = read(labels={COMPLETION: "1"}, annotations={KAI_POINTER: "corp/place"})
    assert (pod.index, pod.fault) == (None, "")
    assert pod.warnings == ("corp/place: null is not a whole number from 0 to 1000000",)


@pytest.mark.parametrize(
    ("index", "offset", "wanted", "warned"),
    [("3", "1", 2, False), ("1", "1", 0, False), ("3", "0", 3, False), ("0", "1", 0, True)],
)
def test_an_index_that_begins_elsewhere_is_counted_from_0(
    index: str, offset: str, wanted: int, warned: bool
) -> None:
    pod = read(labels={REPLICA: index}, annotations={OFFSET: offset})
    assert (pod.index, bool(pod.warnings), pod.fault) == (wanted, warned, "")


def test_an_offset_that_cannot_be_read_is_told_and_left_out() -> None:
    pod = read(labels={REPLICA: "3"}, annotations={OFFSET: "one"})
    assert pod.index == 3
    assert pod.warnings[0].startswith(f'{OFFSET}: "one" is not a whole number')


def test_our_own_index_is_taken_as_it_is() -> None:
    assert read(index=3, annotations={OFFSET: "1"}).index == 3


# ── What it asks for ──


def containers(*amounts: Any, field: str = "requests") -> list[dict[str, Any]]:
    return [
        {"name": f"c{at}", "resources": {field: {GPU: amount}}} for at, amount in enumerate(amounts)
    ]


def asked(**spec: Any) -> int:
    pod = decode.pod({"metadata": {"name": "p"}, "spec": spec})
    assert pod.fault == ""
    return pod.requests.get(GPU, 0)


def test_containers_sidecars_and_inits_add_up_as_the_kubelet_adds_them() -> None:
    main, other = containers("4"), containers("1", "1", "1")
    init, sidecar = containers("8")[0], containers("4")[0] | {"restartPolicy": "Always"}
    assert asked(containers=main) == 4
    assert asked(containers=other) == 3
    assert asked(containers=main, initContainers=[init]) == 8
    assert asked(containers=main, initContainers=[sidecar]) == 8
    assert asked(containers=main, initContainers=[init, sidecar]) == 8
    assert asked(containers=main, initContainers=[sidecar, init]) == 12
    assert asked(containers=main, ephemeralContainers=containers("9")) == 4


def test_a_limit_without_a_request_is_a_request() -> None:
    assert asked(containers=containers("2", field="limits")) == 2
    both = {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", GPU: "2"}}}
    pod = decode.pod({"metadata": {"name": "p"}, "spec": {"containers": [both]}})
    assert pod.requests == {"cpu": 1000, GPU: 2, "pods": 1}


def test_overhead_and_pod_level_resources() -> None:
    one = {"resources": {"requests": {"cpu": "1", GPU: "1"}}}
    spec = {
        "containers": [one, one],
        "overhead": {"cpu": "250m"},
        "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "5", "memory": "1Gi"}},
    }
    pod = decode.pod({"metadata": {"name": "p"}, "spec": spec})
    assert pod.requests == {"cpu": 3250, "memory": 2**30, GPU: 2, "pods": 1}


def test_no_gpu_is_not_a_gpu_pod() -> None:
    assert GPU not in read(gpu="0").requests


def test_exponents_and_millis_that_are_whole() -> None:
    assert read(gpu="1e0").requests[GPU] == 1
    assert read(gpu="2000m").requests[GPU] == 2


@pytest.mark.parametrize(
    "held",
    [
        {"allocatedResources": {"cpu": "3", "memory": "1Gi", GPU: "9"}},
        {"resources": {"requests": {"cpu": "3", "memory": "1Mi", GPU: "9"}}},
        {
            "allocatedResources": {"cpu": "3"},
            "resources": {"requests": {"cpu": "2", "memory": "rubbish"}},
        },
    ],
)
def test_a_pod_that_is_being_resized_counts_with_the_larger_of_both(held: dict[str, Any]) -> None:
    statuses = [{"name": "other"}, {"name": "main", **held}]
    pod = read(cpu="2", memory="1Gi", gpu=1, status={"containerStatuses": statuses})
    assert pod.requests == {"cpu": 3000, "memory": 2**30, GPU: 1, "pods": 1}
    assert pod.fault == ""


def test_a_sidecar_and_a_whole_pod_can_be_resized_too() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    status = {"initContainerStatuses": [{"name": "s", "allocatedResources": {"cpu": "4"}}]}
    assert read(cpu="1", spec={"initContainers": [sidecar]}, status=status).requests["cpu"] == 5000
    pod = read(
        spec={"resources": {"requests": {"cpu": "2"}}}, status={"allocatedResources": {"cpu": "6"}}
    )
    assert pod.requests["cpu"] == 6000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0.5", '"0.5" is not a whole number'),
        ("1500m", '"1500m" is not a whole number'),
        ("-1", '"-1" is negative'),
        ("many", '"many" is not a quantity'),
        (None, "null is not a quantity"),
        (["4"], "a list is not a quantity"),
    ],
)
def test_an_amount_that_cannot_be_used_is_named_with_its_field(text: Any, reason: str) -> None:
    pod = read(requests={GPU: text})
    path = 'spec.containers[0].resources.requests["nvidia.com/gpu"]'
    assert pod.fault.split("; ")[0] == f"{path}: {reason}"
    assert pod.requests == {"cpu": 1000, "memory": 2**30, "pods": 1}, "the rest still counts"


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"containers": {}}, "spec.containers: an object is not a list"),
        ({"containers": ["c"]}, 'spec.containers[0]: "c" is not an object'),
        (
            {"initContainers": [{"resources": 3}]},
            "spec.initContainers[0].resources: 3 is not an object",
        ),
        ({"overhead": {"cpu": "x"}}, 'spec.overhead["cpu"]: "x" is not a quantity'),
        ({"resources": [1]}, "spec.resources: a list is not an object"),
        ({"resources": {"limits": {"cpu": {}}}}, 'spec.resources.limits["cpu"]: an object is not'),
    ],
)
def test_every_place_of_resources_names_itself(spec: dict[str, Any], fault: str) -> None:
    assert read(spec=spec).fault.startswith(fault)


def test_many_faults_stay_below_a_kilobyte() -> None:
    pod = read(requests={f"example.com/device-{at}" * 20: "x" for at in range(500)})
    assert len(pod.fault.encode()) < 1000
    assert pod.fault.endswith("; and more")


# ── Not a pod at all ──


@pytest.mark.parametrize("name", ["", None, 3, ["p"], {}])
def test_a_name_is_a_string_that_is_not_empty(name: Any) -> None:
    with pytest.raises(DecodeError, match=r"metadata\.name is missing or not a string"):
        decode.pod({"metadata": {"name": name}})


@pytest.mark.parametrize("obj", [None, [], "pod", 3, {}, {"metadata": None}])
def test_something_without_a_name_is_an_error(obj: Any) -> None:
    with pytest.raises(DecodeError, match=r"^pod: "):
        decode.pod(obj)
