"""SIGTERM as a flag: an eviction ends a run between two steps, never inside one."""

from __future__ import annotations

import signal
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
