"""kwok as the kubelet of nodes that do not exist: it runs bound pods for as long as they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from benchmarks.cluster_arms import RUN_SECONDS
from benchmarks.cluster_fleet import SELECTOR
from tests.e2e.controlplane import build
from tests.e2e.controlplane.client import Object

Conditions = list[dict[str, Any]]

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


def kwok(kubeconfig: Path, folder: Path, *, leases: bool) -> tuple[str, list[str | Path]]:
    """Name and command line of the process.

    ``leases`` renews the nodes' leases, without which a node lifecycle controller would take them
    for lost. At 5,000 nodes that is 500 requests a second.
    """
    file = folder / "kwok.yaml"
    file.write_text(yaml.safe_dump_all(stages()), encoding="utf-8")
    program = build.ensure((NAME,))[NAME]
    options = [f"--manage-nodes-with-label-selector={SELECTOR}"]
    options += [f"--kubeconfig={kubeconfig}", f"--config={file}", "-v=WARN"]
    return NAME, [program, *options, f"--node-lease-duration-seconds={LEASE_S if leases else 0}"]


def stages() -> list[Object]:
    """Pending pods run at once; after the seconds that their annotation states, they succeed."""
    seconds = {"expressionFrom": f'.metadata.annotations["{RUN_SECONDS}"]'}
    ends = [{"key": f'.metadata.annotations["{RUN_SECONDS}"]', "operator": "Exists"}]
    never = [{"key": '.metadata.labels["muster.bench/never"]', "operator": "Exists"}]
    return [
        # kwok looks at nodes, and so at the pods on them, only if there is something to do there.
        _stage("nothing", "Node", never, ""),
        _stage("run", "Pod", _in_phase("Pending"), _RUNNING),
        _stage("end", "Pod", _in_phase("Running") + ends, _SUCCEEDED, {"durationFrom": seconds}),
    ]


def _in_phase(phase: str) -> Conditions:
    alive = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    return [alive, {"key": ".status.phase", "operator": "In", "values": [phase]}]


def _stage(
    name: str, kind: str, matching: Conditions, status: str, delay: Object | None = None
) -> Object:
    spec = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": matching},
        "next": {"statusTemplate": status},
    }
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": f"bench-{name}"},
        "spec": {**spec, "delay": delay} if delay else spec,
    }
