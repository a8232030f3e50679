"""How much a pod may ask for and still be planned with; what is more is named, not cut off."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import decode
from scheduler.decode import limits
from scheduler.model import Pod
from tests import builders

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CONDITIONS, RULES, VALUES = limits.CONDITIONS, limits.RULES, limits.VALUES_A_CONDITION

Json = dict[str, Any]


def read(spec: Json) -> Pod:
    return decode.pod(builders.pod("t/p", spec=spec))


def exists(count: int) -> list[Json]:
    return [{"key": f"k{at}", "operator": "Exists"} for at in range(count)]


def names(count: int) -> list[str]:
    return [f"v{at}" for at in range(count)]


def node_affinity(*terms: Json) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expressions(count: int) -> Json:
    return node_affinity({"matchExpressions": exists(count - 2)})


def fields(count: int) -> Json:
    one = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    return node_affinity({"matchFields": [one] * (count - 2)})


def terms(count: int) -> Json:
    odd = {"matchExpressions": exists(count % 2)}
    return node_affinity(odd, *[{}] * (count // 2 - 1))


def values(count: int) -> Json:
    listed = {"key": "k", "operator": "In", "values": names((count - 3) * VALUES)}
    return node_affinity({"matchExpressions": [listed]})


def selector(count: int) -> Json:
    return {"nodeSelector": dict.fromkeys(names(count), "x")}


def tolerations(count: int) -> Json:
    return {"tolerations": exists(count)}


def host_ports(count: int) -> Json:
    ports = [{"hostPort": port} for port in range(1, count + 1)]
    return {"containers": [{"name": "main", "ports": ports}]}


def rules(*found: Json) -> Json:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(found)}}}


def rule_terms(count: int) -> Json:
    return rules(*[{"labelSelector": {}, "topologyKey": "rack"}] * count)


def rule_labels(count: int) -> Json:
    labels = dict.fromkeys(names(count - 1), "x")
    return rules({"labelSelector": {"matchLabels": labels}, "topologyKey": "rack"})


def rule_values(count: int) -> Json:
    listed = {"key": "k", "operator": "In", "values": names((count - 2) * VALUES)}
    return rules({"labelSelector": {"matchExpressions": [listed]}, "topologyKey": "rack"})


def rule_namespaces(count: int) -> Json:
    return rules(
        {"labelSelector": {}, "topologyKey": "rack", "namespaces": names((count - 1) * VALUES)}
    )


def resources(count: int) -> Json:
    asked = dict.fromkeys((f"example.org/r{at}" for at in range(count - 1)), "1")
    return {"containers": [{"name": "main", "resources": {"requests": asked}}]}


MANY = [
    (expressions, CONDITIONS, "spec.affinity.nodeAffinity"),
    (fields, CONDITIONS, "spec.affinity.nodeAffinity"),
    (terms, CONDITIONS, "spec.affinity.nodeAffinity"),
    (values, CONDITIONS, "spec.affinity.nodeAffinity"),
    (selector, CONDITIONS, "spec.nodeSelector"),
    (tolerations, CONDITIONS, "spec.tolerations"),
    (host_ports, CONDITIONS, "spec.containers"),
    (rule_terms, RULES, "spec.affinity.podAntiAffinity"),
    (rule_labels, RULES, "spec.affinity.podAntiAffinity"),
    (rule_values, RULES, "spec.affinity.podAntiAffinity"),
    (rule_namespaces, RULES, "spec.affinity.podAntiAffinity"),
    (resources, limits.RESOURCES, "spec.containers"),
]


@pytest.mark.parametrize(("made", "most", "field"), MANY, ids=[row[0].__name__ for row in MANY])
def test_what_is_more_than_the_limit_is_named_by_its_field(
    made: Any, most: int, field: str
) -> None:
    assert read(made(most)).excess == ""

    pod = read(made(most + 1))

    assert pod.excess.startswith(f"{field}: {most + 1} ")
    assert f"the {most} that are planned with" in pod.excess
    assert pod.fault == "", "it can be read"


def test_anti_affinity_that_is_too_much_may_concern_any_pod() -> None:
    assert len(read(rule_terms(RULES)).anti_affinity) == RULES
    assert read(rule_terms(RULES + 1)).anti_affinity == (limits.ANY_POD,)
