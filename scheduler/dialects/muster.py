"""Our own keys: ``muster.scheduler/…`` as annotations or labels of pods and of group objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from scheduler.core.quoting import quoted
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json
from scheduler.dialects.source import Found, PodSource
from scheduler.model import NO_OPTIONS, Declaration, Options, Wish

__all__ = ["NAME", "PREFIX", "read_index", "read_options", "read_pod"]

NAME = "muster"
PREFIX = "muster.scheduler/"

_PREFIX_LENGTH = len(PREFIX)

_GANG = PREFIX + "gang"
_INDEX = PREFIX + "index"

_MODEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_. -]{0,61}[A-Za-z0-9])?")
_MOST_MODELS = 16


def _wish(value: object) -> Wish | Fault:
    """Whether something is required or preferred."""
    known = {item.value: item for item in Wish}
    found = known.get(value) if isinstance(value, str) else None
    return found or Fault(f"{quoted(value)} is not one of {', '.join(Wish)}")


def _truth(value: object) -> bool | Fault:
    """Yes or no, as Kubernetes writes it in annotations."""
    known = {"true": True, "false": False}
    found = known.get(value) if isinstance(value, str) else None
    return Fault(f"{quoted(value)} is not one of true, false") if found is None else found


def _models(value: object) -> tuple[str, ...] | Fault:
    """GPU models, the best first: ``H200, H100``."""
    models = [part.strip() for part in value.split(",")] if isinstance(value, str) else []
    if not 1 <= len(models) <= _MOST_MODELS or not all(map(_MODEL.fullmatch, models)):
        return Fault(f"{quoted(value)} is not a list of GPU models such as H200,H100")
    return tuple(dict.fromkeys(models))


_OPTIONS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "min-available": ("min_available", values.count),
    "size": ("size", values.count),
    "role": ("role", values.name),
    "role-min": ("role_min", values.role_minimums),
    "topology-required": ("required", values.level),
    "topology-preferred": ("preferred", values.level),
    "topology-relax-after": ("relax_after", values.duration),
    "segment-size": ("segment_size", values.count),
    "segment-topology": ("segment_level", values.level),
    "communication": ("communication", values.communication),
    "nvlink-domain": ("nvlink", _wish),
    "gpu-model-required": ("gpu_required", _models),
    "gpu-model-preferred": ("gpu_preferred", _models),
    "timeout": ("timeout", values.duration),
    "max-runtime": ("max_runtime", values.duration),
    "start": ("start", values.start),
    "exact-gpus": ("exact_gpus", _truth),
}
"""Key without prefix -> field of Options and the reader of its value."""


_OTHERS = frozenset(
    {"gang", "index", "hint", "woken", "gpu-topology", "gpus-in-use", "visible-devices"}
)
"""Own keys that are no options."""
_LIKE = 0.8
"""How alike an unknown key must be to a known one to count as misspelt; 1 is equal."""


def read_pod(source: PodSource) -> Found:
    """The gang that the pod names with our own key."""
    value = source.value(_GANG)
    if value is None:
        return None
    name = values.name(value)
    return _named(_GANG, name) if isinstance(name, Fault) else Declaration(name, NAME)


def read_index(source: PodSource) -> int | Fault | None:
    """The rank index that the pod states with our own key."""
    value = source.value(_INDEX)
    if value is None:
        return None
    index = values.index(value)
    return _named(_INDEX, index) if isinstance(index, Fault) else index


def read_options(annotations: Json, labels: Json) -> Options | Fault:
    """What our own keys ask for; an annotation wins over a label. One Fault names every bad key."""
    stated = _ours(labels) if labels else {}
    stated.update(_ours(annotations))
    if not stated:
        return NO_OPTIONS
    try:
        return _read_cached(tuple(stated.items()))
    except TypeError:  # a value that cannot be hashed, so no string: rare and read slowly
        return _read(stated)


def _ours(keys: Json) -> dict[str, object]:
    return {
        key: value
        for key, value in keys.items()
        if type(key) is str
        and key.startswith(PREFIX)
        and value is not None
        and key[_PREFIX_LENGTH:] not in _OTHERS
    }


# The pods of a gang say the same.
@lru_cache(maxsize=4096)
def _read_cached(stated: tuple[tuple[str, object], ...]) -> Options | Fault:
    return _read(dict(stated))


def _read(stated: Mapping[str, object]) -> Options | Fault:
    found: dict[str, Any] = {}
    faults: list[str] = []
    for key, (field, read) in _OPTIONS.items():
        if (value := stated.get(PREFIX + key)) is None:
            continue
        found[field] = answer = read(value)
        if isinstance(answer, Fault):
            faults.append(_named(PREFIX + key, answer).reason)
    faults += [text for key in stated if (text := _misspelt(key[_PREFIX_LENGTH:]))]
    return Fault("; ".join(faults)) if faults else _consistent(Options(**found))


def _misspelt(name: str) -> str:
    """What an unknown key is most likely meant to be; "" if it is known, or like none.

    Taken for nothing, ``min-avialable`` would start half a gang. Keys that are like none of ours
    are left to whoever wrote them.
    """
    if name in _OPTIONS:
        return ""
    like = get_close_matches(name, (*_OPTIONS, *_OTHERS), 1, _LIKE)
    return f"{quoted(PREFIX + name)} is not known; {PREFIX}{like[0]} is" if like else ""


def _named(key: str, fault: Fault) -> Fault:
    return Fault(f"{key}: {fault.reason}")


def _consistent(options: Options) -> Options | Fault:
    least, size = options.min_available, options.size
    if least is not None and size is not None and least > size:
        return Fault(f"{PREFIX}min-available: {least} is more than {PREFIX}size, {size}")
    return options
