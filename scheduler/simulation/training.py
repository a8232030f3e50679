"""Runs a placed gang as a real training on this machine: one torchrun agent for each pod."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

STEPS = 100
KEPT_LINES = 30


def installed() -> bool:
    """Whether the trainer and what it needs are installed."""
    return all(find_spec(name) is not None for name in ("trainer", "torch"))


class Training:
    """``muster-train rehearse`` in a session of its own, told where the gang's pods landed."""

    def __init__(self, hints: Sequence[str], steps: int = STEPS) -> None:
        """``hints`` are the annotations of the pods, in any order of the pods."""
        self.hints: list[dict[str, Any]] = [json.loads(hint) for hint in hints]
        self._folder = tempfile.TemporaryDirectory(prefix="muster-demo-")
        file = Path(self._folder.name, "hints.json")
        file.write_text(json.dumps(self.hints), encoding="utf-8")
        trainer = [sys.executable, "-m", "trainer"]
        train = ["-m", "trainer", "train", "--steps", str(steps), "--log-every", "10"]
        self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
            [*trainer, "rehearse", str(file), *train],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        """The last lines of its standard error."""
        self._output: list[str] = []
        self._readers = [
            _reader(self._process.stdout, self._output),
            _reader(self._process.stderr, self.lines),
        ]

    @property
    def ended(self) -> bool:
        """Whether the processes have ended."""
        return self._process.poll() is not None

    @property
    def progress(self) -> str:
        """What it said last of its steps and loss."""
        steps = [line for line in list(self.lines) if line.startswith("step ")]
        return steps[-1] if steps else "starting torchrun agents"

    def expected_order(self) -> list[str]:
        """Where the pods lie, in order of rank: what the training must report."""
        ranked = sorted(self.hints, key=lambda hint: int(hint["rank"]))
        return ["/".join([*filter(None, hint["path"]), hint["node"]]) for hint in ranked]

    def report(self, deadline_s: float) -> dict[str, Any] | str:
        """The training's report, or why there is none."""
        try:
            code = self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return f"the training did not end within {deadline_s:g} s"
        for reader in self._readers:
            reader.join()
        if code != 0:
            return f"the training ended with status {code}:\n" + "\n".join(self.lines)
        try:
            report: dict[str, Any] = json.loads(self._output[-1])
        except (IndexError, json.JSONDecodeError):
            return "the training printed no report:\n" + "\n".join(self.lines)
        return report

    def stop(self) -> None:
        """End all its processes, politely first, and clean up."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
                break
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for reader in self._readers:
            reader.join()
        self._folder.cleanup()


def _reader(stream: IO[str] | None, into: list[str] | deque[str]) -> threading.Thread:
    assert stream is not None

    def read() -> None:
        with stream:
            into.extend(line.rstrip("\n") for line in stream)

    thread = threading.Thread(target=read, name="muster-training", daemon=True)
    thread.start()
    return thread
