"""Muster's own feasibility against the stock kube-scheduler's, pair by pair.

Gangs are bound past the scheduler, so that what Muster takes for possible has to be what the
scheduler would have taken for possible, no more and no less.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from random import Random

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster, ExternalCluster
from tests.e2e.controlplane.objects import create_namespace, create_nodes
from tests.e2e.pairs import ports, resizes, resources, rules
from tests.e2e.pairs.judging import Judge, Verdict, stock_word
from tests.e2e.pairs.world import OVERHEAD, Sitter, World

pytestmark = pytest.mark.e2e

SEED = 20260
FAMILIES = {
    "resources": resources.resources,
    "affinity": rules.affinity,
    "taints": rules.taints,
    "cordons": rules.cordons,
    "ports": ports.ports,
    "resizes": resizes.resizes,
    "mixed": resources.mixed,
}
RUNTIME_CLASS = "node.k8s.io/v1/RuntimeClass"


@pytest.fixture(scope="module")
def world(client: Client) -> Iterator[World]:
    """Nodes and the pods that sit on them; the API server has them before any candidate."""
    name = f"e2e-{secrets.token_hex(4)}"
    made = World(name, runtime_class=name)
    for number, draw in enumerate((*FAMILIES.values(), rules.unready)):
        draw(made, Random(SEED + number))
    create_namespace(client, name)
    try:
        client.create(runtime_class(name))
        create_nodes(client, made.nodes.values())
        client.create_all(sitter.pod for sitter in made.sitters)
        client.at_once(lambda sitter: settle(client, sitter), made.sitters)
        yield made
    finally:
        client.delete_all("Pod", name, grace=0)
        client.at_once(lambda node: client.delete("Node", node), made.nodes)
        client.delete(RUNTIME_CLASS, name)
        client.delete("Namespace", name)


@pytest.fixture(scope="module")
def verdicts(control_plane: Cluster, client: Client, world: World) -> list[Verdict]:
    """What both schedulers say of every pair; the stock one begins when all nodes are there."""
    nodes = [client.get("Node", name) for name in world.nodes]
    judge = Judge(nodes, client.list("Pod", world.namespace))
    created = client.create_all(pair.pod for pair in world.pairs)
    own = [judge.asked(pod, pair.site) for pair, pod in zip(world.pairs, created, strict=True)]
    stock = stock_words(control_plane, client, world)
    return [
        Verdict(pair, stock[pair.name], said, judge.asked(pair.pod, pair.site))
        for pair, said in zip(world.pairs, own, strict=True)
    ]


def stock_words(cluster: Cluster, client: Client, world: World) -> dict[str, str]:
    """The stock scheduler's word on each candidate, by its name."""
    scheduler = None if isinstance(cluster, ExternalCluster) else cluster.start_scheduler()
    try:
        wait_until(lambda: not missing(client, world), 120, what="every candidate has its answer")
    finally:
        if scheduler is not None:
            scheduler.stop()
    return words(client, world)


def missing(client: Client, world: World) -> set[str]:
    return {pair.name for pair in world.pairs} - words(client, world).keys()


def words(client: Client, world: World) -> dict[str, str]:
    sites = {pair.name: pair.site for pair in world.pairs}
    found = {item["metadata"]["name"]: item for item in client.list("Pod", world.namespace)}
    said = {name: stock_word(found[name], site) for name, site in sites.items()}
    return {name: word for name, word in said.items() if word is not None}


def settle(client: Client, sitter: Sitter) -> None:
    """Bring a pod that sits on a node into its state."""
    name, namespace = sitter.pod["metadata"]["name"], sitter.pod["metadata"]["namespace"]
    if sitter.status:
        client.patch("Pod", name, {"status": sitter.status}, namespace, subresource="status")
    if sitter.terminating:
        client.delete("Pod", name, namespace, grace=3000)


def runtime_class(name: str) -> Object:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "none",
        "overhead": {"podFixed": OVERHEAD},
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_muster_allows_what_kube_scheduler_allows_and_nothing_else(
    verdicts: list[Verdict], family: str
) -> None:
    """Equal word for each pair; and yes and no both came up often enough to mean something."""
    asked = [verdict for verdict in verdicts if verdict.pair.family == family]
    differing = [str(verdict) for verdict in asked if not verdict.agreed]
    assert not differing, "\n".join([f"{len(differing)} of {len(asked)} differ", *differing[:10]])
    refused = sum(bool(verdict.stock) for verdict in asked)
    assert len(asked) // 5 <= refused <= len(asked) - len(asked) // 5


def test_the_defaults_of_the_api_server_change_no_verdict(verdicts: list[Verdict]) -> None:
    """Limits without requests, host networks: a pod that never was in a cluster reads the same."""
    assert len(verdicts) >= 300
    assert [str(verdict) for verdict in verdicts if verdict.as_sent != verdict.muster] == []


def test_only_muster_stays_away_from_a_node_that_is_not_ready(verdicts: list[Verdict]) -> None:
    """The one difference by design: gangs are kept away before the taint of that name is there."""
    asked = [verdict for verdict in verdicts if verdict.pair.family == "unready"]
    assert [verdict.stock for verdict in asked] == ["", "", ""]
    assert {verdict.pair.note: verdict.muster for verdict in asked} == {
        "tolerated": "",
        "not tolerated": "node is not ready",
    }
