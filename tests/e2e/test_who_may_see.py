"""The views show each person the namespaces that the API server lets them list the pods of."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import ApiError, Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster, ExternalCluster
from tests.e2e.controlplane.objects import create_namespace, pod
from tests.e2e.controlplane.process import free_port
from tests.e2e.deployed import MANIFEST, kubeconfig, make, moved, renamed
from tests.e2e.gangs import gang_pods
from tests.e2e.muster import MusterProcess

pytestmark = pytest.mark.e2e

RBAC = "rbac.authorization.k8s.io"


@dataclass
class Views:
    """Muster with its role of the manifest, and people with kubeconfigs of their own."""

    url: str
    namespace: str
    other: str
    tenant: Path
    everybody: Path

    def ask(self, path: str, who: Path | None = None) -> tuple[int, Any]:
        """Status and JSON of a GET, straight to the views."""
        request = urllib.request.Request(self.url + path)
        if who is not None:
            request.add_header("Authorization", f"Bearer {token_in(who)}")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def gangs(self, who: Path) -> set[str]:
        status, found = self.ask("/v1/gangs", who)
        assert status == 200, found
        return {gang["key"] for gang in found["gangs"]}

    def muster(self, who: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command with somebody's kubeconfig, as on their own machine."""
        options = ["--kubeconfig", str(who), "--muster-namespace", self.namespace]
        command = [sys.executable, "-m", "scheduler", *arguments, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)


def token_in(config: Path) -> str:
    found: str = yaml.safe_load(config.read_text())["users"][0]["user"]["token"]
    return found


def _own_address() -> str:
    """An address of this machine that is not loopback, to which the API server would not proxy."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: this only looks up the route.
            probe.connect(("192.0.2.1", 9))
            found: str = probe.getsockname()[0]
        except OSError:
            pytest.fail("this machine has no address but loopback, and the proxy reaches no other")
        return found


def _account(client: Client, made: ExitStack, namespace: str, name: str) -> Object:
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    make(client, made, account | {"metadata": {"name": name, "namespace": namespace}})
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def _bind(
    client: Client, made: ExitStack, subject: Object, role: tuple[str, str], where: str = ""
) -> None:
    kind = "RoleBinding" if where else "ClusterRoleBinding"
    metadata = {"name": f"{subject['name']}-{role[1]}-{secrets.token_hex(3)}"}
    binding: Object = {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": metadata | ({"namespace": where} if where else {}),
        "roleRef": {"kind": role[0], "name": role[1], "apiGroup": RBAC},
        "subjects": [subject],
    }
    make(client, made, binding)


def _of(kind: str, name: str) -> Object:
    """An object of the manifest."""
    return next(
        item for item in MANIFEST if (item["kind"], item["metadata"]["name"]) == (kind, name)
    )


def _service(client: Client, made: ExitStack, namespace: str, port: int, node: str) -> None:
    """The Service of the manifest, and a pod at this machine's own address."""
    service = moved(_of("Service", "muster"), namespace)
    del service["spec"]["selector"]
    make(client, made, service)
    name = service["metadata"]["name"]
    ports = [{"name": "http", "port": port, "protocol": "TCP"}]
    address = _own_address()
    metadata = {"name": name, "namespace": namespace}
    # The proxy goes to pods only, and to the address that their status says.
    client.create(pod(name, namespace, nodeName=node))
    status = {"podIP": address, "podIPs": [{"ip": address}]}
    client.patch("Pod", name, {"status": status}, namespace, subresource="status")
    target = {"kind": "Pod", "name": name, "namespace": namespace}
    subsets = [{"addresses": [{"ip": address, "targetRef": target}], "ports": ports}]
    make(
        client,
        made,
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets},
    )
    make(
        client,
        made,
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata | {"labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": [address], "conditions": {"ready": True}, "targetRef": target}
            ],
            "ports": ports,
        },
    )


def _may_list_pods(client: Client, made: ExitStack, namespace: str) -> tuple[str, str]:
    name = f"pods-{namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    make(client, made, role | {"rules": rules})
    return "ClusterRole", name


