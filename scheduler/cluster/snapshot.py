"""The API objects that decisions depend on, as the API server has them now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from scheduler.cluster.discovery import served_kinds
from scheduler.cluster.resources import NODES, PODS, Resource
from scheduler.cluster.transport import Transport, message
from scheduler.errors import ClusterError

PAGE = 500
"""Objects in one page of a list."""


def objects(transport: Transport) -> Iterator[dict[str, Any]]:
    """All nodes, pods, PodGroups and topology objects, each with its kind.

    Raises ClusterError if refused.
    """
    for resource in (NODES, PODS, *served_kinds(transport)):
        for item in _items(transport, resource):
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}


def _items(transport: Transport, resource: Resource) -> Iterator[dict[str, Any]]:
    query = {"limit": str(PAGE)}
    while True:
        answer = transport.get(resource.path, query)
        if answer.status != 200:
            raise ClusterError(f"{resource.name} cannot be listed: {message(answer.body)}")
        page = msgspec.json.decode(answer.body)
        yield from page.get("items") or ()
        more = (page.get("metadata") or {}).get("continue")
        if not more:
            return
        query = {"limit": str(PAGE), "continue": more}
