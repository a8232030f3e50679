"""A whole gang on one machine: one real launcher for each pod, each with its own hint.

Every pod is a process with torchrun's agent in it, and every agent starts real workers; they
meet over the loopback interface. All of them are forked from one process that has imported
torch once, since the imports take longer than the training that people rehearse.
"""

from __future__ import annotations

import importlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from multiprocessing.context import ForkContext, ForkProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path

from trainer import command_line, hints, ports
from trainer.errors import HintError, SettingsError
from trainer.interruption import EXIT_CODE
from trainer.launch import launch
from trainer.roll_call import OFFSET

log = logging.getLogger("muster.rehearse")

PRELOAD = ("torch.distributed.run", "torch._dynamo", "torch.distributed.checkpoint")
"""What agents and workers import. DistributedDataParallel imports torch._dynamo when it is
constructed, which takes as long again as torch itself."""


def rehearse(hint_file: Path, args: Sequence[str]) -> int:
    """Run `muster-train launch` with these arguments once for each hint in the file.

    hint_file: a JSON list; pod i gets its i-th element (a hint, or null for none) and is number
    i to the launcher.

    Returns 0, or the exit code of the first pod that failed, after the others were stopped.
    Runs on the CPU. Raises SettingsError or WorldError for an unreadable
    file, a hint that is none, and a script that is not there.
    """
    texts = _read(hint_file)
    _check_script(args)
    _preload()
    port = ports.any_free(OFFSET)
    context = multiprocessing.get_context("fork")
    together = context.Barrier(len(texts))
    pods = [
        _start(context, _variables(text, number, len(texts), port), args, together)
        for number, text in enumerate(texts)
    ]
    with _forwarding_sigterm(pods) as stopped:
        code = _supervise(pods)
    return EXIT_CODE if stopped else code


def _read(path: Path) -> list[str | None]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        text = f"cannot read the pods' hints from {path}: {error.strerror or error}"
        raise SettingsError(text) from error
    except ValueError as error:
        raise SettingsError(f"the pods' hints in {path} are no JSON: {error}") from error
    if not isinstance(raw, list) or not raw:
        raise SettingsError(f"{path}: want a JSON list with the hint of each pod")
    return [None if item is None else _hint(path, number, item) for number, item in enumerate(raw)]


def _hint(path: Path, number: int, item: object) -> str:
    text = json.dumps(item)
    try:
        hints.parse(text)
    except HintError as error:
        raise SettingsError(f"{path}: pod {number}: {error}") from error
    return text


def _check_script(args: Sequence[str]) -> None:
    """Said once, here, and not by every pod with a traceback."""
    options = command_line.parser().parse_args(command_line.without_separator(args))
    script = options.training_script
    if options.module:
        command_line.module_file(script)
    elif not options.no_python and not Path(script).exists():
        raise SettingsError(f"no file {script} to run; it is looked for in {Path.cwd()}")


def _preload() -> None:
    for name in PRELOAD:
        with suppress(ImportError):
            importlib.import_module(name)


def _variables(text: str | None, number: int, pods: int, port: int) -> dict[str, str]:
    """What a pod's template would set."""
    return {
        "MUSTER_HINT": text or "",
        "PET_NNODES": str(pods),
        "PET_NODE_RANK": str(number),
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": str(port),
        "PET_LOCAL_ADDR": f"127.0.0.{number % 250 + 2}",
        "PET_START_METHOD": "fork",
        "PET_RUN_PATH": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


def _start(
    context: ForkContext, variables: dict[str, str], args: Sequence[str], together: Barrier
) -> ForkProcess:
    process = context.Process(target=_pod, args=(variables, args, together))
    with warnings.catch_warnings():
        # From Python 3.12 on, forking with threads about is warned of: numpy's idle BLAS pool
        # is one, and it knows how to live through a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _pod(variables: dict[str, str], args: Sequence[str], together: Barrier) -> None:
    """One launcher. Having succeeded, all leave together: one of them serves the others' store. If
    another one fails, SIGTERM ends this one while it waits."""
    warnings.simplefilter("ignore", DeprecationWarning)
    os.environ.update(variables)
    sys.exit(launch(args, before_leaving=together.wait))


def _supervise(pods: Sequence[ForkProcess]) -> int:
    first_failure = 0
    while running := [pod for pod in pods if pod.is_alive()]:
        wait([pod.sentinel for pod in running])
        failed = [pod.exitcode for pod in pods if pod.exitcode]
        if failed and not first_failure:
            first_failure = failed[0] if failed[0] > 0 else 128 - failed[0]
            _terminate(pods)
    return first_failure or max((abs(pod.exitcode or 0) for pod in pods), default=0)


def _terminate(pods: Sequence[ForkProcess]) -> None:
    for pod in pods:
        if pod.is_alive():
            pod.terminate()


@contextmanager
def _forwarding_sigterm(pods: Sequence[ForkProcess]) -> Iterator[list[int]]:
    """While inside, SIGTERM goes on to all pods; the list tells whether one came."""
    came: list[int] = []

    def forward(number: int, _frame: object) -> None:
        came.append(number)
        _terminate(pods)

    former = signal.signal(signal.SIGTERM, forward)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, former)
