"""Child processes under supervision: each with its log file, none left behind."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from . import reaper

_TAIL = 2000
_POLL_SECONDS = 0.05
_ports = random.Random(os.getpid())
_handed_out: set[int] = set()


class StartError(Exception):
    """A child did not become ready; the message carries the end of its log."""


class Child:
    """A process in a process group of its own, writing to a log file."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        """The process id, which is also the process group's."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def stop(self, grace: float = 10.0) -> int:
        """SIGTERM to the whole group, SIGKILL after `grace` seconds; the exit status."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(grace)
        return self.kill()

    def kill(self) -> int:
        """SIGKILL to the whole group, whatever is left of it; the exit status."""
        self._signal(signal.SIGKILL)
        return self.process.wait()

    def log_text(self) -> str:
        """All it has written so far, standard output and error together."""
        return self.log.read_text(errors="replace")

    def wait_ready(self, url: str, deadline: float) -> None:
        """Wait until a GET of `url` answers 200.

        Raises
        ------
        StartError
            If the process ends before, or `deadline` seconds pass.
        """
        end = time.monotonic() + deadline
        while (status := http_status(url)) != 200:
            if not self.alive:
                self._fail(f"ended with {self.process.returncode}")
            if time.monotonic() > end:
                self._fail(f"was not ready after {deadline:.0f} s ({url} answered {status})")
            time.sleep(_POLL_SECONDS)

    def _fail(self, what: str) -> None:
        raise StartError(f"{self.name} {what}; the end of {self.log}:\n{self.log_text()[-_TAIL:]}")

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class Supervisor:
    """Starts children, and ends all of them when its block is left or this process dies.

    Parameters
    ----------
    logs
        Folder for the log files, made if it is missing.
    """

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.folder = Path()
        self.children: dict[str, Child] = {}

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="muster-e2e-"))
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
            bufsize=1,
        )
        self._tell(f"folder {self.folder}")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for name in reversed(list(self.children)):
                self.stop(name)
        finally:
            self._reaper.communicate()

    def spawn(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> Child:
        """Start a process under a name that no living child has; its log is appended to."""
        if (old := self.children.get(name)) is not None and old.alive:
            raise ValueError(f"{name} is already running as process {old.pid}")
        self.forget(name)
        log = self.logs / f"{name}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env} if env else None,
                start_new_session=True,
            )
        self._tell(f"add {process.pid}")
        child = self.children[name] = Child(name, process, log)
        return child

    def stop(self, name: str, grace: float = 10.0) -> None:
        """End a child if it runs."""
        self.children[name].stop(grace)
        self.forget(name)

    def forget(self, name: str) -> None:
        """Take a child that has ended out of the list."""
        if (child := self.children.pop(name, None)) is not None:
            child.kill()
            self._tell(f"drop {child.pid}")

    def _tell(self, line: str) -> None:
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(line + "\n")


def free_port() -> int:
    """A free loopback port below the range that the system gives to outgoing connections.

    So nobody takes it by chance before its server listens.
    """
    for _ in range(1000):
        port = _ports.randrange(20000, 32000)
        if port not in _handed_out and _can_listen(port):
            _handed_out.add(port)
            return port
    raise StartError("no free loopback port between 20000 and 32000")


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def http_status(url: str) -> int | None:
    """The status of a GET; None if nobody answers. Certificates are not checked."""
    return http_get(url)[0]


def http_get(url: str, token: str | None = None) -> tuple[int | None, str]:
    """Status and body of a GET; (None, why) if nobody answers. Certificates are not checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        request = urllib.request.Request(url, headers=headers)
        with _opener(context).open(request, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return None, str(error)


def _opener(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """Without proxies: everything asked here is on this machine."""
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
