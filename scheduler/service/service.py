"""The service that the HTTP API, the cluster watch and the embedded cluster talk to."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from scheduler.core.messages import (
    BindCall,
    BindReply,
    Event,
    Filter,
    FilterReply,
    Preempt,
    PreemptReply,
    Prioritize,
    PrioritizeReply,
    Reply,
    Synced,
)
from scheduler.errors import DecodeError
from scheduler.model import Pod, PodRef
from scheduler.service import answers
from scheduler.service.bindings import Waiting
from scheduler.service.core import CoreEngine
from scheduler.service.metrics import Metrics
from scheduler.service.ports import Actuator, Engine, Timer
from scheduler.service.recorder import Recorder
from scheduler.service.runner import BusyError, Runner
from scheduler.service.starts import OnStart
from scheduler.service.timer import ThreadTimer
from scheduler.service.views import Objects, Views
from scheduler.settings import Settings

LOCK_WAIT_S = 2.0
"""Longest wait for the engine before a request is answered without it; the scheduler gives 5 s."""

BIND_DEADLINE_S = 4.0
"""Longest wait for the outcome of a Binding, below the scheduler's ``httpTimeout``."""

UNSYNCED = "waiting for the first full list of nodes and pods"

PodSource = Callable[[], Pod]
"""Decodes the pod of a request when it is needed. Raises DecodeError."""

R = TypeVar("R")

log = logging.getLogger(__name__)


