"""The launchers of a gang agree on node ranks before any torchrun starts.

The controller's first pod listens above torchrun's port, the others bring their cards there, and
all leave with one decision. A first pod that does not listen (it has no hint, or something else
started it) is noticed by torchrun's own port: then all keep the controller's order.

A decision counts for one attempt. Whoever comes once the workers run belongs to the next one,
whose first pod is not there yet, and is told to come again; a launcher that was restarted before
they ran gets the decision that was made with the same card.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable

from trainer import reach
from trainer.errors import RendezvousError
from trainer.listening import Listener, notice_its_end
from trainer.node_order import Decision, PodCard, decide, decode_card

log = logging.getLogger("muster.launch")

OFFSET = 3
"""Above torchrun's port; the ones between are the beacon's (`trainer.ports`) and the checks'."""

GREETING = "muster 1 nodes {size}\n"
AGAIN = "again"
LONGEST = 65_536
"""Bytes of a line, but for a decision, which says something of each pod."""

LONGEST_PLACE = 1024
"""Bytes of what a decision says of one pod: a few labels, the name of a node, a number."""

VISIT_SECONDS = 5.0
"""For whoever connects to say something."""

GRACE = 10.0
"""Seconds that the others wait longer than the first pod does."""


class RollCall:
    """The first pod's side. Open until closed."""

    def __init__(self, port: int, mine: PodCard, seconds: float, over: Callable[[], bool]) -> None:
        """over: whether workers run, so that the decision's time has passed.

        Raises OSError where the port is taken.
        """
        self._cards: list[PodCard | None] = [mine, *[None] * (mine.size - 1)]
        self._seconds, self._over = seconds, over
        self._changed = threading.Condition()
        self._decided = ""
        self._listener = Listener(port, self._received)

    def close(self) -> None:
        self._listener.close()

    def decision(self) -> Decision:
        """Once all pods have come, or the seconds have passed."""
        with self._changed:
            self._changed.wait_for(lambda: None not in self._cards, self._seconds)
            decision = decide(self._cards, self._seconds)
            self._decided = decision.encode()
            self._changed.notify_all()
            return decision

    def _received(self, visitor: socket.socket) -> None:
        threading.Thread(target=self._receive, args=(visitor,), daemon=True).start()

    def _receive(self, visitor: socket.socket) -> None:
        with visitor:
            try:
                visitor.settimeout(VISIT_SECONDS)
                notice_its_end(visitor)
                visitor.sendall(GREETING.format(size=len(self._cards)).encode())
                visitor.sendall(self._answer(decode_card(_line(visitor))).encode() + b"\n")
            except (OSError, RendezvousError) as error:
                log.info("somebody called at the pods' roll-call: %s", error)

    def _answer(self, card: PodCard) -> str:
        with self._changed:
            if self._over() or card.size != len(self._cards) or card.rank == 0:
                return AGAIN
            if not self._decided:
                self._cards[card.rank] = card
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._decided))
            known = self._cards[card.rank]
            return self._decided if known is None or known.is_of(card) else AGAIN


class Visit:
    """Another pod's side."""

    def __init__(self, card_at: Callable[[str], PodCard], seconds: float) -> None:
        """card_at: this pod's card, given the address by which the first pod sees it."""
        self._card_at, self._seconds = card_at, seconds
        self.decision: Decision | None = None
        """None: the first pod holds no roll-call."""

    def pay(self, host: str, port: int) -> reach.Reached:
        """Come to a decision, or find torchrun's port open without one.

        Raises PreflightError with host, port, seconds and what failed last.
        """
        return reach.wait_for(host, port, self._seconds, reach.Network(connect=self._connect))

    def _connect(self, address: str, port: int, seconds: float) -> None:
        if not self._asked(address, port + OFFSET, seconds):
            socket.create_connection((address, port), seconds).close()
            # A first pod that holds one does so before its torchrun starts, and until it ends.
            self._asked(address, port + OFFSET, seconds)

    def _asked(self, address: str, port: int, seconds: float) -> bool:
        """Whether there is a roll-call. Raises OSError where it is one to come back to."""
        try:
            link = socket.create_connection((address, port), seconds)
        except (OSError, OverflowError):
            return False
        with link:
            link.settimeout(seconds)
            notice_its_end(link)
            card = self._card_at(str(link.getsockname()[0]))
            try:
                greeted = _line(link) == GREETING.format(size=card.size).strip()
            except OSError:
                greeted = False
            if not greeted:
                return False
            link.sendall(card.encode().encode() + b"\n")
            link.settimeout(self._seconds + GRACE)
            answer = _line(link, LONGEST + card.size * LONGEST_PLACE)
        if answer == AGAIN:
            raise OSError("its launcher is that of the last attempt, or of another job")
        self.decision = Decision.decode(answer)
        return True


def _line(link: socket.socket, longest: int = LONGEST) -> str:
    """Raises OSError where the other side leaves, or talks on and on."""
    text = link.makefile("rb").readline(longest)
    if not text.endswith(b"\n"):
        raise OSError("it left without a word")
    return text.decode(errors="replace").strip()
