"""Writes the small Go module in which a release's programs are built.

An upstream module with `replace` lines cannot be built with `go install`: the lines only count in
the main module. So a main module is generated which requires the release and repeats what its
staging modules stand for.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from .progress import Reporter
from .toolchain import BuildError, find_go, go_environment
from .versions import Release, cache_folder


def prepare(go: Path, release: Release, folder: Path) -> None:
    """Make `folder` a module that requires `release`; kept as it is if it already does.

    Raises
    ------
    BuildError
        If the release cannot be downloaded.
    """
    if (folder / "go.mod").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    upstream = _upstream_module(go, release, folder)
    unfinished = folder / "go.mod.unfinished"
    unfinished.write_text(module_text(release, upstream))
    unfinished.rename(folder / "go.mod")


def source(wanted: str) -> Path:
    """The folder of a module's files, given `MODULE@VERSION`; downloaded if it is not there.

    Raises
    ------
    BuildError
        If there is no Go, or the module cannot be downloaded.
    """
    cache = cache_folder()
    folder = cache / "modules" / "sources"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text("module muster.test/sources\n")
    go = find_go(cache, Reporter().say)
    return Path(_go_json([go, "mod", "download", "-json", wanted], folder)["Dir"])


def module_text(release: Release, upstream: dict[str, Any]) -> str:
    """The text of go.mod, given the release's own go.mod as `go mod edit -json` prints it."""
    lines = [
        f"module muster.test/{release.name}",
        f"go {upstream['Go']}",
        f"require {release.module} {release.version}",
    ]
    staged = _staging_version(release.version)
    lines += [f"replace {path} => {path} {staged}" for path in staging_modules(upstream)]
    return "\n\n".join(lines) + "\n"


def staging_modules(upstream: dict[str, Any]) -> list[str]:
    """The modules that a Kubernetes release keeps in its own tree, by the `replace` lines."""
    replaced = upstream.get("Replace") or []
    return sorted(
        line["Old"]["Path"] for line in replaced if line["New"]["Path"].startswith("./staging/")
    )


def _staging_version(version: str) -> str:
    """Kubernetes v1.X.Y publishes its staging modules as v0.X.Y."""
    _, minor, patch = version.split(".")
    return f"v0.{minor}.{patch}"


def _upstream_module(go: Path, release: Release, folder: Path) -> dict[str, Any]:
    downloaded = _go_json([go, "mod", "download", "-json", release.named], folder)
    return _go_json([go, "mod", "edit", "-json", downloaded["GoMod"]], folder)


def _go_json(command: list[str | Path], folder: Path) -> dict[str, Any]:
    done = subprocess.run(command, cwd=folder, env=go_environment(), capture_output=True, text=True)
    if done.returncode != 0:
        # `go mod download -json` puts its error into the JSON on stdout.
        told = (done.stderr + done.stdout).strip()[-600:]
        raise BuildError(
            f"`{' '.join(str(word) for word in command)}` failed: {told}. "
            "Make the Go module proxy reachable (see `go env GOPROXY`) and run it again."
        )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
