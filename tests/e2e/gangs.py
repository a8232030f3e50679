"""Builds gangs for a real cluster, and says of one what people would ask."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e.controlplane.client import Client, Object
from tests.e2e.controlplane.objects import indexed_job, pod

OURS = "muster.scheduler/"
INDEX = "batch.kubernetes.io/job-completion-index"


def declared(gang: str, least: int, **options: object) -> dict[str, str]:
    """The annotations of a member; ``topology_required="rack"`` becomes ``topology-required``."""
    stated = {"gang": gang, "min-available": least, **options}
    return {OURS + key.replace("_", "-"): str(value) for key, value in stated.items()}


def gang_job(
    name: str, namespace: str, members: int, gpus: int, *, options: Mapping[str, Any] | None = None
) -> Object:
    """An Indexed Job whose pods are one gang."""
    annotations = declared(name, members, **(options or {}))
    return indexed_job(
        name, namespace, members, gpus=gpus, scheduler="muster", annotations=annotations
    )


def gang_pods(
    gang: str,
    namespace: str,
    members: Sequence[int],
    gpus: int,
    *,
    least: int,
    options: Mapping[str, Any] | None = None,
    **spec: Any,
) -> list[Object]:
    """Pods ``GANG-INDEX`` of one gang."""
    annotations = declared(gang, least, **(options or {}))
    return [
        pod(
            f"{gang}-{index}",
            namespace,
            annotations=annotations | {OURS + "index": str(index)},
            gpus=gpus,
            scheduler="muster",
            **spec,
        )
        for index in members
    ]


@dataclass(frozen=True)
class Placed:
    """Where one member is, and what its hint says."""

    index: int
    node: str
    hint: dict[str, Any]


def placed(client: Client, namespace: str, prefix: str) -> list[Placed]:
    """The bound members of a gang whose pods' names begin so, by index."""
    found = []
    for item in client.list("Pod", namespace):
        meta, node = item["metadata"], item["spec"].get("nodeName")
        if meta["name"].startswith(prefix) and node:
            notes = meta["annotations"]
            index = int(notes.get(INDEX) or notes[OURS + "index"])
            found.append(Placed(index, node, json.loads(notes[OURS + "hint"])))
    return sorted(found, key=lambda member: member.index)


def hint_of(pod: Object) -> dict[str, Any]:
    """What Muster told this pod with its binding."""
    hint: dict[str, Any] = json.loads(pod["metadata"]["annotations"][OURS + "hint"])
    return hint


def racks(members: Sequence[Placed]) -> list[str]:
    """The racks that these members are in, each once, sorted."""
    return sorted({rack_of(member.node) for member in members})


def rack_of(node: str) -> str:
    """``b0-r1-n3`` is in rack ``b0-r1``."""
    return node.rpartition("-")[0]


def scheduled_message(item: Object) -> str:
    """Why a pod waits, as its condition says; "" if it has no such condition."""
    conditions = item.get("status", {}).get("conditions", [])
    wanted = [found for found in conditions if found["type"] == "PodScheduled"]
    return str(wanted[0].get("message", "")) if wanted else ""
