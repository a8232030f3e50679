"""Programs of Debian's packages, unpacked into the cache: nothing is installed or started."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.e2e.controlplane.versions import cache_folder

_SECONDS = 300


class MissingProgramError(Exception):
    """A program is neither installed nor to be had; the message says why."""


def program(name: str, package: str) -> Path:
    """The program on PATH, or the one in the package.

    Raises
    ------
    MissingProgramError
        If there is neither.
    """
    if (found := shutil.which(name)) is not None:
        return Path(found)
    path = cache_folder() / "debian" / package / "usr" / "bin" / name
    if not path.exists():
        _unpack(package, path.parents[2])
    return path


def _unpack(package: str, folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise MissingProgramError(
            f"this is no Debian, so its package {package} cannot be had: install {package} yourself"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{package}-") as unfinished:
        _download(package, Path(unfinished))
        (archive,) = Path(unfinished).glob("*.deb")
        content = Path(unfinished) / "content"
        _run(["dpkg-deb", "-x", archive, content], Path(unfinished))
        content.rename(folder)


def _download(package: str, folder: Path) -> None:
    command: list[str | Path] = ["apt-get", "download", "-qq", package]
    try:
        _run(command, folder)
    except MissingProgramError:
        # A fresh machine knows no packages yet; only root may change that.
        _run(["apt-get", "update", "-qq"], folder)
        _run(command, folder)


def _run(command: list[str | Path], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode != 0:
        words = " ".join(str(word) for word in command)
        raise MissingProgramError(f"`{words}` failed: {done.stderr.strip()[-300:]}")
