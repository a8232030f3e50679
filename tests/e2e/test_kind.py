"""deploy/kind/up.sh with a real API server: kubectl, controllers and Muster do what they do there.

Stand-ins are there for what wants containers: docker, kind, the kubelets, and the way through the
API server to a pod. Muster and its scheduler run beside the pods that the script waits for.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import Client
from tests.e2e.controlplane.cluster import CONTROLLERS, Cluster
from tests.e2e.controlplane.kubelet import FakeKubelet
from tests.e2e.controlplane.objects import create_nodes, node
from tests.e2e.deployed import DEPLOY, POLICY_VERSION
from tests.e2e.muster import MusterProcess, start_muster_scheduler
from tests.e2e.own_plane import own_plane
from tests.e2e.packagers import KUBECTL, program

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

SCRIPT = DEPLOY / "kind" / "up.sh"
WORKERS = 4
WORKLOADS = ("deployment-controller", "replicaset-controller", "daemonset-controller")

# The cluster is there already, and its nodes are as the script would have made them.
KIND = """#!/bin/sh
test "$*" != 'get clusters' || echo muster
"""
DOCKER = "#!/bin/sh\n"
# No kubelet is there whose pods the API server could reach.
KUBECTL_WRAPPER = """#!/bin/sh
case "$*" in *proxy/metrics) exec {python} -c '
import sys, urllib.request
sys.stdout.write(urllib.request.urlopen("{muster}/metrics").read().decode())';; esac
exec {kubectl} "$@"
"""


@pytest.fixture(scope="module")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One whose controllers make the pods of Deployments and DaemonSets, too."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        program(KUBECTL)
    with own_plane(request, controllers=(*CONTROLLERS, *WORKLOADS)) as plane:
        yield plane


@pytest.fixture
def client(control_plane: Cluster) -> Iterator[Client]:
    """The administrator's client."""
    client = control_plane.client()
    yield client
    client.close()


def _nodes() -> list[dict[str, Any]]:
    """As the script's own file for kind has them; GPUs are the script's to add."""
    text = SCRIPT.read_text()
    levels = re.findall(r"example\.com/(\w+): (\w)%d\\n' \$\(\(number / (\d)\)\)", text)
    assert len(levels) == 2
    assert 'nvidia.com/gpu.present: "true"' in text
    control = {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/os": "linux"}
    made = [node("muster-control-plane", gpus=0, cpu="4", memory="8Gi", labels=control)]
    for number in range(WORKERS):
        labels = {
            f"example.com/{level}": f"{prefix}{number // int(size)}"
            for level, prefix, size in levels
        }
        labels |= {"nvidia.com/gpu.present": "true", "kubernetes.io/os": "linux"}
        made.append(node(f"muster-worker{number}", gpus=0, cpu="4", memory="8Gi", labels=labels))
    return made


def _tools(folder: Path, cluster: Cluster, muster: MusterProcess) -> dict[str, str]:
    """Variables with which the script finds the stand-ins, and this cluster under kind's name."""
    wrapper = KUBECTL_WRAPPER.format(
        python=sys.executable, kubectl=program(KUBECTL), muster=muster.url
    )
    for name, text in (("kind", KIND), ("docker", DOCKER), ("kubectl", wrapper)):
        path = folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    file: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_text())
    for entry in file["contexts"]:
        entry["name"] = "kind-muster"
    file["current-context"] = ""
    (folder / "kubeconfig").write_text(yaml.safe_dump(file))
    path = f"{folder}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(folder / "kubeconfig")}


def test_it_brings_all_of_it_up_and_runs_the_examples_and_the_benchmark(
    control_plane: Cluster, client: Client, tmp_path: Path
) -> None:
    create_nodes(client, _nodes())
    levels = {"MUSTER_SET_LEVELS": "example.com/block,example.com/rack"}
    with ExitStack() as running:
        running.enter_context(FakeKubelet(client))
        stock = control_plane.start_scheduler()
        running.callback(stock.stop)
        muster = running.enter_context(MusterProcess(control_plane, env=levels))
        running.callback(start_muster_scheduler(muster).stop)
        done = subprocess.run(
            [SCRIPT],
            env=_tools(tmp_path, control_plane, muster),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        told = " ".join(event["message"] for event in client.events("default"))
        agent = client.get("apps/v1/DaemonSet", "muster-agent", "muster-agent")["status"]
        services = {item["metadata"]["name"] for item in client.list("Service", "default")}

    steps = re.findall(r"^== (.*)$", done.stdout, re.MULTILINE)
    examples = [step.split()[1].rstrip(":") for step in steps if step.startswith("example ")]
    assert examples == ["plain-pods", "indexed-job", "mig", "gaudi"]
    assert "a gang of 16 pods" in done.stdout
    # Five gangs were timed: the pair, the three Jobs, and that of the benchmark.
    counts = re.findall(r"^muster_gang_start_seconds_count\S* (\S+)$", done.stdout, re.MULTILINE)
    assert sum(map(float, counts)) >= 5
    assert {f"default/{name}" for name in ("pair", "digits", "burst")} <= {
        *re.findall(r"gang (\S+), rank 0 of", told)
    }
    assert services <= {"kubernetes"}, "nothing is left of the examples"
    assert agent["numberReady"] == WORKERS
    for policy in ("muster-scheduler-name", "muster-scheduling-gate"):
        assert client.get(f"{POLICY_VERSION}/MutatingAdmissionPolicy", policy)
