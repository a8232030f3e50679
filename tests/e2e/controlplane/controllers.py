"""Controllers of other projects beside the control plane, each with its webhooks.

Their webhooks are part of what they do (JobSet's fill in defaults and change pods), so they run as
well. In a cluster they are reached through a Service, with a certificate that the controller makes
itself or cert-manager gives it; here by URL, with the certificate of the API server.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

import yaml

from . import build, gomodule
from .client import Client, Object, Objects
from .cluster import ControlPlane
from .process import Child, free_port
from .versions import JOBSET, TRAINING_OPERATOR

READY_SECONDS = 60.0


def start_jobset(plane: ControlPlane, client: Client) -> Child:
    """The JobSet controller, ready; its definitions must be served already."""
    webhook, health = free_port(), f"127.0.0.1:{free_port()}"
    folder = _serving_certificate(plane, "jobset")
    configuration = plane.supervisor.folder / "jobset.yaml"
    configuration.write_text(yaml.safe_dump(_jobset_configuration(webhook, folder)))
    child = plane.spawn(
        "jobset",
        [
            build.ensure(["jobset"])["jobset"],
            f"--kubeconfig={plane.kubeconfig}",
            f"--config={configuration}",
            "--leader-elect=false",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={health}",
        ],
    )
    child.wait_ready(f"http://{health}/readyz", READY_SECONDS)
    for item in _webhooks(gomodule.source(JOBSET.named) / "config" / "components" / "webhook"):
        for hook in item["webhooks"]:
            if hook["rules"][0]["resources"] == ["pods"]:
                # As its own kustomization patches them; otherwise no pod at all could be made
                # while the controller is away.
                hook["objectSelector"] = _has_label("jobset.sigs.k8s.io/jobset-name")
        _register(client, plane, "jobset", item, webhook)
    return child


def start_training_operator(plane: ControlPlane, client: Client) -> Child:
    """Kubeflow's training operator, ready; its definitions must be served already."""
    webhook, health = free_port(), f"127.0.0.1:{free_port()}"
    temporary = _serving_certificate(plane, "training-operator")
    _declare_home(client)
    child = plane.spawn(
        "training-operator",
        [
            build.ensure(["training-operator"])["training-operator"],
            f"--kubeconfig={plane.kubeconfig}",
            "--enable-scheme=pytorchjob",
            "--leader-elect=false",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={health}",
            f"--webhook-server-port={webhook}",
        ],
        env={"TMPDIR": str(temporary)},
    )
    with _Mounted():
        child.wait_ready(f"http://{health}/readyz", READY_SECONDS)
    folder = gomodule.source(TRAINING_OPERATOR.named) / "manifests" / "base" / "webhook"
    for item in _webhooks(folder):
        kept = [hook for hook in item["webhooks"] if "pytorchjob" in hook["name"]]
        _register(client, plane, "training-operator", {**item, "webhooks": kept}, webhook)
    return child


def _jobset_configuration(port: int, certificates: Path) -> Object:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(_folder_of(certificates))},
        "internalCertManagement": {"enable": False},
    }


def _serving_certificate(plane: ControlPlane, name: str) -> Path:
    """A folder to be a controller's `TMPDIR`, with the certificate where webhooks look for it."""
    temporary = plane.supervisor.folder / name
    serving = _folder_of(temporary)
    serving.mkdir(parents=True)
    for ours, theirs in (("apiserver.crt", "tls.crt"), ("apiserver.key", "tls.key")):
        shutil.copy(plane.certificates / ours, serving / theirs)
    return temporary


def _folder_of(temporary: Path) -> Path:
    return temporary / "k8s-webhook-server" / "serving-certs"


def _webhooks(folder: Path) -> Objects:
    return list(yaml.safe_load_all((folder / "manifests.yaml").read_text()))


def _has_label(key: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def _register(
    client: Client, plane: ControlPlane, name: str, configuration: Object, port: int
) -> None:
    """Create a webhook configuration whose webhooks are served on a loopback port."""
    authority = base64.b64encode((plane.certificates / "apiserver.crt").read_bytes()).decode()
    for hook in configuration["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
    # Not under the name that the controller's own certificate manager would write to.
    configuration["metadata"] = {"name": f"muster-e2e-{name}"}
    client.create(configuration)


def _declare_home(client: Client) -> None:
    """The namespace and the Secret that the operator keeps certificates in; it cannot do without.

    Nobody mounts the Secret here: see `_Mounted`.
    """
    home = "kubeflow"
    metadata = {"name": "training-operator-webhook-cert", "namespace": home}
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}})
    client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})


class _Mounted:
    """While this lasts there is a certificate where the operator waits for its mounted Secret.

    That path is fixed in its source. It only looks whether the file is there; what it serves with
    lies in the `TMPDIR` that it was given.
    """

    _FOLDER = Path("/tmp/k8s-webhook-server/serving-certs")

    def __init__(self) -> None:
        self._made: Iterable[Path] = ()

    def __enter__(self) -> None:
        file = self._FOLDER / "tls.crt"
        missing = [path for path in (file, *file.parents) if not path.exists()]
        self._FOLDER.mkdir(parents=True, exist_ok=True)
        file.touch()
        self._made = missing

    def __exit__(self, *_: object) -> None:
        for path in self._made:
            # Another run may have put something there meanwhile.
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
