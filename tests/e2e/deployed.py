"""Objects of deploy/, made for a test's own namespace and under names of their own."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane import build
from tests.e2e.controlplane.client import ApiError, Client, Object, Objects
from tests.e2e.controlplane.cluster import Cluster, named_cluster
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.controlplane.versions import kubernetes_minor
from tests.e2e.muster import MusterProcess

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAMESPACE = "muster-system"
AGENT_NAMESPACE = "muster-agent"
POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
POLICY_SINCE = 36
"""The minor that serves mutating policies by itself."""
POLICY_BETA = "admissionregistration.k8s.io/v1beta1"
POLICY_VERSION = (
    "admissionregistration.k8s.io/v1" if kubernetes_minor() >= POLICY_SINCE else POLICY_BETA
)
CLUSTER_WIDE = {
    *("Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass"),
    *POLICIES,
    *(f"{policy}Binding" for policy in POLICIES),
}


def objects(path: Path) -> Objects:
    """The objects of one YAML file."""
    return [found for found in yaml.safe_load_all(path.read_text()) if found is not None]


def component(name: str) -> Objects:
    """The objects of one component."""
    folder = DEPLOY / "components" / name
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [item for file in listed for item in objects(folder / file)]


def policy_flags(minor: int) -> tuple[str, ...]:
    """What docs/versions.md says to start an API server of an older minor with."""
    if minor >= POLICY_SINCE:
        return ()
    return ("--feature-gates=MutatingAdmissionPolicy=true", f"--runtime-config={POLICY_BETA}=true")


def policies(name: str) -> Objects:
    """Those of a component of mutating policies, in the version that this minor serves."""
    return [{**item, "apiVersion": POLICY_VERSION} for item in component(name)]


def need_policies(client: Client) -> None:
    """Skip on a cluster of others that does not serve mutating policies; ours all do."""
    if named_cluster() and not served(client, policies("gate")[0]):
        pytest.skip(f"the cluster of KUBECONFIG does not serve policies of {POLICY_VERSION}")


MANIFEST = objects(DEPLOY / "muster.yaml")


def kind_of(item: Object) -> str:
    """Version and kind, as `Client` takes it."""
    return f"{item['apiVersion']}/{item['kind']}"


def moved(item: Object, namespace: str) -> Object:
    """The object as if the test's namespace was the one of the installation, and of the agent."""
    text = json.dumps(item).replace(NAMESPACE, namespace)
    text = text.replace(f'"namespace": "{AGENT_NAMESPACE}"', f'"namespace": "{namespace}"')
    text = text.replace(f"serviceaccount:{AGENT_NAMESPACE}:", f"serviceaccount:{namespace}:")
    found: Object = json.loads(text)
    if found["kind"] not in CLUSTER_WIDE:
        found["metadata"].setdefault("namespace", namespace)
    return found


def renamed(item: Object, suffix: str) -> Object:
    """What lies outside the test's namespace gets names of its own: no installation is touched."""
    if item["metadata"].get("namespace") != suffix:
        item["metadata"]["name"] += f"-{suffix}"
    role = item.get("roleRef", {"name": "system:"})
    if not role["name"].startswith(("system:", "extension-apiserver-")):
        role["name"] += f"-{suffix}"
    for rule in item.get("rules", ()):
        rule |= {"resourceNames": [f"{name}-{suffix}" for name in rule.get("resourceNames", ())]}
    if "policyName" in item.get("spec", {}):
        item["spec"]["policyName"] += f"-{suffix}"
    return item


def apply(client: Client, item: Object, **query: str) -> Object:
    """Server-side apply that refuses fields which the API server does not know."""
    metadata = item["metadata"]
    return client.request(
        "PATCH",
        client.path(kind_of(item), metadata["name"], metadata.get("namespace")),
        query={"fieldManager": "muster-e2e", "fieldValidation": "Strict", **query},
        body=item,
        content_type="application/apply-patch+yaml",
    )


def make(client: Client, made: ExitStack, item: Object) -> Object:
    """Apply an object; it is deleted when the stack is closed."""
    applied = apply(client, item)
    metadata = item["metadata"]
    made.callback(client.delete, kind_of(item), metadata["name"], metadata.get("namespace"))
    return applied


def served(client: Client, item: Object) -> bool:
    """Whether the API server knows the object's kind."""
    try:
        client.path(kind_of(item))
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def kubeconfig(
    cluster: Cluster,
    client: Client,
    namespace: str,
    account: str,
    folder: Path,
    bound_to: Object | None = None,
) -> Path:
    """The administrator's file with a token of the service account in place of the user.

    The token is bound to the pod ``bound_to``, as the one that the kubelet gives to that pod.
    """
    token = token_of(client, namespace, account, bound_to)
    file: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_text())
    context = next(
        item["context"] for item in file["contexts"] if item["name"] == file["current-context"]
    )
    file["users"] = [{"name": context["user"], "user": {"token": token}}]
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(file))
    return path


def token_of(client: Client, namespace: str, account: str, bound_to: Object | None = None) -> str:
    """A token of the service account, bound to a pod if one is given."""
    spec: Object = {}
    if bound_to is not None:
        metadata = bound_to["metadata"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"]}
        spec = {"boundObjectRef": {**reference, "uid": metadata["uid"]}}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"{client.path('ServiceAccount', account, namespace)}/token"
    token: str = client.request("POST", path, body=request)["status"]["token"]
    return token


def deployed_scheduler(
    cluster: Cluster,
    muster: MusterProcess,
    account: Path,
    namespace: str,
    folder: Path,
    *,
    lease: str = "muster-kube-scheduler",
) -> Scheduler:
    """The scheduler as the Deployment starts it, at this Muster's address; not started yet.

    Parameters
    ----------
    account
        The kubeconfig with its rights.
    folder
        Where its configuration is written to.
    """
    deployment, settings = (
        moved(next(item for item in MANIFEST if item["kind"] == kind), namespace)
        for kind in ("Deployment", "ConfigMap")
    )
    containers = deployment["spec"]["template"]["spec"]["containers"]
    args = next(item["args"] for item in containers if item["name"] == "kube-scheduler")
    configuration: dict[str, Any] = yaml.safe_load(settings["data"]["kube-scheduler.yaml"])
    configuration["clientConnection"] = {"kubeconfig": str(account)}
    configuration["leaderElection"]["resourceName"] = lease
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
