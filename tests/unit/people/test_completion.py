"""Shells complete commands and options, for `muster` and for `kubectl muster`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "scheduler"]
PLUGIN = [sys.executable, "-c", "from scheduler.cli import complete; complete()"]


def asked(words: str) -> list[str]:
    """What bash is offered for the last word of what was typed."""
    count = len(words.split()) - (not words.endswith(" "))
    environ = {"COMP_WORDS": words, "COMP_CWORD": str(count), "_MUSTER_COMPLETE": "complete_bash"}
    script = "import sys; sys.argv = ['muster']; from scheduler.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


def plugin(*words: str) -> list[str]:
    """What kubectl is told."""
    done = subprocess.run([*PLUGIN, *words], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("muster st", ["status"]),
        ("muster g", ["gangs"]),
        ("muster why --names", ["--namespace"]),
        ("muster gangs --all", ["--all-namespaces"]),
        ("muster gangs --output w", ["wide"]),
        ("muster status --nothing", []),
    ],
)
def test_a_shell_is_offered_what_fits(words: str, offered: list[str]) -> None:
    assert asked(words) == offered


def test_kubectl_is_offered_the_same_and_told_that_no_file_is_meant() -> None:
    assert plugin("st") == ["status", ":4"]
    assert plugin("why", "--names") == ["--namespace", ":4"]
    everything = plugin("")
    assert {"why", "gangs", "top", "fit", "status", ":4"} <= set(everything)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_each_shell_can_be_had(shell: str) -> None:
    done = subprocess.run(
        [*COMMAND, "--show-completion", shell], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "COMPLETE" in done.stdout
