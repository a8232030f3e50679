"""Muster and its scheduler with the rights of the manifest, and nothing but these.

One run in which they do all they ever do; the API server's audit log says which rights were used.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from scheduler import dialects
from scheduler.cluster.resources import POD_GROUPS, TOPOLOGIES
from tests.e2e.audit import Audit, Permission, granted
from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import CONTROLLERS, VOLUME_CONTROLLER, Cluster
from tests.e2e.controlplane.kubelet import FakeKubelet
from tests.e2e.controlplane.objects import (
    create_nodes,
    fleet,
    local_volume,
    storage_class,
    volume_claim,
    volume_of_claim,
)
from tests.e2e.controlplane.process import free_port, http_get
from tests.e2e.definitions import serve
from tests.e2e.deployed import (
    AGENT_NAMESPACE,
    MANIFEST,
    NAMESPACE,
    apply,
    component,
    deployed_scheduler,
    kubeconfig,
    token_of,
)
from tests.e2e.ecosystems import NATIVE_API, Declared, definition, native, owned, volcano
from tests.e2e.gangs import gang_pods, placed
from tests.e2e.muster import MusterProcess
from tests.e2e.own_plane import own_plane

pytestmark = pytest.mark.e2e

RIGHTS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
MUSTER = f"system:serviceaccount:{NAMESPACE}:muster"
AGENT = f"system:serviceaccount:{AGENT_NAMESPACE}:muster-agent"

LOST_ANSWERS: set[Permission] = {("get", "", "pods")}
"""Asked for only after a conflict, or a Binding whose answer was lost, which nothing brings about
on purpose here: see tests/unit/deploy/test_rbac.py."""
VOLUMES: Permission = ("update", "", "persistentvolumes")
"""Allowed by `system:volume-scheduler`, and by no other role."""


def _one(kind: str, name: str, objects: Sequence[Object] = MANIFEST) -> Object:
    (found,) = [
        item for item in objects if (item["kind"], item["metadata"]["name"]) == (kind, name)
    ]
    return found


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """The log of this file's API server."""
    return Audit(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def control_plane(audit: Audit, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A control plane that asks for rights, with all kinds that Muster ever looks for."""
    with own_plane(
        request,
        authorization="RBAC",
        controllers=(*CONTROLLERS, VOLUME_CONTROLLER),
        api_server_flags=[*audit.flags, *NATIVE_API],
    ) as cluster:
        client = cluster.client()
        for item in _foreign_kinds():
            serve(client, item)
        create_nodes(client, fleet())
        for item in (*MANIFEST, *component("agent")):
            if item["kind"] in RIGHTS:
                apply(client, item)
        client.close()
        yield cluster


@pytest.fixture(scope="module")
def client(control_plane: Cluster) -> Iterator[Client]:
    """The administrator's client."""
    client = control_plane.client()
    yield client
    client.close()


def _foreign_kinds() -> Iterator[Object]:
    """Definitions of all that Muster reads and that is not Kubernetes' own."""
    for group, versions in POD_GROUPS:
        if group != "scheduling.k8s.io":
            yield definition("PodGroup", group, versions[0])
    for kind in TOPOLOGIES:
        yield definition(
            kind.kind, kind.group, kind.versions[0], plural=kind.plural, scope="Cluster"
        )
    for owner in dialects.OWNERS:
        name, _, group = owner.partition(".")
        if group != "batch":
            yield definition(name, group, "v1")


# ── the run ──


@pytest.fixture(scope="module")
def used(
    control_plane: Cluster,
    client: Client,
    audit: Audit,
    tmp_path_factory: pytest.TempPathFactory,
) -> Audit:
    """The log after everything was done once."""
    folder = tmp_path_factory.mktemp("rights")
    account = kubeconfig(control_plane, client, NAMESPACE, "muster", folder)
    with ExitStack() as running:
        views = f"http://127.0.0.1:{(port := free_port())}"
        muster = running.enter_context(
            MusterProcess(control_plane, kubeconfig=account, extra_args=_arguments(port))
        )
        scheduler = deployed_scheduler(control_plane, muster, account, NAMESPACE, folder)
        running.callback(scheduler.stop)
        scheduler.start()
        assert http_get(f"{views}/v1/gangs", token_of(client, "default", "default"))[0] == 200
        _start_a_gang(client)
        _start_a_gang_with_volumes(client)
        _evict_from_a_node_that_refuses(client)
        _start_a_gang_of_a_pod_group(client, native("default"))
        _start_a_gang_of_a_pod_group(client, volcano("default"))
        _name_each_owner(client, audit)
    return audit


def _arguments(views_port: int) -> list[str]:
    """Those of the Deployment, with the views on loopback."""
    (muster, _) = _one("Deployment", "muster")["spec"]["template"]["spec"]["containers"]
    elsewhere = ("serve", "--kubeconfig", "--host", "--port", "--views-", "--config")
    kept = [arg for arg in muster["args"] if not arg.startswith(elsewhere)]
    return [*kept, "--views-host=127.0.0.1", f"--views-port={views_port}"]


def _start_a_gang(client: Client) -> None:
    client.create_all(gang_pods("plain", "default", range(4), 8, least=4))
    # Muster wakes these, and the scheduler binds them.
    asked: Object = {"start": "follow"}
    client.create_all(gang_pods("asked", "default", range(2), 8, least=2, options=asked))
    wait_until(lambda: len(placed(client, "default", "plain-")) == 4, 60, what="one starts")
    wait_until(lambda: len(placed(client, "default", "asked-")) == 2, 60, what="the other starts")
    wait_until(
        lambda: {event["reason"] for event in client.events("default")} >= {"Scheduled"},
        what="it has its Events",
    )


def _start_a_gang_with_volumes(client: Client) -> None:
    client.create(storage_class("late"))
    nodes = [f"b1-r1-n{index}" for index in range(2)]
    for index, node in enumerate(nodes):
        client.create(local_volume(f"volume-{index}", "late", node))
        client.create(volume_claim(f"claim-{index}", "default", "late"))
        volumes = [volume_of_claim(f"claim-{index}")]
        pinned = {"kubernetes.io/hostname": node}
        client.create_all(
            gang_pods("vol", "default", [index], 8, least=2, volumes=volumes, nodeSelector=pinned)
        )
    wait_until(lambda: len(placed(client, "default", "vol-")) == 2, 90, what="by nomination too")


def _evict_from_a_node_that_refuses(client: Client) -> None:
    with FakeKubelet(client, namespace="default") as kubelet:
        kubelet.reject("b0-r1-n0", "OutOfnvidia.com/gpu")
        where = {"kubernetes.io/hostname": "b0-r1-n0"}
        (member,) = gang_pods("refused", "default", [0], 8, least=1, nodeSelector=where)
        client.create(member)
        wait_until(
            lambda: client.find("Pod", "refused-0", "default") is None, 60, what="it is evicted"
        )


def _start_a_gang_of_a_pod_group(client: Client, gang: Declared) -> None:
    """Of a kind whose objects are told that their gang has started."""
    (group,) = gang.objects
    client.create(group)
    client.create_all(gang.pods)
    kind, name = f"{group['apiVersion']}/{group['kind']}", group["metadata"]["name"]

    def told() -> bool:
        status = client.get(kind, name, "default").get("status", {})
        return "GangStarted" in {item["reason"] for item in status.get("conditions", [])}

    wait_until(told, 60, what=f"the status of {kind} {name} says that its gang has started")


def _name_each_owner(client: Client, audit: Audit) -> None:
    """Pods as controllers make them; that their owners do not exist is found out by a GET."""
    client.create_all(owned("default"))
    wanted = {item for item in granted([_one("ClusterRole", "muster")]) if item[0] == "get"}
    wait_until(
        lambda: _permissions(audit, MUSTER, "muster") >= wanted - LOST_ANSWERS,
        30,
        what="each kind of owner was asked for",
    )


def _permissions(audit: Audit, user: str, agent: str = "") -> set[Permission]:
    return {
        request.permission
        for request in audit.requests()
        if request.user == user and agent in ("", request.agent)
    }


# ── what it used ──


def test_no_right_was_missing(used: Audit) -> None:
    assert [request for request in used.requests() if request.forbidden] == []


def test_muster_used_every_right_of_its_role_and_no_other(used: Audit) -> None:
    asked = _permissions(used, MUSTER, "muster")
    own = granted([_one("ClusterRole", "muster")])
    lease = granted([_one("Role", "muster-kube-scheduler")])

    assert own - asked <= LOST_ANSWERS
    assert asked - own - lease == set()


def test_the_lease_is_read_and_renewed_and_no_other_is(used: Audit) -> None:
    requests = [item for item in used.requests() if item.permission[2] == "leases"]

    (rule,) = _one("Role", "muster-kube-scheduler")["rules"]
    needed = granted([_one("Role", "muster-kube-scheduler")])
    assert {item.permission for item in requests} - {
        ("create", "coordination.k8s.io", "leases")
    } == needed
    assert {item.name for item in requests} - {""} == set(rule["resourceNames"])


def test_the_scheduler_used_the_role_for_volumes(used: Audit) -> None:
    assert _permissions(used, MUSTER, "kube-scheduler") >= {VOLUMES}


# ── the agent ──


def test_the_agent_used_every_right_of_its_role(
    control_plane: Cluster, client: Client, audit: Audit, tmp_path: Path
) -> None:
    account = kubeconfig(control_plane, client, AGENT_NAMESPACE, "muster-agent", tmp_path)
    # A node whose GPUs are gone: what was published of them is taken back.
    stale = {"metadata": {"annotations": {"muster.scheduler/gpus-in-use": "{}"}}}
    client.patch("Node", "b0-r0-n0", stale)
    (tmp_path / "host" / "sys").mkdir(parents=True)
    command = [sys.executable, "-m", "scheduler", "agent", "--once", "--node", "b0-r0-n0"]
    command += ["--kubeconfig", str(account), "--root", str(tmp_path / "host")]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert "annotations" not in client.get("Node", "b0-r0-n0")["metadata"]
    role = _one("ClusterRole", "muster-agent", component("agent"))
    assert _permissions(audit, AGENT) == granted([role])
