"""Whether a node may take a pod: what kube-scheduler checks besides resources, ports apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from scheduler.core import models
from scheduler.model import (
    AntiTerm,
    Constraints,
    HostPort,
    Node,
    Requirement,
    SelectorTerm,
    Taint,
    Toleration,
)

__all__ = ["anti_affinity_matches", "ports_clash", "selects", "verdict"]

_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
_BLOCKING = ("NoSchedule", "NoExecute")
_EVERY_IP = "0.0.0.0"  # noqa: S104 - compared with, never listened on
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


def verdict(pod_constraints: Constraints, node: Node) -> str:
    """Why ``node`` may not take a pod with these constraints; "" if it may.

    Resources and host ports are not looked at: they change with every pod on the node. A node
    that is not ready counts as if it had the taint ``node.kubernetes.io/not-ready:NoSchedule``,
    which the node controller sets a moment later; so the toleration that every pod gets for
    ``NoExecute`` does not open it.
    """
    return _state(pod_constraints.tolerations, node) or _labels(pod_constraints, node)


def ports_clash(a: Iterable[HostPort], b: Iterable[HostPort]) -> bool:
    """Whether two sets of host ports cannot be on one node: same port, protocol and ip.

    An empty ip and ``0.0.0.0`` mean every ip; an empty protocol is TCP.
    """
    taken: dict[tuple[str, int], set[str]] = {}
    for port in a:
        taken.setdefault(_socket(port), set()).add(port.ip or _EVERY_IP)
    return bool(taken) and any(
        _same_ip(port.ip or _EVERY_IP, taken.get(_socket(port))) for port in b
    )


def anti_affinity_matches(
    term: AntiTerm, term_namespace: str, namespace: str, labels: Mapping[str, str]
) -> bool:
    """Whether a pod (``namespace``, ``labels``) is one that the term's pod keeps away from.

    ``term_namespace`` is where the pod with the term lives. No selector matches no pod; an empty
    one matches every pod.
    """
    if term.selector is None or not _in_scope(term, term_namespace, namespace):
        return False
    return selects(term.selector, labels)


def selects(selector: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; one without expressions matches everything."""
    return all(one.operator not in _COMPARES and _matches(one, labels) for one in selector)


def _in_scope(term: AntiTerm, term_namespace: str, namespace: str) -> bool:
    return term.any_namespace or namespace in (term.namespaces or (term_namespace,))


# ── Taints, cordon, readiness ─────────────────────────────────────────────────────────────────────


def _state(tolerations: tuple[Toleration, ...], node: Node) -> str:
    if node.deleting:
        return "node is being deleted"
    if node.unschedulable and not _tolerated(_CORDON, tolerations):
        return "node is cordoned"
    if not node.ready and not _tolerated(_NOT_READY, tolerations):
        return "node is not ready"
    for taint in node.taints:
        if taint.effect in _BLOCKING and not _tolerated(taint, tolerations):
            return f"untolerated taint {_shown(taint)}"
    return ""


def _shown(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("Equal", ""):
        return toleration.value == taint.value
    if toleration.operator in _COMPARES:
        return _COMPARES[toleration.operator](taint.value, (toleration.value,))
    return toleration.operator == "Exists"


# ── Node selector and required node affinity ──────────────────────────────────────────────────────


def _labels(constraints: Constraints, node: Node) -> str:
    for key, value in constraints.selector:
        if node.labels.get(key) != value:
            return f"node selector {key}={value}"
    terms = constraints.terms
    if terms is not None and not any(_term(term, node) for term in terms):
        return "required node affinity"
    if constraints.models and not models.is_one_of(node.labels, constraints.models):
        return f"GPU model is not {' or '.join(constraints.models)}"
    return ""


def _term(term: SelectorTerm, node: Node) -> bool:
    if not term.expressions and not term.fields:
        return False
    return all(_matches(one, node.labels) for one in term.expressions) and all(
        _field(one, node.name) for one in term.fields
    )


def _field(requirement: Requirement, name: str) -> bool:
    """Node fields: only ``metadata.name``, and only In or NotIn with exactly one value."""
    if requirement.key != "metadata.name" or len(requirement.values) != 1:
        return False
    if requirement.operator == "In":
        return requirement.values[0] == name
    return requirement.operator == "NotIn" and requirement.values[0] != name


def _matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """One match expression; a malformed one (unknown operator, wrong values) matches nothing."""
    operator = _OPERATORS.get(requirement.operator)
    return operator is not None and operator(labels.get(requirement.key), requirement.values)


def _in(value: str | None, values: tuple[str, ...]) -> bool:
    return value in values


def _not_in(value: str | None, values: tuple[str, ...]) -> bool:
    return bool(values) and value not in values


def _exists(value: str | None, values: tuple[str, ...]) -> bool:
    return value is not None and not values


def _does_not_exist(value: str | None, values: tuple[str, ...]) -> bool:
    return value is None and not values


def _greater(value: str | None, values: tuple[str, ...]) -> bool:
    left, right = _integer(value), _only_integer(values)
    return left is not None and right is not None and left > right


def _less(value: str | None, values: tuple[str, ...]) -> bool:
    left, right = _integer(value), _only_integer(values)
    return left is not None and right is not None and left < right


_Operator = Callable[[str | None, tuple[str, ...]], bool]
_COMPARES: dict[str, _Operator] = {"Gt": _greater, "Lt": _less}
_OPERATORS: dict[str, _Operator] = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": _exists,
    "DoesNotExist": _does_not_exist,
    **_COMPARES,
}


def _only_integer(values: tuple[str, ...]) -> int | None:
    return _integer(values[0]) if len(values) == 1 else None


def _integer(text: str | None) -> int | None:
    """A 64-bit integer as Go reads one, else None."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


# ── Host ports ────────────────────────────────────────────────────────────────────────────────────


def _socket(port: HostPort) -> tuple[str, int]:
    return (port.protocol or "TCP", port.port)


def _same_ip(ip: str, taken: set[str] | None) -> bool:
    if not taken:
        return False
    return ip == _EVERY_IP or _EVERY_IP in taken or ip in taken
