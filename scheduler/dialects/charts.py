"""Objects that describe the network: Kueue's, KAI's, Koordinator's and Volcano's.

What cannot be read of one is left out with a warning; the rest of it counts.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.core import patterns
from scheduler.core.quoting import quoted
from scheduler.dialects import koordinator, values
from scheduler.dialects.fields import Fault, Json, mapping, sequence, text
from scheduler.model import Chart, ChartLevel, ChartMember, GroupKey, Requirement

__all__ = ["KINDS", "read"]

_LONGEST_PATTERN = 256
_MOST_WARNINGS = 20

_Warnings = list[str]


def read(obj: Json, key: GroupKey) -> Chart:
    """An object of one of ``KINDS`` as a value."""
    warnings: _Warnings = []
    chart = KINDS[key.kind](key, mapping(obj.get("spec")), warnings)
    return Chart(
        chart.key,
        chart.levels,
        chart.tier,
        chart.tier_name,
        chart.members,
        tuple(warnings[:_MOST_WARNINGS]),
    )


# ── lists of labels ──


def _levels(key: GroupKey, spec: Json, warnings: _Warnings) -> Chart:
    """``levels[].nodeLabel``, broadest first: Kueue and KAI."""
    found: dict[str, ChartLevel] = {}
    for at, level in enumerate(map(mapping, sequence(spec.get("levels")))):
        label = values.level(level.get("nodeLabel"))
        if isinstance(label, Fault):
            warnings.append(f"spec.levels[{at}].nodeLabel: {label.reason}")
        else:
            found.setdefault(label, ChartLevel(label))
    return Chart(key, tuple(found.values()))


def _layers(key: GroupKey, spec: Json, warnings: _Warnings) -> Chart:
    """``networkTopologySpec``: layers that name their parent, in any order: Koordinator."""
    layers: dict[str, tuple[str, str]] = {}
    for at, layer in enumerate(map(mapping, sequence(spec.get("networkTopologySpec")))):
        name = text(layer.get("topologyLayer"))
        labels = [one for one in sequence(layer.get("labelKey")) if isinstance(one, str)]
        label = values.level(labels[0]) if labels else ""
        if isinstance(label, Fault) or not name:
            warnings.append(f"spec.networkTopologySpec[{at}]: has no usable name or label")
            continue
        layers[name] = text(layer.get("parentTopologyLayer")), label
    ordered = sorted(layers, key=lambda name: _depth(name, layers))
    known = ((koordinator.layer_name(name), layers[name][1]) for name in ordered)
    return Chart(key, tuple(ChartLevel(label, name) for name, label in known if label))


def _depth(name: str, layers: dict[str, tuple[str, str]]) -> int:
    """How many layers are above; a circle of parents ends where it began."""
    above: dict[str, None] = {}
    while name in layers and name not in above:
        above[name] = None
        name = layers[name][0]
    return len(above)


# ── domains ──


def _domain(key: GroupKey, spec: Json, warnings: _Warnings) -> Chart:
    """A HyperNode: ``tier``, ``tierName`` and ``members``: Volcano."""
    tier = values.index(spec.get("tier"))
    if isinstance(tier, Fault):
        warnings.append(f"spec.tier: {tier.reason}")
        return Chart(key)
    members = [
        _member(mapping(one), f"spec.members[{at}]", warnings)
        for at, one in enumerate(sequence(spec.get("members")))
    ]
    name = text(spec.get("tierName"))[:253]
    return Chart(key, (), tier, name, tuple(one for one in members if one is not None))


def _member(member: Json, path: str, warnings: _Warnings) -> ChartMember | None:
    kind, selector = member.get("type"), mapping(member.get("selector"))
    nodes = kind == "Node"
    if kind not in ("Node", "HyperNode"):
        warnings.append(f"{path}.type: {quoted(kind)} is not one of Node, HyperNode")
        return None
    if name := text(mapping(selector.get("exactMatch")).get("name")):
        return ChartMember(nodes, name)
    if pattern := text(mapping(selector.get("regexMatch")).get("pattern")):
        fault = _pattern_fault(pattern)
        warnings.extend([f"{path}.selector.regexMatch.pattern: {fault}"] if fault else [])
        return None if fault else ChartMember(nodes, pattern=pattern)
    if nodes and (stated := mapping(selector.get("labelMatch"))):
        return ChartMember(nodes, selector=_selector(stated))
    warnings.append(f"{path}.selector: has no exactMatch, regexMatch or labelMatch")
    return None


def _pattern_fault(pattern: str) -> str:
    """Why a regular expression is not used; "" if it is."""
    if len(pattern) > _LONGEST_PATTERN:
        return f"{quoted(pattern)} is longer than {_LONGEST_PATTERN} characters"
    try:
        patterns.compiled(pattern)
    except patterns.PatternError as error:
        return f"{quoted(pattern)} is no regular expression that can be used: {error}"
    return ""


def _selector(stated: Json) -> tuple[Requirement, ...]:
    """A label selector; an expression of the wrong shape matches nothing."""
    exact = mapping(stated.get("matchLabels"))
    found = [Requirement(str(key), "In", (text(value),)) for key, value in exact.items()]
    for one in map(mapping, sequence(stated.get("matchExpressions"))):
        chosen = tuple(text(value) for value in sequence(one.get("values")))
        found.append(Requirement(text(one.get("key")), text(one.get("operator")), chosen))
    return tuple(found)


KINDS: dict[str, Callable[[GroupKey, Json, _Warnings], Chart]] = {
    "Topology.kueue.x-k8s.io": _levels,
    "Topology.kai.scheduler": _levels,
    "ClusterNetworkTopology.scheduling.koordinator.sh": _layers,
    "HyperNode.topology.volcano.sh": _domain,
}
"""``Kind.group`` of the objects that are read, of any version."""
