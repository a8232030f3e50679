"""SIGTERM as a flag: an eviction ends a run between two steps, never inside one. And before there
are steps: at once.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM
"""What a shell reports for a process that SIGTERM ended. Controllers retry codes over 127."""


RETRY_CODE = 128 + signal.SIGUSR1
"""For what another try, or another node, may cure: Kubeflow retries 138 and the codes of signals,
and takes codes below 128 for mistakes that stay.
"""


class StopFlag:
    """Set by SIGTERM. Every rank puts its own into a collective, so all stop at one step."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True


@contextmanager
def stop_on_sigterm() -> Iterator[StopFlag]:
    """Catch SIGTERM while inside; the former handler is back afterwards."""
    stop = StopFlag()
    former = signal.signal(signal.SIGTERM, stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, former)


def leave_on_sigterm_until_workers_run() -> None:
    """Until torchrun has installed its own handlers nothing reacts to SIGTERM: importing takes
    seconds, waiting for the other pods up to minutes inside C++, where no Python handler runs,
    and the kernel ignores default actions for a container's first process. The interpreter
    still writes the signal's number to a descriptor at once, so a thread can end the process.
    """
    signal.signal(signal.SIGTERM, _early)
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(receiver, sender), daemon=True).start()


def workers_run() -> bool:
    """Whether torchrun has installed its own handlers, behind the rendezvous of all pods."""
    return signal.getsignal(signal.SIGTERM) is not _early


def _early(_number: int, _frame: object) -> None:
    """Only marks that torchrun's handler is not there yet."""


def _watch(receiver: socket.socket, _sender: socket.socket) -> None:
    while numbers := receiver.recv(64):
        if signal.SIGTERM in numbers and not workers_run():
            sys.stderr.write("muster: SIGTERM before any worker ran\n")
            sys.stderr.flush()
            os._exit(EXIT_CODE)
