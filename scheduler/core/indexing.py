"""Which GPUs of its node a member will most likely get, for its hint."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core import devices, hints
from scheduler.core.state import State
from scheduler.model import Node, Pod

INDEXED = ("nvidia.com/gpu", "amd.com/gpu")
"""Resources whose devices the agent numbers; slices and shared GPUs are not among them."""


def gpus_for(state: State, pod: Pod, name: str) -> tuple[int, ...] | None:
    """The predicted indexes on a node; None where they are not known, which is most often.

    A prediction, since the kubelet chooses: nothing is kept from a pod because of it.
    """
    node = state.node(name)
    wanted = [resource for resource in pod.requests if _is_indexed(state, pod, resource)]
    if node is None or devices.TOPOLOGY_KEY not in node.annotations or len(wanted) != 1:
        return None
    resource = wanted[0]
    found = devices.parse_annotation(node.annotations[devices.TOPOLOGY_KEY])
    if found is None or node.allocatable.get(resource) != found.matrix.gpus:
        return None
    held = _held(state, pod, node, resource)
    return None if held is None else devices.predict(node.annotations, held, pod.requests[resource])


def _is_indexed(state: State, pod: Pod, resource: str) -> bool:
    """Whether the resource counts GPUs by which the agent numbers them.

    An exact assignment does not go through a device plugin, so there it may be called anything.
    """
    exact = is_exact(pod) and state.is_accelerator(resource)
    return bool(pod.requests[resource]) and (resource in INDEXED or exact)


def is_exact(pod: Pod) -> bool:
    """Whether the pod takes its GPUs from Muster, by an annotation."""
    return bool(pod.declaration and pod.declaration.options.exact_gpus)


def visible_devices(node: Node, gpus: Sequence[int]) -> str:
    """GPUs as ``NVIDIA_VISIBLE_DEVICES`` names them: by uuid, or by index where none is known."""
    found = devices.parse_annotation(node.annotations.get(devices.TOPOLOGY_KEY, ""))
    uuids = found.uuids if found else ()
    return ",".join(uuids[gpu] if uuids else str(gpu) for gpu in gpus)


def _held(state: State, pod: Pod, node: Node, resource: str) -> frozenset[int] | None:
    """Indexes that others on the node have or are predicted to get; None if that is not known."""
    holders = {
        uid: claim.resources[resource]
        for uid, claim in state.ledger.claims(node.name).items()
        if uid != pod.uid and claim.resources.get(resource)
    }
    predicted: dict[str, Sequence[int]] = {}
    for uid in holders:
        gpus = _predicted(state, uid)
        if gpus is not None:
            predicted[uid] = gpus
    return devices.taken(node.annotations, holders, predicted)


def _predicted(state: State, uid: str) -> tuple[int, ...] | None:
    """What was predicted for a pod earlier: in its reservation, or in the hint that it carries."""
    if uid in state.reservations:
        return state.reservations[uid].gpus
    pod = state.pods.get(uid)
    return hints.gpus_of(pod.hint) if pod is not None and pod.hint else None