class Service(Views):
    """Runs an engine for many threads and always has an answer.

    Every method may be called from any thread. Nothing here waits for the network: effects go to
    the ``actuator``, whose ``submit`` only queues them. ``clock`` gives monotonic seconds.
    Where ``leads`` is False it stands by until ``lead`` is called: it knows the world and answers
    views, and plans nothing. ``leader`` names who leads, for people; ``on_start`` is told of gangs
    that have started.
    """

    def __init__(
        self,
        settings: Settings,
        actuator: Actuator,
        *,
        engine: Engine | None = None,
        clock: Callable[[], float] = time.monotonic,
        timer: Timer | None = None,
        metrics: Metrics | None = None,
        recorder: Recorder | None = None,
        objects: Objects | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
        bind_deadline_s: float = BIND_DEADLINE_S,
        leads: bool = True,
        leader: Callable[[], str] = str,
        on_start: OnStart | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.bind_deadline_s = bind_deadline_s
        self._waiting = Waiting()
        self._synced = False
        self._unready = UNSYNCED
        self._hindrance = ""
        self._leads = leads
        self._leader = leader
        self._turning = threading.Lock()
        runner = Runner(
            engine or CoreEngine(settings),
            actuator,
            clock,
            timer or ThreadTimer(clock),
            self.metrics,
            self._resolve,
            recorder,
            on_start,
        )
        super().__init__(settings, runner, objects, lock_wait_s)

    # ── life ──

    def start(self) -> None:
        """Start the actuator and the timer."""
        self._runner.start()

    def stop(self, deadline_s: float = 5.0) -> None:
        """Stop ticking, then let the actuator end within ``deadline_s`` seconds."""
        self._runner.stop(deadline_s)

    @property
    def ready(self) -> bool:
        """Whether the first full list is in, and it is known who leads."""
        return self._synced and not self._hindrance

    @property
    def unready_reason(self) -> str:
        """Why the service is not ready; "" when it is."""
        return self._hindrance if self._synced else self._unready

    def set_unready_reason(self, reason: str) -> None:
        """Say what stands in the way of the first full list; "" for nothing special."""
        self._unready = reason or UNSYNCED

    @property
    def busy(self) -> bool:
        """Whether a call made now would have to wait."""
        return self._runner.busy

    @property
    def waiting_binds(self) -> int:
        """How many bind calls wait for the outcome of their Binding."""
        return len(self._waiting)

    def post(self, event: Event) -> None:
        """Take in an event of the world, the outcome of an effect, or a Tick."""
        if isinstance(event, Synced):
            self._listed()
        else:
            self._runner.post(event)

    # ── several replicas ──

    @property
    def leads(self) -> bool:
        """Whether this replica acts."""
        return self._leads

    @property
    def leader(self) -> str:
        """Who acts, as far as it is known; "" where there is no election."""
        return self._leader()

    def lead(self) -> None:
        """Begin to act, with what is known of the world now."""
        with self._turning:
            self._leads = True
            if self._synced:
                self._runner.post(Synced())

    def stand_by(self) -> None:
        """Act no more: all that was planned is forgotten, and so is the world, which has to be told
        anew. What the actuator was given already is its own affair."""
        with self._turning:
            self._leads = False
            self._runner.restart()

    def hindered(self, reason: str) -> None:
        """Say why nobody knows who leads; "" once it is known."""
        self._hindrance = reason

    def _listed(self) -> None:
        with self._turning:
            if not self._leads or self._runner.post(Synced()):
                self._synced = True
                self._tell_levels()

    def _tell_levels(self) -> None:
        """Say in the log what the network is taken to be: a wrong guess must be seen at once."""
        try:
            found = self.overview()
        except BusyError:
            return
        levels = " > ".join(found.get("levels") or ()) or "none"
        source = found.get("levels_from") or "no known label on any node; see the setting levels"
        log.info("levels of the network: %s (%s)", levels, source)
        for doubt in found.get("levels_doubts", ()):
            log.warning("levels of the network look wrong: %s", doubt)

    # ── requests ──

    def knows(self, uid: str) -> bool:
        """Whether the engine has seen the pod, so that a request's own copy need not be decoded."""
        return self._runner.engine.knows(uid)

    def gang_of(self, uid: str) -> str:
        """The name of the pod's gang, for logs and traces; "" if it has none that is known."""
        return self._runner.engine.gang_of(uid)

    def filter(
        self, ref: PodRef, names: Sequence[str], pod: PodSource, *, again: bool = False
    ) -> FilterReply:
        """Which of the offered nodes the pod may use. Always an answer, within the lock wait.

        ``again``: it is another look for the same call, which counts once.
        """
        if len(names) == 1 and not again:
            self.metrics.one_node_calls.inc()
        try:
            event = Filter(ref, names, self._unseen(ref, pod))
            return self._ask(FilterReply, event)
        except DecodeError as error:
            self._count("filter", "unreadable")
            return answers.hold(f"the pod in the request cannot be read: {error}")
        except BusyError:
            return self._instead("busy", answers.BUSY, ref, names, pod)
        except Exception:
            log.exception("filter of pod %s failed", ref, extra={"pod": str(ref)})
            return self._instead("error", answers.BROKEN, ref, names, pod)

    def prioritize(self, ref: PodRef, names: Sequence[str], pod: PodSource) -> PrioritizeReply:
        """Scores of the offered nodes; all equal where the engine cannot tell."""

        def ask() -> PrioritizeReply:
            return self._ask(PrioritizeReply, Prioritize(ref, names, self._unseen(ref, pod)))

        return self._guarded("prioritize", ref, ask) or answers.no_opinion(names)

    def preempt(
        self, ref: PodRef, victims: Mapping[str, Sequence[str]], pod: PodSource
    ) -> PreemptReply:
        """Which evictions may go ahead; none where the engine cannot tell."""

        def ask() -> PreemptReply:
            return self._ask(PreemptReply, Preempt(ref, victims, self._unseen(ref, pod)))

        return self._guarded("preempt", ref, ask) or answers.no_eviction()

    def bind(self, ref: PodRef, node: str) -> BindReply:
        """Bind a pod and wait for the outcome, at most the bind deadline."""
        future = self.start_bind(ref, node)
        try:
            return future.result(self.bind_deadline_s)
        except TimeoutError:
            return self.give_up_bind(ref, node, future)

    def start_bind(self, ref: PodRef, node: str) -> Future[BindReply]:
        """Ask for a Binding; the future holds its outcome once it is known.

        Who stops waiting calls ``give_up_bind`` for what to answer instead.
        """
        # The call waits before it is made: its outcome may come while ask() is still returning.
        future = self._waiting.add(ref, node)

        def ask() -> Reply | None:
            return self._runner.ask(BindCall(ref, node), self.lock_wait_s)

        try:
            reply = ask()
            if isinstance(reply, BindReply):
                self._waiting.settle(ref, future, reply)
        except BusyError:
            self._refuse_bind(ref, node, future, "busy", answers.BUSY)
        except Exception:
            log.exception("bind of pod %s to node %s failed", ref, node, extra={"pod": str(ref)})
            self._refuse_bind(ref, node, future, "error", answers.BROKEN)
        return future

    def give_up_bind(self, ref: PodRef, node: str, future: Future[BindReply]) -> BindReply:
        """Stop waiting for a Binding, and what to answer."""
        text = (
            f"the Binding of pod {ref} to node {node} was not confirmed within "
            f"{self.bind_deadline_s:g} s; it may still land, and is then taken as it is"
        )
        return self._waiting.settle(ref, future, answers.not_bound(ref, node, text))

    # ── inner ──

    @property
    def _must_be_judged(self) -> bool:
        return not self._leads and self._synced

    def _resolve(self, event: Event, reply: Reply) -> None:
        if isinstance(reply, BindReply) and not isinstance(event, BindCall):
            self._waiting.resolve(reply)

    def _ask(self, kind: type[R], event: Event) -> R:
        reply = self._runner.ask(event, self.lock_wait_s)
        if not isinstance(reply, kind):
            raise TypeError(f"the engine answered {type(reply).__name__}, not {kind.__name__}")
        return reply

    def _unseen(self, ref: PodRef, pod: PodSource) -> Pod | None:
        return None if self.knows(ref.uid) else pod()

    def _guarded(self, verb: str, ref: PodRef, ask: Callable[[], R]) -> R | None:
        try:
            return ask()
        except BusyError:
            self._count(verb, "busy")
        except DecodeError as error:
            self._cannot_read(verb, ref, error)
            self._count(verb, "unreadable")
        except Exception:
            log.exception("%s of pod %s failed", verb, ref, extra={"pod": str(ref)})
            self._count(verb, "error")
        return None

    def _instead(
        self, reason: str, text: str, ref: PodRef, names: Sequence[str], pod: PodSource
    ) -> FilterReply:
        self._count("filter", reason)
        try:
            if answers.is_plain(pod(), self.settings):
                return answers.passing(names)
        except DecodeError as error:
            self._cannot_read("filter", ref, error)
        return answers.hold(text)

    def _cannot_read(self, verb: str, ref: PodRef, error: DecodeError) -> None:
        about = {"pod": str(ref)}
        log.warning("%s: the pod in the request cannot be read: %s", verb, error, extra=about)

    def _refuse_bind(
        self, ref: PodRef, node: str, future: Future[BindReply], reason: str, text: str
    ) -> None:
        self._count("bind", reason)
        self._waiting.settle(ref, future, answers.not_bound(ref, node, text))

    def _count(self, verb: str, reason: str) -> None:
        self.metrics.fallbacks.labels(verb, reason).inc()
