"""The examples mean what their comments say, to Muster and to the trainer alike."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from deploy_objects import DEPLOY, Object, objects

from scheduler import __version__, decode
from scheduler.core.hints import KEY
from scheduler.settings import Settings
from scheduler.simulation.replay import replay
from trainer import nccl
from trainer.hints import DEFAULT_FILE
from trainer.plan import plan
from trainer.settings import LaunchSettings

EXAMPLES = DEPLOY / "examples"


def _job() -> Object:
    return next(item for item in objects(EXAMPLES / "indexed-job.yaml") if item["kind"] == "Job")


def _service() -> Object:
    return next(
        item for item in objects(EXAMPLES / "indexed-job.yaml") if item["kind"] == "Service"
    )


def _pods_of(job: Object) -> list[Object]:
    """The pods as the Job controller makes them, as far as anybody looks."""
    template, name = job["spec"]["template"], job["metadata"]["name"]
    found = []
    for index in range(job["spec"]["completions"]):
        labels = {
            "batch.kubernetes.io/job-name": name,
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        noted = {"batch.kubernetes.io/job-completion-index": str(index)}
        metadata = {
            "name": f"{name}-{index}-abcde",
            "namespace": "default",
            "labels": labels,
            "annotations": {**template["metadata"]["annotations"], **noted},
        }
        found.append({"metadata": metadata, "spec": template["spec"]})
    return found


def _node(name: str) -> Object:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name}, "status": {"allocatable": room, "conditions": ready}}


def _replayed(nodes: Iterable[str], pods: Iterable[Object]) -> list[dict[str, Any]]:
    ops: list[Object] = [{"op": "node", "object": _node(name)} for name in nodes]
    ops += [{"op": "pod", "object": {"apiVersion": "v1", "kind": "Pod", **pod}} for pod in pods]
    ops.append({"op": "state"})
    return [json.loads(line) for line in replay(json.dumps(op) for op in ops)]


def _bound(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {line["pod"]: line for line in lines if line.get("effect") == "bind"}


def _mounted_file(pod: Object, volume: str) -> str:
    (container,) = pod["spec"]["containers"]
    (mount,) = [item for item in container["volumeMounts"] if item["name"] == volume]
    (entry,) = [item for item in pod["spec"]["volumes"] if item["name"] == volume]
    return f"{mount['mountPath']}/{entry['downwardAPI']['items'][0]['path']}"


# ── indexed-job.yaml ──


def test_the_job_starts_whole_or_not_at_all() -> None:
    pods = _pods_of(_job())

    assert _bound(_replayed(["n1", "n2", "n3"], pods)) == {}
    assert _bound(_replayed(["n1", "n2", "n3", "n4"], pods[:3])) == {}
    assert len(_bound(_replayed(["n1", "n2", "n3", "n4"], pods))) == 4


def test_the_job_is_bound_by_muster_itself() -> None:
    # A volume outside the allow-list would send it through the scheduler, which is slower.
    for pod in _pods_of(_job()):
        read = decode.pod(pod)
        assert (read.fault, read.nominate_because) == ("", "")
        assert read.scheduler in Settings().scheduler_names


def test_the_hint_is_where_the_trainer_looks_for_it() -> None:
    pod = _pods_of(_job())[0]
    (volume,) = [item for item in pod["spec"]["volumes"] if "downwardAPI" in item]
    (item,) = volume["downwardAPI"]["items"]

    assert item["fieldRef"]["fieldPath"] == f"metadata.annotations['{KEY}']"
    assert _mounted_file(pod, volume["name"]) == str(DEFAULT_FILE)


@pytest.mark.parametrize("index", [0, 3])
def test_the_launcher_finds_the_first_pod_of_the_job(index: int) -> None:
    job = _job()
    name, spec = job["metadata"]["name"], job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    env = {item["name"]: item["value"] for item in container["env"]}
    host = f"{name}-{index}.{spec['subdomain']}.default.svc.cluster.local"

    chosen = plan(
        LaunchSettings(), {**env, "JOB_COMPLETION_INDEX": str(index)}, nccl.Devices(cuda=8), host
    )

    assert chosen.world.launcher == "indexed-job"
    assert chosen.world.nnodes == str(job["spec"]["completions"])
    assert chosen.world.node_rank == index
    assert chosen.world.master_addr == f"{name}-0.{spec['subdomain']}.default.svc.cluster.local"


def test_every_worker_has_a_gpu_and_every_pod_of_the_job_is_waited_for() -> None:
    job = _job()
    spec, template = job["spec"], job["spec"]["template"]
    (container,) = template["spec"]["containers"]
    gpus = container["resources"]["limits"]["nvidia.com/gpu"]

    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    assert template["metadata"]["annotations"]["muster.scheduler/min-available"] == str(
        spec["parallelism"]
    )
    assert container["args"][:2] == ["launch", f"--nproc-per-node={gpus}"]
    assert container["image"] == f"muster-trainer:{__version__}"


def test_the_pods_find_each_other_before_they_are_ready() -> None:
    job, service = _job(), _service()

    assert service["metadata"]["name"] == job["spec"]["template"]["spec"]["subdomain"]
    assert service["spec"]["selector"].items() <= _pods_of(job)[0]["metadata"]["labels"].items()
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True


# ── plain-pods.yaml ──


def test_the_pair_starts_together_and_the_single_pod_by_itself() -> None:
    pods = objects(EXAMPLES / "plain-pods.yaml")
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    assert list(by_name) == ["pair-0", "pair-1", "alone", "no-gpu"]

    assert set(_bound(_replayed(["n1"], [by_name["pair-0"], by_name["alone"]]))) == {
        "default/alone"
    }
    assert set(_bound(_replayed(["n1"], pods))) == {
        "default/pair-0",
        "default/pair-1",
        "default/alone",
    }


def test_the_pod_without_gpu_passes() -> None:
    (pod,) = [
        pod for pod in objects(EXAMPLES / "plain-pods.yaml") if pod["metadata"]["name"] == "no-gpu"
    ]
    ops = [
        {"op": "node", "object": _node("n1")},
        {"op": "pod", "object": pod},
        {"op": "filter", "pod": "default/no-gpu", "nodes": ["n1"]},
    ]

    (answer,) = [json.loads(line) for line in replay(json.dumps(op) for op in ops)]

    assert answer["nodes"] == ["n1"]
