"""Runs the vendors' tools."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LIMIT_S = 60.0
"""``nvidia-smi`` wakes the driver, which takes seconds for each GPU without persistence mode."""


@dataclass(frozen=True, slots=True)
class Output:
    """How a command ended."""

    ok: bool
    text: str
    """What it printed, or why it failed."""


Run = Callable[[Sequence[str]], Output | None]
"""Runs a command; None if there is no such program."""


def run(command: Sequence[str]) -> Output | None:
    """Run a program of the search path for at most `LIMIT_S` seconds."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands, no shell
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Output(False, f"no answer within {LIMIT_S:.0f} s")
    except OSError as error:
        return Output(False, str(error))
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode == 0:
        return Output(True, text)
    said = (done.stderr.decode("utf-8", "replace") or text).strip()
    return Output(False, f"exit status {done.returncode}: {said[:300]}")
