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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    ranks at the same point; they need the default process group.
    """

    def __init__(self, root: Path, keep: int, rank: int) -> None:
        self.root = root
        self.keep = keep
        self.rank = rank

    def save(self, step: int, state: dict[str, Any]) -> bool:
        """Collective. Write the state of one step; False if it is there already."""
        from torch.distributed.checkpoint.filesystem import FileSystemWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        if self._agreed(self._prepare(step) if self.rank == 0 else 0):
            return False
        work = self._work(step)
        save(state, storage_writer=FileSystemWriter(work, sync_files=True))
        if self.rank == 0:
            commit(work, self.path(step))
            retire(self.root, self.keep)
        return bool(self._agreed(1))

    def newest(self) -> Checkpoint | None:
        """Collective. The newest complete checkpoint, as rank 0 sees it."""
        found = complete(self.root) if self.rank == 0 else []
        step = self._agreed(found[-1].step if found else -1)
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

    def _prepare(self, step: int) -> int:
        """Clear the way; 1 if the step is saved already."""
        self.root.mkdir(parents=True, exist_ok=True)
        if read(self.path(step)) is not None:
            return 1
        for leftover in (self.path(step), self._work(step)):
            shutil.rmtree(leftover, ignore_errors=True)
        return 0

    def _agreed(self, value: int) -> int:
        """Rank 0's value, in every rank."""
        import torch
        import torch.distributed as dist

        tensor = torch.tensor([value])
        dist.broadcast(tensor, src=0)
        return int(tensor.item())


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
