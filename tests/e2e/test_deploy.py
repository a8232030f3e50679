"""deploy/ against a real API server: every object is accepted, and its rights are enough."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path

import pytest

from tests.e2e.controlplane.client import ApiError, Client, Object, Objects, wait_until
from tests.e2e.controlplane.cluster import Cluster, ExternalCluster
from tests.e2e.controlplane.process import free_port, http_get
from tests.e2e.deployed import (
    DEPLOY,
    MANIFEST,
    apply,
    component,
    deployed_scheduler,
    kubeconfig,
    make,
    moved,
    need_policies,
    objects,
    policies,
    renamed,
)
from tests.e2e.muster import MusterProcess

pytestmark = pytest.mark.e2e

JOB_PODS = 4
KEPT = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
COMPONENTS = [*component("agent"), *policies("admission"), *policies("gate")]


def _name(item: Object) -> str:
    return f"{item['kind']}-{item['metadata']['name']}"


def _one(kind: str) -> Object:
    return next(item for item in MANIFEST if item["kind"] == kind)


# ── every object ──


@pytest.mark.parametrize("item", [*MANIFEST, *COMPONENTS], ids=_name)
def test_the_api_server_accepts_every_object(client: Client, namespace: str, item: Object) -> None:
    wanted = moved(item, namespace)
    if item["kind"].startswith("MutatingAdmissionPolicy"):
        need_policies(client)

    applied = apply(client, wanted, dryRun="All")

    assert applied["metadata"]["name"] == wanted["metadata"]["name"]


def test_a_misspelt_field_would_be_told(client: Client, namespace: str) -> None:
    item = moved(_one("Deployment"), namespace)
    item["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}

    with pytest.raises(ApiError, match="readinesProbe"):
        apply(client, item, dryRun="All")


def test_the_pod_keeps_to_the_restricted_standard_of_its_namespace(
    client: Client, namespace: str
) -> None:
    labels = _one("Namespace")["metadata"]["labels"]
    client.patch("Namespace", namespace, {"metadata": {"labels": labels}})
    apply(client, moved(_one("ServiceAccount"), namespace))
    spec = deepcopy(_one("Deployment")["spec"]["template"]["spec"])
    urgent = renamed(moved(_one("PriorityClass"), namespace), namespace)
    spec["priorityClassName"] = urgent["metadata"]["name"]
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "muster", "namespace": namespace},
        "spec": spec,
    }
    careless = deepcopy(pod)
    del careless["spec"]["containers"][0]["securityContext"]

    with ExitStack() as made:
        make(client, made, urgent)
        wait_until(lambda: _refusal(client, careless), what="the namespace enforces its standard")
        wait_until(lambda: _accepted(client, pod), what="its priority class is known")


def _accepted(client: Client, pod: Object) -> bool:
    """The API server reads priority classes from a cache of its own."""
    try:
        found = apply(client, pod, dryRun="All")["spec"]["priority"]
    except ApiError as error:
        if "no PriorityClass" in error.message:
            return False
        raise
    return bool(found == _one("PriorityClass")["value"])


def _refusal(client: Client, pod: Object) -> str:
    try:
        apply(client, pod, dryRun="All")
    except ApiError as error:
        return error.message if "restricted" in error.message else ""
    return ""


# ── the rights ──


RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
LEASE = "muster-kube-scheduler"


@pytest.fixture
def accounts(
    control_plane: Cluster, client: Client, namespace: str, tmp_path: Path
) -> Iterator[tuple[Path, Path]]:
    """Kubeconfigs: of the installation's service account, with all its roles bound for real, and
    of another one that has nothing but Muster's own role."""
    own = {"kind": "ServiceAccount", "name": "alone", "namespace": namespace}
    with ExitStack() as made:
        made.callback(client.delete, "Lease", f"{LEASE}-{namespace}", "kube-system")
        for item in MANIFEST:
            if item["kind"] in RIGHTS:
                make(client, made, renamed(moved(item, namespace), namespace))
        binding = moved(_one("ClusterRoleBinding"), namespace)
        assert binding["roleRef"]["name"] == "muster"
        binding |= {"metadata": {"name": "muster-alone"}, "subjects": [own]}
        make(client, made, renamed(binding, namespace))
        account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
        make(client, made, account | {"metadata": {"name": "alone", "namespace": namespace}})
        yield (
            kubeconfig(control_plane, client, namespace, "muster", tmp_path),
            kubeconfig(control_plane, client, namespace, "alone", tmp_path),
        )


