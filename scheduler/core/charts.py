"""Levels and domains that topology objects state, as if nodes had labels for them.

An object is either an ordered list of node labels (Kueue's and KAI's Topology, Koordinator's
ClusterNetworkTopology), or one domain of a tier (Volcano's HyperNode). Tiers are counted from the
nodes up and become levels that are called ``volcano-tier-1`` and so on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from scheduler.core import patterns
from scheduler.core.feasibility import selects
from scheduler.model import Chart, ChartMember, Node

__all__ = ["TIER", "Charted", "charted"]

TIER = "volcano-tier-"
"""Begins the key of the level of a tier."""

_NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Charted:
    """What the objects say of these nodes."""

    source: str = ""
    """The object that states the levels, for people; "" if none does."""
    levels: tuple[str, ...] = ()
    """Label keys, broadest first."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Other names of levels -> their keys."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node name -> what it is labelled with by the domains that it is in: key -> domain."""

    def label(self, node: Node, key: str) -> str:
        """The node's value at a level, "" where it has none."""
        found = self.labels.get(node.name, _NO_LABELS).get(key)
        return node.labels.get(key, "") if found is None else found


def charted(charts: Iterable[Chart], nodes: Sequence[Node]) -> Charted:
    """What the objects say, taken together.

    Of several lists of labels the one that most nodes carry in full counts, then the longest, then
    the first by key; one that no node carries counts as none. Lists come before domains.
    O(nodes x domains) for domains by pattern or selector, else O(nodes + members).
    """
    ordered = sorted(charts, key=lambda chart: chart.key)
    labels = _domain_labels([chart for chart in ordered if chart.tier is not None], nodes)
    tiers = sorted({tier for found in labels.values() for tier in found}, reverse=True)
    keyed = {
        name: {f"{TIER}{tier}": domain for tier, domain in found.items()}
        for name, found in labels.items()
    }
    names = _tier_names(ordered)
    chosen = _list_in_use([chart for chart in ordered if chart.levels], nodes)
    if chosen is not None:
        own = {level.name: level.label for level in chosen.levels if level.name}
        keys = tuple(level.label for level in chosen.levels)
        return Charted(_called(chosen), keys, names | own, keyed)
    source = "HyperNodes of Volcano" if tiers else ""
    return Charted(source, tuple(f"{TIER}{tier}" for tier in tiers), names, keyed)


def _called(chart: Chart) -> str:
    return f"{chart.key.kind} {chart.key.name}"


def _list_in_use(charts: Sequence[Chart], nodes: Sequence[Node]) -> Chart | None:
    """The list of labels that fits the nodes best."""

    def fitting(chart: Chart) -> tuple[int, int]:
        keys = [level.label for level in chart.levels]
        return sum(all(node.labels.get(key) for key in keys) for node in nodes), len(keys)

    best = max(charts, key=fitting, default=None)
    return best if best is not None and fitting(best)[0] else None


def _tier_names(charts: Iterable[Chart]) -> dict[str, str]:
    """Names of tiers that mean one tier each."""
    pairs = {(chart.tier_name, chart.tier) for chart in charts if chart.tier_name}
    uses = Counter(name for name, _ in pairs)
    return {name: f"{TIER}{tier}" for name, tier in sorted(pairs, key=str) if uses[name] == 1}


# ── domains ──


def _domain_labels(charts: Sequence[Chart], nodes: Sequence[Node]) -> dict[str, dict[int, str]]:
    """Node name -> tier -> domain, without gaps above a node's finest tier.

    A node that two domains of one tier claim is in the first by name. Where a tier is left out
    between two others, or above, the domain below stands for it: it shares that tier with no other.
    """
    inside: dict[str, set[str]] = {}
    found: dict[str, dict[int, str]] = {}
    tiers: list[int] = sorted({chart.tier for chart in charts if chart.tier is not None})
    known = _Nodes(nodes)
    for chart in sorted(charts, key=lambda one: (one.tier or 0, one.key)):
        inside[chart.key.name] = held = _nodes_of(chart, known, inside)
        for name in held:
            found.setdefault(name, {}).setdefault(chart.tier or 0, chart.key.name)
    for own in found.values():
        below = ""
        for tier in tiers:
            below = own.get(tier, below)
            if below:
                own[tier] = below
    return found


def _nodes_of(chart: Chart, nodes: _Nodes, inside: Mapping[str, set[str]]) -> set[str]:
    """Names of the nodes in a domain, directly and through domains of lower tiers."""
    held: set[str] = set()
    for member in chart.members:
        if member.nodes:
            held.update(nodes.of(member))
        else:
            for name in _domains_of(member, inside):
                held |= inside[name]
    return held


def _domains_of(member: ChartMember, inside: Mapping[str, set[str]]) -> Sequence[str]:
    if member.pattern:
        pattern = patterns.compiled(member.pattern)
        return [name for name in inside if pattern.search(name)]
    return [member.name] if member.name in inside else []


class _Nodes:
    """The nodes by name, to choose members from."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._by_name = {node.name: node for node in nodes}
        self._names = tuple(self._by_name)

    def of(self, member: ChartMember) -> Iterable[str]:
        """Names of the nodes that a member means."""
        if member.selector is not None:
            chosen = member.selector
            return [name for name, node in self._by_name.items() if selects(chosen, node.labels)]
        if member.pattern:
            return _found(member.pattern, self._names)
        return {member.name} & self._by_name.keys()


@lru_cache(maxsize=1024)  # nodes change more often than their names do
def _found(pattern: str, names: tuple[str, ...]) -> tuple[str, ...]:
    expression = patterns.compiled(pattern)
    return tuple(name for name in names if expression.search(name))
