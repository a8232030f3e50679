"""`kubectl describe job` explains the wait: its gang's Event is on the Job, once a change."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from tests.e2e.controlplane.client import Client, Object, Objects, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.gangs import gang_job, gang_pods
from tests.e2e.muster import MusterProcess, start_muster_scheduler
from tests.e2e.packagers import KUBECTL, program

pytestmark = pytest.mark.e2e

MEMBERS = 4


def _told(client: Client, namespace: str, job: Object) -> Objects:
    """Muster's Events on the Job itself, not on its pods."""
    uid = job["metadata"]["uid"]
    found = client.events(namespace, job["metadata"]["name"])
    return [event for event in found if event["involvedObject"]["uid"] == uid and _is_ours(event)]


def _is_ours(event: Object) -> bool:
    return bool(event.get("reportingComponent") == "muster")


def test_the_job_is_told_why_its_gang_waits(
    control_plane: Cluster, client: Client, namespace: str, nodes: Sequence[Object]
) -> None:
    all_but_one = len(nodes) - MEMBERS + 1
    with ExitStack() as running:
        muster = running.enter_context(MusterProcess(control_plane))
        running.callback(start_muster_scheduler(muster).stop)
        client.create_all(gang_pods("first", namespace, range(all_but_one), 8, least=all_but_one))
        wait_until(lambda: _bound(client, namespace) == all_but_one, what="the first gang is bound")

        job = client.create(gang_job("train", namespace, MEMBERS, 8))
        (event,) = wait_until(lambda: _told(client, namespace, job), 60, "the Job has an Event")
        assert event["reason"] == "GangWaiting"
        assert "3 of 4 placeable" in event["message"]
        kubectl = [str(program(KUBECTL)), "--kubeconfig", str(control_plane.kubeconfig)]
        command = [*kubectl, "-n", namespace, "describe", "job", "train"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert "GangWaiting" in shown.stdout
        assert "3 of 4 placeable" in shown.stdout

        client.delete_all("Pod", namespace, labels="!batch.kubernetes.io/job-name", grace=0)
        wait_until(lambda: _bound(client, namespace) == MEMBERS, what="the Job's gang is bound")
        assert len(_told(client, namespace, job)) == 1


def _bound(client: Client, namespace: str) -> int:
    return sum("nodeName" in item["spec"] for item in client.list("Pod", namespace))
