"""Kueue: groups of plain pods, and the topology that any pod asks for.

Kueue's scheduling gates keep a pod out of every plan until its group is admitted; Muster acts
after that. Whatever else Kueue admits (Jobs, JobSets, …) is read as what it is.
"""

from __future__ import annotations

from scheduler.core.quoting import quoted
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping
from scheduler.dialects.laying import lay, only_hard_segments
from scheduler.dialects.source import Found, PodSource
from scheduler.dialects.source import no_group as read_group
from scheduler.dialects.tables import Table, one_of, read_table, read_values
from scheduler.model import Declaration, Options

__all__ = ["KINDS", "NAME", "OWNERS", "TOPOLOGY", "read_group", "read_pod", "read_topology"]

NAME = "kueue"
KINDS: tuple[str, ...] = ()
OWNERS: tuple[str, ...] = ()

_KIND = "Workload.kueue.x-k8s.io"
_PREFIX = "kueue.x-k8s.io/"
_GROUP = _PREFIX + "pod-group-name"
_TOTAL = _PREFIX + "pod-group-total-count"
_FAST = _PREFIX + "pod-group-fast-admission"
_LAYERS = _PREFIX + "podset-slice-required-topology-constraints"
_MOST_LAYERS = 3

_TOPOLOGY: Table = {
    _PREFIX + "podset-required-topology": ("required", values.level),
    _PREFIX + "podset-preferred-topology": ("preferred", values.level),
    _PREFIX + "podset-slice-required-topology": ("segment_level", values.level),
    _PREFIX + "podset-slice-size": ("segment_size", values.count),
    _PREFIX + "podset-unconstrained-topology": ("", one_of("true", "false")),
    _PREFIX + "podset-group-name": ("", values.name),
}
TOPOLOGY = (*_TOPOLOGY, _LAYERS)
"""Annotations that :func:`read_topology` reads."""


def read_pod(source: PodSource) -> Found:
    """A group of plain pods, all of which start or none."""
    stated = source.value(_GROUP)
    if stated is None:
        return None
    name = values.group_name(stated)
    if isinstance(name, Fault):
        return Fault(f"{_GROUP}: {name.reason}")
    total = values.count(source.value(_TOTAL))
    if isinstance(total, Fault):
        return Fault(f"{_TOTAL}: {total.reason}")
    # Its pods may come one after the other then, as those of a StatefulSet do.
    first = 1 if source.annotations.get(_FAST) == "true" and total > 1 else None
    options = Options(min_available=total, size=total, first=first)
    return Declaration(name, NAME, options, kind=_KIND)


def read_topology(annotations: Json) -> Options | Fault:
    """The level that all share, and the one that each slice shares."""
    options = read_table(annotations, _TOPOLOGY)
    if isinstance(options, Fault):
        return options
    if annotations.get(_LAYERS) is None:
        return only_hard_segments(options)
    slices = _layers(annotations.get(_LAYERS))
    return slices if isinstance(slices, Fault) else lay(options, slices)


def _layers(stated: object) -> Options | Fault:
    """Slices of slices, the broadest first."""
    layers = values.json_value(stated)
    if not isinstance(layers, list) or not 0 < len(layers) <= _MOST_LAYERS:
        wanted = f"a JSON list of 1 to {_MOST_LAYERS} layers of topology and size"
        return Fault(f"{_LAYERS}: {quoted(stated)} is not {wanted}")
    readers = {"topology": values.level, "size": values.count}
    found: list[tuple[int, str]] = []
    for at, layer in enumerate(layers):
        read = read_values(mapping(layer), readers, f"{_LAYERS}[{at}].")
        if isinstance(read, Fault):
            return read
        if found and found[-1][0] % read["size"]:
            # Keeping one of them and dropping the other would break a promise without a word.
            text = f"slices of {found[-1][0]} do not divide into slices of {read['size']}"
            return Fault(f"{_LAYERS}[{at}].size: {text}")
        found.append((read["size"], read["topology"]))
    *larger, (size, level) = found
    return Options(segment_size=size, segment_level=level, segment_within=tuple(larger[::-1]))