def _bound(client: Client, namespace: str) -> Mapping[str, Object]:
    """The Job's pods that sit on a node."""
    pods = client.list("Pod", namespace, labels="batch.kubernetes.io/job-name=digits")
    return {pod["metadata"]["name"]: pod for pod in pods if pod["spec"].get("nodeName")}


def _told(client: Client, namespace: str, pods: set[str]) -> Mapping[str, str]:
    """The text of each pod's Scheduled Event; empty until all have one."""
    found = {
        event["involvedObject"]["name"]: event["message"]
        for event in client.events(namespace)
        if event["reason"] == "Scheduled"
    }
    return found if found.keys() >= pods else {}


def test_the_example_gang_starts_with_nothing_but_the_rights_of_the_manifest(
    control_plane: Cluster,
    client: Client,
    namespace: str,
    nodes: Objects,
    accounts: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    if isinstance(control_plane, ExternalCluster):
        pytest.skip("KUBECONFIG names a cluster whose schedulers belong to whoever runs it")
    account, own = accounts
    with ExitStack() as running:
        muster = running.enter_context(
            MusterProcess(control_plane, kubeconfig=own, name="muster-deployed")
        )
        scheduler = deployed_scheduler(
            control_plane, muster, account, namespace, tmp_path, lease=f"{LEASE}-{namespace}"
        )
        running.callback(scheduler.stop)
        scheduler.start()
        for item in objects(DEPLOY / "examples" / "indexed-job.yaml"):
            apply(client, moved(item, namespace))

        wait_until(lambda: len(_bound(client, namespace)) == JOB_PODS, what="the gang is bound")
        bound = _bound(client, namespace)
        told = wait_until(
            lambda: _told(client, namespace, set(bound)), what="each pod has its Event"
        )
        assert client.find("Lease", f"{LEASE}-{namespace}", "kube-system"), "it leads"
        logs = muster.log_text() + scheduler.child.log_text()

    hints = [
        json.loads(pod["metadata"]["annotations"]["muster.scheduler/hint"])
        for pod in bound.values()
    ]
    assert sorted(hint["rank"] for hint in hints) == list(range(JOB_PODS))
    assert len({pod["spec"]["nodeName"] for pod in bound.values()}) == JOB_PODS
    for pod in bound.values():
        # No autoscaler empties a node under a gang.
        assert pod["metadata"]["annotations"].items() >= KEPT.items()
    assert len({tuple(hint["path"]) for hint in hints}) == 1, "one rack has room for all"
    for name, pod in bound.items():
        place = f"{namespace}/{name} to {pod['spec']['nodeName']}"
        # Muster adds the rank, unless the scheduler was about to bind that pod itself.
        assert told[name] == f"Successfully assigned {place}" or told[name].startswith(
            f"Successfully assigned {place}: gang {namespace}/digits, rank"
        )
    assert "forbidden" not in logs.lower()


# ── the views ──


def test_the_views_are_served_where_the_service_leads_and_no_verb_is(
    control_plane: Cluster, nodes: Objects
) -> None:
    args = next(
        item["args"]
        for item in _one("Deployment")["spec"]["template"]["spec"]["containers"]
        if item["name"] == "muster"
    )
    assert "--views-host=0.0.0.0" in args
    port = free_port()
    options = ["--views-host=127.0.0.1", f"--views-port={port}"]
    with MusterProcess(control_plane, extra_args=options, name="muster-views"):
        views = f"http://127.0.0.1:{port}"
        for path in ("/healthz", "/readyz", "/v1/nodes", "/metrics", "/"):
            assert http_get(f"{views}{path}")[0] == 200, path
        for verb in ("filter", "prioritize", "bind", "preempt"):
            assert http_get(f"{views}/{verb}")[0] == 404, verb


def test_a_viewer_may_reach_the_views_through_the_service_and_nothing_else(
    client: Client, namespace: str
) -> None:
    person = {"kind": "User", "name": f"viewer-{namespace}", "apiGroup": RBAC}
    role = next(item for item in MANIFEST if item["metadata"]["name"] == "muster-viewer")
    reference = {"kind": "Role", "name": "muster-viewer", "apiGroup": RBAC}
    binding: Object = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "viewer", "namespace": namespace},
        "roleRef": reference,
        "subjects": [person],
    }

    def may(verb: str, resource: str, name: str) -> bool:
        return _may(client, person["name"], namespace, verb, resource, name)

    with ExitStack() as made:
        make(client, made, moved(role, namespace))
        make(client, made, binding)
        wait_until(lambda: may("get", "services", "muster:http"), what="the role is known")
        assert may("create", "services", "muster:http")
        assert not may("get", "services", "other:http")
        assert not may("get", "pods", "muster:http")


RBAC = "rbac.authorization.k8s.io"


