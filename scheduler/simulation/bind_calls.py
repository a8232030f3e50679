"""kube-scheduler's calls of the bind verb, which run beside its cycles."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from scheduler.simulation.clock import EventLoop
from scheduler.simulation.extender import ExtenderClient
from scheduler.simulation.objects import Object

MOST = 64
"""Calls that may be under way at the same time."""

WAIT_S = 10.0
"""Wall seconds that virtual time waits for one call, well above the service's own deadline."""

OnEnd = Callable[[str, BaseException | None], None]
"""Called with the pod's uid, and with the error if the call failed."""


class BindCalls:
    """Bind calls on threads of their own, tied to virtual time.

    A call ends only after its Binding was written, which takes virtual time, so the loop must go
    on meanwhile. In every other case virtual time waits for the call: that keeps runs repeatable.
    """

    def __init__(
        self, loop: EventLoop, url: str, binding: Callable[[str], bool], on_end: OnEnd
    ) -> None:
        """``binding`` tells whether a Binding of that pod uid waits for virtual time to pass."""
        self._loop = loop
        self._url = url
        self._binding = binding
        self._on_end = on_end
        self._threads = ThreadPoolExecutor(MOST, thread_name_prefix="bind")
        self._calls: dict[str, Future[None]] = {}
        loop.before_time_moves(self._settle)

    @property
    def full(self) -> bool:
        """Whether no further call can be started now."""
        return len(self._calls) >= MOST

    def start(self, uid: str, pod: Object, node: str) -> None:
        """Call the bind verb for a pod."""
        call = self._threads.submit(_call, self._url, pod, node)
        self._calls[uid] = call
        call.add_done_callback(lambda _: self._loop.call_threadsafe(_wake))

    def close(self) -> None:
        """Wait for the calls under way."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _settle(self) -> None:
        for uid, call in list(self._calls.items()):
            self._wait(uid, call)
            if call.done():
                del self._calls[uid]
                self._on_end(uid, call.exception())

    def _wait(self, uid: str, call: Future[None]) -> None:
        self._loop.wait_until(lambda: call.done() or self._binding(uid), WAIT_S)


def _call(url: str, pod: Object, node: str) -> None:
    client = ExtenderClient(url)
    try:
        client.bind(pod, node)
    finally:
        client.close()


def _wake() -> None:
    """Nothing to do: that it runs makes the loop look again."""
