"""Muster is killed again and again while gangs start: all it knows afterwards is in the API."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Self

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.watch import Watch
from tests.e2e.gangs import gang_pods, placed
from tests.e2e.muster import MusterProcess, start_muster_scheduler

pytestmark = pytest.mark.e2e

SEED = 1
GANGS = 20
SMALLEST, LARGEST = 8, 16
GPUS = 256
"""All that there are: with a single one lost, the last gang would wait for ever."""


@pytest.fixture
def muster(control_plane: Cluster, nodes: Sequence[Object]) -> Iterator[MusterProcess]:
    """Muster, ready, and the kube-scheduler that asks it."""
    with MusterProcess(control_plane) as process:
        scheduler = start_muster_scheduler(process)
        yield process
        scheduler.stop()


class Killer:
    """Kills Muster at the moment in which a number of a gang's pods are seen to be bound."""

    def __init__(self, client: Client, namespace: str, muster: MusterProcess) -> None:
        self._muster = muster
        self._bound: set[str] = set()
        self._armed: tuple[str, int] | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._watch = Watch(client, "Pod", self._see, namespace=namespace, fields="spec.nodeName!=")

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.__exit__(*error)

    def kill_after(self, gang: str, count: int) -> None:
        """Kill Muster when so many pods of the gang are bound; TimeoutError if they never are."""
        self._done.clear()
        with self._lock:
            self._armed = (gang, count)
            self._strike()
        if not self._done.wait(60):
            raise TimeoutError(f"fewer than {count} pods of {gang} were bound within 60 s")

    def bound(self, gang: str = "") -> int:
        """How many pods have been seen on a node: of a gang, or in all."""
        with self._lock:
            return self._count(gang)

    def _see(self, _: str, pod: Object) -> None:
        with self._lock:
            self._bound.add(pod["metadata"]["name"])
            self._strike()

    def _strike(self) -> None:
        if self._armed is not None and self._count(self._armed[0]) >= self._armed[1]:
            self._armed = None
            self._muster.kill()
            self._done.set()

    def _count(self, gang: str) -> int:
        return sum(name.startswith(gang) for name in self._bound)


def sizes(random: Random) -> list[int]:
    """Members of each gang, which together take every GPU."""
    found = [GPUS // GANGS] * GANGS
    found[0] += GPUS % GANGS
    for _ in range(200):
        less, more = random.sample(range(GANGS), 2)
        if found[less] > SMALLEST and found[more] < LARGEST:
            found[less] -= 1
            found[more] += 1
    return found


def test_twenty_kills_while_twenty_gangs_start(
    client: Client, namespace: str, muster: MusterProcess
) -> None:
    """After some Binding or at any moment: in the end every gang is whole, and no room is lost."""
    random = Random(SEED)
    members = {f"gang{number:02d}": size for number, size in enumerate(sizes(random))}
    cut = 0
    with Killer(client, namespace, muster) as killer:
        for gang, size in members.items():
            client.create_all(gang_pods(gang, namespace, range(size), 1, least=size))
            kill_somewhen(random, killer, muster, gang, size)
            cut += 0 < killer.bound(gang) < size
            muster.start()
            muster.wait_ready()
        wait_until(lambda: killer.bound() == GPUS, 120, what="every pod is bound")
    assert cut > 0, "some of the kills came in the middle of a gang's start"
    assert {gang: ranks(client, namespace, gang) for gang in members} == {
        gang: list(range(size)) for gang, size in members.items()
    }
    assert used(muster) == held(client, namespace)
    assert reserved(muster) == 0
    client.delete_all("Pod", namespace, grace=0)
    wait_until(lambda: not any(used(muster).values()), 60, what="all room is free again")


def kill_somewhen(
    random: Random, killer: Killer, muster: MusterProcess, gang: str, size: int
) -> None:
    """Kill Muster after one of the gang's first Bindings, or after a while, whatever happens."""
    if random.random() < 0.7:
        killer.kill_after(gang, random.randint(1, size // 2))
    else:
        # Nothing is waited for here: the moment itself is what is drawn.
        time.sleep(random.uniform(0, 0.1))
        muster.kill()


def ranks(client: Client, namespace: str, gang: str) -> list[int]:
    """The ranks that were given out in a gang, in order."""
    return sorted(member.hint["rank"] for member in placed(client, namespace, f"{gang}-"))


def held(client: Client, namespace: str) -> dict[str, int]:
    """How many pods, of one GPU each, sit on each node."""
    return dict(Counter(item["spec"]["nodeName"] for item in client.list("Pod", namespace)))


def used(muster: MusterProcess) -> dict[str, int]:
    """How many GPUs Muster counts as used on each node."""
    return {node["name"]: node["used"] for node in nodes_shown(muster)}


def reserved(muster: MusterProcess) -> int:
    """How many GPUs are reserved on all nodes together."""
    return sum(node["reserved"] for node in nodes_shown(muster))


def nodes_shown(muster: MusterProcess) -> list[Object]:
    shown: list[Object] = json.loads(muster.get("/v1/nodes"))["nodes"]
    return shown
