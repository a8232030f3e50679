"""The cluster of the benchmark: control plane, nodes, and the processes of one arm at a time."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.cluster_arms import API_SERVER_FLAGS, GROUP, STOCK, Arm
from benchmarks.cluster_fleet import SELECTOR, fleet
from benchmarks.cluster_kubelet import kwok
from benchmarks.cluster_processes import counter
from tests.e2e.controlplane import build
from tests.e2e.controlplane.client import ApiError, Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster, ControlPlane, ExternalCluster, User
from tests.e2e.controlplane.objects import create_namespace, create_nodes
from tests.e2e.controlplane.scheduler import Scheduler, complete_configuration
from tests.e2e.muster import MusterProcess, scheduler_configuration

CONNECTION = {"qps": 5000, "burst": 10000}
"""Of every kube-scheduler here: by default it sends 50 requests a second, and is slow for that."""

MUSTER = "system:serviceaccount:muster-system:muster"
MUSTER_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:muster-system")
RIGHTS = Path(__file__).parents[1] / "deploy" / "base" / "rbac-muster.yaml"
OPTIONS = {"burst": (), "nominate": (), "follow": ("--follow",)}
"""Of `muster kube-config`, by how gangs start."""

CYCLES = ("scheduler_schedule_attempts_total", "scheduler_podgroup_schedule_attempts_total")
MUSTER_READY_S = 60.0


class AnyCluster(ExternalCluster):
    """A cluster that exists; the arms' schedulers run here, under names of their own."""

    def start_scheduler(
        self,
        configuration: Path | Mapping[str, Any] | None = None,
        *,
        name: str = "kube-scheduler",
        flags: Sequence[str] = (),
    ) -> Scheduler:
        """A kube-scheduler on this machine with the rights of the kubeconfig."""
        file = self.supervisor.folder / f"{name}.config"
        file.write_text(complete_configuration(configuration, self.kubeconfig))
        open_paths = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"
        scheduler = Scheduler(
            self.supervisor,
            name=name,
            program=build.ensure(("kube-scheduler",))["kube-scheduler"],
            configuration=file,
            kubeconfig=self.kubeconfig,
            token="",
            flags=(open_paths, *flags),
        )
        scheduler.start()
        return scheduler


@dataclass(slots=True)
class Running:
    """The processes of one arm."""

    scheduler: Scheduler | None = None
    muster: MusterProcess | None = None

    def filter_calls(self) -> int:
        """Filter calls that Muster has answered."""
        if self.muster is None:
            return 0
        return int(counter(self.muster.metrics(), "muster_request_seconds_count", verb="filter"))

    def cycles(self) -> int:
        """Scheduling cycles so far, those of whole groups included."""
        if self.scheduler is None:
            return 0
        text = self.scheduler.metrics()
        return int(sum(counter(text, name) for name in CYCLES))


