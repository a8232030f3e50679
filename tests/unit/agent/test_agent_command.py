"""``muster agent`` as a process, against tools that are scripts and an API server over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import agent_tables as tables
import pytest
from agent_api import NodeApi
from agent_kubelet import Kubelet, devices, listed, pod
from agent_nodes import Root, held
from agent_tables import Shown

from scheduler.core.devices import IN_USE_KEY, TOPOLOGY_KEY

PATIENCE_S = 60.0
TABLE = tables.with_tabs(Shown(2, {(0, 1): "NV4"}, numa=("0", "0")))


class Place:
    """A folder that is the node's root, and one with the tools it has."""

    def __init__(self, folder: Path) -> None:
        self.root = Root(folder / "root")
        self.root.device("pci0000:00/0000:00:01.0")
        self.root.checkpoint([held("uid-a", "nvidia.com/gpu", {"0": ["1"]})])
        self._tools = folder / "tools"
        self._tools.mkdir()
        # The machine that runs the tests may have a driver of its own.
        (self._tools / "pynvml.py").write_text("raise ImportError\n", encoding="utf-8")

    def tool(self, name: str, script: str) -> None:
        file = self._tools / name
        file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        file.chmod(0o755)

    def smi(self) -> None:
        (self._tools / "table").write_text(TABLE, encoding="utf-8")
        table = self._tools / "table"
        self.tool("nvidia-smi", f'[ "$1 $2" = "topo -m" ] && exec cat "{table}"; exit 6')

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        path = f"{self._tools}{os.pathsep}{os.defpath}"
        return subprocess.Popen(
            [sys.executable, "-m", "scheduler", "agent", f"--root={self.root.folder}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(self._tools)},
        )

    def ended(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def api() -> Iterator[NodeApi]:
    api = NodeApi()
    yield api
    api.close()


def test_printing_needs_no_cluster(place: Place) -> None:
    place.smi()

    status, out, err = place.ended("--once", "--print")

    assert status == 0, err
    assert json.loads(out) == {
        TOPOLOGY_KEY: {
            "v": 1,
            "gpus": 2,
            "links": {"0-1": "NV4"},
            "numa": [0, 0],
            "nics": [],
            "uuids": [],
        },
        IN_USE_KEY: {"v": 1, "in_use": {"uid-a": [1]}},
    }


def test_printing_what_the_kubelets_socket_says(place: Place) -> None:
    with TemporaryDirectory(dir="/tmp") as short:
        place.root = Root(Path(short))
        place.smi()
        one = pod("a-0", devices("nvidia.com/gpu", "1"))
        kubelet = Kubelet(place.root.folder, lambda: listed(one))

        status, out, err = place.ended("--print", "--in-use-from", "pod-resources")
        kubelet.close()

    assert status == 0, err
    in_use = json.loads(out)[IN_USE_KEY]
    assert (in_use["in_use"], in_use["by_name"]) == ({}, {"t/a-0": [1]})
    assert abs(in_use["at"] - time.time()) < PATIENCE_S


def test_a_socket_that_was_asked_for_and_is_not_mounted_is_a_failure(place: Place) -> None:
    place.smi()

    status, out, err = place.ended("--print", "--in-use-from", "pod-resources")

    assert status == 1
    assert list(json.loads(out)) == [TOPOLOGY_KEY]
    assert "GPUs in use are not published: there is no" in err
    assert "mount the node's /var/lib/kubelet/pod-resources below --root" in err


def test_printing_on_a_machine_without_gpus(place: Place, tmp_path: Path) -> None:
    place.root = Root(tmp_path / "empty")
    place.tool("nvidia-smi", "exit 127")
    place.root.device("pci0000:00/0000:00:02.0", vendor="0x8086", kind="0x060000")

    status, out, err = place.ended("--print")

    assert (status, json.loads(out)) == (0, {})
    assert err.count("no GPU here") == 1


def test_printing_where_gpus_cannot_be_read(place: Place) -> None:
    place.tool("nvidia-smi", "echo driver mismatch >&2; exit 18")

    status, out, err = place.ended("--print")

    assert (status, json.loads(out)) == (1, {})
    assert "exit status 18: driver mismatch; is the driver loaded?" in err


def test_publishing_once(place: Place, api: NodeApi, tmp_path: Path) -> None:
    place.smi()

    status, _, err = place.ended(
        "--once", "--node", "n1", "--kubeconfig", str(api.kubeconfig(tmp_path))
    )

    assert status == 0, err
    assert api.annotations is not None
    assert json.loads(api.annotations[TOPOLOGY_KEY])["gpus"] == 2
    assert json.loads(api.annotations[IN_USE_KEY])["in_use"] == {"uid-a": [1]}
    assert api.requests == [("GET", "/api/v1/nodes/n1"), ("PATCH", "/api/v1/nodes/n1")]


@pytest.mark.parametrize(
    ("node", "refuse", "message"),
    [
        ("n2", {}, "node n2 cannot be read: 404 /api/v1/nodes/n2 not found; --node must be"),
        ("n1", {"GET": 403}, "node n1 cannot be read: 403 no GET for you; allow get and patch"),
        ("n1", {"PATCH": 500}, "node n1 cannot be annotated: 500 no PATCH for you"),
    ],
)
def test_publishing_that_is_refused(
    place: Place, api: NodeApi, tmp_path: Path, node: str, refuse: dict[str, int], message: str
) -> None:
    place.smi()
    api.refuse = refuse

    status, _, err = place.ended(
        "--once", "--node", node, "--kubeconfig", str(api.kubeconfig(tmp_path))
    )

    assert status == 1
    assert message in err


def test_running_until_it_is_told_to_stop(place: Place, api: NodeApi, tmp_path: Path) -> None:
    place.smi()
    process = place.start(
        "--node", "n1", "--interval", "1", "--kubeconfig", str(api.kubeconfig(tmp_path))
    )
    try:
        assert api.patched.wait(PATIENCE_S)
        api.patched.clear()
        place.root.checkpoint([])
        assert api.patched.wait(PATIENCE_S), "the change was published"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 0, err
    assert api.annotations is not None
    assert json.loads(api.annotations[IN_USE_KEY])["in_use"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--node is missing; name this node"),
        (("--node", "n1", "--kubeconfig", "no-such-file"), "there is no such file"),
        (("--node", "n1", "--interval", "0"), "Invalid value for '--interval'"),
    ],
)
def test_options_that_cannot_be_used(
    place: Place, arguments: tuple[str, ...], message: str
) -> None:
    status, _, err = place.ended(*arguments)

    assert status == 2
    assert message in err
