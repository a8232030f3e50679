"""``muster replay``: a recorded world, fed to the engine that runs live."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, NoReturn

import typer

from scheduler.core.quoting import bounded
from scheduler.errors import ReplayError, SettingsError, unreadable
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
            _print(sys.stdin.buffer, settings)
        else:
            with Path(file).open("rb") as lines:
                _print(lines, settings)
    except BrokenPipeError:
        raise  # whoever read the output has enough of it: the command line ends in silence
    except OSError as error:
        _unusable(f"cannot read {file}: {unreadable(error)}", error)
    except ReplayError as error:
        _unusable(f"{file}, {error}", error)
    except SettingsError as error:
        _unusable(str(error), error)


def _print(lines: BinaryIO, settings: Settings) -> None:
    # Imported late: the command line should not load the engine to show its help.
    from scheduler.simulation.replay import replay as run

    for line in run(_decoded(lines), settings, _warn):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ReplayError(number, "it is not UTF-8; save the file as UTF-8 text") from error


def _warn(text: str) -> None:
    typer.echo(bounded(f"muster replay: warning: {text}"), err=True)


def _unusable(text: str, error: Exception) -> NoReturn:
    sys.stdout.flush()
    typer.echo(bounded(f"muster replay: {text}"), err=True)
    raise typer.Exit(NOT_UNDERSTOOD) from error
