"""A terminal in which a reader types what a page shows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.unit.docs.shown import ROOT

DEADLINE_S = 120.0
LEFT_OUT = {".git", "out", "build", "dist"}


@dataclass(frozen=True)
class Typed:
    """What came of a command."""

    status: int
    out: str
    err: str


class Terminal:
    """bash in a folder that looks like the checkout; what is exported stays so.

    ``elsewhere`` says what stands in the place of some words, such as ports that may be taken.
    """

    def __init__(
        self,
        folder: Path,
        elsewhere: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder / "checkout"
        self.elsewhere = dict(elsewhere or {})
        self._logs = 0
        _lay_out(self.folder)
        home = folder / "home"
        home.mkdir(exist_ok=True)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        unset = {"MUSTER_SERVER", "MUSTER_TOKEN", "KUBECONFIG"}
        kept = {name: value for name, value in os.environ.items() if name not in unset}
        self.environment = {**kept, "HOME": str(home), "PATH": path, **(environment or {})}

    def type(self, line: str, deadline_s: float = DEADLINE_S) -> Typed:
        """Run a line to its end."""
        after = self.folder.parent / "environment"
        script = f"{self._said(line)}\nstatus=$?\nenv -0 > {after}\nexit $status\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline_s,
        )
        pairs = (pair.partition("=") for pair in after.read_text().split("\0") if pair)
        self.environment = {name: value for name, _, value in pairs}
        return Typed(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def left_running(self, line: str, until: str) -> Iterator[Path]:
        """Start a line that does not end, and wait for a text in what it prints. Its log.

        Ctrl-C ends it.
        """
        self._logs += 1
        log = self.folder.parent / f"log-{self._logs}"
        with log.open("w") as written:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self._said(line)}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                # A shell has what it starts in the background ignore Ctrl-C.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        try:
            _wait(process, log, until)
            yield log
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            finally:
                process.kill()
                process.wait()

    def _said(self, line: str) -> str:
        for word, other in self.elsewhere.items():
            line = line.replace(word, other)
        return line


def _lay_out(folder: Path) -> None:
    """The checkout's files by links: what a command writes stays out of the real one."""
    folder.mkdir()
    for item in ROOT.iterdir():
        if item.name not in LEFT_OUT and not item.name.startswith("."):
            (folder / item.name).symlink_to(item)
    if (Path(sys.prefix) / "bin" / "activate").is_file():
        (folder / ".venv").symlink_to(sys.prefix)
    else:
        # What runs the tests was not installed into a virtual environment.
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / ".venv" / "bin" / "activate").touch()


def _wait(process: subprocess.Popen[bytes], log: Path, until: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while until not in log.read_text():
        assert process.poll() is None, f"it has ended:\n{log.read_text()}"
        assert time.monotonic() < end, f"{until!r} did not come:\n{log.read_text()}"
        time.sleep(0.05)


def has(program: str) -> bool:
    """Whether a program is on the path."""
    return shutil.which(program) is not None