def _may(client: Client, user: str, namespace: str, verb: str, resource: str, name: str) -> bool:
    """Whether the API server would let that user through its proxy."""
    asked = {
        "namespace": namespace,
        "verb": verb,
        "resource": resource,
        "subresource": "proxy",
        "name": name,
    }
    version = "authorization.k8s.io/v1"
    review = {
        "apiVersion": version,
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": asked},
    }
    path = client.path(f"{version}/SubjectAccessReview")
    allowed: bool = client.request("POST", path, body=review)["status"]["allowed"]
    return allowed


# ── the agent ──


@pytest.fixture
def agent(
    control_plane: Cluster, client: Client, namespace: str, nodes: Objects, tmp_path: Path
) -> Iterator[tuple[Path, str]]:
    """A kubeconfig with the token of an agent's pod, and the name of its node."""
    home = nodes[0]["metadata"]["name"]
    with ExitStack() as made:
        for item in component("agent"):
            if item["kind"] not in ("Namespace", "DaemonSet"):
                make(client, made, renamed(moved(item, namespace), namespace))
        template = moved(_daemon_set(), namespace)["spec"]["template"]["spec"]
        spec = {**template, "nodeName": home}
        del spec["priorityClassName"]
        metadata = {"name": "agent", "namespace": namespace}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        bound_to = client.create(pod)
        yield (
            kubeconfig(control_plane, client, namespace, "muster-agent", tmp_path, bound_to),
            home,
        )


def _daemon_set() -> Object:
    return next(item for item in component("agent") if item["kind"] == "DaemonSet")


def test_an_agent_annotates_its_own_node_and_nothing_else(
    client: Client, nodes: Objects, agent: tuple[Path, str]
) -> None:
    account, home = agent
    other = next(item["metadata"]["name"] for item in nodes if item["metadata"]["name"] != home)
    theirs = Client(account)

    def refused(name: str, change: Object) -> str:
        try:
            theirs.patch("Node", name, change)
        except ApiError as error:
            return error.message
        return ""

    note = {"metadata": {"annotations": {"muster.scheduler/gpus-in-use": "{}"}}}
    # The API server takes a moment until it knows the policy.
    wait_until(lambda: "its own node" in refused(other, note), what="the policy is enforced")
    assert refused(home, note) == ""
    assert "spec" in refused(home, {"spec": {"unschedulable": True}})
    assert "labels" in refused(home, {"metadata": {"labels": {"example.com/rack": "mine"}}})
    assert "of Muster only" in refused(home, {"metadata": {"annotations": {"example.com/x": "y"}}})
    assert "forbidden" in _refused_deletion(theirs, home)
    assert client.get("Node", home)["metadata"]["annotations"]["muster.scheduler/gpus-in-use"]
    theirs.close()


def _refused_deletion(client: Client, name: str) -> str:
    with pytest.raises(ApiError) as refusal:
        client.delete("Node", name)
    return refusal.value.message


def test_the_agent_runs_with_these_rights(agent: tuple[Path, str], tmp_path: Path) -> None:
    account, home = agent
    for folder in ("sys", "var/lib/kubelet/device-plugins"):
        (tmp_path / "host" / folder).mkdir(parents=True)
    command = [sys.executable, "-m", "scheduler", "agent", "--once", "--node", home]
    command += ["--kubeconfig", str(account), "--root", str(tmp_path / "host")]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert "forbidden" not in done.stderr.lower()
    assert "cannot be" not in done.stderr
    assert done.returncode == 0, done.stderr


# ── the admission policy ──


def test_a_labelled_namespace_gives_its_pods_to_muster(client: Client, namespace: str) -> None:
    need_policies(client)
    label = {"metadata": {"labels": {"muster.scheduler/managed": "true"}}}
    with ExitStack() as made:
        for item in policies("admission"):
            make(client, made, renamed(item, namespace))
        assert _scheduler_of(client, namespace) == "default-scheduler"
        client.patch("Namespace", namespace, label)

        wait_until(
            lambda: _scheduler_of(client, namespace) == "muster", what="the policy is enforced"
        )
        assert _scheduler_of(client, namespace, schedulerName="mine") == "mine"
        assert _scheduler_of(client, namespace, nodeName="n1") == "default-scheduler"


def _scheduler_of(client: Client, namespace: str, **spec: str) -> str:
    """The schedulerName that a new pod would have."""
    container = {"name": "main", "image": "none"}
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new", "namespace": namespace},
        "spec": {"containers": [container], **spec},
    }
    made = client.request(
        "POST", client.path("Pod", "", namespace), query={"dryRun": "All"}, body=pod
    )
    name: str = made["spec"]["schedulerName"]
    return name
