"""deploy/examples/, monitoring and certificates against a real API server.

What the API server itself serves is applied by a strict dry run; so are the kinds of other
projects, by their own definitions. And whatever a controller makes of an example is a pod that is
accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.controlplane.client import ApiError, Client, Object
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.definitions import define
from tests.e2e.deployed import DEPLOY, apply, component, moved, objects
from tests.e2e.own_plane import own_plane
from tests.unit.deploy.controllers import made

pytestmark = pytest.mark.e2e

EXAMPLES = sorted((DEPLOY / "examples").glob("*.yaml"))
WITHOUT_DEFINITION = {("batch.volcano.sh/v1alpha1", "Job")}
"""No module of this project can be had; its structure is checked by the unit tests alone."""

ITEMS = [
    pytest.param(item, id=f"{path.stem}-{item['kind']}-{item['metadata']['name']}")
    for path in EXAMPLES
    for item in objects(path)
    if (item["apiVersion"], item["kind"]) not in WITHOUT_DEFINITION
]
OF_COMPONENTS = [
    pytest.param(item, id=f"{item['kind']}-{item['metadata']['name']}")
    for name in ("monitoring", "certificates")
    for item in component(name)
]


@pytest.fixture(scope="module")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A control plane of this file's own, which knows the kinds of other projects."""
    with own_plane(request) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(control_plane: Cluster) -> Iterator[Client]:
    """The administrator's client, once all kinds are served."""
    client = control_plane.client()
    define(client)
    yield client
    client.close()


@pytest.mark.parametrize("item", [*ITEMS, *OF_COMPONENTS])
def test_the_api_server_accepts_it(client: Client, namespace: str, item: Object) -> None:
    wanted = moved(item, namespace)
    if item["kind"] in ("ResourceFlavor", "ClusterQueue"):
        del wanted["metadata"]["namespace"]

    applied = apply(client, wanted, dryRun="All")

    assert applied["metadata"]["name"] == item["metadata"]["name"]


@pytest.mark.parametrize(
    ("kind", "field"), [("JobSet", "replicatedJob"), ("PyTorchJob", "nprocPerNodes")]
)
def test_a_field_that_a_project_does_not_know_would_be_told(
    client: Client, namespace: str, kind: str, field: str
) -> None:
    item = next(found for path in EXAMPLES for found in objects(path) if found["kind"] == kind)
    wrong = moved(item, namespace)
    wrong["spec"][field] = "x"

    with pytest.raises(ApiError, match=field):
        apply(client, wrong, dryRun="All")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_pod_that_a_controller_makes_is_accepted(
    client: Client, namespace: str, path: object
) -> None:
    found = made(objects(path))  # type: ignore[arg-type]
    assert found.pods

    for pod in found.pods:
        pod["metadata"]["namespace"] = namespace
        pod["metadata"].pop("uid", None)
        accepted = client.request(
            "POST",
            client.path("Pod", "", namespace),
            query={"dryRun": "All", "fieldValidation": "Strict"},
            body={"apiVersion": "v1", "kind": "Pod", **pod},
        )
        assert accepted["spec"]["schedulerName"].startswith("muster")
