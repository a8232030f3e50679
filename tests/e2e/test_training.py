"""A gang from declaration to a trained model: pods that Muster placed, run as local processes.

There is no kubelet here, so each pod's container is a process of this machine, with exactly the
annotations and variables that the pod has; all of them talk over the loopback interface.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.objects import BLOCK, RACK, create_nodes, node
from tests.e2e.gangs import gang_job, placed
from tests.e2e.muster import MusterProcess, start_muster_scheduler

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
TRAINER_TESTS = ROOT / "tests" / "trainer"
RACKS = {"n0": "r0", "n1": "r1", "n2": "r0", "n3": "r1"}
"""By node: their names alternate between the racks, so that an order by name would be wrong."""


@pytest.fixture
def muster(control_plane: Cluster, client: Client) -> Iterator[None]:
    """Muster with its kube-scheduler, over four nodes of 8 GPUs in two racks."""
    client.delete_all("Node", labels="muster.test/made-by=e2e")
    made = create_nodes(
        client, [node(name, labels={BLOCK: "b0", RACK: rack}) for name, rack in RACKS.items()]
    )
    with MusterProcess(control_plane) as process:
        scheduler = start_muster_scheduler(process)
        yield
        scheduler.stop()
    client.at_once(lambda item: client.delete("Node", item["metadata"]["name"]), made)


def test_a_placed_gang_trains_in_topology_order_and_again_when_a_pod_was_replaced(
    client: Client, namespace: str, muster: None, tmp_path: Path
) -> None:
    client.create(_job(namespace, _free_port()))
    first = _bound(client, namespace)
    reports = _train(first, tmp_path / "first", tmp_path / "saved", steps=60)

    racks = [place.split("/")[1] for place in reports["rank_order"]]
    assert racks == sorted(racks), "the pods of a rack have consecutive ranks"
    assert reports["rank_order"] == [_place(pod) for pod in first], "index order is rank order"
    assert (reports["world"], reports["resumed_from"]) == (4, None)

    lost = first[2]
    client.delete("Pod", lost["metadata"]["name"], namespace, grace=0)
    second = _bound(client, namespace, without=lost["metadata"]["uid"])
    assert _place(second[2]) == _place(lost), "the replacement takes its predecessor's place"

    resumed = _train(second, tmp_path / "second", tmp_path / "saved", steps=150)
    assert resumed["rank_order"] == reports["rank_order"]
    assert (resumed["resumed_from"], resumed["steps"]) == (60, 150)
    assert resumed["accuracy"] > max(0.9, reports["accuracy"])


def _job(namespace: str, port: int) -> Object:
    job = gang_job("digits", namespace, 4, gpus=8)
    job["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "NNODES", "value": "4"},
        {"name": "MASTER_ADDR", "value": "127.0.0.1"},
        {"name": "MASTER_PORT", "value": str(port)},
    ]
    return job


def _bound(client: Client, namespace: str, without: str = "") -> list[Object]:
    """The gang's four pods by index, once all are bound."""

    def pods() -> list[Object]:
        found = [pod for pod in client.list("Pod", namespace) if pod["metadata"]["uid"] != without]
        return [pod for pod in found if pod["spec"].get("nodeName")]

    wait_until(lambda: len(pods()) == 4, 60, what="four pods are bound")
    assert len(placed(client, namespace, "digits-")) >= 4
    return sorted(pods(), key=lambda pod: int(_variables(pod)["JOB_COMPLETION_INDEX"]))


def _train(pods: list[Object], folder: Path, saved: Path, steps: int) -> dict[str, Any]:
    """Run the pods' containers; the report of the first."""
    folder.mkdir()
    command = ["launch", "--", "-m", "trainer", "train", "--checkpoint-dir", str(saved)]
    wanted = [
        {"args": [*command, "--steps", str(steps)], "env": _variables(pod) | _volume(pod, folder)}
        for pod in pods
    ]
    (folder / "pods.json").write_text(json.dumps(wanted))
    done = subprocess.run(
        [sys.executable, str(TRAINER_TESTS / "run_pods.py"), str(folder)],
        capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(TRAINER_TESTS)])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [pod["code"] for pod in found] == [0] * 4, found
    for index, pod in enumerate(found):
        assert f"pod {index} of 4, launched by indexed-job; hint: " in pod["err"]
    report: dict[str, Any] = json.loads(found[0]["out"].splitlines()[-1])
    return report


def _variables(pod: Object) -> dict[str, str]:
    """The container's, as the kubelet would resolve them."""
    notes = pod["metadata"]["annotations"]
    found = {}
    for item in pod["spec"]["containers"][0]["env"]:
        path = item.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        key = path.partition("['")[2].removesuffix("']")
        found[item["name"]] = notes[key] if key else item["value"]
    return found


def _volume(pod: Object, folder: Path) -> dict[str, str]:
    """All annotations, as a downward API volume shows them."""
    notes = pod["metadata"]["annotations"]
    file = folder / f"annotations-{pod['metadata']['name']}"
    file.write_text("".join(f"{key}={json.dumps(value)}\n" for key, value in notes.items()))
    return {"MUSTER_ANNOTATIONS_FILE": str(file)}


def _place(pod: Object) -> str:
    hint = json.loads(pod["metadata"]["annotations"]["muster.scheduler/hint"])
    assert hint["node"] == pod["spec"]["nodeName"]
    return "/".join([*hint["path"], hint["node"]])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
