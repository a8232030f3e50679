"""deploy/ against a real API server: every object is accepted, and its rights are enough."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane import build
from tests.e2e.controlplane.client import ApiError, Client, Object, Objects, wait_until
from tests.e2e.controlplane.cluster import Cluster, ExternalCluster
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.muster import MusterProcess

pytestmark = pytest.mark.e2e

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAMESPACE = "muster-system"
EXAMPLES = sorted((DEPLOY / "examples").glob("*.yaml"))
CLUSTER_WIDE = ("Namespace", "ClusterRole", "ClusterRoleBinding")
JOB_PODS = 4


def _objects(path: Path) -> Objects:
    return [found for found in yaml.safe_load_all(path.read_text()) if found is not None]


MANIFEST = _objects(DEPLOY / "muster.yaml")
EVERYTHING = [*MANIFEST, *(item for path in EXAMPLES for item in _objects(path))]


def _name(item: Object) -> str:
    return f"{item['kind']}-{item['metadata']['name']}"


def _one(kind: str) -> Object:
    return next(item for item in MANIFEST if item["kind"] == kind)


def _moved(item: Object, namespace: str) -> Object:
    """The object as if the test's namespace was the one of the installation."""
    moved: Object = json.loads(json.dumps(item).replace(NAMESPACE, namespace))
    if moved["kind"] not in CLUSTER_WIDE:
        moved["metadata"].setdefault("namespace", namespace)
    return moved


def _apply(client: Client, item: Object, **query: str) -> Object:
    """Server-side apply that refuses fields which the API server does not know."""
    metadata = item["metadata"]
    kind = f"{item['apiVersion']}/{item['kind']}"
    return client.request(
        "PATCH",
        client.path(kind, metadata["name"], metadata.get("namespace")),
        query={"fieldManager": "muster-e2e", "fieldValidation": "Strict", **query},
        body=item,
        content_type="application/apply-patch+yaml",
    )


# ── every object ──


@pytest.mark.parametrize("item", EVERYTHING, ids=_name)
def test_the_api_server_accepts_every_object(client: Client, namespace: str, item: Object) -> None:
    applied = _apply(client, _moved(item, namespace), dryRun="All")

    assert applied["metadata"]["name"] == _moved(item, namespace)["metadata"]["name"]


def test_a_misspelt_field_would_be_told(client: Client, namespace: str) -> None:
    item = _moved(_one("Deployment"), namespace)
    item["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}

    with pytest.raises(ApiError, match="readinesProbe"):
        _apply(client, item, dryRun="All")


def test_the_pod_keeps_to_the_restricted_standard_of_its_namespace(
    client: Client, namespace: str
) -> None:
    labels = _one("Namespace")["metadata"]["labels"]
    client.patch("Namespace", namespace, {"metadata": {"labels": labels}})
    _apply(client, _moved(_one("ServiceAccount"), namespace))
    template = _one("Deployment")["spec"]["template"]
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "muster", "namespace": namespace},
        "spec": template["spec"],
    }
    careless = deepcopy(pod)
    del careless["spec"]["containers"][0]["securityContext"]

    wait_until(lambda: _refusal(client, careless), what="the namespace enforces its standard")
    assert _apply(client, pod, dryRun="All")["spec"]["priority"] > 1_000_000_000


def _refusal(client: Client, pod: Object) -> str:
    try:
        _apply(client, pod, dryRun="All")
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
                _make(client, made, _renamed(_moved(item, namespace), namespace))
        binding = _moved(_one("ClusterRoleBinding"), namespace)
        assert binding["roleRef"]["name"] == "muster"
        binding |= {"metadata": {"name": "muster-alone"}, "subjects": [own]}
        _make(client, made, _renamed(binding, namespace))
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        _make(client, made, account | {"metadata": {"name": "alone", "namespace": namespace}})
        yield (
            _kubeconfig(control_plane, client, namespace, "muster", tmp_path),
            _kubeconfig(control_plane, client, namespace, "alone", tmp_path),
        )


def _renamed(item: Object, suffix: str) -> Object:
    """What lies outside the test's namespace gets names of its own: no installation is touched."""
    if item["metadata"].get("namespace") != suffix:
        item["metadata"]["name"] += f"-{suffix}"
    role = item.get("roleRef", {"name": "system:"})
    if not role["name"].startswith(("system:", "extension-apiserver-")):
        role["name"] += f"-{suffix}"
    for rule in item.get("rules", ()):
        rule |= {"resourceNames": [f"{name}-{suffix}" for name in rule.get("resourceNames", ())]}
    return item


def _make(client: Client, made: ExitStack, item: Object) -> None:
    _apply(client, item)
    metadata = item["metadata"]
    kind = f"{item['apiVersion']}/{item['kind']}"
    made.callback(client.delete, kind, metadata["name"], metadata.get("namespace"))


def _kubeconfig(
    cluster: Cluster, client: Client, namespace: str, account: str, folder: Path
) -> Path:
    """The administrator's file with a token of the service account in place of the user."""
    tokens = f"{client.path('ServiceAccount', account, namespace)}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = client.request("POST", tokens, body=request)["status"]["token"]
    file: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_text())
    context = next(
        item["context"] for item in file["contexts"] if item["name"] == file["current-context"]
    )
    file["users"] = [{"name": context["user"], "user": {"token": token}}]
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(file))
    return path


def _scheduler(
    cluster: Cluster, muster: MusterProcess, account: Path, namespace: str, folder: Path
) -> Scheduler:
    """The scheduler as the Deployment starts it, at this Muster's address."""
    spec = _moved(_one("Deployment"), namespace)["spec"]["template"]["spec"]
    args = next(item["args"] for item in spec["containers"] if item["name"] == "kube-scheduler")
    data = _moved(_one("ConfigMap"), namespace)["data"]
    configuration: dict[str, Any] = yaml.safe_load(data["kube-scheduler.yaml"])
    configuration["clientConnection"] = {"kubeconfig": str(account)}
    configuration["leaderElection"]["resourceName"] += f"-{namespace}"
    for extender in configuration["extenders"]:
        extender["urlPrefix"] = muster.url
    file = folder / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(configuration))
    return Scheduler(
        cluster.supervisor,
        name="kube-scheduler-deployed",
        program=build.ensure(("kube-scheduler",))["kube-scheduler"],
        configuration=file,
        kubeconfig=account,
        token="",
        flags=[arg for arg in args if not arg.startswith("--config=")],
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
        scheduler = _scheduler(control_plane, muster, account, namespace, tmp_path)
        running.callback(scheduler.stop)
        scheduler.start()
        for item in _objects(DEPLOY / "examples" / "indexed-job.yaml"):
            _apply(client, _moved(item, namespace))

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
    assert len({tuple(hint["path"]) for hint in hints}) == 1, "one rack has room for all"
    for name, pod in bound.items():
        place = f"{namespace}/{name} to {pod['spec']['nodeName']}"
        assert told[name].startswith(
            f"Successfully assigned {place}: gang {namespace}/digits, rank"
        )
    assert "forbidden" not in logs.lower()
