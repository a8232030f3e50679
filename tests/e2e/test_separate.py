"""Muster and its scheduler in pods of their own: what deploy/overlays/separate makes, at work.

The certificates are those of deploy/certificates.sh. A tunnel stands in for the cluster's DNS and
Service, and folders for what the kubelet mounts; all else is as Kustomize writes it.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificates import Authority
from tests.e2e.controlplane import build
from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster, ExternalCluster
from tests.e2e.controlplane.process import free_port
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.deployed import DEPLOY, kubeconfig, make, moved, renamed
from tests.e2e.gangs import gang_pods, placed, scheduled_message
from tests.e2e.muster import MusterProcess
from tests.e2e.packagers import KUBECTL, output, program
from tests.e2e.tunnel import Tunnel

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

OVERLAY = DEPLOY / "overlays" / "separate"
SCRIPT = DEPLOY / "certificates.sh"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
MUSTER, SCHEDULER = "muster", "muster-kube-scheduler"
PATIENCE_S = 10.0


@pytest.fixture(scope="module", autouse=True)
def _built(pytestconfig: pytest.Config) -> None:
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        program(KUBECTL)


@pytest.fixture(scope="module")
def overlay() -> list[Object]:
    """What Kustomize makes of it."""
    return list(yaml.safe_load_all(output(KUBECTL, "kustomize", OVERLAY)))


@dataclass(frozen=True)
class Installed:
    """The overlay's objects for a namespace, and what they are at work with."""

    cluster: Cluster
    client: Client
    namespace: str
    objects: Sequence[Object]
    folder: Path

    def one(self, kind: str, name: str) -> Object:
        """An object of the overlay."""
        (found,) = [
            item
            for item in self.objects
            if (item["kind"], item["metadata"]["name"]) == (kind, name)
        ]
        return found

    def mounted(self, deployment: str) -> dict[str, Path]:
        """Folders with what the kubelet would mount into its container, by where that is."""
        spec = self.one("Deployment", deployment)["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        found = {}
        for mount in container["volumeMounts"]:
            folder = self.folder / deployment / mount["name"]
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in self._content(volumes[mount["name"]]).items():
                (folder / name).write_bytes(content)
            found[mount["mountPath"]] = folder
        return found

    def _content(self, volume: Object) -> dict[str, bytes]:
        if "configMap" in volume:
            data = self.one("ConfigMap", volume["configMap"]["name"])["data"]
            return {name: text.encode() for name, text in data.items()}
        secret = self.client.get("Secret", volume["secret"]["secretName"], self.namespace)
        return {name: base64.b64decode(text) for name, text in secret["data"].items()}

    def arguments(self, deployment: str, mounts: Mapping[str, Path]) -> list[str]:
        """Those of its container."""
        spec = self.one("Deployment", deployment)["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        return [here(argument, mounts) for argument in container["args"]]

    def account(self, name: str) -> Path:
        """A kubeconfig with the rights of one of the two."""
        return kubeconfig(self.cluster, self.client, self.namespace, name, self.folder)

    def new_certificates(self) -> None:
        """As an administrator makes them."""
        variables = {
            "PATH": f"{program(KUBECTL).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "NAMESPACE": self.namespace,
        }
        done = subprocess.run(
            [SCRIPT], env=os.environ | variables, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr


def here(text: str, mounts: Mapping[str, Path]) -> str:
    """The text with the folders of this machine in place of those in the container."""
    # The longest first: one may begin as another does.
    for path in sorted(mounts, key=len, reverse=True):
        text = text.replace(f"{path}/", f"{mounts[path]}/")
    return text


@pytest.fixture
def installed(
    control_plane: Cluster,
    client: Client,
    namespace: str,
    nodes: Sequence[Object],
    overlay: Sequence[Object],
    tmp_path: Path,
) -> Iterator[Installed]:
    """Its rights and its certificates are there."""
    if isinstance(control_plane, ExternalCluster):
        pytest.skip("KUBECONFIG names a cluster whose schedulers belong to whoever runs it")
    objects = [moved(item, namespace) for item in overlay]
    installed = Installed(control_plane, client, namespace, objects, tmp_path)
    with ExitStack() as made:
        made.callback(client.delete, "Lease", f"{SCHEDULER}-{namespace}", "kube-system")
        for item in overlay:
            if item["kind"] in RIGHTS:
                make(client, made, renamed(moved(item, namespace), namespace))
        installed.new_certificates()
        yield installed


@pytest.fixture
def muster(installed: Installed) -> Iterator[tuple[MusterProcess, int]]:
    """Muster as its Deployment starts it, and its port for TLS."""
    mounts, port = installed.mounted(MUSTER), free_port()
    stated = installed.arguments(MUSTER, mounts)
    elsewhere = ("serve", "--kubeconfig", "--host", "--port", "--views-", "--tls-port")
    kept = [argument for argument in stated if not argument.startswith(elsewhere)]
    options = [*kept, "--tls-host=127.0.0.1", f"--tls-port={port}"]
    options += ["--views-host=127.0.0.1", f"--views-port={free_port()}"]
    with MusterProcess(
        installed.cluster,
        kubeconfig=installed.account(MUSTER),
        extra_args=options,
        # With a log of its own: what it is refused counts, and not what others were.
        name=f"muster-{installed.namespace}",
    ) as process:
        yield process, port


def tunnel_to(installed: Installed, port: int) -> Tunnel:
    """The Service, and the port of the container that it leads to."""
    service = installed.one("Service", "muster-verbs")
    (offered,) = service["spec"]["ports"]
    container = installed.one("Deployment", MUSTER)["spec"]["template"]["spec"]["containers"][0]
    (led_to,) = [item for item in container["ports"] if item["name"] == offered["targetPort"]]
    assert f"--tls-port={led_to['containerPort']}" in container["args"]
    metadata = service["metadata"]
    host = f"{metadata['name']}.{metadata['namespace']}.svc"
    return Tunnel({f"{host}:{offered['port']}": port})


def scheduler_of(
    installed: Installed, tunnel: Tunnel, certificates: Path | None = None
) -> Scheduler:
    """The scheduler as its Deployment starts it, not started yet.

    Parameters
    ----------
    certificates
        A folder with another certificate than that of its Secret.
    """
    mounts, account = installed.mounted(SCHEDULER), installed.account(SCHEDULER)
    if certificates is not None:
        mounts["/etc/muster-tls"] = certificates
    flags = installed.arguments(SCHEDULER, mounts)
    (file,) = [Path(flag.partition("=")[2]) for flag in flags if flag.startswith("--config=")]
    configuration: dict[str, Any] = yaml.safe_load(here(file.read_text(), mounts))
    configuration["clientConnection"]["kubeconfig"] = str(account)
    # Where the tests' own roles let it.
    configuration["leaderElection"]["resourceName"] += f"-{installed.namespace}"
    file.write_text(yaml.safe_dump(configuration))
    wrapper = installed.folder / "kube-scheduler"
    binary = build.ensure(("kube-scheduler",))["kube-scheduler"]
    wrapper.write_text(f'#!/bin/sh\nHTTPS_PROXY={tunnel.url} exec {binary} "$@"\n')
    wrapper.chmod(0o755)
    return Scheduler(
        installed.cluster.supervisor,
        name=f"kube-scheduler-{installed.namespace}",
        program=wrapper,
        configuration=file,
        kubeconfig=account,
        token="",
        flags=[flag for flag in flags if not flag.startswith("--config=")],
    )


# ── at work ──


def test_a_gang_starts_over_tls_with_each_ones_own_rights(
    installed: Installed, muster: tuple[MusterProcess, int]
) -> None:
    process, port = muster
    client, namespace = installed.client, installed.namespace
    with ExitStack() as running:
        tunnel = running.enter_context(tunnel_to(installed, port))
        scheduler = scheduler_of(installed, tunnel)
        running.callback(scheduler.stop)
        scheduler.start()
        # With `follow`, every answer that matters is asked for by the scheduler.
        asked: Object = {"start": "follow"}
        client.create_all(gang_pods("asked", namespace, range(4), 8, least=4, options=asked))
        client.create_all(gang_pods("plain", namespace, range(2), 8, least=2))
        wait_until(lambda: len(placed(client, namespace, "asked-")) == 4, 90, what="one starts")
        wait_until(lambda: len(placed(client, namespace, "plain-")) == 2, 60, what="so does one")
        calls = process.metrics()
        logs = process.log_text() + scheduler.child.log_text()

    for verb in ("filter", "bind"):
        assert f'muster_request_seconds_count{{code="200",verb="{verb}"}}' in calls
    ranks = [member.hint["rank"] for member in placed(client, namespace, "asked-")]
    assert ranks == [0, 1, 2, 3]
    assert tunnel.asked == {f"muster-verbs.{namespace}.svc:8443"}
    assert "forbidden" not in logs.lower()


def test_a_scheduler_with_the_certificate_of_another_authority_gets_no_answer(
    installed: Installed, muster: tuple[MusterProcess, int]
) -> None:
    process, port = muster
    client, namespace = installed.client, installed.namespace
    strange = installed.mounted(SCHEDULER)["/etc/muster-tls"].rename(installed.folder / "strange")
    certificate, key = Authority(installed.folder, "stranger").sign(SCHEDULER)
    shutil.copyfile(certificate, strange / "tls.crt")
    shutil.copyfile(key, strange / "tls.key")

    with ExitStack() as running:
        tunnel = running.enter_context(tunnel_to(installed, port))
        scheduler = scheduler_of(installed, tunnel, strange)
        running.callback(scheduler.stop)
        scheduler.start()
        client.create_all(gang_pods("train", namespace, [0], 8, least=1, options=FOLLOW))
        told = wait_until(lambda: _told(client, namespace), 60, what="the pod says why it waits")
        assert f"https://muster-verbs.{namespace}.svc:8443/filter" in told
        assert "a caller over TLS was refused" in process.log_text()
        assert placed(client, namespace, "train-") == []

        scheduler.stop()
        again = scheduler_of(installed, tunnel)
        running.callback(again.stop)
        again.start()
        wait_until(
            lambda: len(placed(client, namespace, "train-")) == 1, 90, what="with ours it starts"
        )


FOLLOW: Object = {"start": "follow"}


def _told(client: Client, namespace: str) -> str:
    """Why the pod waits, once that is a call that failed."""
    text = scheduled_message(client.get("Pod", "train-0", namespace))
    return text if "filter" in text else ""


def test_who_shows_no_certificate_or_that_of_muster_itself_gets_no_answer(
    installed: Installed, muster: tuple[MusterProcess, int]
) -> None:
    _, port = muster
    callers = installed.mounted(SCHEDULER)["/etc/muster-tls"]
    own = installed.mounted(MUSTER)["/etc/muster-tls"]
    host = f"muster-verbs.{installed.namespace}.svc"

    assert _answered(host, port, callers, callers)
    assert not _answered(host, port, callers, None)
    assert not _answered(host, port, callers, own)


def _answered(host: str, port: int, authority: Path, shown: Path | None) -> bool:
    """Whether there is an answer to a call with the certificate of this folder."""
    context = ssl.create_default_context(cafile=str(authority / "ca.crt"))
    if shown is not None:
        context.load_cert_chain(shown / "tls.crt", shown / "tls.key")
    try:
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as call,
        ):
            call.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            return call.recv(64).startswith(b"HTTP/1.1 200")
    except (ssl.SSLError, ConnectionError):
        return False