def _wait_until_known(who: Path, namespace: str) -> None:
    """The API server takes a moment until it knows a new role."""
    theirs = Client(who)

    def may() -> bool:
        try:
            return theirs.list("Pod", namespace) is not None
        except ApiError:
            return False

    wait_until(may, what=f"{who.name} may list the pods of {namespace}")
    theirs.close()


@pytest.fixture
def views(
    control_plane: Cluster,
    client: Client,
    namespace: str,
    nodes: Sequence[Object],
    tmp_path: Path,
) -> Iterator[Views]:
    """Team ``namespace`` and another one have a gang each; the tenant is of the first team."""
    if isinstance(control_plane, ExternalCluster):
        pytest.skip("the API server of another cluster does not reach this machine")
    other = f"{namespace}-other"
    port = free_port()
    with ExitStack() as made:
        create_namespace(client, other)
        made.callback(client.delete, "Namespace", other)
        made.callback(client.delete_all, "Pod", other, grace=0)
        muster = _account(client, made, namespace, "muster-alone")
        make(client, made, renamed(moved(_of("ClusterRole", "muster"), namespace), namespace))
        make(client, made, moved(_of("Role", "muster-viewer"), namespace))
        _bind(client, made, muster, ("ClusterRole", f"muster-{namespace}"))
        tenant = _account(client, made, namespace, "tenant")
        everybody = _account(client, made, namespace, "everybody")
        role = _may_list_pods(client, made, namespace)
        _bind(client, made, tenant, role, namespace)
        _bind(client, made, everybody, role)
        for person in (tenant, everybody):
            _bind(client, made, person, ("Role", "muster-viewer"), namespace)
        _service(client, made, namespace, port, nodes[0]["metadata"]["name"])
        client.create_all(gang_pods("mine", namespace, range(2), 8, least=3))
        client.create_all(gang_pods("theirs", other, range(2), 8, least=3))

        def config(name: str) -> Path:
            return kubeconfig(control_plane, client, namespace, name, tmp_path)

        _wait_until_known(config("tenant"), namespace)
        _wait_until_known(config("everybody"), other)
        options = ["--views-host=0.0.0.0", f"--views-port={port}", "--authenticate-views"]
        with MusterProcess(
            control_plane, extra_args=options, kubeconfig=config("muster-alone"), name="muster-seen"
        ) as process:
            yield Views(
                f"http://127.0.0.1:{port}", namespace, other, config("tenant"), config("everybody")
            )
            log = process.log_text()
        assert "forbidden" not in log.lower()


def test_a_tenant_sees_their_own_namespace_and_who_may_list_all_pods_everything(
    views: Views,
) -> None:
    mine, theirs = f"{views.namespace}/mine", f"{views.other}/theirs"

    assert views.ask("/v1/gangs")[0] == 401
    assert views.gangs(views.tenant) == {mine}
    assert views.gangs(views.everybody) >= {mine, theirs}
    assert views.ask(f"/v1/gangs/{theirs}/why", views.tenant)[0] == 404
    assert views.ask(f"/v1/gangs/{theirs}/why", views.everybody)[0] == 200
    assert views.ask("/v1/state", views.tenant)[0] == 403


def test_the_command_passes_the_kubeconfigs_token_through_the_api_servers_proxy(
    views: Views,
) -> None:
    def why() -> str:
        ran = views.muster(views.tenant, "why", f"{views.namespace}/mine")
        return ran.stdout or ran.stderr

    said = why()
    assert "2 of 3 pods exist" in said, said
    hidden = views.muster(views.tenant, "why", f"{views.other}/theirs")
    assert (hidden.returncode, hidden.stdout) == (1, "")
    assert "there is no gang" in hidden.stderr
    listed = views.muster(views.tenant, "gangs", "-A")
    assert "mine" in listed.stdout
    assert "theirs" not in listed.stdout
    assert views.muster(views.tenant, "status").returncode == 0
