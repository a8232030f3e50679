"""Traces of a few steps, and records of GPU memory. Off by default, and then free."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.errors import SettingsError
from trainer.job import Job

if TYPE_CHECKING:
    from torch.profiler import profile

log = logging.getLogger("muster.profiling")

SKIPPED, WARMUP, TRACED = 10, 2, 5
"""Steps: the first ones are not like the rest, and tracing itself has to get going."""

MEMORY_ENTRIES = 100_000


@contextmanager
def watching(job: Job) -> Iterator[Callable[[], None]]:
    """What is called after each step. Raises SettingsError for what cannot be watched here."""
    with ExitStack() as stack:
        if job.settings.memory_snapshot is not None:
            stack.enter_context(_memory(job, job.settings.memory_snapshot))
        if job.settings.profile is None:
            yield _nothing
        else:
            yield stack.enter_context(_profiler(job, job.settings.profile)).step


def _nothing() -> None:
    """No step is traced."""


def _profiler(job: Job, folder: Path) -> profile:
    from torch import profiler

    kinds = [profiler.ProfilerActivity.CPU]
    if job.device.type == "cuda":
        kinds.append(profiler.ProfilerActivity.CUDA)

    def ready(traced: Any) -> None:
        path = folder / f"rank-{job.ranks.rank}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            traced.export_chrome_trace(str(path))
        except (OSError, RuntimeError) as error:
            log.warning("%s cannot be written, and the run goes on: %s", path, error)

    return profiler.profile(
        activities=kinds,
        schedule=profiler.schedule(
            skip_first=SKIPPED, wait=0, warmup=WARMUP, active=TRACED, repeat=1
        ),
        on_trace_ready=ready,
    )


@contextmanager
def _memory(job: Job, folder: Path) -> Iterator[None]:
    import torch

    if job.device.type != "cuda":
        raise SettingsError(
            "--memory-snapshot wants an NVIDIA GPU, and this rank computes on the CPU"
        )
    torch.cuda.memory._record_memory_history(max_entries=MEMORY_ENTRIES)
    try:
        yield
    finally:
        path = folder / f"rank-{job.ranks.rank}.pickle"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            torch.cuda.memory._dump_snapshot(str(path))  # type: ignore[no-untyped-call]
        except (OSError, RuntimeError) as error:
            log.warning("%s cannot be written: %s", path, error)
        torch.cuda.memory._record_memory_history(enabled=None)
