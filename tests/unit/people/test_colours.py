"""Colours are for terminals: never in a file or a pipe, nor where NO_COLOR is set."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from people_site import Site

ESCAPE = "\x1b["
RUNNING = "\x1b[32mrunning"


@pytest.fixture
def busy(here: Site) -> Site:
    here.gang("runs", 2, 8)
    return here


def command(site: Site) -> list[str]:
    return [sys.executable, "-m", "scheduler", "gangs", "--server", site.url]


def environment(**more: str) -> dict[str, str]:
    unset = ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return {**kept, "TERM": "xterm", **more}


def on_a_terminal(site: Site, **more: str) -> str:
    """What the command prints there."""
    reader, terminal = pty.openpty()
    try:
        subprocess.run(
            command(site),
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=subprocess.PIPE,
            timeout=60,
            check=True,
        )
        return os.read(reader, 1 << 16).decode()
    finally:
        os.close(terminal)
        os.close(reader)


def test_a_terminal_shows_states_in_colours(busy: Site) -> None:
    assert RUNNING in on_a_terminal(busy)


def test_no_colour_is_shown_to_who_wants_none(busy: Site) -> None:
    shown = on_a_terminal(busy, NO_COLOR="1")

    assert "running" in shown
    assert "\x1b[32m" not in shown


def test_what_goes_elsewhere_is_plain(busy: Site) -> None:
    done = subprocess.run(
        command(busy), env=environment(), capture_output=True, text=True, timeout=60, check=True
    )

    assert "running" in done.stdout
    assert ESCAPE not in done.stdout + done.stderr
