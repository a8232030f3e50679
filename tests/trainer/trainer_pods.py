"""Pods as processes of this machine: a `muster-train` each, with torchrun's agent and workers.

They are the real thing. Most are forked from a process that has imported torch once, instead of
importing it each for seconds; workers are forked in turn from their agent, as `muster-train
rehearse` does.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainer_worlds import CONTEXT, wait_until

FORKED = {
    "PET_START_METHOD": "fork",
    "PET_RUN_PATH": "1",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
NEW_NETWORK, NEW_MOUNTS = 0x40000000, 0x00020000
"""CLONE_NEWNET and CLONE_NEWNS of Linux's sched.h."""

REC, SLAVE, DETACH = 0x4000, 0x80000, 2
"""MS_REC, MS_SLAVE and MNT_DETACH of sys/mount.h."""


class Pod:
    """One `muster-train` process and its workers, with its output in files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder

    pid: int

    @property
    def running(self) -> bool:
        raise NotImplementedError

    def ends(self) -> int:
        """Its exit code."""
        raise NotImplementedError

    @property
    def out(self) -> str:
        return _text(self.folder / "out")

    @property
    def err(self) -> str:
        return _text(self.folder / "err")

    def says(self, text: str) -> None:
        wait_until(lambda: text in self.err or not self.running, text)
        assert text in self.err, self.err

    def workers(self) -> list[int]:
        return children(self.pid)

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def vanish(self) -> None:
        """As a node that loses power: nobody gets a chance to say goodbye. Afterwards nothing is
        left of it.
        """
        for pid in (self.pid, *descendants(self.pid)):
            kill(pid)
        if self.running:
            self.ends()


class ForkedPod(Pod):
    def __init__(
        self,
        folder: Path,
        args: Sequence[str],
        env: dict[str, str],
        namespace: str | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        """namespace: name of the network namespace it lives in; before: run in it at first."""
        super().__init__(folder)
        variables = {**_kept(), **FORKED, **env}
        self.process = CONTEXT.Process(
            target=_main, args=(folder, list(args), variables, namespace, before)
        )
        self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid

    @property
    def running(self) -> bool:
        return self.process.is_alive()

    def ends(self) -> int:
        self.process.join(240)
        assert self.process.exitcode is not None, f"still running: {self.err}"
        return self.process.exitcode


class OwnPod(Pod):
    """With an interpreter of its own, and one for each of its workers."""

    def __init__(self, folder: Path, args: Sequence[str], env: dict[str, str]) -> None:
        super().__init__(folder)
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trainer", *args],
                env=_kept() | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""} | env,
                stdout=out,
                stderr=err,
            )
        self.pid = self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def ends(self) -> int:
        return self.process.wait(240)


@contextmanager
def pods(folder: Path, kind: type[Pod] = ForkedPod) -> Iterator[Callable[..., Any]]:
    """Starts `muster-train ARGS` with more variables; all are gone afterwards."""
    started: list[Pod] = []

    def start(*args: str, options: dict[str, Any] | None = None, **variables: str) -> Pod:
        place = folder / f"pod-{len(started)}"
        started.append(kind(place, args, variables, **(options or {})))
        return started[-1]

    try:
        yield start
    finally:
        for pod in started:
            pod.vanish()


def children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    return [found for child in children(pid) for found in (child, *descendants(child))]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _kept() -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONPYCACHEPREFIX")
    return {name: os.environ[name] for name in names if name in os.environ}


def _main(
    folder: Path,
    args: list[str],
    variables: dict[str, str],
    namespace: str | None,
    before: Callable[[], None] | None,
) -> None:
    for number, name in ((1, "out"), (2, "err")):
        descriptor = os.open(folder / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        os.dup2(descriptor, number)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder.parent)
    if namespace is not None:
        _enter(namespace)
    if before is not None:
        before()
    from trainer.cli import run

    code = run(args)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _enter(namespace: str) -> None:
    """As `ip netns exec` does. Before any thread exists, as namespaces are a thread's own."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    steps: list[tuple[Any, ...]] = [
        (libc.setns, descriptor, NEW_NETWORK),
        (libc.unshare, NEW_MOUNTS),
        (libc.mount, b"none", b"/", None, REC | SLAVE, None),
        (libc.umount2, b"/sys", DETACH),
        (libc.mount, b"sysfs", b"/sys", b"sysfs", 0, None),
    ]
    for call, *values in steps:
        if call(*values):
            raise OSError(ctypes.get_errno(), f"{call.__name__} for namespace {namespace}")
