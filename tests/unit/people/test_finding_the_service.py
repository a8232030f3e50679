"""The commands find the service by URL or through the API server, and say what to try if not."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from people_site import ApiServer, Site, muster

from scheduler.commands.client import Reply, ServiceError

EVERY = (["gangs"], ["why", "t/x"], ["top"], ["status"])


@pytest.fixture
def through(here: Site) -> Iterator[Callable[[str], ApiServer]]:
    made: list[ApiServer] = []

    def start(mode: str) -> ApiServer:
        made.append(ApiServer(here.url, mode))
        return made[-1]

    yield start
    for api in made:
        api.close()


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_through_the_service_with_the_kubeconfigs_rights(
    here: Site, through: Callable[[str], ApiServer], tmp_path: Path
) -> None:
    here.gang("train", 2, 8)
    api = through("service")

    ran = muster("why", "train", KUBECONFIG=api.kubeconfig(tmp_path, namespace="t"))

    assert ran.out.startswith("t/train is running")
    path = "/api/v1/namespaces/muster-system/services/muster:http/proxy/v1/gangs/t/train/why"
    assert api.asked == [("GET", path, "Bearer a-token")]


def test_the_contexts_namespace_is_the_default(
    here: Site, through: Callable[[str], ApiServer], tmp_path: Path
) -> None:
    here.gang("mine", 2, 8)
    here.pod("u/theirs-0", gpu=8, gang="theirs", min=2)
    config = through("service").kubeconfig(tmp_path, namespace="u")

    assert "mine" not in muster("gangs", "--kubeconfig", config).out
    assert "mine" in muster("gangs", "-A", "--kubeconfig", config).out


def test_without_a_service_a_ready_pod_is_asked(
    here: Site, through: Callable[[str], ApiServer], tmp_path: Path
) -> None:
    api = through("pod")
    job = tmp_path / "pod.yaml"
    job.write_text(
        "{kind: Pod, metadata: {name: p}, spec: {schedulerName: muster, containers: []}}"
    )

    assert muster("status", "--kubeconfig", api.kubeconfig(tmp_path)).status == 0
    ran = muster("fit", "-f", str(job), "--kubeconfig", api.kubeconfig(tmp_path))

    assert ran.status == 0
    posts = [path for method, path, _ in api.asked if method == "POST"]
    assert posts[-1] == "/api/v1/namespaces/muster-system/pods/muster-1:8086/proxy/v1/fit"


@pytest.mark.parametrize(
    ("mode", "advice"),
    [
        ("nothing", "neither a Service muster nor a ready pod"),
        ("forbidden", "have the Role muster-viewer bound to you in namespace muster-system"),
        ("no-endpoints", "kubectl -n muster-system get pods,endpointslices"),
    ],
)
def test_what_stands_in_the_way_is_said_with_what_to_do(
    through: Callable[[str], ApiServer], tmp_path: Path, mode: str, advice: str
) -> None:
    ran = muster("status", "--kubeconfig", through(mode).kubeconfig(tmp_path))

    assert (ran.status, ran.out) == (3, "")
    assert advice in ran.err
    assert len(ran.err) < 1000


def test_an_error_of_muster_is_not_taken_for_one_of_the_way(
    through: Callable[[str], ApiServer], tmp_path: Path
) -> None:
    config = through("service").kubeconfig(tmp_path)

    ran = muster("why", "t/nobody", "--kubeconfig", config)

    listing = f"muster gangs -A --kubeconfig {config}"
    assert ran.status == 1
    assert ran.err == f"muster why: there is no gang t/nobody; `{listing}` lists all\n"


@pytest.mark.parametrize("command", EVERY)
def test_every_command_ends_with_3_where_nothing_answers(
    command: list[str], closed_port: int
) -> None:
    ran = muster(*command, "--server", f"127.0.0.1:{closed_port}")

    assert (ran.status, ran.out) == (3, "")
    assert f"http://127.0.0.1:{closed_port}" in ran.err
    assert "--server or MUSTER_SERVER" in ran.err


def test_an_api_server_that_is_away_and_a_kubeconfig_that_is_missing(
    through: Callable[[str], ApiServer], tmp_path: Path
) -> None:
    api = ApiServer("", "service")
    config = api.kubeconfig(tmp_path)
    api.close()

    away = muster("status", "--kubeconfig", config)
    missing = muster("status", "--kubeconfig", str(tmp_path / "none"))

    assert (away.status, missing.status) == (3, 3)
    assert f"the API server {api.url} does not answer: " in away.err
    assert "Does kubectl reach the cluster?" in away.err
    assert "there is no such file" in missing.err


def test_what_answers_but_is_not_muster_is_said(tmp_path: Path) -> None:
    class Other(ApiServer):
        def answer(
            self, method: str, path: str, body: bytes, headers: Mapping[str, str]
        ) -> tuple[int, bytes]:
            return 200, b"<html>hello</html>"

    other = Other("")
    try:
        ran = muster("gangs", "--server", other.url)
    finally:
        other.close()
    assert ran.status == 3
    assert "no answer of Muster" in ran.err


@pytest.mark.parametrize("arguments", [["gangs", "--nothing"], ["gangs", "-o", "xml"], ["why"]])
def test_bad_usage_ends_with_2(arguments: list[str]) -> None:
    assert muster(*arguments).status == 2


@pytest.mark.parametrize("command", ["gangs", "top", "status"])
def test_another_path_of_a_server_is_no_muster(here: Site, command: str) -> None:
    ran = muster(command, "--server", f"{here.url}/foo")
    assert ran.status == 3
    assert "no answer of Muster (404)" in ran.err
    assert "Is the URL (--server or MUSTER_SERVER) that of Muster" in ran.err


def test_a_page_of_another_server_is_not_poured_out() -> None:
    reply = Reply(200, b"<!doctype html><html><h1>It works!</h1></html>")
    with pytest.raises(ServiceError, match=r"no answer of Muster \(200\): a page of HTML"):
        _ = reply.value


@pytest.mark.parametrize(
    "words",
    [
        ["gangs", "--server", "ftp://x"],
        ["gangs", "-n", "a b/../c"],
        ["fit", "-n", "Bad Name", "-f", "-"],
        ["status", "--muster-namespace", "No"],
    ],
)
def test_what_can_be_no_url_or_namespace_is_bad_usage(words: list[str]) -> None:
    ran = muster(*words)
    assert ran.status == 2
    assert repr(words[2]) in ran.err
