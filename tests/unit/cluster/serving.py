"""``muster serve`` as a process."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

PATIENCE_S = 60.0


def muster(*arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """The command, without the variables of whoever runs the tests."""
    kept = {key: value for key, value in os.environ.items() if "MUSTER" not in key}
    kept = {key: value for key, value in kept.items() if not key.startswith("OTEL_")}
    return subprocess.Popen(
        [sys.executable, "-m", "scheduler", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, **(environ or {})},
    )


class Serving:
    """``muster serve`` in a process of its own."""

    def __init__(self, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        self.process = muster("serve", "--port", "0", *arguments, environ=environ)
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.said: list[str] = []
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,))
        self._reader.start()

    def url(self) -> str:
        """Where it listens; waits for the line that says so."""
        while True:
            line = self.lines.get(timeout=PATIENCE_S)
            found = re.search(r"listening on (http://[\d.:]+)", line)
            if found:
                return found[1]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit status after a signal."""
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        self._reader.join()
        return status

    def close(self) -> None:
        """End it by force if need be."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self, pipe: Any) -> None:
        for line in pipe:
            self.said.append(line)
            self.lines.put(line)
