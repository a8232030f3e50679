"""Koordinator: annotations under ``gang.scheduling.koordinator.sh/``, also beside a PodGroup.

A pod is named by a label of the scheduler-plugins project, else by the annotation ``name``. What
its annotations say wins over those of the PodGroup. ``mode`` and ``match-policy`` change nothing
here: a gang always starts whole, and members that ran once count from then on.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.quoting import quoted
from scheduler.dialects import coscheduling, values
from scheduler.dialects.fields import Fault, Json, mapping, sequence
from scheduler.dialects.laying import lay
from scheduler.dialects.source import Found, PodSource
from scheduler.dialects.source import no_group as read_group
from scheduler.dialects.tables import Table, one_of, read_table, read_values, replicas
from scheduler.model import Declaration, Options

__all__ = [
    "KINDS",
    "NAME",
    "OWNERS",
    "PREFIX",
    "TOPOLOGY",
    "layer_name",
    "read_annotations",
    "read_group",
    "read_pod",
    "read_topology",
]

NAME = "koordinator"
KINDS: tuple[str, ...] = ()
"""Its PodGroup is that of the scheduler-plugins project."""
OWNERS: tuple[str, ...] = ()
PREFIX = "gang.scheduling.koordinator.sh/"

_MOST_PARTNERS = 64
"""Gangs that start together; each costs a plan, and those of the others wait for it."""

_TOPOLOGY = PREFIX + "network-topology-spec"
TOPOLOGY = (_TOPOLOGY,)
"""Annotations that :func:`read_topology` reads."""


def read_pod(source: PodSource) -> Found:
    """The gang by label or annotation, with what the pod's annotations ask for."""
    stated = [key for key in source.annotations if str(key).startswith(PREFIX)]
    named = _named(source) if stated else None
    if not isinstance(named, Declaration):
        return named
    options = read_annotations(source.annotations)
    if isinstance(options, Fault):
        return options
    laid = lay(named.options, options)
    return replace(named, dialect=NAME, options=laid)


def read_annotations(annotations: Json) -> Options | Fault:
    """What the annotations of a pod or of a PodGroup ask for."""
    options = read_table(annotations, _ANNOTATIONS)
    if isinstance(options, Fault) or not options.min_available or options.size is None:
        return options
    # As in Koordinator itself: a total below the minimum is the minimum.
    return replace(options, size=max(options.size, options.min_available))


def layer_name(layer: str) -> str:
    """``blockLayer`` and ``BlockLayer`` as people name a level: ``block``."""
    return layer.removesuffix("Layer").lower() if layer.endswith("Layer") else layer


def read_topology(annotations: Json) -> Options | Fault:
    """The gather strategy: layers that must or should be shared, the finest last."""
    stated = annotations.get(_TOPOLOGY)
    if stated is None:
        return Options()
    spec = values.json_value(stated)
    if not isinstance(spec, dict):
        return Fault(f"{_TOPOLOGY}: {quoted(stated)} is not a JSON object")
    rules = []
    for at, rule in enumerate(map(mapping, sequence(spec.get("gatherStrategy")))):
        options = _rule(rule)
        if isinstance(options, Fault):
            return Fault(f"{_TOPOLOGY}: gatherStrategy[{at}]: {options.reason}")
        rules.append(options)
    return _together(rules)


def _together(rules: list[Options]) -> Options | Fault:
    """All rules, whatever their order: of several levels of a kind the finest counts.

    Who shares a block shares its spine. How layers lie in each other is known of these alone.
    """
    required = {rule.required for rule in rules} - {""}
    unknown = required - _FINENESS.keys()
    if len(required) > 1 and unknown:
        names = ", ".join(sorted(unknown))
        return Fault(f"{_TOPOLOGY}: several layers must be shared, and {names} is not known")
    preferred = {rule.preferred for rule in rules} - {""}
    found = Options(required=_finest(required), preferred=_finest(preferred))
    for rule in rules:
        segments = Options(segment_size=rule.segment_size, segment_level=rule.segment_level)
        found = lay(found, segments)
    return found


def _finest(layers: set[str]) -> str:
    return max(sorted(layers), key=lambda layer: _FINENESS.get(layer, -1), default="")


def _named(source: PodSource) -> Found:
    labelled = coscheduling.read_pod(source)
    stated = source.annotations.get(PREFIX + "name")
    if labelled is not None or stated is None:
        return labelled
    name = values.name(stated)
    if isinstance(name, Fault):
        return Fault(f"{PREFIX}name: {name.reason}")
    return Declaration(name, NAME, kind=coscheduling.KIND)


def _total(value: object) -> int | Fault | None:
    return None if value == "0" else values.count(value)


def _groups(value: object) -> tuple[tuple[str, str], ...] | Fault:
    names = values.json_value(value)
    if not isinstance(names, list):
        return Fault(f"{quoted(value)} is not a JSON list of namespace/name")
    if len(names) > _MOST_PARTNERS:
        return Fault(f"{len(names)} gangs are more than the {_MOST_PARTNERS} that start together")
    found = []
    for name in names:
        pair = values.namespaced(name)
        if isinstance(pair, Fault):
            return pair
        found.append(pair)
    return tuple(sorted(set(found)))


def _rule(rule: Json) -> Options | Fault:
    found = read_values(rule, _RULE)
    if isinstance(found, Fault):
        return found
    layer, multiple = found["layer"], found["podCountMultiple"]
    must = found["strategy"] == "MustGather"
    whole = Options(required=layer) if must else Options(preferred=layer)
    if multiple < 2:
        return whole
    return lay(whole, Options(segment_size=multiple, segment_level=layer))


def _layer(value: object) -> str | Fault:
    return values.level(layer_name(value) if isinstance(value, str) else value)


_FINENESS = {
    layer: at
    for at, layer in enumerate(
        ("region", "zone", "datacenter", "core", "spine", "block", "leaf", "rack", "accelerator")
    )
}
"""Layers that people have, the broadest first."""

_RULE = {
    "layer": _layer,
    "strategy": one_of("MustGather", "PreferGather"),
    "podCountMultiple": replicas(0),
}


_ANNOTATIONS: Table = {
    PREFIX + "min-available": ("min_available", values.count),
    PREFIX + "total-number": ("size", _total),
    PREFIX + "waiting-time": ("timeout", values.duration),
    PREFIX + "groups": ("partners", _groups),
    PREFIX + "mode": ("", one_of("Strict", "NonStrict")),
    PREFIX + "match-policy": ("", one_of("only-waiting", "waiting-and-running", "once-satisfied")),
}
