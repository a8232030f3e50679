"""How much a pod may ask for.

What is compared with every node, or with every pod, is compared while all others wait for the
planner: what no job needs must not hold them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.model import AntiTerm, Constraints, Requirement, Resources

__all__ = ["ANY_POD", "excess", "is_too_much"]

CONDITIONS = 128
"""Conditions of one field. So many take some 40 ms to compare with 1,000 nodes, where none fits."""

CONDITIONS_A_TERM = 2
"""A term of node affinity takes as long as so many conditions in it."""

RULES = 64
"""Conditions in required anti-affinity: each is compared with pods, of which there are more."""

VALUES_A_CONDITION = 16
"""Values of one condition that take as long to compare as one more."""

RESOURCES = 256
"""Names of resources."""

ANY_POD = AntiTerm(selector=(), namespaces=(), any_namespace=True, topology_key="")
"""Instead of anti-affinity that is too much: it may concern any pod and shuts no node, so that the
scheduler judges where others go."""


def excess(asked: Constraints, rules: Sequence[AntiTerm], requests: Resources) -> str:
    """The field of which a pod has more than can be planned with, and the limit; "" = none."""
    counts = (
        ("spec.nodeSelector", "labels", len(asked.selector), CONDITIONS),
        ("spec.affinity.nodeAffinity", "conditions", _in_terms(asked), CONDITIONS),
        ("spec.tolerations", "tolerations", len(asked.tolerations), CONDITIONS),
        ("spec.containers", "host ports", len(asked.ports), CONDITIONS),
        ("spec.affinity.podAntiAffinity", "conditions", _in_rules(rules), RULES),
        ("spec.containers", "resources", len(requests), RESOURCES),
    )
    for field, what, count, most in counts:
        if count > most:
            return f"{field}: {count} {what} are more than the {most} that are planned with"
    return ""


def is_too_much(rules: Sequence[AntiTerm]) -> bool:
    """Whether these terms are more than other pods' placement can be compared with."""
    return _in_rules(rules) > RULES


def _in_terms(asked: Constraints) -> int:
    terms = asked.terms or ()
    inside = sum(_weight(term.expressions) + _weight(term.fields) for term in terms)
    return len(terms) * CONDITIONS_A_TERM + inside


def _in_rules(rules: Sequence[AntiTerm]) -> int:
    return sum(
        1 + _weight(rule.selector or ()) + len(rule.namespaces) // VALUES_A_CONDITION
        for rule in rules
    )


def _weight(conditions: Iterable[Requirement]) -> int:
    return sum(1 + len(one.values) // VALUES_A_CONDITION for one in conditions)
