"""A tiny process that outlives its parent by a moment, to end what the parent started.

It reads lines from standard input: `add GROUP` and `drop GROUP` name process groups, `folder
PATH` a temporary folder. When the parent is gone, however it ended (SIGKILL too), the pipe ends:
the groups that are left are killed and the folders removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable


def remember(lines: Iterable[str]) -> tuple[set[int], set[str]]:
    """Process groups and folders that are left when the lines end."""
    groups: set[int] = set()
    folders: set[str] = set()
    for line in lines:
        word, _, value = line.rstrip("\n").partition(" ")
        if word == "add":
            groups.add(int(value))
        elif word == "drop":
            groups.discard(int(value))
        elif word == "folder":
            folders.add(value)
    return groups, folders


def main() -> None:
    """Wait for the parent's end, then clean up."""
    groups, folders = remember(sys.stdin)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
