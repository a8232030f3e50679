"""kwok as the kubelet of every node: pods run as soon as they are bound, and end on request."""

from __future__ import annotations

import yaml

from . import build, gomodule
from .client import Client, Object
from .cluster import ControlPlane
from .process import Child, free_port
from .versions import KWOK

READY_SECONDS = 60.0
EXIT_CODE = "muster.test/exit-code"
"""Pod annotation: the containers of a running pod end with this status as soon as it is there."""

# Its own, for what always happens. The stage that ends pods of Jobs at once is left out.
_OWN_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")

_END = """
{{ $code := index .metadata.annotations "EXIT_CODE" }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  restartCount: 0
  started: false
  state:
    terminated:
      exitCode: {{ $code }}
      reason: {{ if eq $code "0" }}Completed{{ else }}Error{{ end }}
      startedAt: {{ Now | Quote }}
      finishedAt: {{ Now | Quote }}
{{ end }}
phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}
"""


def start_kwok(plane: ControlPlane) -> Child:
    """Start it and wait until it is ready. Raises StartError if it does not become so."""
    program = build.ensure(["kwok"])["kwok"]
    configuration = plane.supervisor.folder / "kwok.yaml"
    configuration.write_text(yaml.safe_dump_all(_stages()))
    address = f"127.0.0.1:{free_port()}"
    child = plane.spawn(
        "kwok",
        [
            program,
            f"--kubeconfig={plane.kubeconfig}",
            f"--config={configuration}",
            "--manage-all-nodes=true",
            f"--server-address={address}",
        ],
    )
    child.wait_ready(f"http://{address}/healthz", READY_SECONDS)
    return child


def end(client: Client, pod: Object, code: int = 0) -> None:
    """Let the containers of a running pod end."""
    metadata = pod["metadata"]
    note = {"metadata": {"annotations": {EXIT_CODE: str(code)}}}
    client.patch("Pod", metadata["name"], note, metadata["namespace"])


def _stages() -> list[Object]:
    folder = gomodule.source(KWOK.named) / "kustomize" / "stage"
    own = [yaml.safe_load((folder / f"{name}.yaml").read_text()) for name in _OWN_STAGES]
    return [*own, _end_stage()]


def _end_stage() -> Object:
    running = {"key": ".status.phase", "operator": "In", "values": ["Running"]}
    asked_to_end = {"key": f'.metadata.annotations["{EXIT_CODE}"]', "operator": "Exists"}
    kept = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "pod-end"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [running, asked_to_end, kept]},
            "next": {"statusTemplate": _END.replace("EXIT_CODE", EXIT_CODE)},
        },
    }
