"""Muster's role allows every request that Muster makes, and nothing else."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from deploy_objects import installed, one

from scheduler.cluster.events import EventWriter, Note
from scheduler.cluster.group_status import CONDITIONS
from scheduler.cluster.owners import owner_resources
from scheduler.cluster.resources import NODES, POD_GROUPS, PODS, TOPOLOGIES, Resource, pod_groups
from scheduler.cluster.reviews import Reviews
from scheduler.cluster.transport import Answer
from scheduler.cluster.writes import Writer
from scheduler.commands import client
from scheduler.core.messages import Bind, ClearNomination, Effect, Evict, Nominate, Wake
from scheduler.errors import ClusterError
from scheduler.model import GangKey, PodRef
from scheduler.service import Metrics
from scheduler.service.access import Person

REF = PodRef("team", "worker-0", "uid-0")

EFFECTS: list[Effect] = [
    Bind(1, REF, "n1", {}, GangKey("team", "gang"), ""),
    Nominate(2, REF, "n1"),
    ClearNomination(3, REF),
    Wake(4, REF),
    Evict(5, REF, "its node is lost"),
]

Permission = tuple[str, str, str]
"""Verb, API group, resource."""

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?"
)


class Refusing:
    """A transport to an API server that refuses every write, so that Muster looks at the pod."""

    def __init__(self) -> None:
        self.asked: set[Permission] = set()

    def get(self, path: str, query: object = None) -> Answer:
        return self._note("get", path, 404)

    def post(self, path: str, body: Any) -> Answer:
        return self._note("create", path, 409)

    def patch(self, path: str, body: Any) -> Answer:
        return self._note("patch", path, 409)

    def _note(self, verb: str, path: str, status: int) -> Answer:
        found = _PATH.fullmatch(path)
        assert found is not None, path
        whole = "/".join(part for part in (found["resource"], found["sub"]) if part)
        self.asked.add((verb, found["group"] or "", whole))
        return Answer(status, b"{}")


def _watched() -> Iterator[Resource]:
    yield from (NODES, PODS)
    for group, versions in POD_GROUPS:
        yield from (pod_groups(group, version) for version in versions)
    for kind in TOPOLOGIES:
        yield from (kind.resource(version) for version in kind.versions)


def _needed() -> set[Permission]:
    transport = Refusing()
    writer = Writer(transport, lambda _: False, threading.Event())  # type: ignore[arg-type]
    for effect in EFFECTS:
        writer.carry_out(effect)
    reviews = Reviews(transport)  # type: ignore[arg-type]
    events = EventWriter(transport, Metrics())  # type: ignore[arg-type]
    events.write(Note(REF, "Scheduled", "Binding", "text"))
    for ask in (lambda: reviews.who("token"), lambda: reviews.may_see(Person("ann"), "team")):
        with pytest.raises(ClusterError):
            ask()
    for resource in _watched():
        found = _PATH.fullmatch(resource.path)
        assert found is not None, resource
        for verb in ("list", "watch"):
            transport.asked.add((verb, found["group"] or "", found["resource"]))
    for group in (kind.partition(".")[2] for kind in CONDITIONS):
        transport.asked |= {("get", group, "podgroups"), ("patch", group, "podgroups/status")}
    for group, owner in owner_resources():
        transport.asked.add(("get", group, owner))
    return transport.asked


def _allowed(role: dict[str, Any]) -> set[Permission]:
    return {
        (verb, group, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_every_request_of_muster_is_allowed() -> None:
    assert _needed() - _allowed(one("ClusterRole", "muster")) == set()


def test_nothing_is_allowed_that_muster_does_not_ask_for() -> None:
    assert _allowed(one("ClusterRole", "muster")) - _needed() == set()


def test_a_binding_the_status_and_an_eviction_are_among_the_requests() -> None:
    # Guards the two tests above: they would agree on an empty set as well.
    assert {
        ("create", "", "pods/binding"),
        ("create", "", "pods/eviction"),
        ("patch", "", "pods/status"),
        ("patch", "", "pods"),
        ("get", "", "pods"),
        ("create", "events.k8s.io", "events"),
        ("watch", "", "nodes"),
        ("list", "scheduling.k8s.io", "podgroups"),
        ("get", "batch", "jobs"),
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
    } <= _needed()


@pytest.mark.parametrize("role", ["system:kube-scheduler", "system:volume-scheduler"])
def test_the_second_scheduler_has_the_roles_that_kubernetes_keeps_for_schedulers(role: str) -> None:
    bound = [
        item["subjects"]
        for item in installed()
        if item["kind"] == "ClusterRoleBinding" and item["roleRef"]["name"] == role
    ]
    account = {"kind": "ServiceAccount", "name": "muster", "namespace": "muster-system"}
    assert bound == [[account]]


def test_a_viewer_reaches_the_views_through_the_service_and_nothing_else() -> None:
    role, (port,) = one("Role", "muster-viewer"), one("Service")["spec"]["ports"]

    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["services/proxy"],
            "resourceNames": [f"{client.SERVICE}:{client.PORT_NAME}"],
            "verbs": ["get", "create"],
        }
    ]
    assert one("Service")["metadata"]["name"] == client.SERVICE
    assert port["name"] == client.PORT_NAME


def test_no_wildcard_is_granted() -> None:
    rules = [rule for item in installed() for rule in item.get("rules", ())]
    assert rules
    assert [rule for rule in rules if "*" in str(rule)] == []
