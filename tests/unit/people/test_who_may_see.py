"""On the address for people, each sees the gangs of their own namespaces, if that is wanted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from guarded_site import Guarded
from people_site import ApiServer, muster, site

from scheduler.api import stream as streams
from tests import builders

HIDDEN = "a gang of another team"


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    """Of 64 GPUs team t has 32 and team u 16; t waits for 24 more, which u's are in the way of."""
    monkeypatch.setattr(streams, "EVERY_S", 0.02)
    with site() as here:
        here.nodes()
        here.synced()
        here.gang("mine", 4, 8)
        for at in range(2):
            here.pod(f"u/theirs-{at}", gpu=8, gang="theirs", min=2)
        here.gang("waits", 3, 8)
        made = Guarded(here)
        yield made
        made.close()


READING = (
    *("/v1/gangs", "/v1/gangs/t/mine", "/v1/gangs/t/mine/why", "/v1/status", "/v1/history"),
    *("/v1/nodes", "/v1/topology", "/v1/state", "/v1/snapshot", "/v1/events"),
)


@pytest.mark.parametrize("path", READING)
def test_nobody_sees_anything_without_a_token(guarded: Guarded, path: str) -> None:
    for name in ("", "eve"):
        answer = guarded.ask(path, name)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "kubectl create token" in answer.json()["error"]


def test_fit_wants_to_know_as_well(guarded: Guarded) -> None:
    assert guarded.ask("/v1/fit", method="POST", json=[]).status_code == 401


def test_probes_metrics_and_the_page_itself_are_for_everybody(guarded: Guarded) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/"):
        assert guarded.ask(path).status_code == 200, path
        assert "theirs" not in guarded.ask(path).text


def test_the_schedulers_own_address_asks_nobody(guarded: Guarded) -> None:
    with httpx.Client(base_url=guarded.server.url) as client:
        assert client.get("/v1/gangs").status_code == 200


def test_each_sees_the_gangs_of_their_namespaces(guarded: Guarded) -> None:
    assert guarded.keys("ann") == ["t/mine", "t/waits"]
    assert guarded.keys("bob") == ["u/theirs"]
    assert guarded.keys("root") == ["t/mine", "t/waits", "u/theirs"]


@pytest.mark.parametrize("path", ["/v1/gangs/u/theirs", "/v1/gangs/u/theirs/why"])
def test_a_gang_elsewhere_is_as_if_it_was_not_there(guarded: Guarded, path: str) -> None:
    other = path.replace("theirs", "nobody")
    hidden, absent = guarded.ask(path, "ann"), guarded.ask(other, "ann")

    assert (hidden.status_code, absent.status_code) == (404, 404)
    assert hidden.json()["error"].replace("theirs", "nobody") == absent.json()["error"]
    assert guarded.ask(path, "bob").status_code == 200


def test_why_names_nobody_whom_one_may_not_see(guarded: Guarded) -> None:
    why = guarded.ask("/v1/gangs/t/waits/why", "ann").json()
    whole = guarded.ask("/v1/gangs/t/waits/why", "root").json()

    assert "u/theirs" in str(whole)
    assert "theirs" not in str(why)
    assert set(why["blocked_by"]) == {"t/mine", "1 of other teams"}
    assert {item["gang"] for item in why.get("held_there", ())} <= {"t/mine", HIDDEN}
    assert why["short_by"] == whole["short_by"]


def test_nobody_is_named_in_part_where_a_text_is_too_long(guarded: Guarded) -> None:
    here = guarded.here
    for at in range(4):
        here.pod(f"u/{at}-" + "secret-" * 35, gpu=2)
    here.gang("rack", 2, 8, options={"topology-required": "rack"})

    why, whole = (guarded.ask("/v1/gangs/t/rack/why", who).json() for who in ("ann", "root"))
    assert whole["next"].endswith("…")
    assert "secret-" in whole["next"]
    assert "secret" not in str(why)
    assert HIDDEN in why["next"]


def test_nodes_say_how_much_others_have_and_not_who(guarded: Guarded) -> None:
    nodes = guarded.ask("/v1/nodes", "ann").json()["nodes"]
    whole = guarded.ask("/v1/nodes", "root").json()["nodes"]

    assert [node["used"] for node in nodes] == [node["used"] for node in whole]
    held = [node["gangs"] for node in nodes]
    assert {"t/mine": 8} in held
    assert {"other": 8} in held
    assert "theirs" not in str(nodes)


