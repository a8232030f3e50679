"""What gangs are called: ``namespace/name``, with the kind only where a name is not enough.

A Job and a PyTorchJob of one name are two gangs. Their keys differ by the kind that declares them,
and people see it only as long as both exist: ``team/mnist#Job.batch``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from scheduler.core.gang import Gang
from scheduler.core.state import State
from scheduler.model import GangKey

__all__ = ["find", "title", "titles"]


def titles(state: State) -> Callable[[GangKey], str]:
    """Names that mean one gang each, as things are now. O(gangs), once."""
    known = Counter(str(key) for key in state.gangs)

    def name(key: GangKey) -> str:
        plain = str(key)
        return f"{plain}#{key.kind or 'named'}" if known[plain] > 1 else plain

    return name


def title(state: State, key: GangKey) -> str:
    """The name of one gang; :func:`titles` for many. O(gangs)."""
    return titles(state)(key)


def find(state: State, text: str) -> Gang | None:
    """The gang that a text means; None if it means none, or more than one.

    ``namespace/name``, with ``#kind`` where several share it (the kind with or without its API
    group, in any case), or ``namespace/pod`` and ``namespace/pod#pod`` for a pod alone. O(gangs).
    """
    namespace, _, name = text.partition("/")
    base, mark, kind = name.partition("#")
    same = [key for key in state.gangs if (key.namespace, key.name) == (namespace, base)]
    alone = [key for key in same if key.pod]
    if mark and kind.lower() == "pod":
        found = alone
    else:
        shared = [key for key in same if not key.pod]
        found = [key for key in shared if not mark or _is_kind(key.kind, kind)] or alone
    return state.gangs[found[0]] if len(found) == 1 else None


def _is_kind(kind: str, text: str) -> bool:
    whole = (kind or "named").lower()
    return text.lower() in (whole, whole.partition(".")[0])
