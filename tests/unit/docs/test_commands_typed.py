"""The tutorial, typed by somebody who follows it, and what else can be tried beside a demo."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.simulation.replay import replay
from tests.unit.docs.ledger import DEMO
from tests.unit.docs.shown import ROOT, block, lines
from tests.unit.docs.terminal import Terminal, Typed, has

START = "muster demo --gangs 60 --hold --port 8099"
SHELL = "/bin/bash"
PLACES = '"rank_order": ["r1/n1", "r2/n2"]'

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """In the checkout, with the files that the pages have a reader write, beside the demo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    made = Terminal(
        tmp_path_factory.mktemp("reader"),
        elsewhere={"8099": port, "127.0.0.1:8086": f"127.0.0.1:{port}"},
        environment={"SHELL": SHELL},
    )
    (made.folder / "gang.jsonl").write_text(block("docs/tutorial.md", "jsonl"))
    (made.folder / "hints.json").write_text(block("docs/trainer.md", "json", "["))
    (made.folder / "job.yaml").symlink_to(ROOT / "deploy/examples/indexed-job.yaml")
    with made.left_running(START, until="The page stays up"):
        for line in (line for line in DEMO if line.startswith(("export ", ". "))):
            assert made.type(line).status == 0
        yield made


def url(terminal: Terminal, path: str) -> str:
    return f"http://127.0.0.1:{terminal.elsewhere['8099']}{path}"


def get(terminal: Terminal, path: str) -> str:
    with urllib.request.urlopen(url(terminal, path), timeout=30) as answer:
        found: str = answer.read().decode()
    return found


def test_the_demo_shows_its_page_and_is_what_the_reader_asks(terminal: Terminal) -> None:
    assert "<title>Muster" in get(terminal, "/")
    assert terminal.environment["MUSTER_SERVER"] == url(terminal, "")
    assert (terminal.folder / "out/demo.svg").is_file()
    assert (ROOT / "out").resolve() != (terminal.folder / "out").resolve()


@pytest.mark.parametrize(
    "line", [line for line in DEMO if line != START and not line.startswith(("export ", ". "))]
)
def test_a_command_does_what_its_page_says(terminal: Terminal, line: str) -> None:
    if line.startswith("curl") and not has("curl"):
        pytest.skip("no curl on this machine")

    done = terminal.type(line)

    assert "Traceback" not in done.err
    SAID[line](done, terminal)


# ── what each of them says ──


def status(done: Typed, _: Terminal) -> None:
    assert (done.status, done.err) == (0, "")
    assert " is ready\n" in done.out
    assert "of 512 used" in done.out


def top(done: Typed, _: Terminal) -> None:
    assert (done.status, done.err) == (0, "")
    assert "LARGEST GANG IN ONE" in done.out
    assert sum(line.startswith(("b0/r", "b1/r")) for line in done.out.splitlines()) == 8


def gangs(done: Typed, terminal: Terminal) -> None:
    assert (done.status, done.err) == (0, "")
    known = json.loads(get(terminal, "/v1/gangs"))["gangs"]
    assert len(done.out.splitlines()) == 1 + len(known)
    assert known, "some gangs are left when the day ends"


def wide(done: Typed, terminal: Terminal) -> None:
    gangs(done, terminal)
    assert "DOMAIN" in done.out.splitlines()[0]


def fits(done: Typed, _: Terminal) -> None:
    """Either answer is true for its moment; that there is one is what counts."""
    assert done.out.startswith(("It fits: 4 pods", "It would wait: 4 pods"))
    assert done.status == (0 if done.out.startswith("It fits") else 1)


def replayed(done: Typed, _: Terminal) -> None:
    assert done.status == 0
    first, second = (json.loads(line) for line in done.out.splitlines() if '"op":"why"' in line)
    assert first["reason"] == "1 of 2 pods exist"
    assert '"never":true' in done.out
    assert second["never"]


def completed(done: Typed, terminal: Terminal) -> None:
    assert done.status == 0, done.err
    assert "bash completion installed" in done.out
    assert "muster" in Path(terminal.environment["HOME"], ".bashrc").read_text()


def completion(done: Typed, _: Terminal) -> None:
    assert done.status == 0, done.err
    assert "_MUSTER_COMPLETE" in done.out


def looked(done: Typed, _: Terminal) -> None:
    """A machine without GPUs prints ``{}``, and says so once."""
    assert isinstance(json.loads(done.out), dict)
    assert done.out.strip() != "{}" or "GPU" in done.err


def simulated(done: Typed, terminal: Terminal) -> None:
    assert done.status == 0, done.err
    policies = json.loads(done.out)["policies"]
    assert policies.keys() >= {"muster", "greedy", "binpack", "spread", "random"}
    assert policies["muster"]["never_started"] == 0
    assert (terminal.folder / "out/simulate.svg").is_file()


def surroundings(done: Typed, _: Terminal) -> None:
    assert done.status == 0
    assert "backend" in done.out


def as_json(done: Typed, _: Terminal) -> None:
    named = block_of_names()
    assert done.status == 0
    assert set(named) <= set(json.loads(done.out))


def block_of_names() -> list[str]:
    """The keys that the page says `muster-train env --json` prints."""
    page = (ROOT / "docs/trainer.md").read_text()
    told = page.partition("`muster-train env --json` prints")[2].partition(";")[0]
    return [word.strip("`,. ") for word in told.split() if word.startswith("`")]


def rehearsed(done: Typed, _: Terminal) -> None:
    assert done.status == 0, done.err
    assert PLACES in done.out.splitlines()[-1]


def secured(done: Typed, _: Terminal) -> None:
    assert (done.status, done.err) == (0, "")
    (extender,) = yaml.safe_load(done.out)["extenders"]
    assert extender["urlPrefix"] == "https://muster-verbs.muster-system.svc:8443"
    assert set(extender["tlsConfig"].values()) == {"/tls/ca.crt", "/tls/tls.crt", "/tls/tls.key"}


def snapshot(done: Typed, terminal: Terminal) -> None:
    """It is the demo's cluster: the replay of it ends in the state that the demo is in."""
    assert done.status == 0, done.err
    *_, last = replay(done.out.splitlines())
    bound: dict[str, Any] = json.loads(last)["bound"]
    assert bound == json.loads(get(terminal, "/v1/state"))["bound"]
    assert bound
    kinds = {json.loads(line).get("object", {}).get("kind") for line in done.out.splitlines()}
    assert {"Node", "Pod"} <= kinds
    assert "Event" not in kinds, "no decision depends on one, and there are many"


SAID = {
    "muster status": status,
    "muster top": top,
    "muster gangs -A": gangs,
    "muster gangs -o wide": wide,
    "muster fit -f deploy/examples/indexed-job.yaml": fits,
    "muster fit -f job.yaml": fits,
    "muster replay gang.jsonl": replayed,
    "muster --install-completion": completed,
    "muster --show-completion": completion,
    "muster agent --once --print": looked,
    "muster simulate --jobs 1000": simulated,
    "muster-train env": surroundings,
    "muster-train env --json": as_json,
    "muster-train rehearse hints.json -- -m trainer train --steps 20": rehearsed,
    DEMO[-2]: secured,
    "curl -s http://127.0.0.1:8086/v1/snapshot": snapshot,
}


def test_the_tutorial_is_typed_from_its_first_line_to_its_last() -> None:
    page = list(lines((ROOT / "docs/tutorial.md").read_text()))

    assert set(page) - {"make install"} <= set(DEMO)
