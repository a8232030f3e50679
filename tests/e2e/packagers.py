"""kubectl and Helm, built from their Go modules like the control plane, and kept beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.controlplane import gomodule
from tests.e2e.controlplane.progress import Reporter
from tests.e2e.controlplane.toolchain import BuildError, find_go, go_environment
from tests.e2e.controlplane.versions import (
    Binary,
    Release,
    binary_path,
    cache_folder,
    kubernetes_binary,
)

HELM_VERSION = "v3.22.0"

_HELM = Release("helm", "helm.sh/helm/v3", HELM_VERSION)

KUBECTL = kubernetes_binary("kubectl")
HELM = Binary("helm", _HELM, f"{_HELM.module}/cmd/helm")


def program(binary: Binary) -> Path:
    """The program's path, built if it is not there. Raises BuildError."""
    cache = cache_folder()
    path = binary_path(cache, binary)
    if not path.exists():
        with Reporter().step(f"{binary.name} {binary.release.version}"):
            _build(binary, cache, path)
    return path


def output(binary: Binary, *arguments: str | Path) -> str:
    """What the program prints; RuntimeError with its own words if it fails."""
    command: list[str | Path] = [program(binary), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{binary.name} {arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def _build(binary: Binary, cache: Path, path: Path) -> None:
    go = find_go(cache, Reporter().say)
    folder = cache / "modules" / binary.release.folder
    gomodule.prepare(go, binary.release, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    command: list[str | Path] = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
    done = subprocess.run(
        [*command, "-o", unfinished, binary.package],
        cwd=folder,
        env=go_environment(),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise BuildError(f"{binary.name} could not be built: {done.stderr[-1500:]}")
    unfinished.rename(path)
