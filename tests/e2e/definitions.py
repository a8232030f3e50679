"""Custom resource definitions as their projects publish them, from their Go modules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.e2e.controlplane.client import Object
from tests.e2e.controlplane.progress import Reporter
from tests.e2e.controlplane.toolchain import BuildError, find_go, go_environment
from tests.e2e.controlplane.versions import cache_folder

MODULES = {
    "sigs.k8s.io/jobset@v0.10.1": ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
    "github.com/kubeflow/training-operator@v1.8.1": (
        "manifests/base/crds/kubeflow.org_pytorchjobs.yaml",
    ),
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
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
}
"""Module with its version, and the files that are read from it. Volcano's has none."""


def definitions() -> Iterator[Object]:
    """Every definition. Raises BuildError if a module cannot be had."""
    folder = cache_folder() / "modules" / "definitions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text("module muster.test/definitions\n")
    go = find_go(cache_folder(), Reporter().say)
    for module, files in MODULES.items():
        source = _downloaded(go, module, folder)
        for file in files:
            yield _without_webhook(yaml.safe_load((source / file).read_text()))


def _downloaded(go: Path, module: str, folder: Path) -> Path:
    command = [go, "mod", "download", "-json", module]
    done = subprocess.run(
        command, cwd=folder, env=go_environment(), capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        raise BuildError(f"{module} cannot be downloaded: {(done.stderr + done.stdout)[-600:]}")
    return Path(json.loads(done.stdout)["Dir"])


def _without_webhook(definition: Object) -> Object:
    """Nobody is there to convert between versions; each is checked as it stands."""
    definition["spec"]["conversion"] = {"strategy": "None"}
    return definition
