"""A kube-scheduler that calls Muster over TLS, as one does that is not in the same pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.process import free_port
from tests.e2e.gangs import gang_pods, placed
from tests.e2e.muster import MusterProcess, start_muster_scheduler

pytestmark = pytest.mark.e2e


@pytest.fixture
def muster(
    control_plane: Cluster, nodes: Sequence[Object], tmp_path: Path
) -> Iterator[MusterProcess]:
    """Muster with a scheduler whose calls go over TLS, each with its certificate."""
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.sign("muster")
    shown, its_key = authority.sign("kube-scheduler")
    port = free_port()
    options = [f"--tls-cert={certificate}", f"--tls-key={key}", f"--tls-port={port}"]
    options += [f"--tls-client-ca={authority.certificate}", "--tls-host=127.0.0.1"]
    asked = [f"--extender-url=https://127.0.0.1:{port}", f"--tls-ca={authority.certificate}"]
    asked += [f"--tls-cert={shown}", f"--tls-key={its_key}"]
    with ExitStack() as running:
        process = running.enter_context(MusterProcess(control_plane, extra_args=options))
        running.callback(start_muster_scheduler(process, *asked).stop)
        yield process


def test_a_gang_is_held_and_started_over_tls(
    client: Client, namespace: str, muster: MusterProcess
) -> None:
    """With `follow`, every answer that matters is asked for by the scheduler."""
    options = {"start": "follow"}
    client.create_all(gang_pods("train", namespace, range(4), 8, least=4, options=options))
    wait_until(lambda: len(placed(client, namespace, "train-")) == 4, 90, what="all are bound")

    calls = muster.metrics()
    for verb in ("filter", "bind"):
        assert f'muster_request_seconds_count{{code="200",verb="{verb}"}}' in calls
    assert [member.hint["rank"] for member in placed(client, namespace, "train-")] == [0, 1, 2, 3]
