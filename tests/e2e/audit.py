"""What the API server's audit log says of requests: who asked for what, and was it allowed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Permission = tuple[str, str, str]
"""Verb, API group, and resource with its subresource."""

_FORBIDDEN = 403


@dataclass(frozen=True)
class Request:
    """One request about a resource, as it was answered."""

    user: str
    agent: str
    """The program, as it calls itself: the first word of the user agent."""
    permission: Permission
    name: str
    status: int

    @property
    def forbidden(self) -> bool:
        """Whether a right was missing."""
        return self.status == _FORBIDDEN


class Audit:
    """Files of an API server that logs the requests of service accounts.

    Parameters
    ----------
    folder
        Where the policy and the log are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._log = folder / "audit.log"
        self._policy = folder / "audit-policy.yaml"
        self._policy.write_text(yaml.safe_dump(_policy()))

    @property
    def flags(self) -> list[str]:
        """For kube-apiserver."""
        return [f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"]

    def requests(self) -> Iterator[Request]:
        """All that were answered so far, oldest first."""
        for line in self._log.read_text().splitlines():
            event = json.loads(line)
            if "resource" in event.get("objectRef", {}):
                yield _request(event)


def granted(roles: Iterable[dict[str, Any]]) -> set[Permission]:
    """All that these roles allow."""
    return {
        (verb, group, resource)
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def _policy() -> dict[str, Any]:
    ours = {"level": "Metadata", "userGroups": ["system:serviceaccounts"]}
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [ours, {"level": "None"}],
    }


def _request(event: dict[str, Any]) -> Request:
    what = event["objectRef"]
    parts = (what["resource"], what.get("subresource"))
    return Request(
        user=event["user"]["username"],
        agent=event.get("userAgent", "").partition("/")[0],
        permission=(
            event["verb"],
            what.get("apiGroup", ""),
            "/".join(part for part in parts if part),
        ),
        name=what.get("name", ""),
        status=event["responseStatus"]["code"],
    )
