"""Both schedulers' verdicts on each pair."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler import decode
from scheduler.core import feasibility
from scheduler.core.capacity import Ledger
from scheduler.model import Pod
from tests.e2e.controlplane.client import Object
from tests.e2e.gangs import scheduled_message
from tests.e2e.pairs.world import Pair


@dataclass(frozen=True)
class Verdict:
    """What was said of one pair; "" means yes."""

    pair: Pair
    stock: str
    muster: str
    as_sent: str
    """Muster's word on the pod before the API server filled in its defaults."""

    @property
    def agreed(self) -> bool:
        """Whether both say yes, or both say no."""
        return bool(self.stock) == bool(self.muster)

    def __str__(self) -> str:
        about = self.pair.note or self.pair.family
        return (
            f"{self.pair.name} on {self.pair.site} ({about}): kube-scheduler says "
            f"{self.stock or 'yes'!r}, Muster {self.muster or 'yes'!r}, and of the pod as it was "
            f"sent {self.as_sent or 'yes'!r}; its spec: {json.dumps(self.pair.pod['spec'])}"
        )


class Judge:
    """Muster's own word, by its model of the nodes and of the pods on them."""

    def __init__(self, nodes: Iterable[Object], pods: Iterable[Object]) -> None:
        self._ledger = Ledger()
        for item in nodes:
            self._ledger.put_node(decode.node_bytes(_raw(item)))
        for pod in (decode.pod_bytes(_raw(item)) for item in pods):
            if pod.holds_node:
                self._ledger.put(pod.uid, pod.node, pod.requests, pod.constraints.ports)

    def asked(self, candidate: Object, site: str) -> str:
        """Why the node may not take the pod; "" if it may. ValueError for a pod with a fault."""
        pod = decode.pod_bytes(_raw(candidate))
        if pod.fault or pod.nominate_because:
            raise ValueError(f"{pod.key}: {pod.fault or pod.nominate_because}")
        said = self._why_not(pod, site)
        if bool(said) == self._by_arrays(pod, site):
            raise AssertionError(f"{pod.key}: one by one {said!r}, but the arrays differ")
        return said

    def _why_not(self, pod: Pod, site: str) -> str:
        found = next(item for item in self._ledger.nodes() if item.name == site)
        if said := feasibility.verdict(pod.constraints, found):
            return said
        fits = self._ledger.has_room(site, pod.requests, pod.constraints.ports)
        return "" if fits else "no room"

    def _by_arrays(self, pod: Pod, site: str) -> bool:
        """The same as placement finds it, for all nodes at once."""
        frame = self._ledger.frame()
        row = frame.row[site]
        columns = frame.columns(pod.requests)
        fits = columns is not None and bool((frame.free[row, columns[0]] >= columns[1]).all())
        usable = bool(self._ledger.mask(pod.constraints)[row])
        return fits and usable and bool(self._ledger.without_ports(pod.constraints.ports)[row])


def stock_word(candidate: Object, site: str) -> str | None:
    """What the scheduler has done with a pod: "" bound, a reason, None for nothing yet."""
    if node := candidate["spec"].get("nodeName"):
        return "" if node == site else f"bound to {node}"
    conditions: Iterable[Mapping[str, str]] = candidate["status"].get("conditions", ())
    refused = any(one.get("reason") == "Unschedulable" for one in conditions)
    return scheduled_message(candidate) or "no reason" if refused else None


def _raw(item: Object) -> bytes:
    return json.dumps(item).encode()
