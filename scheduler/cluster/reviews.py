"""Asks the API server whose token it is, and what they may see."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from scheduler.cluster.transport import Answer, Transport
from scheduler.errors import ClusterError
from scheduler.service.access import Person

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _User(Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(Struct):
    allowed: bool = False


class _AccessReview(Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class Reviews:
    """TokenReviews and SubjectAccessReviews. Thread-safe."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def who(self, token: str) -> Person | None:
        """Whose token it is; None for nobody's. Raises ClusterError."""
        spec = {"token": token}
        answer = self._review(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec)
        status = _read(answer, _TokenReview).status
        user = status.user
        if not status.authenticated or not user.username:
            return None
        return Person(user.username, user.uid, tuple(user.groups), user.extra)

    def may_see(self, person: Person, namespace: str) -> bool:
        """Whether the person may list pods there; "" for everywhere. Raises ClusterError."""
        attributes = {"verb": "list", "version": "v1", "resource": "pods", "namespace": namespace}
        spec = {
            "user": person.name,
            "uid": person.uid,
            "groups": list(person.groups),
            "extra": dict(person.extra),
            "resourceAttributes": attributes,
        }
        version = "authorization.k8s.io/v1"
        answer = self._review(ACCESS_REVIEWS, version, "SubjectAccessReview", spec)
        allowed: bool = _read(answer, _AccessReview).status.allowed
        return allowed

    def _review(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> Answer:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        answer = self._transport.post(path, body)
        if not answer.ok:
            needs = "; this account needs create on it" if answer.status in (401, 403) else ""
            raise ClusterError(f"no {kind} can be had: {answer.text}{needs}")
        return answer


def _read(answer: Answer, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        raise ClusterError(f"a review cannot be read: {error}") from error
