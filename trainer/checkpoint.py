"""Checkpoints that are there completely or not at all.

    DIR/step-00000150/        made by torch.distributed.checkpoint, plus manifest.json
    DIR/step-00000200.tmp/    being written, or left behind by a crash
    DIR/LATEST                name of the newest complete one, for people and scripts

A checkpoint is written into the `.tmp` directory and flushed to the disk; then rank 0 lists its
files with their sizes in the manifest, renames the directory, and points LATEST at it. Loading
trusts the manifest, not LATEST, so a crash between any two of these steps costs nothing but
that checkpoint. All ranks must see the same directory.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar

from trainer.errors import CheckpointError, StorageError

T = TypeVar("T")

log = logging.getLogger("muster.checkpoint")

MANIFEST = "manifest.json"
LATEST = "LATEST"
TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True, order=True)
class Checkpoint:
    """One complete checkpoint on disk."""

    step: int
    path: Path


class CheckpointStore:
    """Checkpoints of one run in one directory. Methods marked *collective* are called by all
    ranks at the same point; they need the default process group. What fails on one rank is
    raised by all, so that nobody waits for somebody who has left.
    """

    def __init__(self, root: Path, keep: int, rank: int, background: bool = False) -> None:
        """background: `save` returns while the files are written; see `written` and `finish`."""
        self.root = root
        self.keep = keep
        self.rank = rank
        self.background = background
        self._group: Any = None
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: tuple[int, Future[str | None]] | None = None

    def open(self) -> None:
        """Collective. Make the directory and try it, so that a run that could not save does not
        start. Raises CheckpointError, the same on all ranks.
        """
        error = None
        if self.rank == 0:
            try:
                tried(self.root)
            except OSError as found:
                error = found.strerror or str(found)
        error = _agreed(error)
        if error is not None:
            raise CheckpointError(
                f"cannot save in {self.root}: {error}; choose a --checkpoint-dir that is a "
                "directory and may be written to"
            )

    def save(self, step: int, state: dict[str, Any]) -> bool:
        """Collective. Write the state of one step; False if it is there already.

        Raises CheckpointError, the same on all ranks.
        """
        self.finish()
        if self._prepared(step):
            return False
        if self.background:
            self._begin(step, state)
            return True
        self._check(self._write(step, state))
        self._commit(step)
        return True

    @property
    def written(self) -> bool:
        """Whether this rank's part of what is under way is on disk."""
        return self._under_way is None or self._under_way[1].done()

    @property
    def under_way(self) -> bool:
        """The same on all ranks."""
        return self._under_way is not None

    def finish(self) -> None:
        """Collective. Wait for what is under way, and make it a checkpoint."""
        if self._under_way is None:
            return
        step, future = self._under_way
        self._under_way = None
        self._check(future.result())
        self._commit(step)

    def newest(self) -> Checkpoint | None:
        """Collective. The newest complete checkpoint, as rank 0 sees it."""
        found = complete(self.root) if self.rank == 0 else []
        step = _agreed(found[-1].step if found else -1)
        return Checkpoint(step, self.path(step)) if step >= 0 else None

    def load(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        """Collective. Fill the state's tensors in place and replace its other values."""
        from torch.distributed.checkpoint.filesystem import FileSystemReader
        from torch.distributed.checkpoint.state_dict_loader import load

        load(state, storage_reader=FileSystemReader(checkpoint.path))

    def path(self, step: int) -> Path:
        return self.root / f"step-{step:08d}"

    def _work(self, step: int) -> Path:
        path = self.path(step)
        return path.with_name(path.name + TEMPORARY)

    def _prepared(self, step: int) -> bool:
        """Clear the way; True if the step is saved already."""
        there, error = False, None
        if self.rank == 0:
            try:
                there = clear(self.root, self.path(step), self._work(step))
            except OSError as found:
                error = str(found)
        there, error = _agreed((there, error))
        if error is not None:
            raise CheckpointError(f"no checkpoint of step {step}: {error}")
        return there

    def _write(self, step: int, state: dict[str, Any], group: Any = None) -> str | None:
        """This rank's error, if any."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.state_dict_saver import save

        try:
            save(state, storage_writer=self._writer(step), process_group=group)
        except (CheckpointException, OSError, RuntimeError) as error:
            return _in_words(error)
        return None

    def _begin(self, step: int, state: dict[str, Any]) -> None:
        """In a thread, over a copy, and with a group of its own: collectives of two threads over
        one group would be taken for each other.
        """
        import torch.distributed as dist

        if self._group is None:
            self._group = dist.new_group(backend="gloo")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "checkpoint")
        copied = _copied(state)
        self._under_way = (step, self._thread.submit(self._write, step, copied, self._group))

    def _writer(self, step: int) -> Any:
        from torch.distributed.checkpoint.filesystem import FileSystemWriter

        return FileSystemWriter(self._work(step), sync_files=True)

    def _commit(self, step: int) -> None:
        error = None
        if self.rank == 0:
            try:
                commit(self._work(step), self.path(step))
                retire(self.root, self.keep)
            except OSError as found:
                error = str(found)
        self._check(error)

    def _check(self, error: str | None) -> None:
        """Collective. Raises one StorageError for all if any rank has an error."""
        import torch.distributed as dist

        errors: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(errors, error)
        found = [(rank, text) for rank, text in enumerate(errors) if text is not None]
        if found:
            raise StorageError(
                f"no checkpoint in {self.root}: {found[0][1]} (rank {found[0][0]}); is there room, "
                "and may the pod write there?"
            )


def _copied(state: Any) -> Any:
    """The same, with copies of all tensors in the memory of the host."""
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, lambda one: one.detach().to("cpu", copy=True), state)


def _in_words(error: BaseException) -> str:
    """torch wraps what went wrong on each rank; the first line of one of them says it."""
    failures = getattr(error, "failures", None) or {}
    causes = [wrapped[0] for wrapped in failures.values()] or [error]
    return str(causes[0]).splitlines()[0] if str(causes[0]) else repr(causes[0])


def _agreed(value: T) -> T:
    """Collective. Rank 0's value, in every rank."""
    import torch.distributed as dist

    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=0)
    told: T = box[0]
    return told


