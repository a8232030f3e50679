"""What a live run records, and what a snapshot holds, is replayed with the same result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.simulation.replay import replay
from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.gangs import gang_pods, placed
from tests.e2e.muster import MusterProcess, start_muster_scheduler

pytestmark = pytest.mark.e2e


def replayed(text: str) -> list[Object]:
    return [json.loads(line) for line in replay(text.splitlines())]


def test_a_recorded_run_is_decided_the_same_way_again(
    control_plane: Cluster, client: Client, nodes: object, namespace: str, tmp_path: Path
) -> None:
    record = tmp_path / "run.jsonl"
    with MusterProcess(control_plane, extra_args=["--record", str(record)]) as muster:
        scheduler = start_muster_scheduler(muster)
        client.create_all(gang_pods("a", namespace, range(16), 4, least=16))
        client.create_all(gang_pods("b", namespace, range(3), 8, least=4))
        wait_until(lambda: len(placed(client, namespace, "a-")) == 16, 60, what="gang a starts")
        scheduler.stop()
        snapshot = muster.get("/v1/snapshot")
    live = {f"{namespace}/a-{member.index}": member for member in placed(client, namespace, "a-")}

    bound = {line["pod"]: line for line in replayed(record.read_text()) if "hint" in line}
    assert {pod: line["node"] for pod, line in bound.items()} == {
        pod: member.node for pod, member in live.items()
    }
    assert all(bound[pod]["hint"]["rank"] == live[pod].hint["rank"] for pod in live)

    state = replayed(snapshot)[-1]
    assert state["gangs"][f"{namespace}/a"]["state"] == "running"
    assert state["gangs"][f"{namespace}/b"]["reason"] == "3 of 4 pods exist"
    mine = {pod: node for pod, node in state["bound"].items() if pod.startswith(namespace)}
    assert mine == {pod: member.node for pod, member in live.items()}
