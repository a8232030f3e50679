"""The leader is killed while ten gangs start, and another time it is only moved."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scheduler.cluster import Transport, load
from scheduler.cluster.leadership import Leadership
from scheduler.cluster.lease import LeaseName
from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster, ExternalCluster
from tests.e2e.controlplane.watch import Watch
from tests.e2e.deployed import MANIFEST, kubeconfig, make, moved, renamed
from tests.e2e.gangs import gang_pods, placed
from tests.e2e.replicas import Pair

pytestmark = pytest.mark.e2e

LEASE = "muster-kube-scheduler"
GANGS, MEMBERS, GPUS = 10, 8, 2
KILL_AFTER = 20
"""Bound pods, of 80: in the midst of it."""
DEADLINE_S = 60.0
"""Generous: the Lease's 15 s and what the next one needs; how long it took is printed."""


@pytest.fixture
def pairs(
    control_plane: Cluster,
    client: Client,
    namespace: str,
    nodes: Sequence[Object],
    tmp_path: Path,
) -> Iterator[tuple[Pair, Pair]]:
    """One that leads, and one that stands by."""
    if isinstance(control_plane, ExternalCluster):
        pytest.skip("KUBECONFIG names a cluster whose schedulers belong to whoever runs it")
    lease = f"muster-{namespace}"
    with ExitStack() as running:
        running.callback(client.delete, "Lease", lease, "kube-system")
        made = [Pair(control_plane, host, lease, tmp_path) for host in ("muster-a", "muster-b")]
        for pair in made:
            running.callback(pair.stop)
            pair.start()
            wait_until(lambda: made[0].leads, what="the first one leads")
        yield made[0], made[1]


class Bound:
    """Counts the pods of a namespace that are seen on a node, and when each was."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.at: dict[str, float] = {}
        self._changed = threading.Condition()
        self.watch = Watch(client, "Pod", self._see, namespace=namespace, fields="spec.nodeName!=")

    def wait(self, count: int, prefix: str = "") -> float:
        """Wait until so many pods are bound whose names begin so; when the last of them was."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._of(prefix)) >= count, DEADLINE_S), (
                f"{len(self._of(prefix))} of {count} pods {prefix} were bound in {DEADLINE_S} s"
            )
            return sorted(self._of(prefix))[count - 1]

    def _of(self, prefix: str) -> list[float]:
        return [at for name, at in self.at.items() if name.startswith(prefix)]

    def _see(self, _: str, pod: Object) -> None:
        with self._changed:
            self.at.setdefault(pod["metadata"]["name"], time.monotonic())
            self._changed.notify_all()


def _gang(client: Client, namespace: str, name: str) -> None:
    client.create_all(gang_pods(name, namespace, range(MEMBERS), GPUS, least=MEMBERS))


def _assert_whole(client: Client, namespace: str, names: Sequence[str]) -> None:
    """Every gang has all its members, each rank once, and no node has more than it can hold."""
    on_nodes: Counter[str] = Counter()
    for name in names:
        members = placed(client, namespace, f"{name}-")
        assert sorted(member.hint["rank"] for member in members) == list(range(MEMBERS)), name
        on_nodes.update(member.node for member in members)
    assert max(on_nodes.values()) * GPUS <= 8


def test_the_leader_is_killed_during_ten_gang_starts(
    client: Client,
    namespace: str,
    pairs: tuple[Pair, Pair],
    capsys: pytest.CaptureFixture[str],
) -> None:
    leader, standby = pairs
    names = [f"gang{number}" for number in range(GANGS)]
    bound = Bound(client, namespace)
    with bound.watch:
        starting = [
            threading.Thread(target=_gang, args=(client, namespace, name)) for name in names
        ]
        for thread in starting:
            thread.start()
        bound.wait(KILL_AFTER)
        leader.kill()
        killed = time.monotonic()
        for thread in starting:
            thread.join()
        _gang(client, namespace, "new")
        first = bound.wait(MEMBERS, "new-")
        last = bound.wait((GANGS + 1) * MEMBERS)
    assert standby.leads
    assert set(standby.gangs().values()) == {"running"}
    assert standby.bindings() <= (GANGS + 1) * MEMBERS - KILL_AFTER
    _assert_whole(client, namespace, [*names, "new"])
    with capsys.disabled():
        print(
            f"\nleader killed with {KILL_AFTER} of {GANGS * MEMBERS} pods bound: "
            f"first new gang started {first - killed:.1f} s after, all gangs whole "
            f"{last - killed:.1f} s after"
        )


def test_the_leader_is_moved_and_comes_back_as_the_standby(
    client: Client,
    namespace: str,
    pairs: tuple[Pair, Pair],
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = pairs
    bound = Bound(client, namespace)
    with bound.watch:
        _gang(client, namespace, "before")
        bound.wait(MEMBERS, "before-")
        wait_until(lambda: second.gangs() == {"before": "running"}, what="the standby shows it")
        assert second.bindings() == 0

        moved = time.monotonic()
        first.stop()
        _gang(client, namespace, "after")
        started = bound.wait(MEMBERS, "after-")
        first.start()
        wait_until(
            lambda: first.gangs() == {"before": "running", "after": "running"},
            what="the new standby knows what was done without it",
        )
    assert (first.leads, second.leads) == (False, True)
    assert (first.bindings(), second.bindings()) == (0, MEMBERS)
    _assert_whole(client, namespace, ["before", "after"])
    with capsys.disabled():
        print(f"\nleader moved: next gang started {started - moved:.1f} s after")


class Told:
    """A replica that only listens."""

    def __init__(self) -> None:
        self.leads = False
        self.hindrances: list[str] = []

    def lead(self) -> bool:
        self.leads = True
        return True

    def stand_by(self) -> None:
        self.leads = False

    def hindered(self, reason: str) -> None:
        self.hindrances += [reason] if reason else []


def test_the_role_of_the_manifest_is_enough_to_follow_the_lease(
    control_plane: Cluster, client: Client, namespace: str, tmp_path: Path
) -> None:
    role = next(item for item in MANIFEST if item["metadata"]["name"] == LEASE)
    binding = next(
        item
        for item in MANIFEST
        if item["kind"] == "RoleBinding" and item["metadata"]["name"] == LEASE
    )
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    with ExitStack() as made:
        name = f"{LEASE}-{namespace}"
        made.callback(client.delete, "Lease", name, "kube-system")
        make(client, made, account | {"metadata": {"name": "muster", "namespace": namespace}})
        for item in (role, binding):
            make(client, made, renamed(moved(item, namespace), namespace))
        config = kubeconfig(control_plane, client, namespace, "muster", tmp_path)
        transport = Transport(load(str(config)))
        made.callback(transport.close)
        told, follower = Told(), Leadership(transport, LeaseName("kube-system", name), "host-a")
        wait_until(lambda: transport.get(follower.name.path).status != 403, what="it is known")
        follower.start(told)
        made.callback(follower.stop, 5.0)

        client.create(_lease(name, "host-b_1"))
        wait_until(lambda: follower.holder == "host-b_1", what="the Lease is read")
        assert not told.leads
        client.patch("Lease", name, {"spec": _lease(name, "host-a_2")["spec"]}, "kube-system")
        wait_until(lambda: told.leads, what="its change is seen")
        assert told.hindrances == []


def _lease(name: str, holder: str) -> Object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": now}
    metadata = {"name": name, "namespace": "kube-system"}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": spec,
    }
