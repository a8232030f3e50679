"""What would let a gang go on: who holds room where it would fit best, and the next step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.core import explain
from scheduler.core.gang import Gang, Status
from scheduler.core.naming import titles
from scheduler.core.quoting import bounded
from scheduler.core.state import State

SHOWN = 5
"""Holders that are named, the largest first."""

Why = Mapping[str, Any]


def answer(state: State, gang: Gang) -> dict[str, Any] | None:
    """All of ``explain.why_of``, the gang in figures, and ``next``: what has to happen, for people.

    ``held_there`` names the gangs that hold accelerators in ``best_domain``.
    """
    found = explain.why_of(state, gang)
    if found is None or gang.life is None:
        return None
    view = explain.gang_view(state, gang)
    found |= {name: view[name] for name in ("min", "members", "bound", "domain")}
    found |= {"code": gang.life.reason.value, "nodes": explain.places(state, gang)}
    if gang.memory.backoff_until > state.now:
        found["again_in_s"] = round(gang.memory.backoff_until - state.now, 1)
    if found.get("best_domain"):
        held = holders(state, found["best_domain"], gang)
        found |= {"held_there": held} if held else {}
    return found | {"next": bounded(next_step(found))}


def holders(state: State, domain: Sequence[str | None], asking: Gang) -> list[dict[str, Any]]:
    """Other gangs with accelerators in a domain, and how many, the largest first. O(pods)."""
    topology, depth, inside = state.topology(), len(domain), tuple(domain)
    held: Counter[str] = Counter()
    name = titles(state)
    for key, gang in sorted(state.gangs.items()):
        if key == asking.key:
            continue
        for uid in (
            *gang.by_status[Status.SEATED],
            *gang.by_status[Status.LEAVING],
            *gang.reserved,
        ):
            node = state.ledger.where(uid)
            if node is not None and topology.path(node)[:depth] == inside:
                held[name(key)] += state.accelerators(state.pods[uid])
    largest = sorted(((-count, name) for name, count in held.items() if count))[:SHOWN]
    return [{"gang": name, "accelerators": -count} for count, name in largest]


def next_step(why: Why) -> str:
    """The one thing that has to happen next; "" if nothing is amiss. Says only what is known."""
    state = str(why["state"])
    if state in ("running", "done"):
        return ""
    if state == "starting":
        return "its Bindings are under way"
    steps: tuple[Callable[[Why], str], ...] = (
        _repair,
        _never,
        _ungate,
        _replace,
        _create,
        _back_off,
        _free,
    )
    said = (step(why) for step in steps)
    return next((text for text in said if text), "it is tried again whenever room comes free")


def _repair(why: Why) -> str:
    if why["state"] != "invalid" and not why.get("faults"):
        return ""
    pods = ", ".join(list(why.get("faults", {}))[:SHOWN])
    return f"correct the declaration{f' of {pods}' if pods else ''} and create the pods anew"


def _never(why: Why) -> str:
    if not why.get("never"):
        return ""
    return "it cannot start on these nodes: ask for less or for a broader level, or add nodes"


def _ungate(why: Why) -> str:
    gated = why.get("gated", ())
    return f"the scheduling gates of {_names(gated)} have to be removed" if gated else ""


def _replace(why: Why) -> str:
    gone = [*why.get("failed", ()), *why.get("leaving", ())]
    return f"the controller has to replace {_names(gone)}" if gone else ""


def _create(why: Why) -> str:
    missing = why.get("missing_pods", 0)
    return f"{missing} more {_plural(missing, 'pod')} of it must be created" if missing else ""


def _back_off(why: Why) -> str:
    again = why.get("again_in_s")
    return f"it is tried again in {again:.0f} s" if again else ""


def _free(why: Why) -> str:
    short = " and ".join(f"{amount} {name}" for name, amount in why.get("short_by", {}).items())
    if not short:
        return ""
    domain = "/".join(str(part) for part in why.get("best_domain", ()))
    where = domain or (f"one {why['level']}" if why.get("level") else "")
    text = f"{short} must come free{f' in {where}' if where else ''}"
    held = [f"{item['gang']} holds {item['accelerators']}" for item in why.get("held_there", ())]
    return f"{text}; there {', '.join(held)}" if held else text


def _names(pods: Sequence[str]) -> str:
    more = len(pods) - SHOWN
    return ", ".join(pods[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
