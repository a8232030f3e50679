"""The topology as people see it: every domain with its nodes and accelerators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

_SUMS = ("gpus", "used", "reserved")


def domains(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every domain of every level, by path.

    A node without a label is in no domain from that level down.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for node in nodes:
        path = tuple(takewhile(lambda value: value is not None, node["path"]))
        for depth in range(1, len(path) + 1):
            _add(found, path[:depth], node)
    return [found[path] for path in sorted(found)]


def _add(
    found: dict[tuple[str, ...], dict[str, Any]], path: tuple[str, ...], node: Mapping[str, Any]
) -> None:
    empty = {"path": list(path), "nodes": [], **dict.fromkeys(_SUMS, 0)}
    domain = found.setdefault(path, empty)
    domain["nodes"].append(node["name"])
    for name in _SUMS:
        domain[name] += node[name]
