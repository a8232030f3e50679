"""Which gang of a list a name means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Gang = Mapping[str, Any]


def named(gangs: Sequence[Gang], name: str) -> list[Gang]:
    """The gangs that ``namespace/name`` may mean: several where only their kinds differ.

    ``namespace/name#kind`` means one of these; a pod alone, ``namespace/pod#pod``, is meant by its
    plain name where no gang has that.
    """
    exact = [gang for gang in gangs if gang["key"] == name]
    alike = [gang for gang in gangs if _means(name, gang["key"])]
    shared = [gang for gang in alike if not gang["key"].endswith("#pod")]
    return exact or shared or alike


def _means(text: str, key: str) -> bool:
    said, _, wanted = text.partition("#")
    name, _, kind = key.partition("#")
    kinds = ("", kind.lower(), kind.lower().partition(".")[0])
    return said == name and wanted.lower() in kinds
