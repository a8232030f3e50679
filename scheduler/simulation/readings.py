"""API objects read into the values that decisions use, once per version of each object."""

from __future__ import annotations

from scheduler import decode
from scheduler.model import Node, Pod
from scheduler.simulation.objects import Object


class Readings:
    """Remembers the last reading of each object; the same version is never decoded twice."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, Pod]] = {}
        self._nodes: dict[str, tuple[str, Node]] = {}

    def pod(self, item: Object) -> Pod:
        """The pod as the engine sees it."""
        uid, version = _identity(item)
        known = self._pods.get(uid)
        if known is None or known[0] != version:
            known = self._pods[uid] = (version, decode.pod(item))
        return known[1]

    def node(self, item: Object) -> Node:
        """The node as the engine sees it."""
        uid, version = _identity(item)
        known = self._nodes.get(uid)
        if known is None or known[0] != version:
            known = self._nodes[uid] = (version, decode.node(item))
        return known[1]

    def forget(self, item: Object) -> None:
        """Drop the reading of an object that is gone."""
        uid = item["metadata"]["uid"]
        self._pods.pop(uid, None)
        self._nodes.pop(uid, None)


def _identity(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata["uid"], metadata["resourceVersion"]
