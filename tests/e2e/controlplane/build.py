"""Builds the control plane's programs from their Go modules, once per machine.

    python -m tests.e2e.controlplane.build [--cache FOLDER] [NAME ...]

Prints one line `NAME PATH` per program on standard output. Finished programs stay in the cache,
so a build that was interrupted goes on where it stopped; a second build that starts meanwhile
waits for the first.
"""

from __future__ import annotations

import argparse
import fcntl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import gomodule
from .progress import Reporter
from .toolchain import BuildError, find_go, go_environment
from .versions import BINARIES, CONTROL_PLANE, Binary, binary_path, cache_folder

__all__ = ["BuildError", "ensure", "main"]


def ensure(
    names: Sequence[str] = CONTROL_PLANE,
    *,
    cache: Path | None = None,
    reporter: Reporter | None = None,
) -> dict[str, Path]:
    """The named programs' paths, building what is missing.

    Parameters
    ----------
    names
        Keys of `versions.BINARIES`.
    cache
        Folder to keep everything in; `versions.cache_folder()` by default.

    Raises
    ------
    BuildError
        If a program cannot be built; the message carries the end of Go's own output.
    """
    cache = cache or cache_folder()
    wanted = {name: binary_path(cache, BINARIES[name]) for name in names}
    if not _missing(wanted):
        return wanted
    reporter = reporter or Reporter()
    cache.mkdir(parents=True, exist_ok=True)
    with _only_one_build(cache / "build.lock", reporter):
        if missing := _missing(wanted):
            _build_all(missing, cache, reporter)
    return wanted


def _missing(wanted: dict[str, Path]) -> list[str]:
    return [name for name, path in wanted.items() if not path.exists()]


@contextmanager
def _only_one_build(lock: Path, reporter: Reporter) -> Iterator[None]:
    """Hold the cache's lock; the system lets go of it even if this process is killed."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reporter.say(f"waiting for another build that holds {lock}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_all(names: Sequence[str], cache: Path, reporter: Reporter) -> None:
    reporter.say(
        f"building {', '.join(names)} into {cache}; the four of the "
        "control plane take 8 minutes on 2 cores"
    )
    go = find_go(cache, reporter.say)
    for number, name in enumerate(names, start=1):
        binary = BINARIES[name]
        title = f"{name} {binary.release.version} ({number} of {len(names)})"
        with reporter.step(title):
            _build(go, binary, cache)


def _build(go: Path, binary: Binary, cache: Path) -> None:
    folder = cache / "modules" / binary.release.folder
    gomodule.prepare(go, binary.release, folder)
    path = binary_path(cache, binary)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    log = cache / "logs" / f"{binary.release.folder}-{binary.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    _compile(go, binary, folder, unfinished, log)
    if binary.has_version_flag:
        _check_version(binary, unfinished)
    unfinished.rename(path)


def _compile(go: Path, binary: Binary, folder: Path, output: Path, log: Path) -> None:
    variables = " ".join(f"-X {name}={value}" for name, value in binary.version_variables)
    command: list[str | Path] = [
        go,
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        f"-s -w {variables}",
    ]
    with log.open("w") as file:
        done = subprocess.run(
            [*command, "-o", output, binary.package],
            cwd=folder,
            env=go_environment(),
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    if done.returncode != 0:
        raise BuildError(
            f"{binary.name} {binary.release.version} could not be built: go build ended with "
            f"{done.returncode}:\n{log.read_text()[-1500:]}\nThe whole output is in {log}; "
            "run the build again, what is finished is kept."
        )


def _check_version(binary: Binary, program: Path) -> None:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    if binary.release.version.removeprefix("v") not in told.stdout + told.stderr:
        raise BuildError(
            f"{binary.name} was built from {binary.release.version} but says of itself: "
            f"{(told.stdout + told.stderr).strip()[:300]!r}."
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 if something could not be built."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.controlplane.build")
    parser.add_argument("name", nargs="*", help=f"one of {', '.join(BINARIES)}; the first four")
    parser.add_argument("--cache", type=Path, help="instead of $MUSTER_CACHE or ~/.cache/muster")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.name) - set(BINARIES)):
        parser.error(f"no such program: {', '.join(unknown)} (choose from {', '.join(BINARIES)})")
    try:
        built = ensure(options.name or CONTROL_PLANE, cache=options.cache)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, path in built.items():
        print(name, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
