"""Before submitting: would it start now, where, and what is missing."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from people_site import PATIENCE_S, Site, muster

from scheduler.commands.workloads import WorkloadError, pods_of
from tests import builders

REPOSITORY = Path(__file__).parents[3]
EXAMPLES = {
    "indexed-job": "4 pods",
    "plain-pods": "3 of 4 pods",
    "jobset": "4 pods",
    "pytorchjob": "4 pods",
    "leaderworkerset": "8 pods",
    "raycluster": "5 pods",
    "volcano-job": "4 pods",
    "kueue-job": "4 pods",
    "tracking": "4 pods",
}


def pod_template(gpu: int, **annotations: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpu)}
    return {
        "metadata": {"annotations": annotations},
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "c", "resources": {"limits": limits}}],
        },
    }


def job(parallelism: int, gpu: int = 8, name: str = "train", **spec: Any) -> dict[str, Any]:
    spec = {"completionMode": "Indexed", "completions": parallelism, **spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": parallelism, "template": pod_template(gpu), **spec},
    }


def fit(here: Site, *documents: dict[str, Any], arguments: tuple[str, ...] = ()) -> Any:
    text = yaml.safe_dump_all(documents)
    return muster("fit", "-f", "-", "--server", here.url, *arguments, given=text)


def test_a_job_that_fits_is_told_where_and_is_not_submitted(here: Site) -> None:
    before = here.get("/v1/state")

    ran = fit(here, job(2))

    assert ran.status == 0
    assert ran.out.splitlines()[0] == "It fits: 2 pods would start now"
    assert ran.line("domain of default/train") == "b0/r0"
    assert ran.line("on b0-r0-0") == "default/train-0"
    assert here.get("/v1/state") == before


def test_what_is_told_is_what_happens(here: Site) -> None:
    here.gang("other", 3, 8)
    told = fit(here, job(3, gpu=8), arguments=("--json", "-n", "t")).json

    for at in range(3):
        here.pod(f"t/train-{at}", gpu=8, gang="train", min=3, index=at)

    assert told["nodes"] == {key: here.binder.bound[key] for key in told["nodes"]}
    assert len(told["nodes"]) == 3


def test_wide_tells_of_every_node_and_json_is_the_answer(here: Site) -> None:
    for at in range(12):
        here.node(f"x{at:02}", gpu=8, block="b2", rack="r0")

    short = fit(here, job(20))
    wide = fit(here, job(20), arguments=("-o", "wide"))

    assert short.line("and on") == "4 more nodes"
    assert sum(line.strip().startswith("on ") for line in wide.out.splitlines()) == 20
    assert fit(here, job(20), arguments=("-o", "json")) == fit(here, job(20), arguments=("--json",))


def test_a_job_that_has_to_wait_is_told_what_is_missing(here: Site) -> None:
    here.gang("other", 7, 8)

    ran = fit(here, job(4))

    assert ran.status == 1
    assert ran.out.splitlines()[0] == "It would wait: 4 pods would not start now"
    assert ran.line("short by") == "24 nvidia.com/gpu"
    assert ran.line("blocked by") == "t/other"
    assert "no room" in ran.line("why")


def test_pods_are_called_by_their_own_names_where_no_node_will_do(here: Site) -> None:
    made = job(2)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"tier": "on-demand"}

    ran = fit(here, made)

    assert ran.out.splitlines()[0] == "It never fits on these nodes: 2 pods"
    assert "no node may take default/train-0;" in ran.line("why")


def test_a_job_that_has_to_wait_is_told_what_would_help(here: Site) -> None:
    here.gang("other", 7, 8)
    made = job(2)
    made["spec"]["template"]["metadata"]["annotations"][f"{builders.OURS}topology-required"] = (
        "rack"
    )

    ran = fit(here, made)
    answer = fit(here, made, arguments=("--json",)).json

    assert ran.line("best place now") == "b1/r1: 1 pod fits"
    assert ran.line("held there by") == "t/other (8)"
    helps = "8 nvidia.com/gpu must come free in b1/r1; there t/other holds 8"
    assert ran.line("would help") == answer["next"] == helps
    freed = [pod for pod, node in here.binder.bound.items() if node.startswith("b1-r1")]
    for key in freed:
        here.pod(key, gpu=8, gang="other", min=7, node=here.binder.bound[key], phase="Succeeded")
    assert fit(here, made).status == 0, "what was said to help does"


def test_a_job_that_never_fits_is_told_so(idle: Site) -> None:
    ran = fit(idle, job(2, gpu=16))
    assert ran.status == 1
    assert ran.out.startswith("It never fits on these nodes: 2 pods")
    assert "add nodes" in ran.line("would help")


def test_replicas_take_the_place_of_the_number_in_the_file(idle: Site) -> None:
    assert fit(idle, job(2), arguments=("--replicas", "8")).status == 0
    assert fit(idle, job(2), arguments=("--replicas", "9")).status == 1


def test_pods_of_another_scheduler_are_warned_of(idle: Site) -> None:
    made = job(1)
    del made["spec"]["template"]["spec"]["schedulerName"]
    ran = fit(idle, made)
    assert "set spec.schedulerName to 'muster'" in ran.err
    assert (ran.status, ran.out.splitlines()[0]) == (1, "It would fit if Muster placed it: 1 pod")


def test_pods_that_need_no_place_of_musters_are_told_apart(idle: Site) -> None:
    plain = builders.pod("default/plain", gpu=0)
    plain["spec"]["schedulerName"] = "muster-plain"
    ran = fit(idle, job(2), plain)
    assert (ran.status, ran.out.splitlines()[0]) == (0, "It fits: 2 of 3 pods would start now")
    assert ran.line("besides").startswith("1 pod without a gang and without accelerators")
    assert "schedulerName" not in ran.err


def test_the_projects_own_examples_can_be_asked_about(idle: Site) -> None:
    for name, pods in EXAMPLES.items():
        path = REPOSITORY / "deploy" / "examples" / f"{name}.yaml"
        ran = muster("fit", "-f", str(path), "--server", idle.url)
        assert (ran.status, ran.out.splitlines()[0]) == (0, f"It fits: {pods} would start now")
        assert "processors" not in ran.err, "an example sets an example"


def test_what_is_not_read_is_named_and_left_out(idle: Site) -> None:
    ran = fit(idle, {"kind": "Deployment", "metadata": {"name": "web"}}, job(2))
    assert ran.status == 0
    assert "Deployment default/web is not read" in ran.err


def test_a_job_of_volcano_keeps_its_minimum(idle: Site) -> None:
    tasks = [{"name": "worker", "replicas": 2, "template": pod_template(8)}]
    made = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v"},
        "spec": {"minAvailable": 2, "tasks": tasks},
    }
    found = fit(idle, made, arguments=("--json",)).json
    assert (found["fits"], list(found["domains"])) == (True, ["default/v"])
    assert sorted(found["nodes"]) == ["default/v-worker-0", "default/v-worker-1"]
    tasks[0]["replicas"] = 1
    assert "1 of 2" in fit(idle, made).line("why")


def test_each_group_of_a_leaderworkerset_is_a_gang(idle: Site) -> None:
    made = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "l"},
        "spec": {
            "replicas": 2,
            "leaderWorkerTemplate": {"size": 2, "workerTemplate": pod_template(8)},
        },
    }
    found = fit(idle, made, arguments=("--json",)).json
    assert (found["pods"], sorted(found["domains"])) == (4, ["default/l-0", "default/l-1"])


def test_the_head_and_the_workers_of_a_raycluster_are_one_gang(idle: Site) -> None:
    workers = {"groupName": "g", "replicas": 2, "template": pod_template(8)}
    made = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "r"},
        "spec": {"headGroupSpec": {"template": pod_template(0)}, "workerGroupSpecs": [workers]},
    }
    found = fit(idle, made, arguments=("--json",)).json
    assert (list(found["domains"]), len(found["nodes"])) == (["default/r"], 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is no YAML"),
        ("# Title\n\nOne\ntwo: three\n", "is no YAML: line 4, column 4: "),
        (
            "{kind: Deployment, metadata: {name: a}}\n---\n{kind: Deployment, metadata: {name: b}}",
            "Deployment default/a, Deployment default/b are not read",
        ),
        ("just text", "has no 'kind'"),
        ("{kind: Deployment, metadata: {name: web}}", "no pods come of it: Deployment default/web"),
        ("{kind: Job, metadata: {name: j}, spec: {}}", "Job default/j: template is missing"),
        (
            "{kind: Job, metadata: {name: j}, spec: {parallelism: many}}",
            "spec.parallelism is 'many', not a number",
        ),
        ("", "no pods come of it"),
        ("[" * 50_000, "is nested too deeply"),
        ("a: " * 2, "is no YAML"),
        ("# long\n" * (3 << 20), "it has more than 16777216 characters"),
        ("{kind: Service, metadata: {name: s}}", "no pods come of it"),
    ],
)
def test_a_file_that_cannot_be_used_is_bad_usage_with_the_reason(
    idle: Site, text: str, reason: str
) -> None:
    ran = muster("fit", "-f", "-", "--server", idle.url, given=text)
    assert (ran.status, ran.out) == (2, "")
    assert reason in ran.err


def test_a_file_that_is_not_there(idle: Site, tmp_path: Path) -> None:
    ran = muster("fit", "-f", str(tmp_path / "none.yaml"), "--server", idle.url)
    assert ran.status == 2
    assert "cannot be read" in ran.err


# ── the pods that controllers make ──


def test_a_job_makes_as_many_pods_as_run_at_once_each_with_its_index() -> None:
    pods, objects = pods_of([job(4, completions=3)], "t")
    assert [pod["metadata"]["name"] for pod in pods] == ["train-0", "train-1", "train-2"]
    index = "batch.kubernetes.io/job-completion-index"
    assert [pod["metadata"]["labels"][index] for pod in pods] == ["0", "1", "2"]
    assert {pod["metadata"]["namespace"] for pod in pods} == {"t"}
    assert [obj["kind"] for obj in objects] == ["Job"]


def test_a_jobset_is_one_gang_of_all_its_jobs(idle: Site) -> None:
    part = {"name": "workers", "replicas": 2, "template": {"spec": job(2)["spec"]}}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [part]},
    }
    found = fit(idle, jobset, arguments=("--json",)).json
    assert found["fits"]
    assert sorted(found["nodes"]) == [
        f"default/set-workers-{job}-{pod}" for job in (0, 1) for pod in (0, 1)
    ]
    assert list(found["domains"]) == ["default/set"]


def test_a_pytorchjob_is_one_gang_of_master_and_workers(idle: Site) -> None:
    specs = {
        "Master": {"replicas": 1, "template": pod_template(8)},
        "Worker": {"replicas": 3, "template": pod_template(8)},
    }
    made = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "py"},
        "spec": {"pytorchReplicaSpecs": specs},
    }
    found = fit(idle, made, arguments=("--json",)).json
    assert found["fits"]
    assert list(found["domains"]) == ["default/py"]
    assert len(found["nodes"]) == 4
    assert fit(idle, made, arguments=("--replicas", "8")).status == 1


def test_a_pod_group_in_the_same_file_says_how_many(idle: Site) -> None:
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 2},
    }
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    one = builders.pod("default/p0", gpu=8, labels=label)

    lonely = fit(idle, group, one)
    both = fit(idle, group, one, builders.pod("default/p1", gpu=8, labels=label))

    assert (lonely.status, both.status) == (1, 0)
    assert "1 of 2" in lonely.line("why") or "missing" in lonely.line("why")


def test_lists_copies_and_replicas_of_plain_pods() -> None:
    one = builders.pod("t/p", gpu=1)
    pods, _ = pods_of([{"kind": "List", "items": [one, one]}], "t", replicas=2)
    assert [pod["metadata"]["name"] for pod in pods] == ["p-0", "p-1", "p-0", "p-1"]
    assert one["metadata"]["name"] == "p"


def test_too_many_pods_are_refused_before_they_are_made() -> None:
    assert len(pods_of([job(4096)], "t")[0]) == 4096
    for count in (4097, 2**30):
        with pytest.raises(WorkloadError, match="more than 4096 pods are not judged at once"):
            pods_of([job(count)], "t")


# ── the wire ──


def ask(here: Site, body: bytes) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(here.url + "/v1/fit", body, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_a_plain_list_of_pods_is_a_request_too(idle: Site) -> None:
    pods = [
        builders.pod(f"t/a-{at}", gpu=8, cpu="32", memory="64Gi", gang="a", min=2)
        for at in range(2)
    ]
    status, found = ask(idle, json.dumps(pods).encode())
    assert (status, found["fits"], found["pods"], found["warnings"]) == (200, True, 2, [])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not JSON"),
        (b"[]", "no pods"),
        (b'"x"', "must be a list of pods"),
        (b'{"pods": 3}', "pods: 3 is not a list"),
        (b"[1]", "pods[0]"),
        (b'[{"metadata": {}}]', "pods[0]"),
        (b"[" * 100_000, "nested too deeply"),
        (json.dumps([{"metadata": {"name": "p"}}] * 10_001).encode(), "more than 4096"),
    ],
)
def test_a_bad_request_gets_a_clear_answer(idle: Site, body: bytes, reason: str) -> None:
    status, found = ask(idle, body)
    assert status == 400
    assert reason in found["error"]
