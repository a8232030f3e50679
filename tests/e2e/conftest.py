"""Fixtures for tests against a real control plane.

`MUSTER_E2E=skip` skips these tests and says so; otherwise, if the control plane cannot be built,
they fail with the reason. `MUSTER_E2E=kubeconfig` uses the cluster of `KUBECONFIG` instead.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence

import pytest

from tests.e2e.controlplane import build
from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import (
    CONTROLLERS,
    VOLUME_CONTROLLER,
    Cluster,
    ControlPlane,
    ExternalCluster,
    named_cluster,
    open_cluster,
)
from tests.e2e.controlplane.kubelet import FakeKubelet
from tests.e2e.controlplane.objects import create_namespace, create_nodes, fleet
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.controlplane.versions import kubernetes_minor
from tests.e2e.deployed import policy_flags
from tests.e2e.muster import MusterProcess, start_muster_scheduler

_build_failure = pytest.StashKey[build.BuildError]()
_cluster = pytest.StashKey[Cluster]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip on request only."""
    if os.environ.get("MUSTER_E2E") == "skip":
        skip = pytest.mark.skip(reason="MUSTER_E2E=skip is set: no test against a control plane")
        for item in filter(_is_e2e, items):
            item.add_marker(skip)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test starts: its timeout is not meant for that."""
    config = session.config
    if config.option.collectonly or not _needs_build(session.items):
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            build.ensure()
        except build.BuildError as error:
            config.stash[_build_failure] = error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the control plane's logs after a failure."""
    report = yield
    if report.failed and (cluster := item.config.stash.get(_cluster, None)) is not None:
        cluster.keep_logs(f"{item.nodeid} failed")
    return report


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """The cluster that all tests share, without scheduler and without nodes."""
    if (error := pytestconfig.stash.get(_build_failure, None)) is not None:
        pytest.fail(f"the control plane cannot be built: {error}", pytrace=False)
    controllers = (*CONTROLLERS, VOLUME_CONTROLLER)
    flags = policy_flags(kubernetes_minor())
    with open_cluster(controllers=controllers, api_server_flags=flags) as cluster:
        pytestconfig.stash[_cluster] = cluster
        yield cluster


@pytest.fixture(scope="session")
def client(control_plane: Cluster) -> Iterator[Client]:
    """The administrator's client."""
    client = control_plane.client()
    yield client
    client.close()


@pytest.fixture
def namespace(client: Client) -> Iterator[str]:
    """A fresh namespace; no pod of it is left afterwards."""
    name = f"e2e-{secrets.token_hex(4)}"
    create_namespace(client, name)
    yield name
    client.delete("Namespace", name)
    client.delete_all("Job", name)
    client.delete_all("Pod", name, grace=0)
    wait_until(lambda: not client.list("Pod", name), what=f"the pods of {name} are gone")


@pytest.fixture
def nodes(client: Client) -> Iterator[Sequence[Object]]:
    """32 nodes of 8 GPUs in 2 blocks of 2 racks of 8; nodes of earlier tests are removed."""
    client.delete_all("Node", labels="muster.test/made-by=e2e")
    made = create_nodes(client, fleet())
    yield made
    client.at_once(lambda node: client.delete("Node", node["metadata"]["name"]), made)


@pytest.fixture
def muster(
    control_plane: Cluster, nodes: Sequence[Object], request: pytest.FixtureRequest
) -> Iterator[MusterProcess]:
    """Muster, ready, with the racks of the nodes as its levels; a test may ask for settings."""
    with MusterProcess(control_plane, env=getattr(request, "param", None)) as process:
        yield process


@pytest.fixture
def scheduler(muster: MusterProcess) -> Iterator[Scheduler]:
    """The second kube-scheduler, which asks Muster."""
    started = start_muster_scheduler(muster)
    yield started
    started.stop()


@pytest.fixture
def kubelet(
    control_plane: Cluster, client: Client, namespace: str, request: pytest.FixtureRequest
) -> Iterator[FakeKubelet]:
    """Runs the pods of the test's namespace; a test may say how many GPUs it counts on a node."""
    fake = FakeKubelet(
        client,
        namespace=namespace,
        owns=_fake_nodes(control_plane, client),
        gpus=getattr(request, "param", None),
    )
    with fake:
        yield fake


@pytest.fixture
def stock_scheduler(control_plane: Cluster) -> Iterator[Scheduler | None]:
    """A scheduler for `default-scheduler`; None on a foreign cluster, which has one."""
    if isinstance(control_plane, ExternalCluster):
        yield None
        return
    scheduler = control_plane.start_scheduler()
    yield scheduler
    scheduler.stop()


def _is_e2e(item: pytest.Item) -> bool:
    return item.get_closest_marker("e2e") is not None


def _needs_build(items: list[pytest.Item]) -> bool:
    unwanted = os.environ.get("MUSTER_E2E") == "skip" or named_cluster()
    return not unwanted and any(map(_is_e2e, items))


def _fake_nodes(cluster: Cluster, client: Client) -> Callable[[str], bool]:
    """On a foreign cluster, real nodes have kubelets of their own."""
    if isinstance(cluster, ControlPlane):
        return lambda name: True

    def made_by_tests(name: str) -> bool:
        found = client.find("Node", name)
        return found is not None and "muster.test/made-by" in found["metadata"]["labels"]

    return made_by_tests
