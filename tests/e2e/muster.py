"""Muster and its kube-scheduler as processes of a test cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.process import Child, free_port, http_get
from tests.e2e.controlplane.scheduler import Scheduler

# Without this gate every held pod is tried again whenever the scheduler has nothing else to do.
SCHEDULER_FLAGS = ("--feature-gates=SchedulerPopFromBackoffQ=false",)
READY_SECONDS = 30.0


class MusterProcess:
    """`python -m scheduler serve` on a loopback port, under the cluster's supervision.

    Parameters
    ----------
    cluster
        Where it works; it is ended with the cluster at the latest.
    port
        A free one by default.
    extra_args
        Further arguments of `serve`.
    kubeconfig
        Whose rights it has; the administrator's by default.
    name
        Of the process and its log; must differ between processes that run at once.
    """

    def __init__(
        self,
        cluster: Cluster,
        port: int | None = None,
        extra_args: Sequence[str] = (),
        *,
        kubeconfig: Path | None = None,
        env: Mapping[str, str] | None = None,
        name: str = "muster",
    ) -> None:
        self.cluster = cluster
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.extra_args = tuple(extra_args)
        self.name = name
        self._kubeconfig = kubeconfig or cluster.kubeconfig
        self._env = env
        self._child: Child | None = None

    def __enter__(self) -> Self:
        self.start()
        self.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self.stop()

    @property
    def child(self) -> Child:
        """Its process."""
        if self._child is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._child

    def start(self) -> None:
        """Start it, or start it again after `kill` or `stop`, on the same port."""
        command = [sys.executable, "-m", "scheduler", "serve"]
        options = ["--kubeconfig", str(self._kubeconfig), "--host", "127.0.0.1"]
        options += ["--port", str(self.port)]
        argv = [*command, *options, *self.extra_args]
        self._child = self.cluster.spawn(self.name, argv, self._env)

    def wait_ready(self, deadline: float = READY_SECONDS) -> None:
        """Wait for 200 on /readyz; `StartError` with the end of its log otherwise."""
        self.child.wait_ready(f"{self.url}/readyz", deadline)

    def kill(self) -> None:
        """SIGKILL: it gets no chance to tidy up."""
        self.child.kill()

    def stop(self) -> int:
        """SIGTERM, and SIGKILL if it does not end; its exit status."""
        return self.child.stop()

    def get(self, path: str) -> str:
        """The body of a GET that must answer 200."""
        status, text = http_get(f"{self.url}{path}")
        if status != 200:
            raise RuntimeError(f"{self.name} answered {status} to GET {path}: {text[:500]}")
        return text

    def metrics(self) -> str:
        """What it answers on /metrics, in Prometheus text."""
        return self.get("/metrics")

    def log_text(self) -> str:
        """All it has logged, over all its starts."""
        return self.child.log_text()


def scheduler_configuration(muster: MusterProcess, *options: str) -> dict[str, Any]:
    """What `muster kube-config` prints for this process, parsed."""
    command = [sys.executable, "-m", "scheduler", "kube-config", "--extender-url", muster.url]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    configuration: dict[str, Any] = yaml.safe_load(done.stdout)
    return configuration


def start_muster_scheduler(
    muster: MusterProcess,
    *options: str,
    flags: Sequence[str] = SCHEDULER_FLAGS,
    name: str = "kube-scheduler-muster",
    preempts: bool = False,
) -> Scheduler:
    """Start a kube-scheduler that asks this Muster.

    Parameters
    ----------
    options
        Further arguments of `muster kube-config`.
    flags
        Of kube-scheduler.
    preempts
        Whether its plugin DefaultPreemption runs, which `muster kube-config` turns off, and sees
        accelerators, which it has the scheduler ignore.
    """
    configuration = scheduler_configuration(muster, *options)
    if preempts:
        for profile in configuration["profiles"]:
            profile.pop("pluginConfig", None)
            profile["plugins"]["postFilter"]["disabled"].remove({"name": "DefaultPreemption"})
    return muster.cluster.start_scheduler(configuration, name=name, flags=flags)
