"""Who asks, and which namespaces they may see: asked of the API server, and remembered."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from scheduler.errors import ClusterError
from scheduler.service.remembering import remember

REMEMBER_S = 60.0
"""How long an answer is good: a right that was taken away counts for as long at most."""

REFUSED_S = 10.0
"""How long a no is remembered: a token that is nobody's, a right that may just be granted."""

PEOPLE, NOBODY, RIGHTS = 1024, 1024, 8192
"""Answers that are remembered; the oldest go first. Refusals are kept apart, so that tokens that
somebody makes up push out no real ones."""

AT_ONCE = 8
"""Reviews of one kind under way at once, whoever asks."""

IN_LINE = 4
"""How many more wait for their turn; all others are sent away at once, so that those who ask never
take all threads from those who are known."""

PATIENCE_S = 2.0
"""How long one waits for its turn."""

TOKEN_BYTES = 16_384

EVERYWHERE = ""
"""Instead of a namespace: all of them."""

V = TypeVar("V")


class Person(NamedTuple):
    """Who a token belongs to, as the API server says."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, list[str]] = {}


class CrowdedError(ClusterError):
    """More people ask than are looked up at once."""

    def __init__(self) -> None:
        super().__init__("too many who want to look are being checked just now; try again")


class Reviewer(Protocol):
    """Asks the API server. Both raise ClusterError if it does not say."""

    def who(self, token: str) -> Person | None:
        """Whose token it is; None for nobody's."""

    def may_see(self, person: Person, namespace: str) -> bool:
        """Whether the person may list the pods of a namespace, or of ``EVERYWHERE``."""


class Sight(Protocol):
    """What somebody may see."""

    @property
    def all(self) -> bool:
        """Whether it is everything. May raise ClusterError, as ``sees`` may."""

    def sees(self, namespace: str) -> bool:
        """Whether it is what is in this namespace."""


class OpenSight:
    """Where nobody is asked who they are."""

    all = True

    def sees(self, namespace: str) -> bool:
        """Everything."""
        del namespace
        return True


class _Kept(Generic[V]):
    """Answers for a while, bounded. Thread-safe."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._until: dict[object, tuple[float, V]] = {}
        self._lock = threading.Lock()

    def get(self, key: object) -> tuple[V] | None:
        with self._lock:
            found = self._until.get(key)
        return (found[1],) if found is not None and self._clock() < found[0] else None

    def had(self, key: object) -> bool:
        """Whether there was an answer, be it too old by now."""
        with self._lock:
            return key in self._until

    def put(self, key: object, value: V, for_s: float) -> V:
        with self._lock:
            remember(self._until, key, (self._clock() + for_s, value), self._most)
        return value


class _Line:
    """A few ask at once, a few more wait a little, all others are sent away. Thread-safe."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(AT_ONCE + IN_LINE)
        self._turns = threading.BoundedSemaphore(AT_ONCE)

    def asked(self, ask: Callable[[], V]) -> V:
        """What ``ask`` returns. Raises CrowdedError."""
        if not self._places.acquire(blocking=False):
            raise CrowdedError
        try:
            return self._in_turn(ask)
        finally:
            self._places.release()

    def _in_turn(self, ask: Callable[[], V]) -> V:
        if not self._turns.acquire(timeout=PATIENCE_S):
            raise CrowdedError
        try:
            return ask()
        finally:
            self._turns.release()


class Access:
    """Remembers for a minute who a token belongs to and what they may see. Thread-safe.

    Tokens never heard of wait in a line of their own: who makes tokens up is in nobody's way who
    was known before.
    """

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviewer = reviewer
        self._people: _Kept[Person] = _Kept(PEOPLE, clock)
        self._nobody: _Kept[None] = _Kept(NOBODY, clock)
        self._rights: _Kept[bool] = _Kept(RIGHTS, clock)
        self._strangers, self._known = _Line(), _Line()

    def sight(self, token: str) -> Sight | None:
        """What the owner of a token may see; None if it has none.

        Raises ClusterError, and CrowdedError where too many ask.
        """
        if not token or len(token) > TOKEN_BYTES:
            return None
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._people.get(key)
        if known is not None:
            return _Reviewed(self, known[0])
        if self._nobody.get(key) is not None:
            return None
        person = self._looked_up(key, token)
        return None if person is None else _Reviewed(self, person)

    def _looked_up(self, key: bytes, token: str) -> Person | None:
        line = self._known if self._people.had(key) else self._strangers
        person = line.asked(lambda: self._reviewer.who(token))
        if person is None:
            self._nobody.put(key, None, REFUSED_S)
            return None
        return self._people.put(key, person, REMEMBER_S)

    def may_see(self, person: Person, namespace: str) -> bool:
        """Whether the person may see a namespace. Raises ClusterError."""
        key = (_identity(person), namespace)
        known = self._rights.get(key)
        if known is not None:
            return known[0]
        allowed = self._known.asked(lambda: self._reviewer.may_see(person, namespace))
        return self._rights.put(key, allowed, REMEMBER_S if allowed else REFUSED_S)


def _identity(person: Person) -> object:
    """All that an authorizer may judge by: ``extra`` holds, for one, a token's scopes."""
    extra = sorted((name, tuple(values)) for name, values in person.extra.items())
    return person.name, person.uid, person.groups, tuple(extra)


class _Reviewed:
    """What one person may see."""

    def __init__(self, access: Access, person: Person) -> None:
        self._access = access
        self._person = person

    @property
    def all(self) -> bool:
        return self._access.may_see(self._person, EVERYWHERE)

    def sees(self, namespace: str) -> bool:
        return self.all or self._access.may_see(self._person, namespace)
