"""Who waits for the outcome of which Binding."""

from __future__ import annotations

import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from scheduler.core.messages import BindReply
from scheduler.model import PodRef

_Waiter = tuple[str, Future[BindReply]]


class Waiting:
    """Bind calls without an answer yet, by pod uid."""

    def __init__(self) -> None:
        self._by_uid: dict[str, list[_Waiter]] = {}
        self._guard = threading.Lock()

    def __len__(self) -> int:
        with self._guard:
            return sum(len(waiters) for waiters in self._by_uid.values())

    def add(self, ref: PodRef, node: str) -> Future[BindReply]:
        """One more call that waits."""
        future: Future[BindReply] = Future()
        with self._guard:
            self._by_uid.setdefault(ref.uid, []).append((node, future))
        return future

    def settle(self, ref: PodRef, future: Future[BindReply], reply: BindReply) -> BindReply:
        """End one call with ``reply``, unless its outcome came first; what it ended with."""
        with self._guard:
            left = [item for item in self._by_uid.pop(ref.uid, ()) if item[1] is not future]
            if left:
                self._by_uid[ref.uid] = left
        with suppress(InvalidStateError):
            future.set_result(reply)
        return reply if future.cancelled() else future.result()

    def resolve(self, reply: BindReply) -> None:
        """Answer every call for that pod.

        A success on another node than a call asked for is an error to that call: a false success
        would leave the scheduler with a pod on a node where it is not.
        """
        with self._guard:
            waiters = self._by_uid.pop(reply.ref.uid, ())
        for node, future in waiters:
            with suppress(InvalidStateError):
                future.set_result(_as_asked(reply, node))


def _as_asked(reply: BindReply, node: str) -> BindReply:
    if reply.error or reply.node == node:
        return reply
    return BindReply(reply.ref, node, f"pod {reply.ref} is bound to node {reply.node}, not {node}")
