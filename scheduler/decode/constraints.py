"""What decides where a pod may go, besides resources."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.core.quoting import quoted
from scheduler.decode.faults import Faults
from scheduler.decode.resources import is_sidecar
from scheduler.dialects.fields import EMPTY, Json
from scheduler.model import (
    AntiTerm,
    Constraints,
    HostPort,
    Requirement,
    SelectorTerm,
    Toleration,
)

__all__ = ["anti_affinity", "constraints"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def constraints(spec: Json, faults: Faults) -> Constraints:
    """Node selector, required node affinity, tolerations and host ports."""
    return Constraints(
        selector=faults.pairs_at(spec.get("nodeSelector"), "spec.nodeSelector"),
        terms=_node_affinity(spec, faults),
        tolerations=_tolerations(spec, faults),
        ports=tuple(_ports(spec, faults)),
    )


def anti_affinity(spec: Json, faults: Faults) -> tuple[AntiTerm, ...]:
    """The required terms of pod anti-affinity."""
    path = "spec.affinity.podAntiAffinity"
    rules = _affinity(spec, "podAntiAffinity", faults)
    if rules is EMPTY:
        return ()
    terms = faults.objects_in(rules, _REQUIRED, f"{path}.")
    return tuple(
        _anti_term(term, f"{path}.{_REQUIRED}[{at}]", faults) for at, term in enumerate(terms)
    )


def _affinity(spec: Json, kind: str, faults: Faults) -> Json:
    affinity = spec.get("affinity")
    if not affinity:
        return EMPTY
    rules = faults.object_at(affinity, "spec.affinity").get(kind)
    return faults.object_at(rules, f"spec.affinity.{kind}")


def _node_affinity(spec: Json, faults: Faults) -> tuple[SelectorTerm, ...] | None:
    required = _affinity(spec, "nodeAffinity", faults).get(_REQUIRED)
    if required is None:
        return None
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}"
    terms = faults.objects_in(faults.object_at(required, path), "nodeSelectorTerms", f"{path}.")
    return tuple(
        _selector_term(term, f"{path}.nodeSelectorTerms[{at}]", faults)
        for at, term in enumerate(terms)
    )


def _selector_term(term: Json, path: str, faults: Faults) -> SelectorTerm:
    return SelectorTerm(
        _requirements(term, "matchExpressions", path, faults),
        _requirements(term, "matchFields", path, faults),
    )


def _requirements(term: Json, field: str, path: str, faults: Faults) -> tuple[Requirement, ...]:
    found = faults.objects_in(term, field, f"{path}.")
    return tuple(_requirement(one, f"{path}.{field}[{at}]", faults) for at, one in enumerate(found))


def _requirement(one: Json, path: str, faults: Faults) -> Requirement:
    return Requirement(
        faults.text_in(one, "key", path),
        faults.text_in(one, "operator", path),
        faults.texts_at(one.get("values"), f"{path}.values"),
    )


def _tolerations(spec: Json, faults: Faults) -> tuple[Toleration, ...]:
    return tuple(
        _toleration(one, at, faults)
        for at, one in enumerate(faults.objects_in(spec, "tolerations", "spec."))
    )


def _toleration(one: Json, at: int, faults: Faults) -> Toleration:
    key, operator = one.get("key", ""), one.get("operator", "Equal")
    value, effect = one.get("value", ""), one.get("effect", "")
    if type(key) is type(operator) is type(value) is type(effect) is str:
        return Toleration(key, operator or "Equal", value, effect)
    path = f"spec.tolerations[{at}]"
    return Toleration(
        faults.text_in(one, "key", path),
        faults.text_in(one, "operator", path) or "Equal",
        faults.text_in(one, "value", path),
        faults.text_in(one, "effect", path),
    )


# ── Host ports: those of containers that run at the same time ─────────────────────────────────────


def _ports(spec: Json, faults: Faults) -> Iterator[HostPort]:
    shared = spec.get("hostNetwork") is True
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        if not isinstance(containers, list):
            continue  # resources.asked() has named it as a fault
        for at, container in enumerate(containers):
            if not isinstance(container, dict) or "ports" not in container:
                continue
            if field == "containers" or is_sidecar(container):
                yield from _container_ports(container, f"spec.{field}[{at}]", shared, faults)


def _container_ports(
    container: Json, path: str, shared: bool, faults: Faults
) -> Iterator[HostPort]:
    for at, port in enumerate(faults.objects_in(container, "ports", f"{path}.")):
        where = f"{path}.ports[{at}]"
        number = port.get("hostPort") or (port.get("containerPort") if shared else None)
        if not number:
            continue
        if type(number) is not int or not 0 < number < 2**16:
            faults.add(f"{where}.hostPort", f"{quoted(number)} is not a port")
            continue
        protocol = faults.text_in(port, "protocol", where) or "TCP"
        yield HostPort(faults.text_in(port, "hostIP", where), protocol, number)


# ── Required pod anti-affinity ────────────────────────────────────────────────────────────────────


def _anti_term(term: Json, path: str, faults: Faults) -> AntiTerm:
    # Labels of namespaces are not known here: any selector of them may mean every namespace.
    return AntiTerm(
        selector=_label_selector(term.get("labelSelector"), f"{path}.labelSelector", faults),
        namespaces=faults.texts_at(term.get("namespaces"), f"{path}.namespaces"),
        any_namespace=term.get("namespaceSelector") is not None,
        topology_key=faults.text_in(term, "topologyKey", path),
    )


def _label_selector(value: object, path: str, faults: Faults) -> tuple[Requirement, ...] | None:
    if value is None:
        return None
    selector = faults.object_at(value, path)
    exact = faults.pairs_at(selector.get("matchLabels"), f"{path}.matchLabels")
    expressions = _requirements(selector, "matchExpressions", path, faults)
    return tuple(Requirement(key, "In", (item,)) for key, item in exact) + expressions
