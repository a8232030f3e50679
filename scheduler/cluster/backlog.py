"""Effects that wait for a worker, in the order in which they were given."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from itertools import islice
from typing import TypeVar

from scheduler.cluster.throttle import MOST
from scheduler.core.messages import Bind, Cancel, Effect, Nominate
from scheduler.model import GangKey

K = TypeVar("K")

SPARE = 4
"""Workers that do not begin a second write for a node whose first one is not answered yet."""

LOOK_AHEAD = 256
"""Effects among which such a worker looks for one."""

CROWD = 2 * MOST
"""A gang of which so many Bindings wait is a large one: until it is bound, all else may be late."""

LAST_S = 0.2
"""How long its last Bindings are waited for."""


class Backlog:
    """A bounded first-in-first-out queue whose entries can be cancelled until they are sent.

    The order is kept but for one thing: where the writes for a node do not come back, because what
    looks at them hangs, the last ``SPARE`` workers still serve the other nodes.
    """

    def __init__(
        self, limit: int, workers: int = MOST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._clock = clock
        self._shared = max(1, workers - SPARE)
        self._waiting: deque[Effect] = deque()
        self._open: set[int] = set()
        self._under_way = 0
        self._at_node: Counter[str] = Counter()
        self._cancelled: set[int] = set()
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        self._idle = threading.Condition(lock)
        self._closed = False
        self._bindings: Counter[GangKey] = Counter()
        self._large: set[GangKey] = set()
        self._crowd_until = 0.0

    def put(self, effect: Effect) -> bool:
        """Queue an effect, or cancel one; False if there is no more room."""
        with self._changed:
            if isinstance(effect, Cancel):
                self._cancelled |= self._open & {effect.target}
                return True
            if self._closed or len(self._waiting) >= self._limit:
                return False
            self._waiting.append(effect)
            self._open.add(effect.id)
            if isinstance(effect, Bind):
                self._bindings[effect.gang] += 1
                if self._bindings[effect.gang] >= CROWD:
                    self._large.add(effect.gang)
            self._changed.notify()
            return True

    def take(self) -> Effect | None:
        """The next effect; waits for one. None once the queue is closed."""
        with self._changed:
            while not self._closed and (at := self._next()) is None:
                self._changed.wait()
            if self._closed:
                return None
            assert at is not None
            effect = self._waiting[at]
            del self._waiting[at]
            if isinstance(effect, Bind):
                self._no_longer_waits(effect.gang)
            self._under_way += 1
            self._at_node[_node(effect)] += 1
            return effect

    def is_cancelled(self, number: int) -> bool:
        """Whether an effect that was taken should not be sent any more."""
        with self._changed:
            return self._closed or number in self._cancelled

    def done(self, effect: Effect) -> None:
        """An effect has ended, whether it was taken or not."""
        with self._changed:
            if effect.id in self._open and not self._closed:
                self._leave(_node(effect))
            self._open.discard(effect.id)
            self._cancelled.discard(effect.id)
            if not self._open:
                self._crowd_until = 0.0
                self._idle.notify_all()

    def wait_idle(self, timeout_s: float) -> None:
        """Wait until nothing is queued or under way, at most ``timeout_s`` seconds."""
        with self._changed:
            self._idle.wait_for(lambda: self._closed or not self._open, timeout_s)

    def crowded(self) -> bool:
        """Whether a large gang is being bound: until its last Bindings are answered, or hang.

        Many small ones are none: while one is bound, it may be seen that the next is complete.
        """
        return not self._closed and (bool(self._large) or self._clock() < self._crowd_until)

    @property
    def closed(self) -> bool:
        """Whether nothing more is taken in."""
        return self._closed

    def close(self) -> list[Effect]:
        """Take nothing more in, and give back what nobody took."""
        with self._changed:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            self._idle.notify_all()
            return left

    # ── inner ──

    def _next(self) -> int | None:
        """Where the effect is that is to be taken next; None if none is."""
        if self._under_way < self._shared:
            return 0 if self._waiting else None
        ahead = enumerate(islice(self._waiting, LOOK_AHEAD))
        return next((at for at, effect in ahead if not self._is_busy(_node(effect))), None)

    def _no_longer_waits(self, gang: GangKey) -> None:
        _take_one(self._bindings, gang)
        if gang in self._large and gang not in self._bindings:
            self._large.discard(gang)
            self._crowd_until = self._clock() + LAST_S

    def _is_busy(self, node: str) -> bool:
        return bool(node) and node in self._at_node

    def _leave(self, node: str) -> None:
        self._under_way -= 1
        _take_one(self._at_node, node)
        if self._waiting:
            self._changed.notify()


def _take_one(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _node(effect: Effect) -> str:
    """The node that the write concerns; "" where it concerns none."""
    return effect.node if isinstance(effect, Bind | Nominate) else ""
