"""kwok as the kubelet of nodes that do not exist: it runs bound pods for as long as they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from benchmarks.cluster_arms import RUN_SECONDS
from benchmarks.cluster_fleet import SELECTOR
from tests.e2e.controlplane import build

NAME = "kwok"
LEASE_S = 40

_RUNNING = """\
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
"""
_SUCCEEDED = "phase: Succeeded\n"


def kwok(kubeconfig: Path, folder: Path) -> tuple[str, list[str | Path]]:
    """Name and command line of the process."""
    file = folder / "kwok.yaml"
    file.write_text(yaml.safe_dump_all(stages()), encoding="utf-8")
    program = build.ensure((NAME,))[NAME]
    options = [f"--manage-nodes-with-label-selector={SELECTOR}"]
    options += [f"--kubeconfig={kubeconfig}", f"--config={file}"]
    return NAME, [program, *options, f"--node-lease-duration-seconds={LEASE_S}"]


def stages() -> list[dict[str, Any]]:
    """Pending pods run at once; after the seconds that their annotation states, they succeed."""
    seconds = {"expressionFrom": f'.metadata.annotations["{RUN_SECONDS}"]'}
    ends = [{"key": f'.metadata.annotations["{RUN_SECONDS}"]', "operator": "Exists"}]
    return [
        _stage("run", "Pending", _RUNNING),
        _stage("end", "Running", _SUCCEEDED, ends, {"delay": {"durationFrom": seconds}}),
    ]


def _stage(
    name: str,
    phase: str,
    status: str,
    more: list[dict[str, Any]] | None = None,
    timing: dict[str, Any] | None = None,
) -> dict[str, Any]:
    alive = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    in_phase = {"key": ".status.phase", "operator": "In", "values": [phase]}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": f"bench-{name}"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [alive, in_phase, *(more or [])]},
            **(timing or {}),
            "next": {"statusTemplate": status},
        },
    }
