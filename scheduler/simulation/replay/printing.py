"""Answers and effects as the lines that a replay prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from scheduler.core.hints import KEY as HINT_KEY
from scheduler.core.messages import (
    Bind,
    BindReply,
    Cancel,
    ClearNomination,
    Effect,
    Evict,
    FilterReply,
    Nominate,
    PreemptReply,
    PrioritizeReply,
    Record,
    Wake,
)
from scheduler.model import PodRef
from scheduler.simulation.replay.fields import Json

KINDS: tuple[tuple[str, type], ...] = (
    ("bind", Bind),
    ("nominate", Nominate),
    ("clear", ClearNomination),
    ("wake", Wake),
    ("evict", Evict),
)


def kind(effect: Effect) -> str:
    return next((name for name, kind in KINDS if isinstance(effect, kind)), "")


def ref_of(effect: Effect) -> PodRef | None:
    return None if isinstance(effect, Record | Cancel) else effect.ref


def answer(reply: object, call: Mapping[str, str]) -> Json:
    match reply:
        case FilterReply():
            return {
                **call,
                "nodes": list(reply.nodes),
                "failed": dict(reply.failed),
                "unresolvable": dict(reply.unresolvable),
                "error": "",
            }
        case PrioritizeReply():
            return {**call, "scores": dict(reply.scores)}
        case PreemptReply():
            return {**call, "victims": {key: list(uids) for key, uids in reply.victims.items()}}
        case BindReply():
            return {"op": "bind", "pod": str(reply.ref), "node": reply.node, "error": reply.error}
    raise AssertionError(reply)


def printed(effect: Effect) -> Iterator[Json]:
    match effect:
        case Bind():
            hint = effect.annotations.get(HINT_KEY)
            shown = {"hint": json.loads(hint)} if hint else {}
            yield {"effect": "bind", "pod": str(effect.ref), "node": effect.node, **shown}
        case Nominate():
            yield {"effect": "nominate", "pod": str(effect.ref), "node": effect.node}
        case ClearNomination():
            yield {"effect": "nominate", "pod": str(effect.ref), "node": ""}
        case Wake():
            yield {"effect": "wake", "pod": str(effect.ref)}
        case Evict():
            yield {"effect": "evict", "pod": str(effect.ref), "reason": effect.reason}
        case Record():
            yield {
                "effect": "record",
                "gang": str(effect.gang),
                "reason": effect.reason,
                "message": effect.message,
            }