def tried(root: Path) -> None:
    """Make the directory, and a file in it for a moment. Raises OSError."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(error.errno, "it is a file", str(root)) from error
    with NamedTemporaryFile(dir=root, prefix="try-", suffix=TEMPORARY) as file:
        file.write(b"x")


def clear(root: Path, final: Path, work: Path) -> bool:
    """Make room for a checkpoint and remove what a crash left; True if it is there already."""
    root.mkdir(parents=True, exist_ok=True)
    if read(final) is not None:
        return True
    for leftover in (final, work):
        if leftover.exists():
            shutil.rmtree(leftover)
    # Found out now, and not by all ranks at once in the midst of writing.
    work.mkdir()
    return False


def commit(work: Path, final: Path) -> None:
    """Turn a finished working directory into a checkpoint: manifest, rename, LATEST."""
    files = {path.name: path.stat().st_size for path in sorted(work.iterdir())}
    _write(work / MANIFEST, json.dumps({"v": 1, "files": files}, indent=1))
    _flush_directory(work)
    work.rename(final)
    _flush_directory(final.parent)
    temporary = final.parent / (LATEST + TEMPORARY)
    _write(temporary, final.name + "\n")
    temporary.replace(final.parent / LATEST)
    _flush_directory(final.parent)


def complete(root: Path) -> list[Checkpoint]:
    """All complete checkpoints, oldest first; the others are skipped."""
    folders = root.iterdir() if root.is_dir() else iter(())
    found = (read(folder) for folder in folders)
    return sorted(checkpoint for checkpoint in found if checkpoint is not None)


def read(folder: Path) -> Checkpoint | None:
    """The checkpoint in a folder, if all its files are there in their full size."""
    name = re.fullmatch(r"step-(\d+)", folder.name)
    if name is None or not folder.is_dir():
        return None
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        whole = all((folder / file).stat().st_size == size for file, size in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("skipping %s: incomplete (%s)", folder, error)
        return None
    if not whole:
        log.warning("skipping %s: a file does not have its full size", folder)
        return None
    return Checkpoint(int(name[1]), folder)


def retire(root: Path, keep: int) -> None:
    """Remove all complete checkpoints but the newest `keep`, and what crashes left behind."""
    for old in complete(root)[:-keep]:
        # Renamed first: a removal that is cut short must not leave half a checkpoint.
        old.path.rename(old.path.with_name(old.path.name + TEMPORARY))
    for leftover in root.glob(f"step-*{TEMPORARY}"):
        shutil.rmtree(leftover, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
