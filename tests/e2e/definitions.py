"""Custom resource definitions as their projects publish them, from their Go modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from tests.e2e.controlplane import gomodule, versions
from tests.e2e.controlplane.client import ApiError, Client, Object, wait_until

JOBSET = versions.JOBSET.named
TRAINING_OPERATOR = versions.TRAINING_OPERATOR.named

MODULES = {
    JOBSET: ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
    TRAINING_OPERATOR: ("manifests/base/crds/kubeflow.org_pytorchjobs.yaml",),
    "github.com/kubeflow/trainer/v2@v2.0.0": (
        "manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml",
        "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
    ),
    "sigs.k8s.io/lws@v0.7.0": ("config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",),
    "sigs.k8s.io/kueue@v0.17.0": (
        "config/components/crd/bases/kueue.x-k8s.io_resourceflavors.yaml",
        "config/components/crd/bases/kueue.x-k8s.io_clusterqueues.yaml",
        "config/components/crd/bases/kueue.x-k8s.io_localqueues.yaml",
    ),
    "github.com/ray-project/kuberay/ray-operator@v1.5.0": (
        "config/crd/bases/ray.io_rayclusters.yaml",
    ),
    "github.com/argoproj/argo-workflows/v3@v3.7.2": (
        "manifests/base/crds/full/argoproj.io_workflows.yaml",
    ),
    "github.com/cert-manager/cert-manager@v1.19.1": (
        "deploy/crds/cert-manager.io_certificates.yaml",
        "deploy/crds/cert-manager.io_issuers.yaml",
    ),
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
}
"""Module with its version, and the files that are read from it. Volcano's has none."""


def definitions(modules: Iterable[str] = tuple(MODULES)) -> Iterator[Object]:
    """Every definition of these modules. Raises BuildError if one cannot be had."""
    for module in modules:
        folder = gomodule.source(module)
        for file in MODULES[module]:
            yield _without_webhook(_loaded(folder / file))


def define(client: Client, modules: Iterable[str] = tuple(MODULES)) -> None:
    """Create the definitions of these modules; their objects can be written afterwards."""
    for definition in definitions(modules):
        serve(client, definition)


def serve(client: Client, definition: Object) -> None:
    """Create a definition and wait until its objects can be written."""
    # Some are too large for the annotation of a client-side apply, so it is created.
    client.create(definition)
    spec = definition["spec"]
    version = next(item["name"] for item in spec["versions"] if item["served"])
    kind = f"{spec['group']}/{version}/{spec['names']['kind']}"
    wait_until(lambda: _is_served(client, kind), 60, what=f"{kind} is served")


def _is_served(client: Client, kind: str) -> bool:
    try:
        client.list(kind)
    except ApiError as error:
        if error.status in (404, 429):  # not known yet, or its storage is not ready yet
            return False
        raise
    return True


def _loaded(file: Path) -> Object:
    """Some are megabytes long, for which the parser that is written in Python takes a minute."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: Object = yaml.load(file.read_text(), loader)
    return found


def _without_webhook(definition: Object) -> Object:
    """Nobody is there to convert between versions; each is checked as it stands."""
    definition["spec"]["conversion"] = {"strategy": "None"}
    return definition