@pytest.mark.parametrize("path", ["/v1/state", "/v1/snapshot"])
def test_the_whole_is_for_who_may_see_all(guarded: Guarded, path: str) -> None:
    refused = guarded.ask(path, "ann")
    assert refused.status_code == 403
    assert "all namespaces" in refused.json()["error"]
    assert guarded.ask(path, "root").status_code == 200


def test_fit_is_for_ones_own_namespaces(guarded: Guarded) -> None:
    def fit(namespace: str) -> int:
        pod = {"metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": []}}
        return guarded.ask("/v1/fit", "ann", method="POST", json=[pod]).status_code

    assert (fit("t"), fit("u")) == (200, 403)


def test_fit_names_nobody_whom_one_may_not_see(guarded: Guarded) -> None:
    block = {"topology-required": "block"}
    pods = [builders.pod(f"t/f-{at}", gpu=8, gang="f", min=3, options=block) for at in range(3)]

    asked = {"method": "POST", "json": pods}
    told, whole = (guarded.ask("/v1/fit", name, **asked).json() for name in ("ann", "root"))

    assert "u/theirs holds 16" in whole["next"]
    assert f"{HIDDEN} holds 16" in told["next"]
    assert "theirs" not in str(told)


def test_the_stream_tells_each_their_own(guarded: Guarded) -> None:
    def listen(name: str) -> Iterator[Any]:
        headers = {"Authorization": f"Bearer {name}-token"}
        with guarded.client.stream("GET", "/v1/events", headers=headers) as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    ann, bob = listen("ann"), listen("bob")
    assert (next(ann), next(bob)) == ({}, {})
    guarded.here.pod("u/more-0", gpu=8, gang="more", min=1)
    guarded.here.pod("t/more-0", gpu=8, gang="more", min=1)

    def gangs(found: Any) -> set[str]:
        return {gang["key"] for gang in found["gangs"]} | set(found["gone_gangs"])

    heard_ann, heard_bob = set[str](), set[str]()
    while "t/more" not in heard_ann:
        heard_ann |= gangs(next(ann))
    while "u/more" not in heard_bob:
        heard_bob |= gangs(next(bob))
    assert {key.partition("/")[0] for key in heard_ann} == {"t"}
    assert {key.partition("/")[0] for key in heard_bob} == {"u"}
    ann.close()  # type: ignore[attr-defined]
    bob.close()  # type: ignore[attr-defined]


# ── the command line ──


def test_the_command_line_sends_the_token_only_where_it_is_wanted(
    guarded: Guarded, tmp_path: Path
) -> None:
    ran = muster("gangs", "--server", guarded.url, "--token", "ann-token")
    assert (ran.status, "waits" in ran.out, "theirs" in ran.out) == (0, True, False)
    ran = muster("gangs", "--server", guarded.url, MUSTER_TOKEN="bob-token")
    assert "theirs" in ran.out

    unknown = muster("gangs", "--server", guarded.url)
    wrong = muster("gangs", "--server", guarded.url, "--token", "eve-token")
    assert (unknown.status, wrong.status) == (3, 3)
    assert "Muster wants to know who asks" in unknown.err
    assert "not valid" in wrong.err


def test_through_the_proxy_the_kubeconfigs_token_goes_in_a_header_of_its_own(
    guarded: Guarded, tmp_path: Path
) -> None:
    api = ApiServer(guarded.url)
    try:
        config = api.kubeconfig(tmp_path, namespace="t", token="ann-token")
        ran = muster("why", "waits", "--kubeconfig", config)
        assert ran.out.startswith("t/waits is queued")
        assert [headers.get("X-Muster-Token") for headers in api.headers] == [None, "ann-token"]

        with_url = ApiServer(guarded.here.url)
        config = with_url.kubeconfig(tmp_path, namespace="t", token="ann-token")
        assert muster("why", "waits", "--kubeconfig", config).status == 0
        assert [headers.get("X-Muster-Token") for headers in with_url.headers] == [None]
        with_url.close()
    finally:
        api.close()
