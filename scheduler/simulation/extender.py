"""kube-scheduler's HTTP client for one extender, with ``nodeCacheCapable: true``: names only."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from scheduler.errors import ExtenderError
from scheduler.simulation.objects import Object


@dataclass(frozen=True, slots=True)
class Filtered:
    """The answer to a filter call."""

    nodes: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


Victims = Mapping[str, Sequence[str]]
"""Node name -> uids of the pods to evict there."""


class ExtenderClient:
    """One keep-alive connection; not for use by two threads at once."""

    def __init__(self, url: str, timeout_s: float = 5.0) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(
            parts.hostname or "127.0.0.1", parts.port, timeout=timeout_s
        )
        self._prefix = parts.path.rstrip("/")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def filter(self, pod: Object, names: Sequence[str]) -> Filtered:
        """Which of ``names`` the extender lets through."""
        answer = self._post("filter", {"Pod": pod, "NodeNames": names})
        if answer.get("Error"):
            raise ExtenderError(f"extender filter: {answer['Error']}")
        nodes = tuple(answer.get("NodeNames") or ())
        unknown = set(nodes) - set(names)
        if unknown:
            raise ExtenderError(f"extender filter returned nodes not offered: {sorted(unknown)}")
        failed, unresolvable = answer.get("FailedNodes"), answer.get("FailedAndUnresolvableNodes")
        return Filtered(nodes, failed or {}, unresolvable or {})

    def prioritize(self, pod: Object, names: Sequence[str]) -> dict[str, int]:
        """Scores 0..10; a failed call gives none, as in kube-scheduler."""
        try:
            answer = self._post("prioritize", {"Pod": pod, "NodeNames": names})
            return {entry["Host"]: int(entry["Score"]) for entry in answer or ()}
        except (ExtenderError, KeyError, TypeError, ValueError):
            return {}

    def bind(self, pod: Object, node: str) -> None:
        """Ask the extender to bind the pod."""
        metadata = pod["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        answer = self._post("bind", body)
        if answer.get("Error"):
            raise ExtenderError(f"extender bind: {answer['Error']}")

    def preempt(self, pod: Object, victims: Victims) -> dict[str, list[str]]:
        """Which of the candidate nodes the extender keeps, with which victims."""
        meta = {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
            for node, uids in victims.items()
        }
        answer = self._post("preempt", {"Pod": pod, "NodeNameToMetaVictims": meta})
        kept = answer.get("NodeNameToMetaVictims") or {}
        return {node: [entry["UID"] for entry in value["Pods"]] for node, value in kept.items()}

    def _post(self, verb: str, body: Mapping[str, Any]) -> Any:
        payload = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        try:
            self._connection.request("POST", f"{self._prefix}/{verb}", payload, headers)
            response = self._connection.getresponse()
            content = response.read()
            if response.status != 200:
                raise ExtenderError(f"extender {verb}: status {response.status}: {content[:200]!r}")
            return json.loads(content)
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            self._connection.close()
            raise ExtenderError(f"extender {verb}: {error!r}") from error
