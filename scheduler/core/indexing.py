"""Which GPUs of its node a member will most likely get, for its hint."""

from __future__ import annotations

from scheduler.core import devices, hints
from scheduler.core.devices import Holder, NodeDevices, Told, Worth
from scheduler.core.kinds import Kind
from scheduler.core.state import State
from scheduler.model import Node, Pod

INDEXED = ("nvidia.com/gpu", "amd.com/gpu")
"""Resources whose devices the agent numbers; slices and shared GPUs are not among them."""

NOT_KNOWN: Worth = (-1, 0, 0)
"""Less than any links that are known."""

TENTATIVE = "tentative/"
"""Prefix of a pod's uid where its room is booked only until other plans are made."""


def gpus_for(state: State, pod: Pod, name: str) -> Told | None:
    """The GPUs predicted on a node; None where they are not known, which is most often.

    A prediction, since the kubelet chooses: nothing is kept from a pod because of it, unless it
    asks for an exact assignment (`exactness`).
    """
    node = state.node(name)
    wanted = [resource for resource in pod.requests if _is_indexed(state, pod, resource)]
    if node is None or len(wanted) != 1 or _table_fault(node, wanted[0]):
        return None
    held = _held(state, node, wanted[0], pod.uid)
    count = pod.requests[wanted[0]]
    gpus = None if held is None else devices.predict(node.annotations, held, count)
    if gpus is None:
        return None
    table = _table(node)
    uuids = table.uuids if table is not None and is_exact(pod) else ()
    return Told(gpus, tuple(uuids[gpu] for gpu in gpus) if uuids else ())


def links_on(state: State, name: str, resource: str, count: int) -> Worth:
    """What the links of a node are worth to a pod of so many accelerators."""
    node = state.node(name)
    if node is None or _table_fault(node, resource):
        return NOT_KNOWN
    held = _held(state, node, resource, "")
    found = None if held is None else devices.worth(node.annotations, held, count)
    return NOT_KNOWN if found is None else found


def is_published(state: State, name: str) -> bool:
    """Whether an agent tells how the accelerators of a node are linked."""
    node = state.node(name)
    return node is not None and devices.TOPOLOGY_KEY in node.annotations


def linked(state: State, kind: Kind) -> tuple[str, int] | None:
    """The resource of whose devices the links matter to such members, and how many they take."""
    wanted = [(name, n) for name, n in kind.requests if n and _is_numbered(state, name, kind.exact)]
    return wanted[0] if len(wanted) == 1 else None


def unknown(
    state: State, name: str, resource: str, *, empty: bool = False, namespace: str = ""
) -> str:
    """Why it cannot be told which accelerators of a node are free; "" if it can.

    ``empty``: as if none were taken. ``namespace``: whose pods may be named; who reads the text
    may know no other.
    """
    node = state.node(name)
    if node is None:
        return "it is not known"
    if fault := _table_fault(node, resource):
        return fault
    table = _table(node)
    if table is not None and table.matrix.mig:
        return "some are split into MIG instances"
    if empty or _held(state, node, resource, "") is not None:
        return ""
    for uid, holder in _holders(state, node, resource).items():
        if holder.exact and holder.told and devices.indexes_now(table, holder.told) is None:
            pod = state.pods[uid]
            who = pod.key if pod.namespace == namespace else "a pod of another namespace"
            return f"{who} was given some that its agent does not show any more"
    return "pods there have some of which nobody says which"


def is_nameable(state: State, pod: Pod, node: Node, told: Told | None) -> bool:
    """Whether a pod can be bound as it asks: it takes any accelerators, or these are there."""
    if not is_exact(pod) or not state.accelerators(pod):
        return True
    table = _table(node)
    gpus = devices.indexes_now(table, told) if told is not None else None
    return bool(gpus) and table is not None and max(gpus or ()) < table.matrix.gpus


def gpus_now(node: Node, told: Told | None) -> tuple[int, ...] | None:
    """The indexes that these GPUs have now, as far as they are known."""
    return None if told is None else devices.indexes_now(_table(node), told)


def _table(node: Node) -> NodeDevices | None:
    return devices.parse_annotation(node.annotations.get(devices.TOPOLOGY_KEY, ""))


def _table_fault(node: Node, resource: str) -> str:
    """Why the agent's table does not number the accelerators of a node; "" if it does."""
    text = node.annotations.get(devices.TOPOLOGY_KEY)
    if text is None:
        return f"no agent has published {devices.TOPOLOGY_KEY}"
    found = devices.parse_annotation(text)
    if found is None:
        return f"{devices.TOPOLOGY_KEY} cannot be read"
    have = node.allocatable.get(resource, 0)
    if have == found.matrix.gpus:
        return ""
    return f"it offers {have} {resource} and its agent counts {found.matrix.gpus}"


def _is_indexed(state: State, pod: Pod, resource: str) -> bool:
    """Whether the resource counts GPUs by which the agent numbers them.

    An exact assignment does not go through a device plugin, so there it may be called anything.
    """
    return bool(pod.requests[resource]) and _is_numbered(state, resource, is_exact(pod))


def _is_numbered(state: State, resource: str, exact: bool) -> bool:
    return resource in INDEXED or (exact and state.is_accelerator(resource))


def is_exact(pod: Pod) -> bool:
    """Whether the pod takes its GPUs from Muster, by an annotation."""
    return bool(pod.declaration and pod.declaration.options.exact_gpus)


def visible_devices(told: Told) -> str:
    """GPUs as ``NVIDIA_VISIBLE_DEVICES`` names them: by uuid, or by index where none is known."""
    return ",".join(told.uuids or map(str, told.gpus))


def _held(state: State, node: Node, resource: str, but: str) -> frozenset[int] | None:
    """Indexes that pods on the node have or are predicted to get; None if that is not known.

    One pod does not count, ``but``; nor do those whose seats are only tried (`TENTATIVE`) and that
    will be told theirs before they are bound.
    """
    return devices.taken(node.annotations, _holders(state, node, resource, but))


def _holders(state: State, node: Node, resource: str, but: str = "") -> dict[str, Holder]:
    return {
        uid: _holder(state, uid, claim.resources[resource])
        for uid, claim in state.ledger.claims(node.name).items()
        if uid != but and claim.resources.get(resource) and not _is_told_later(state, uid)
    }


def _holder(state: State, uid: str, count: int) -> Holder:
    pod, told = state.pods.get(uid), _told(state, uid)
    return (
        Holder(count, told)
        if pod is None
        else Holder(count, told, is_exact(pod), pod.key, pod.started)
    )


def _is_told_later(state: State, key: str) -> bool:
    pod = state.pods.get(key.removeprefix(TENTATIVE)) if key.startswith(TENTATIVE) else None
    return pod is not None and is_exact(pod)


def _told(state: State, uid: str) -> Told | None:
    """What was chosen for a pod earlier: in its reservation, or in the hint that it carries."""
    if uid in state.reservations:
        return state.reservations[uid].gpus
    pod = state.pods.get(uid)
    return hints.told_of(pod.hint) if pod is not None and pod.hint else None
