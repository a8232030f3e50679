"""Every command that README and docs show is known here, and works or is looked at otherwise."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest
import typer
import yaml

from scheduler import cli
from tests.unit.docs import ledger
from tests.unit.docs.ledger import Way
from tests.unit.docs.shown import ROOT, commands, lines

SHOWN = commands()
IMAGE = re.compile(r"[\w-]+:\d+\.\d+\.\d+")


def of(way: Way) -> list[str]:
    return sorted({shown.line for shown in SHOWN if way in ledger.ways(shown.line)})


def each(way: Way) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("line", of(way))


def test_it_is_known_of_every_command_whether_it_works() -> None:
    doubtful = [f"{page}: {line}" for page, line in SHOWN if len(ledger.ways(line)) != 1]

    assert not doubtful, "say in tests/unit/docs/ledger.py, once, how each of these is tried"


def test_no_command_is_tried_that_no_page_shows() -> None:
    shown = {line for _, line in SHOWN}

    # What kubectl's plugin is given stands behind `kubectl`, too.
    plugins = {line.removeprefix("kubectl ") for line in shown}
    assert not set(ledger.stated()) - shown - plugins


def test_what_is_not_typed_has_a_reason() -> None:
    assert all(len(reason) > 20 for reason in (*ledger.PARSED.values(), *ledger.LEFT.values()))


def test_commands_are_found_in_blocks_and_in_sentences_and_their_names_are_not() -> None:
    page = """Type `muster why t/a` or `muster why NAME`, see `muster why`, `kubectl apply`.

```sh
muster top   # a picture
# nothing here
kubectl get pods \\
  -n t
```
```json
{"muster": "status --json"}
```
```
$ muster status --json
t/a is queued
```
`make test` too, and `python -m docs.generate`.
"""

    assert list(lines(page)) == [
        "muster top",
        "kubectl get pods    -n t",
        "muster status --json",
        "muster why t/a",
        "make test",
        "python -m docs.generate",
    ]


@pytest.mark.parametrize("line", [line for line in of(Way.PARSED) if line.startswith("muster ")])
def test_what_is_too_long_to_run_is_understood(line: str) -> None:
    parse(shlex.split(line)[1:])


def test_an_option_that_is_none_would_be_told() -> None:
    with pytest.raises(Exception, match="--gpus"):
        parse(["simulate", "--gpus", "8"])
    with pytest.raises(Exception, match="integer"):
        parse(["simulate", "--jobs", "many"])


def parse(words: list[str]) -> None:
    """Let the command's own parser read its arguments. Raises what it says."""
    command = typer.main.get_command(cli.build(words)).commands[words[0]]  # type: ignore[attr-defined]
    command.make_context(words[0], words[1:])


@each(Way.TARGET)
def test_what_is_made_can_be_made(line: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(rf"^{line.split()[1]}:.*\n((?:\t.*\n)*)", makefile, re.MULTILINE)

    assert recipe is not None
    for module in re.findall(r"/python -m ([\w.]+)", recipe[1]):
        assert has_program(module), module


@each(Way.MODULE)
def test_what_is_run_as_a_module_is_one(line: str) -> None:
    assert has_program(line.split()[2])


def has_program(module: str) -> bool:
    file = ROOT / Path(*module.split("."))
    if (file / "__main__.py").is_file():
        return True
    source = file.with_suffix(".py")
    return source.is_file() and '__name__ == "__main__"' in source.read_text()


@each(Way.BUILT)
def test_an_image_is_built_from_what_there_is_and_called_as_the_manifest_calls_it(
    line: str,
) -> None:
    words = shlex.split(line)
    file = (ROOT / words[words.index("-f") + 1]).read_text()
    deployment = (ROOT / "deploy/base/deployment.yaml").read_text()

    arguments = [
        word.partition("=") for at, word in enumerate(words) if words[at - 1] == "--build-arg"
    ]
    for name, _, value in arguments:
        assert re.search(rf"^ARG {name}\b", file, re.MULTILINE), name
        assert name != "LOCK" or (ROOT / f"locks/{value}.txt").is_file()
    assert words[-1] == "."
    assert words[words.index("-t") + 1] in images(yaml.safe_load_all(deployment))


def images(documents: Iterable[object]) -> set[str]:
    return set(IMAGE.findall(yaml.safe_dump_all(documents)))
