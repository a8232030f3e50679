"""Pairs of a kube-scheduler and a Muster that compete for one Lease, as two pods would."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.controlplane import build
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.muster import SCHEDULER_FLAGS, MusterProcess, scheduler_configuration

_AS_HOST = """#!/bin/sh
exec {unshare} sh -c 'hostname {host} && exec "$0" "$@"' {program} "$@"
"""
_WAYS = (("unshare", "--uts"), ("unshare", "--user", "--map-root-user", "--uts"))


def _unshare() -> tuple[str, ...]:
    """How this machine gives a process a host name of its own."""
    for way in _WAYS if shutil.which("unshare") else ():
        tried = subprocess.run([*way, "hostname", "x"], capture_output=True)
        if tried.returncode == 0:
            return way
    pytest.fail("no process may have a host name of its own here (unshare --uts), as pods have")


class Pair:
    """What one pod of the Deployment holds.

    A kube-scheduler calls itself by its host's name, so each gets one of its own.
    """

    def __init__(self, cluster: Cluster, host: str, lease: str, folder: Path) -> None:
        self.host = host
        self._cluster = cluster
        self._lease = lease
        self._folder = folder
        follow = [f"--follow-lease=kube-system/{lease}", f"--identity={host}"]
        self.muster = MusterProcess(cluster, extra_args=follow, name=f"muster-{host}")
        self.scheduler = self._scheduler()

    def _scheduler(self) -> Scheduler:
        configuration = scheduler_configuration(self.muster)
        configuration["clientConnection"]["kubeconfig"] = str(self._cluster.kubeconfig)
        configuration["leaderElection"]["resourceName"] = self._lease
        file = self._folder / f"{self.host}.yaml"
        file.write_text(yaml.safe_dump(configuration))
        program = self._folder / f"kube-scheduler-{self.host}"
        binary = build.ensure(("kube-scheduler",))["kube-scheduler"]
        way = " ".join(_unshare())
        program.write_text(_AS_HOST.format(unshare=way, host=self.host, program=binary))
        program.chmod(0o755)
        return Scheduler(
            self._cluster.supervisor,
            name=f"kube-scheduler-{self.host}",
            program=program,
            configuration=file,
            kubeconfig=self._cluster.kubeconfig,
            token="",
            flags=SCHEDULER_FLAGS,
        )

    def start(self) -> None:
        """Start both, and wait until both are ready."""
        self.muster.start()
        self.muster.wait_ready()
        self.scheduler.start()

    def kill(self) -> None:
        """SIGKILL for both, as when their node is lost."""
        self.muster.kill()
        self.scheduler.child.kill()

    def stop(self) -> None:
        """SIGTERM for both, as when their pod is moved; what was killed stays as it is."""
        self.scheduler.stop()
        self.muster.stop()

    @property
    def leads(self) -> bool:
        """Whether its Muster says that it acts."""
        return bool(json.loads(self.muster.get("/v1/status"))["leads"])

    def gangs(self) -> dict[str, str]:
        """Every gang's state, as its Muster shows them."""
        shown = json.loads(self.muster.get("/v1/gangs"))["gangs"]
        return {gang["key"].partition("/")[2]: gang["state"] for gang in shown}

    def bindings(self) -> float:
        """How many Bindings its Muster has sent with success."""
        wanted = 'muster_effects_total{kind="Bind",outcome="ok"} '
        lines = self.muster.metrics().splitlines()
        return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))
