"""The ``muster`` command. Each subcommand is one small module in ``scheduler.commands``.

Only the module of the command that was asked for is imported, so ``muster --help`` is quick.

It also works as a plugin of kubectl: `kubectl muster why …`.

Exit status: 0 done, 1 could not go on, 2 a bad option, file or setting, 3 the service cannot be
reached.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

from scheduler import __version__
from scheduler.errors import MusterError


class Command(NamedTuple):
    """Where a command is, and its line in the list of commands."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "serve": Command("serve", "serve", "Serve the extender for a cluster until SIGTERM."),
    "demo": Command("demo", "demo", "Replay a day of gangs on an embedded cluster."),
    "replay": Command("replay", "replay", "Print what Muster does for a recorded world."),
    "simulate": Command("simulate", "simulate", "Compare policies on a trace of real jobs."),
    "status": Command("status", "status", "Show whether Muster is ready, and what waits."),
    "gangs": Command("gangs", "gangs", "List gangs with their state and reason."),
    "why": Command("why", "why", "Say why a gang waits, and what comes next."),
    "top": Command("top", "top", "Show what is free where, and how large a gang would fit."),
    "fit": Command("fit", "fit", "Say whether a job would start now, before it is submitted."),
    "agent": Command("agent", "agent", "Publish how a node's GPUs are linked and who has them."),
    "kube-config": Command(
        "kube_config", "kube_config", "Print the configuration of the kube-scheduler."
    ),
}


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application; of the commands only the one in ``arguments`` can be run."""
    words = list(arguments) or _words_to_complete(os.environ)
    wanted = next((word for word in words if not word.startswith("-")), None)
    app = typer.Typer(
        name="muster",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for name, command in COMMANDS.items():
        function = _load(command) if name == wanted else _not_loaded
        app.command(name, help=None if name == wanted else command.summary)(function)
    return app


def main() -> None:
    """Entry point of ``muster``."""
    try:
        build(sys.argv[1:])()
    except MusterError as error:
        typer.echo(f"muster: {error}", err=True)
        sys.exit(2)


def complete() -> None:
    """Entry point of ``kubectl_complete-muster``, which kubectl asks to complete its plugin.

    Prints one word a line, and then that no file is meant, as cobra's ``__complete`` does.
    """
    words = ["muster", *sys.argv[1:]]
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    os.environ.update({"_MUSTER_COMPLETE": "complete_bash", **asked})
    with suppress(SystemExit):
        build([])(prog_name="muster")
    typer.echo(":4")


def _words_to_complete(environ: Mapping[str, str]) -> list[str]:
    """What the user has typed so far, where a shell asks for completions."""
    typed = environ.get("_TYPER_COMPLETE_ARGS") or environ.get("COMP_WORDS") or ""
    return typed.split()[1:]


def _load(command: Command) -> Callable[..., Any]:
    module = import_module(f"scheduler.commands.{command.module}")
    function: Callable[..., Any] = getattr(module, command.function)
    return function


def _not_loaded() -> None:
    raise AssertionError("this command is only listed, not loaded")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"muster {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Starts distributed training jobs whole, close together and fast."""
    del version  # its callback has done all
