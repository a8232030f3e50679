"""Our own keys: ``muster.scheduler/…`` as annotations or labels of pods and of group objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from scheduler.core.quoting import quoted
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json
from scheduler.dialects.source import Found, PodSource
from scheduler.model import NO_OPTIONS, Declaration, Options, Wish

__all__ = ["KEYS", "NAME", "PREFIX", "Key", "read_index", "read_options", "read_pod"]

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


class Key(NamedTuple):
    """One of our keys: what it fills in, how it is read, and what people are told of it."""

    field: str
    """Of Options; "" for a key that is none of them."""
    read: Callable[[object], Any]
    value: str
    meaning: str


KEYS: dict[str, Key] = {
    "gang": Key(
        "",
        values.name,
        "name: 1 to 63 letters, digits, `-`, `_`, `.`",
        "the pod is a member of that gang in its namespace",
    ),
    "min-available": Key(
        "min_available",
        values.count,
        "whole number from 1",
        "members that must be placed at once, or none is. Missing: what the PodGroup or the owner "
        "says, else `size`, else 1",
    ),
    "size": Key(
        "size",
        values.count,
        "whole number from 1, not below `min-available`",
        "members expected in all",
    ),
    "role": Key(
        "role",
        values.name,
        "name",
        "this member's role, such as `worker`. `master`, `chief`, `leader`, `launcher`, `head` and "
        "`driver` come first in rank order",
    ),
    "role-min": Key(
        "role_min",
        values.role_minimums,
        'JSON object, such as `{"master": 1, "worker": 4}`',
        "a minimum for each role; the gang starts when every one is met",
    ),
    "index": Key(
        "",
        values.index,
        "whole number from 0",
        "the member's index within its role; without it the labels of others count",
    ),
    "topology-required": Key(
        "required",
        values.level,
        "a level",
        "all members share one domain of that level, or the gang waits",
    ),
    "topology-preferred": Key(
        "preferred",
        values.level,
        "a level",
        "nodes that lack this level's label are used last. Members are placed as close as possible "
        "in any case",
    ),
    "topology-relax-after": Key(
        "relax_after",
        values.duration,
        "duration",
        "while the gang waits, the requirement moves one level broader each time this has passed; "
        "beyond the broadest it is dropped",
    ),
    "segment-size": Key(
        "segment_size",
        values.count,
        "whole number from 1",
        "this many consecutive members, of those that state it, belong into one domain of "
        "`segment-topology`",
    ),
    "segment-topology": Key(
        "segment_level",
        values.level,
        "a level, or `nvlink-domain`",
        "see above; without it the finest level",
    ),
    "nvlink-domain": Key(
        "nvlink",
        _wish,
        "`required` or `preferred`",
        "all members share one NVLink domain (node label `nvidia.com/gpu.clique`), or the gang "
        "waits; or they do if one has room for all. Not relaxed with time. Domains that lie inside "
        "racks or blocks are used as few as possible in any case",
    ),
    "communication": Key(
        "communication",
        values.communication,
        "`intensive` or `light`",
        "members that talk little fill what others left over, on the fullest nodes first, and "
        "leave whole nodes, racks and blocks free. Without it a gang is `intensive`: placed as "
        "close together as possible",
    ),
    "gpu-model-required": Key(
        "gpu_required",
        _models,
        "list such as `H100,H200`",
        "the GPU models that will do, by label of the node",
    ),
    "gpu-model-preferred": Key(
        "gpu_preferred",
        _models,
        "list such as `H200,H100`",
        "GPU models to try one after the other, each for the whole gang, before any other",
    ),
    "timeout": Key(
        "timeout",
        values.duration,
        "duration",
        "how long a reservation may stay unbound before the gang gives all of them back; instead "
        "of the setting `timeout_s`",
    ),
    "max-runtime": Key(
        "max_runtime",
        values.duration,
        "duration",
        "the gang ends within this time. It may then use room that is kept for a gang which has "
        "waited long, if it ends soon enough. Nothing ends it: set `activeDeadlineSeconds` for "
        "that",
    ),
    "start": Key(
        "start",
        values.start,
        "`burst`, `nominate` or `follow`",
        "how the planned gang is put in place; instead of the setting `start`",
    ),
    "exact-gpus": Key(
        "exact_gpus",
        _truth,
        "`true` or `false`",
        "the pod takes the very GPUs that Muster chooses, and waits where these are not known. Off "
        "by default",
    ),
}
"""All keys that may be stated, without their prefix, in the order in which they are explained."""

_OPTIONS = {name: (key.field, key.read) for name, key in KEYS.items() if key.field}
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
