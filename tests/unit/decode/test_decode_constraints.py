"""Selectors, affinity, tolerations, host ports and anti-affinity as the pod states them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import decode
from scheduler.core.feasibility import ports_clash
from scheduler.model import AntiTerm, HostPort, Pod, Requirement, SelectorTerm, Toleration
from tests import builders

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def read(**spec: Any) -> Pod:
    return decode.pod(builders.pod("t/p", spec=spec))


def node_affinity(required: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: required}}


def test_the_node_selector_is_sorted() -> None:
    pod = read(nodeSelector={"b": "2", "a": "1"})
    assert pod.constraints.selector == (("a", "1"), ("b", "2"))
    assert hash(pod.constraints) == hash(read(nodeSelector={"a": "1", "b": "2"}).constraints)


def test_required_node_affinity() -> None:
    terms = [
        {
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}],
        },
        {"matchExpressions": [{"key": "b", "operator": "Exists"}]},
        {},
        None,
    ]
    pod = read(affinity=node_affinity({"nodeSelectorTerms": terms}))
    assert pod.constraints.terms == (
        SelectorTerm(
            (Requirement("a", "In", ("1", "2")),),
            (Requirement("metadata.name", "NotIn", ("n9",)),),
        ),
        SelectorTerm((Requirement("b", "Exists", ()),), ()),
        SelectorTerm((), ()),
        SelectorTerm((), ()),
    )
    assert pod.fault == ""


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        (None, None),
        ({}, None),
        ({"nodeAffinity": None}, None),
        ({"nodeAffinity": {}}, None),
        (node_affinity(None), None),
        (node_affinity({}), ()),
        (node_affinity({"nodeSelectorTerms": []}), ()),
        (node_affinity({"nodeSelectorTerms": None}), ()),
    ],
)
def test_no_requirement_is_not_the_same_as_no_term(affinity: Any, terms: Any) -> None:
    pod = read(affinity=affinity)
    assert (pod.constraints.terms, pod.fault) == (terms, "")


def test_tolerations() -> None:
    stated = [
        {"key": "a", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "b", "value": "v"},
        {"operator": "Exists"},
    ]
    assert read(tolerations=stated).constraints.tolerations == (
        Toleration("a", "Exists", "", "NoSchedule"),
        Toleration("b", "Equal", "v", ""),
        Toleration("", "Exists", "", ""),
    )


def ports(*stated: Any, **spec: Any) -> tuple[HostPort, ...]:
    containers = [{"name": "c", "ports": list(stated)}]
    return read(containers=containers, **spec).constraints.ports


def test_host_ports() -> None:
    assert ports({"containerPort": 80}) == ()
    assert ports({"containerPort": 80, "hostPort": 0}) == ()
    assert ports({"containerPort": 80, "hostPort": 8080}) == (HostPort("", "TCP", 8080),)
    full = {"containerPort": 80, "hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP"}
    assert ports(full) == (HostPort("10.0.0.1", "UDP", 81),)


def test_with_the_hosts_network_a_container_port_is_a_host_port() -> None:
    assert ports({"containerPort": 23456}, hostNetwork=True) == (HostPort("", "TCP", 23456),)
    assert ports({"containerPort": 1, "hostPort": 2}, hostNetwork=True)[0].port == 2


def test_only_init_containers_that_go_on_running_hold_their_ports() -> None:
    init = {"name": "i", "ports": [{"hostPort": 7}]}
    assert read(initContainers=[init]).constraints.ports == ()
    sidecar = init | {"restartPolicy": "Always"}
    assert read(initContainers=[sidecar]).constraints.ports == (HostPort("", "TCP", 7),)


def test_ports_and_priorities_keep_their_full_value() -> None:
    one, other = ports({"hostPort": 23456}), ports({"hostPort": 23456 + 256})
    assert one != other
    assert not ports_clash(one, other)
    assert ports_clash(one, ports({"hostPort": 23456}))


def anti(*terms: Any) -> tuple[AntiTerm, ...]:
    pod = read(affinity={"podAntiAffinity": {REQUIRED: list(terms)}})
    assert pod.fault == ""
    return pod.anti_affinity


def test_required_anti_affinity() -> None:
    selector = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}],
    }
    (term,) = anti({"labelSelector": selector, "topologyKey": "topo/rack", "namespaces": ["x"]})
    assert term == AntiTerm(
        (
            Requirement("a", "In", ("1",)),
            Requirement("b", "In", ("2",)),
            Requirement("c", "DoesNotExist", ()),
        ),
        ("x",),
        False,
        "topo/rack",
    )


def test_an_empty_selector_means_every_pod_and_none_means_no_pod() -> None:
    everyone, nobody = anti({"labelSelector": {}, "topologyKey": "k"}, {"topologyKey": "k"})
    assert (everyone.selector, nobody.selector) == ((), None)


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {"team": "x"}}])
def test_a_namespace_selector_may_mean_any_namespace(selector: dict[str, Any]) -> None:
    (term,) = anti({"labelSelector": {}, "namespaceSelector": selector, "topologyKey": "k"})
    assert term.any_namespace


def test_preferred_anti_affinity_is_no_constraint() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    assert read(affinity={"podAntiAffinity": preferred}).anti_affinity == ()


TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
ANTI = f"spec.affinity.podAntiAffinity.{REQUIRED}"


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"nodeSelector": ["a"]}, "spec.nodeSelector: a list is not an object"),
        ({"nodeSelector": {"a": 1}}, 'spec.nodeSelector["a"]: 1 is not a string'),
        ({"affinity": "near"}, 'spec.affinity: "near" is not an object'),
        ({"affinity": node_affinity("n1")}, f"{TERMS.rpartition('.')[0]}: "),
        ({"affinity": node_affinity({"nodeSelectorTerms": {}})}, f"{TERMS}: an object is not"),
        (
            {
                "affinity": node_affinity(
                    {"nodeSelectorTerms": [{"matchExpressions": [{"key": 1}]}]}
                )
            },
            f"{TERMS}[0].matchExpressions[0].key: 1 is not a string",
        ),
        (
            {
                "affinity": node_affinity(
                    {"nodeSelectorTerms": [{"matchFields": [{"key": "k", "values": "v"}]}]}
                )
            },
            f"{TERMS}[0].matchFields[0].values: is not a list of strings",
        ),
        ({"tolerations": {}}, "spec.tolerations: an object is not a list"),
        ({"tolerations": ["all"]}, 'spec.tolerations[0]: "all" is not an object'),
        ({"tolerations": [{"key": 5}]}, "spec.tolerations[0].key: 5 is not a string"),
        (
            {"containers": [{"ports": [{"hostPort": "80"}]}]},
            'spec.containers[0].ports[0].hostPort: "80" is not a port',
        ),
        (
            {"containers": [{"ports": [{"hostPort": 65536}]}]},
            "spec.containers[0].ports[0].hostPort: 65536 is not a port",
        ),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": 3}}]}}},
            f"{ANTI}[0].labelSelector.matchLabels: 3 is not an object",
        ),
    ],
)
def test_a_constraint_that_cannot_be_read_is_never_just_dropped(
    spec: dict[str, Any], fault: str
) -> None:
    assert read(**spec).fault.startswith(fault)
