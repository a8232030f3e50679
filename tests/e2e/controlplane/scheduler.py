"""A kube-scheduler of a test cluster: configuration, start, restart and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .process import Child, Supervisor, free_port, http_get

READY_SECONDS = 60.0

_STOCK = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


def complete_configuration(configuration: Path | Mapping[str, Any] | None, kubeconfig: Path) -> str:
    """The YAML to start with: the caller's, with our kubeconfig and without leader election."""
    if isinstance(configuration, Path):
        given: Mapping[str, Any] = yaml.safe_load(configuration.read_text())
    else:
        given = configuration or {}
    complete: dict[str, Any] = {**_STOCK, **given}
    connection = complete.get("clientConnection") or {}
    complete["clientConnection"] = {**connection, "kubeconfig": str(kubeconfig)}
    complete["leaderElection"] = {"leaderElect": False}
    return yaml.safe_dump(complete, sort_keys=False)


class Scheduler:
    """One kube-scheduler process; it can be restarted with other flags or another configuration.

    Parameters
    ----------
    token
        Of someone who may read its metrics.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        name: str,
        program: Path,
        configuration: Path,
        kubeconfig: Path,
        token: str,
        flags: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.flags = tuple(flags)
        self._supervisor = supervisor
        self._program = program
        self._configuration = configuration
        self._kubeconfig = kubeconfig
        self._token = token
        self._url = ""

    @property
    def child(self) -> Child:
        """Its process, for its log or to kill it."""
        return self._supervisor.children[self.name]

    def start(self) -> None:
        """Start it and wait until it is ready.

        Raises
        ------
        StartError
            If it ends or is not ready in time; it is stopped then.
        """
        port = free_port()
        self._url = f"https://127.0.0.1:{port}"
        child = self._supervisor.spawn(
            self.name,
            [
                self._program,
                f"--config={self._configuration}",
                f"--authentication-kubeconfig={self._kubeconfig}",
                f"--authorization-kubeconfig={self._kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                *self.flags,
            ],
        )
        try:
            child.wait_ready(f"{self._url}/readyz", READY_SECONDS)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it; nothing happens if it does not run."""
        if self.name in self._supervisor.children:
            self._supervisor.stop(self.name)

    def restart(
        self,
        configuration: Path | Mapping[str, Any] | None = None,
        *,
        flags: Sequence[str] | None = None,
    ) -> None:
        """Stop it and start it again, with another configuration or other flags if given."""
        self.stop()
        if configuration is not None:
            text = complete_configuration(configuration, self._kubeconfig)
            self._configuration.write_text(text)
        if flags is not None:
            self.flags = tuple(flags)
        self.start()

    def metrics(self) -> str:
        """What it answers on /metrics, in Prometheus text."""
        status, text = http_get(f"{self._url}/metrics", self._token)
        if status != 200:
            raise RuntimeError(f"{self.name} answered {status} for its metrics: {text[:300]}")
        return text
