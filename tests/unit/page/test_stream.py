"""``/v1/events``: what has changed, to as many as may listen, until the server ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from people_site import PATIENCE_S, Site, site

from scheduler.api import stream
from scheduler.api.page import PAGE, policy


class Listener:
    """One client of the stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def next(self) -> tuple[str, Any]:
        """The next event and its data; comments are passed over."""
        event = ""
        for line in self._lines:
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return event, json.loads(line.removeprefix("data: "))
        raise EOFError

    def until(self, wanted: Any) -> dict[str, Any]:
        """The first change for which ``wanted`` holds."""
        while True:
            _, found = self.next()
            if wanted(found):
                return dict(found)


@contextmanager
def listening(here: Site) -> Iterator[Listener]:
    with (
        httpx.Client(timeout=PATIENCE_S) as client,
        client.stream("GET", here.url + "/v1/events") as response,
    ):
        yield Listener(response)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "EVERY_S", 0.02)


@pytest.fixture
def here() -> Iterator[Site]:
    with site() as made:
        made.nodes(1, 1, 3)
        made.synced()
        yield made


def test_a_client_is_ready_first_and_then_told_of_what_changed_and_nothing_else(here: Site) -> None:
    with listening(here) as client:
        assert client.response.headers["content-type"].startswith("text/event-stream")
        assert client.next() == ("ready", {})
        here.gang("train", 2, 8)
        change = client.until(lambda found: found["gangs"] and found["gangs"][0]["bound"] == 2)
        assert [gang["key"] for gang in change["gangs"]] == ["t/train"]
        assert {node["name"] for node in change["nodes"]} <= {"b0-r0-0", "b0-r0-1"}
        assert change["overview"]["gpus"]["used"] == 16

        here.node("new", gpu=8, block="b0", rack="r0")
        change = client.until(lambda found: found["nodes"])
        assert [node["name"] for node in change["nodes"]] == ["new"]
        assert change["gangs"] == change["gone_nodes"] == change["gone_gangs"] == []


def test_all_that_was_told_laid_over_the_first_answer_is_the_last_answer(here: Site) -> None:
    here.gang("early", 1, 8)
    with listening(here) as client:
        client.next()
        nodes = {node["name"]: node for node in here.get("/v1/nodes")["nodes"]}
        gangs = {gang["key"]: gang for gang in here.get("/v1/gangs")["gangs"]}
        here.gang("late", 1, 4)
        here.pod("t/early-0", gpu=8, gang="early", min=1, node="b0-r0-0", phase="Succeeded")
        here.node("last", gpu=8)
        while "last" not in nodes:
            _, change = client.next()
            nodes |= {node["name"]: node for node in change["nodes"]}
            gangs |= {gang["key"]: gang for gang in change["gangs"]}
        assert list(nodes.values()) == here.get("/v1/nodes")["nodes"]
        assert [gangs[key] for key in sorted(gangs)] == here.get("/v1/gangs")["gangs"]


def test_a_client_too_many_is_sent_away_and_one_that_left_makes_room(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "CLIENTS", 2)
    with ExitStack() as stack:
        first, _ = (stack.enter_context(listening(here)) for _ in range(2))
        first.next()
        refused = httpx.get(here.url + "/v1/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
        assert "/v1/status" in refused.json()["error"]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with listening(here) as client:
            if client.response.status_code == 200:
                break
        assert time.monotonic() < deadline


def test_a_client_that_does_not_read_is_cut_off_and_harms_no_other() -> None:
    async def story() -> tuple[list[bytes], list[bytes]]:
        with site() as made:
            made.nodes(1, 1, 2)
            made.synced()
            streams = stream.Streams(made.service)
            slow, quick = streams._stream(), streams._stream()
            heard = [await anext(quick)]
            late = [await anext(slow)]
            for at in range(stream.BACKLOG + 3):
                made.node(f"n{at}", gpu=8)
                heard.append(await anext(quick))
            late += [message async for message in slow]
            streams.close()
            heard += [message async for message in quick]
            return late, heard

    late, heard = asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
    assert late == [stream.READY]
    assert len(heard) == stream.BACKLOG + 4


def test_a_server_that_ends_does_not_wait_for_its_listeners(here: Site) -> None:
    with listening(here) as client:
        client.next()
        here.server.stop(deadline_s=PATIENCE_S)
        assert not here.server.alive
        with pytest.raises(EOFError):
            client.next()


def test_an_idle_cluster_is_not_looked_at_again(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    differ = stream.Differ(here.service)
    assert differ.look() is not None
    monkeypatch.setattr(here.service, "nodes", lambda: pytest.fail("the engine was asked again"))
    assert differ.look() is None


def test_the_policy_lets_the_page_run_its_own_script_and_ask_its_own_host_only(here: Site) -> None:
    headers = httpx.get(here.url + "/").headers
    found = headers["content-security-policy"]
    assert found == policy(PAGE.read_bytes())
    assert found.count("'sha256-") == 2
    assert "unsafe" not in found
    for part in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert part in found
    assert headers["x-content-type-options"] == "nosniff"
