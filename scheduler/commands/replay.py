"""``muster replay``: a recorded world, fed to the engine that runs live."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

from scheduler.errors import ReplayError, SettingsError
from scheduler.settings import Settings, from_file

NOT_UNDERSTOOD = 2


def replay(
    file: Annotated[str, typer.Argument(help="A replay file; - reads standard input.")] = "-",
    config: Annotated[Path | None, typer.Option(help="Settings as TOML.")] = None,
) -> None:
    """Print what Muster answers and does for a recorded world. Needs no cluster."""
    try:
        settings = from_file(config) if config else Settings()
        if file == "-":
            _print(sys.stdin, settings)
        else:
            with Path(file).open(encoding="utf-8") as lines:
                _print(lines, settings)
    except (ReplayError, SettingsError, OSError, UnicodeDecodeError) as error:
        sys.stdout.flush()
        typer.echo(f"muster replay: {error}", err=True)
        raise typer.Exit(NOT_UNDERSTOOD) from error


def _print(lines: TextIO, settings: Settings) -> None:
    # Imported late: the command line should not load the engine to show its help.
    from scheduler.simulation.replay import replay as run

    for line in run(lines, settings):
        sys.stdout.write(line + "\n")
