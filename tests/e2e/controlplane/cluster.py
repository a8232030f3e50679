"""A cluster for tests: a control plane of our own, or any cluster that `KUBECONFIG` names."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from . import build
from .client import Client
from .credentials import User, kubeconfig_text, service_account_key, token_file_text
from .process import Child, StartError, Supervisor, free_port
from .scheduler import Scheduler, complete_configuration
from .versions import CONTROL_PLANE

__all__ = ["Cluster", "ControlPlane", "ExternalCluster", "NotOurClusterError", "StartError", "User"]

CONTROLLERS = (
    "job-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
)
"""The controllers that run by default. None of them writes node conditions or taints."""

VOLUME_CONTROLLER = "persistentvolume-binder-controller"
"""Needed besides for pods with volume claims: it confirms what the scheduler bound."""

ADMIN = "admin"
SCHEDULER = "system:kube-scheduler"
READY_SECONDS = 60.0

_REPOSITORY = Path(__file__).resolve().parents[3]


class NotOurClusterError(Exception):
    """What was asked needs a control plane that the tests started themselves."""


def logs_folder() -> Path:
    """A fresh folder name under `$MUSTER_E2E_LOGS`, or under `out/e2e-logs` of the repository."""
    named = os.environ.get("MUSTER_E2E_LOGS")
    parent = Path(named).absolute() if named else _REPOSITORY / "out" / "e2e-logs"
    now = datetime.datetime.now(datetime.UTC)
    return parent / f"{now:%Y%m%dT%H%M%S.%f}-{os.getpid()}"


class Cluster:
    """What tests can do with either kind of cluster.

    The block ends every process started through it; their logs are kept if it is left by an
    exception or `keep_logs` was called.
    """

    def __init__(self, logs: Path | None = None) -> None:
        self.supervisor = Supervisor(logs or logs_folder())
        self._why_keep_logs: str | None = None
        self._stack = ExitStack()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            starting.push(self._settle_logs)
            starting.enter_context(self.supervisor)
            self._start()
            self._stack = starting.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def keep_logs(self, why: str) -> None:
        """Keep the logs when this cluster ends, as after a failed test."""
        self._why_keep_logs = self._why_keep_logs or why

    def client(self) -> Client:
        """A client with the administrator's rights."""
        return Client(self.kubeconfig)

    def spawn(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> Child:
        """Start any process under the same supervision; `Child.kill` and `Child.stop` end it."""
        return self.supervisor.spawn(name, argv, env)

    def start_scheduler(
        self,
        configuration: Path | Mapping[str, Any] | None = None,
        *,
        name: str = "kube-scheduler",
        flags: Sequence[str] = (),
    ) -> Scheduler:
        """Start a kube-scheduler and wait until it is ready.

        Parameters
        ----------
        configuration
            A KubeSchedulerConfiguration (YAML or JSON file, or the parsed object); what is missing
            of kubeconfig and leader election is filled in. None is the stock configuration.
        name
            Of the process and its log; must differ between schedulers that run at once.
        flags
            For example `--feature-gates=SchedulerPopFromBackoffQ=false`.

        Raises
        ------
        StartError
            If it does not become ready.
        NotOurClusterError
            If this cluster's scheduler is not ours to start.
        """
        raise NotImplementedError

    def _start(self) -> None:
        raise NotImplementedError

    def _settle_logs(self, kind: type[BaseException] | None, *_: object) -> None:
        logs = self.supervisor.logs
        why = self._why_keep_logs or (kind and kind.__name__)
        if why is None:
            shutil.rmtree(logs, ignore_errors=True)
        else:
            print(f"logs of the test cluster kept in {logs} ({why})", file=sys.stderr)


class ExternalCluster(Cluster):
    """A cluster that exists already; nothing is built and no control plane is started."""

    def __init__(self, kubeconfig: Path, logs: Path | None = None) -> None:
        super().__init__(logs)
        self._kubeconfig = kubeconfig

    @property
    def kubeconfig(self) -> Path:
        """The file that `KUBECONFIG` names."""
        return self._kubeconfig

    def start_scheduler(
        self,
        configuration: Path | Mapping[str, Any] | None = None,
        *,
        name: str = "kube-scheduler",
        flags: Sequence[str] = (),
    ) -> Scheduler:
        """Always refused: see the message."""
        raise NotOurClusterError(
            f"{name} cannot be started here: KUBECONFIG={self.kubeconfig} names a cluster whose "
            "schedulers belong to whoever runs it. Unset KUBECONFIG to run on a control plane "
            "that the tests build and start themselves."
        )

    def _start(self) -> None:
        if not self.kubeconfig.is_file():
            raise StartError(f"KUBECONFIG names {self.kubeconfig}, which is no file")


class ControlPlane(Cluster):
    """etcd, kube-apiserver and kube-controller-manager on free loopback ports.

    Parameters
    ----------
    authorization
        For `--authorization-mode`, for example `RBAC` or `AlwaysAllow`.
    controllers
        What the controller manager runs; () starts none.
    users
        Further identities; the administrator (in `system:masters`) is always there.
    api_server_flags
        Appended, so they win over the harness's own.
    logs, cache
        Instead of `logs_folder()` and `versions.cache_folder()`.
    """

    def __init__(
        self,
        *,
        authorization: str = "RBAC",
        controllers: Sequence[str] = CONTROLLERS,
        users: Sequence[User] = (),
        api_server_flags: Sequence[str] = (),
        logs: Path | None = None,
        cache: Path | None = None,
    ) -> None:
        super().__init__(logs)
        self._authorization = authorization
        self._controllers = tuple(controllers)
        fixed = (User(ADMIN, ("system:masters",)), User(SCHEDULER))
        self.users = {user.name: user for user in (*fixed, *users)}
        self._api_server_flags = tuple(api_server_flags)
        self._cache = cache
        self._binaries: dict[str, Path] = {}
        self.server = ""
        """The API server's URL."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file."""
        return self.kubeconfig_for(ADMIN)

    @property
    def certificates(self) -> Path:
        """Where the API server keeps `apiserver.crt` and `.key`, which it signed itself."""
        return self._folder / "certificates"

    def kubeconfig_for(self, user: str) -> Path:
        """A kubeconfig file for one of `users`."""
        path = self._folder / f"{user.replace(':', '_')}.kubeconfig"
        if not path.exists():
            authority = self.certificates / "apiserver.crt"
            path.write_text(kubeconfig_text(self.server, authority, self.users[user]))
        return path

    def client_for(self, user: str) -> Client:
        """A client with the rights of one of `users`."""
        return Client(self.kubeconfig_for(user))

    def start_scheduler(
        self,
        configuration: Path | Mapping[str, Any] | None = None,
        *,
        name: str = "kube-scheduler",
        flags: Sequence[str] = (),
    ) -> Scheduler:
        """See `Cluster.start_scheduler`."""
        kubeconfig = self.kubeconfig_for(SCHEDULER)
        file = self._folder / f"{name}.config"
        file.write_text(complete_configuration(configuration, kubeconfig))
        scheduler = Scheduler(
            self.supervisor,
            name=name,
            program=self._binaries["kube-scheduler"],
            configuration=file,
            kubeconfig=kubeconfig,
            token=self.users[ADMIN].token,
            flags=flags,
        )
        scheduler.start()
        return scheduler

    @property
    def _folder(self) -> Path:
        return self.supervisor.folder

    def _start(self) -> None:
        self._binaries = build.ensure(CONTROL_PLANE, cache=self._cache)
        self._write_credentials()
        etcd = self._start_etcd()
        self._start_api_server(etcd)
        if self._controllers:
            self._start_controllers()

    def _write_credentials(self) -> None:
        (self._folder / "tokens.csv").write_text(token_file_text(self.users.values()))
        (self._folder / "service-account.key").write_text(service_account_key())

    def _start_etcd(self) -> str:
        """Its client URL."""
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        child = self.spawn(
            "etcd",
            [
                self._binaries["etcd"],
                "--name=e2e",
                f"--data-dir={self._folder / 'etcd'}",
                # What a crash would lose is thrown away at the end of the test anyway.
                "--unsafe-no-fsync",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=e2e={peer}",
                "--log-level=warn",
            ],
        )
        child.wait_ready(f"{client}/health", READY_SECONDS)
        return client

    def _start_api_server(self, etcd: str) -> None:
        port = free_port()
        self.server = f"https://127.0.0.1:{port}"
        key = self._folder / "service-account.key"
        child = self.spawn(
            "kube-apiserver",
            [
                self._binaries["kube-apiserver"],
                f"--etcd-servers={etcd}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self.certificates}",
                # The API server's own address is not offered to pods: none of them runs.
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                f"--token-auth-file={self._folder / 'tokens.csv'}",
                f"--authorization-mode={self._authorization}",
                *self._api_server_flags,
            ],
        )
        child.wait_ready(f"{self.server}/readyz", READY_SECONDS)

    def _start_controllers(self) -> None:
        port = free_port()
        child = self.spawn(
            "kube-controller-manager",
            [
                self._binaries["kube-controller-manager"],
                f"--kubeconfig={self.kubeconfig}",
                f"--controllers={','.join(self._controllers)}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                # By default 20 calls a second: half a minute for a Job of 500 pods.
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
            ],
        )
        child.wait_ready(f"https://127.0.0.1:{port}/healthz", READY_SECONDS)


def named_cluster() -> str | None:
    """The cluster to use instead of our own: `KUBECONFIG`, with `MUSTER_E2E=kubeconfig` beside it.

    The second variable is asked for because many a shell has `KUBECONFIG` set to a cluster in
    which nobody wants to find 32 nodes that do not exist.
    """
    wanted = os.environ.get("MUSTER_E2E") == "kubeconfig"
    return os.environ.get("KUBECONFIG") if wanted else None


def open_cluster(**settings: Any) -> Cluster:
    """The cluster of `KUBECONFIG` if that is set, else a `ControlPlane` with these settings.

    Neither is entered yet.
    """
    if named := named_cluster():
        return ExternalCluster(Path(named).absolute())
    return ControlPlane(**settings)
