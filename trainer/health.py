"""/healthz and /metrics of a pod, served by its launcher, also for scripts that are not ours.

Workers that are (see `trainer.eyes`) leave their metrics as files in a directory that the
launcher names; they go out with the launcher's own. A worker whose file is older than the time
that a stuck collective is given makes the pod unhealthy.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from trainer.exposition import Sample, render

log = logging.getLogger("muster.health")

METRICS_DIR = "MUSTER_METRICS_DIR"
STALE_SECONDS = 900.0


class Health:
    """A pod's health, and the server that tells it."""

    def __init__(
        self, folder: Path, port: int, stale: float = STALE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """port: 0 takes any free one. Raises OSError where the port is taken."""
        self.folder, self.stale, self.now = folder, stale, now
        self.started = now()
        self._server = ThreadingHTTPServer(("", port), _handler(self))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, content type and body."""
        if path == "/healthz":
            silent = self.silent()
            text = f"no news of {', '.join(silent)} for {self.stale:g} s\n" if silent else "ok\n"
            return (503 if silent else 200), "text/plain", text
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4", self.metrics()
        return 404, "text/plain", "there are /healthz and /metrics\n"

    def silent(self) -> list[str]:
        """Workers whose files are too old."""
        limit = self.now() - self.stale
        return [path.stem for path in self._files() if _modified(path) < limit]

    def metrics(self) -> str:
        age = self.now() - self.started
        uptime = Sample("muster_launch_uptime_seconds", "Of the launcher.", age)
        workers = Sample("muster_launch_reporting_workers", "Of this pod.", len(self._files()))
        return render([uptime, workers]) + "".join(_once(self._texts()))

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("rank-*.prom"))

    def _texts(self) -> list[str]:
        return [text for path in self._files() if (text := _read(path))]


def _once(texts: list[str]) -> list[str]:
    """Lines of all files with each metric's samples together and its HELP and TYPE once."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for line in (line for text in texts for line in text.splitlines()):
        name = line.split(" ")[2] if line.startswith("#") else line.partition("{")[0].split(" ")[0]
        target = heads if line.startswith("#") else samples
        if target is samples or line not in target.get(name, []):
            target.setdefault(name, []).append(line)
    return [f"{line}\n" for name in heads for line in (*heads[name], *samples.get(name, []))]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return float("inf")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _handler(health: Health) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, text = health.answer(self.path.partition("?")[0])
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            log.debug(format, *args)

    return Handler