@dataclass(slots=True)
class Plane:
    """A cluster with nodes and a namespace, ready for arms."""

    cluster: Cluster
    client: Client
    namespace: str
    muster_kubeconfig: Path
    always_kubelet: bool
    """Whether kwok runs all the time: the node lifecycle controller of others wants leases."""

    def pids(self) -> dict[str, int]:
        """All processes that run for this cluster."""
        children = self.cluster.supervisor.children
        return {name: child.pid for name, child in children.items() if child.alive}

    def serves_groups(self) -> bool:
        """Whether the API server knows Kubernetes' own PodGroups."""
        try:
            self.client.path(GROUP)
        except ApiError:
            return False
        return True

    @contextmanager
    def arm(self, arm: Arm) -> Iterator[Running]:
        """The arm's processes, while the block lasts."""
        with ExitStack() as stack:
            running = Running()
            if arm.start:
                running.muster = stack.enter_context(self.muster())
            running.scheduler = self._scheduler(arm, running.muster)
            stack.callback(running.scheduler.stop)
            yield running

    @contextmanager
    def kubelet(self) -> Iterator[None]:
        """kwok runs bound pods and ends them, while the block lasts."""
        if self.always_kubelet:
            yield
            return
        with _kubelet(self.cluster, leases=False):
            yield

    def create_all(self, objects: Sequence[Object]) -> None:
        """Create objects over several connections."""
        self.client.create_all(objects)

    def clear(self) -> None:
        """Remove all pods and groups of the namespace, and wait until they are gone."""
        self.client.delete_all("Pod", self.namespace, grace=0)
        if self.serves_groups():
            self._clear_groups()
        wait_until(
            lambda: not self.client.list("Pod", self.namespace),
            120,
            "the benchmark's pods are gone",
        )

    def _clear_groups(self) -> None:
        """The controller that takes the finalizer from groups without pods does not run."""
        for group in self.client.list(GROUP, self.namespace):
            name = group["metadata"]["name"]
            self.client.patch(GROUP, name, {"metadata": {"finalizers": None}}, self.namespace)
            self.client.delete(GROUP, name, self.namespace)

    @contextmanager
    def muster(self) -> Iterator[MusterProcess]:
        """Muster, ready, while the block lasts."""
        names = ("--scheduler-name", "muster", "--scheduler-name", "muster-plain")
        muster = MusterProcess(self.cluster, None, names, kubeconfig=self.muster_kubeconfig)
        muster.start()
        try:
            muster.wait_ready(MUSTER_READY_S)
            yield muster
        finally:
            muster.stop()

    def _scheduler(self, arm: Arm, muster: MusterProcess | None) -> Scheduler:
        if muster is not None:
            configuration = scheduler_configuration(muster, *OPTIONS[arm.start], *arm.options)
            return self._start({**configuration, "clientConnection": CONNECTION}, arm.flags)
        profiles = [{"schedulerName": STOCK}]
        gates = ",".join(f"{gate}=true" for gate in arm.gates)
        flags = [f"--feature-gates={gates}"] if gates else []
        return self._start({"profiles": profiles, "clientConnection": CONNECTION}, flags)

    def _start(self, configuration: Mapping[str, Any], flags: Sequence[str]) -> Scheduler:
        return self.cluster.start_scheduler(configuration, flags=flags)


@contextmanager
def plane(nodes: int, kubeconfig: Path | None = None) -> Iterator[Plane]:
    """A cluster with so many nodes of ours: a new control plane, or the one of a kubeconfig.

    Everything that was made is removed when the block ends.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(_cluster(kubeconfig))
        client = cluster.client()
        stack.callback(client.close)
        account = _account(cluster, client)
        namespace = f"bench-{secrets.token_hex(3)}"
        create_namespace(client, namespace)
        made = Plane(cluster, client, namespace, account, always_kubelet=kubeconfig is not None)
        stack.callback(_remove, made)
        create_nodes(client, fleet(nodes))
        if made.always_kubelet:
            stack.enter_context(_kubelet(cluster, leases=True))
        yield made


@contextmanager
def _kubelet(cluster: Cluster, *, leases: bool) -> Iterator[None]:
    name, argv = kwok(cluster.kubeconfig, cluster.supervisor.folder, leases=leases)
    cluster.spawn(name, argv)
    try:
        yield
    finally:
        cluster.supervisor.stop(name)


def _cluster(kubeconfig: Path | None) -> Cluster:
    if kubeconfig is not None:
        return AnyCluster(kubeconfig.absolute())
    return ControlPlane(
        # Only what makes a namespace usable: nothing else has to run for pods to be bound.
        controllers=("serviceaccount-controller",),
        users=(User(MUSTER, MUSTER_GROUPS),),
        api_server_flags=API_SERVER_FLAGS,
    )


def _account(cluster: Cluster, client: Client) -> Path:
    """Muster's kubeconfig: with the rights of its manifest, where the cluster is our own."""
    if not isinstance(cluster, ControlPlane):
        return cluster.kubeconfig
    for item in yaml.safe_load_all(RIGHTS.read_text(encoding="utf-8")):
        client.create(item)
    return cluster.kubeconfig_for(MUSTER)


def _remove(made: Plane) -> None:
    """Nothing of it needs to be removed from a control plane that is thrown away."""
    if isinstance(made.cluster, ControlPlane):
        return
    made.clear()
    made.client.delete_all("Node", labels=SELECTOR)
    made.client.delete("Namespace", made.namespace)
