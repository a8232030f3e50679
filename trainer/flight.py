"""What the ranks were doing when one of them was lost: the flight recorder, on disk and in brief.

torch remembers the last collectives of each rank where TORCH_FR_BUFFER_SIZE is set, which the
launcher does. A rank that finds another one gone or stuck writes its own memory out.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainer.errors import PeerError

log = logging.getLogger("muster.flight")


_OF_A_PEER = re.compile(
    r"gloo|nccl|pair closure|by peer|timed out|timeout|broken pipe|connection", re.IGNORECASE
)
"""What is in the texts of gloo's errors, which have no class of their own."""


def is_of_a_peer(error: BaseException) -> bool:
    """Whether it tells of another rank that is gone or stuck, rather than of the model."""
    from torch.distributed import DistError

    return isinstance(error, DistError) or bool(_OF_A_PEER.search(str(error)))


@contextmanager
def explained(rank: int, step: Callable[[], int], folder: Path | None) -> Iterator[None]:
    """A collective that fails inside becomes a PeerError that says where, with a dump on disk."""
    try:
        yield
    except RuntimeError as error:
        if not is_of_a_peer(error):
            raise
        dump, last = write(rank, folder)
        raise PeerError(
            f"rank {rank}: step {step()} could not end, as another rank is gone or stuck: "
            f"{(str(error).splitlines() or [''])[0]}"
            + (f"; last collective: {last}" if last else "")
            + (f"; flight recorder: {dump}" if dump else "")
        ) from error


def write(rank: int, folder: Path | None) -> tuple[Path | None, str | None]:
    """Dump this rank's record; its file, and its last collective in words. Never raises."""
    entries = recorded()
    if not entries:
        return None, None
    path = (folder or Path(tempfile.gettempdir())) / f"muster-flight-rank-{rank}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"rank": rank, "entries": entries}), encoding="utf-8")
    except OSError as error:
        log.warning("the flight recorder's dump could not be written: %s", error)
        return None, in_words(entries[-1])
    return path, in_words(entries[-1])


def recorded() -> list[dict[str, Any]]:
    """Entries of this process, oldest first; none where torch keeps no record."""
    from torch._C import _distributed_c10d

    dump = getattr(_distributed_c10d, "_dump_fr_trace_json", None)
    if dump is None:
        return []
    try:
        found = json.loads(dump())
    except (RuntimeError, ValueError):
        return []
    entries: list[dict[str, Any]] = found.get("entries", []) if isinstance(found, dict) else []
    return entries


def in_words(entry: dict[str, Any]) -> str:
    """`gloo:all_reduce number 17, started`."""
    name = entry.get("profiling_name", "a collective")
    number = entry.get("collective_seq_id", entry.get("record_id", "?"))
    return f"{name} number {number}, {entry.get('state', 'state unknown')}"
