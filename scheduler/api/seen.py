"""What is left of a view for somebody who may not see every namespace.

Names of gangs elsewhere are taken out; figures of nodes and of the whole cluster stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.core.quoting import CUT
from scheduler.service.access import Sight

OTHERS = "other"
"""Whose accelerators of a node are of gangs that may not be seen."""

SOMEBODY = "a gang of another team"

_NAMED = re.compile(r"gang ([^\s;,]+)")
"""How texts name gangs."""

Json = Mapping[str, Any]


def gangs(found: Iterable[dict[str, Any]], sight: Sight) -> list[dict[str, Any]]:
    """The gangs of namespaces that may be seen; what they say of others has no names."""
    if sight.all:
        return list(found)
    return [
        {**gang, "reason": _unnamed(str(gang.get("reason", "")), (), sight)}
        for gang in found
        if sight.sees(namespace_of(gang["key"]))
    ]


def nodes(found: Iterable[dict[str, Any]], sight: Sight) -> list[dict[str, Any]]:
    """All nodes, with gangs that may not be seen under one name."""
    return list(found) if sight.all else [_node(node, sight) for node in found]


def why(found: Json, sight: Sight) -> dict[str, Any]:
    """The answer for one gang, in which others are nobody in particular."""
    if sight.all:
        return dict(found)
    held = [
        {**item, "gang": item["gang"] if sees(item["gang"], sight) else SOMEBODY}
        for item in found.get("held_there", ())
    ]
    names = [str(item["gang"]) for item in found.get("held_there", ())]
    blocked = [name for name in found.get("blocked_by", ()) if sees(name, sight)]
    hidden = len(found.get("blocked_by", ())) - len(blocked)
    shown = {
        key: _unnamed(value, names, sight) if isinstance(value, str) and key != "gang" else value
        for key, value in found.items()
    }
    if "held_there" in found:
        shown["held_there"] = held
    if "blocked_by" in found:
        shown["blocked_by"] = blocked + ([f"{hidden} of other teams"] if hidden else [])
    return shown


def change(found: Json, sight: Sight) -> dict[str, Any]:
    """A message of the stream."""
    if sight.all:
        return dict(found)
    return {
        **found,
        "nodes": nodes(found["nodes"], sight),
        "gangs": gangs(found["gangs"], sight),
        "gone_gangs": [key for key in found["gone_gangs"] if sees(key, sight)],
    }


def sees(key: str, sight: Sight) -> bool:
    """Whether a gang, ``namespace/name``, may be seen."""
    return sight.sees(namespace_of(key))


def namespace_of(key: str) -> str:
    """The namespace of ``namespace/name``."""
    return key.partition("/")[0]


def _node(node: dict[str, Any], sight: Sight) -> dict[str, Any]:
    held: dict[str, int] = {}
    for key, count in node["gangs"].items():
        name = key if "/" not in key or sees(key, sight) else OTHERS
        held[name] = held.get(name, 0) + count
    return {**node, "gangs": dict(sorted(held.items()))}


def _unnamed(text: str, names: Iterable[str], sight: Sight) -> str:
    """The text without names of gangs that may not be seen."""
    for name in sorted({*names, *_NAMED.findall(text)}, key=len, reverse=True):
        name = name.rstrip(".:")
        if "/" in name and not sees(name, sight):
            text = text.replace(f"gang {name}", SOMEBODY).replace(name, SOMEBODY)
            text = _without_beginning(text, name)
    return text


def _without_beginning(text: str, name: str) -> str:
    """A text that was cut off, without the first part of this name at its end."""
    rest = text.removesuffix(CUT)
    if rest == text:
        return text
    lengths = range(min(len(name), len(rest)), 0, -1)
    size = next((size for size in lengths if rest.endswith(name[:size])), 0)
    return rest[: len(rest) - size] + CUT
