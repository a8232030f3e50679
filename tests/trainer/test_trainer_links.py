"""Bad links and full disks: real ones, in network namespaces and on small file systems.

These tests need the rights of root, and say so where they do not have them.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from trainer_pods import ForkedPod, pods

from benchmarks.fabric_net import Node, NotPermittedError, cut, fabric, slow_down
from trainer.checkpoint import complete

Start = Callable[..., ForkedPod]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with pods(tmp_path) as begin:
        yield begin


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    """Four machines with a network interface each, in two racks."""
    try:
        with fabric(4) as made:
            yield made
    except NotPermittedError as error:
        pytest.skip(f"no network namespaces here: {error}")


def gang(start: Start, nodes: list[Node], *args: str, **more: str) -> list[ForkedPod]:
    where = {"NNODES": str(len(nodes)), "MASTER_ADDR": nodes[0].address, "MASTER_PORT": "29511"}
    return [
        start(*args, options={"namespace": node.namespace}, NODE_RANK=str(pod), **where, **more)
        for pod, node in enumerate(nodes)
    ]


def test_a_node_with_a_slow_link_is_named_by_all_before_the_run(
    start: Start, nodes: list[Node]
) -> None:
    """In rank order two are in one rack, and two in the other."""
    slow_down(nodes[2], 10)
    quick = {"MUSTER_SIZE_MIB": "1", "MUSTER_REPEATS": "1", "MUSTER_MIN_GBPS": "0.02"}
    in_order = [nodes[number] for number in (0, 2, 1, 3)]
    found = gang(start, in_order, "preflight", "--json", **quick)
    assert [pod.ends() for pod in found] == [138] * 4, [pod.err for pod in found]
    told: dict[str, Any] = json.loads(found[0].out)
    assert [name.partition(" ")[2] for name in told["slow_hosts"]] == ["(rank 1)"]
    assert told["slow_links"] == []
    assert all("(rank 1) is slow with two partners" in pod.err for pod in found)


def test_a_node_whose_link_is_down_is_missed_by_name_and_misses_the_first(
    start: Start, nodes: list[Node]
) -> None:
    cut(nodes[3])
    found = gang(start, nodes, "preflight", MUSTER_DEADLINE="3")
    assert [pod.ends() for pod in found] == [138] * 4, [pod.err for pod in found]
    for pod in found[:3]:
        assert "1 of 4 ranks did not come within 3 s: [3]" in pod.err
    assert f"could not be reached at {nodes[0].address}:29511 within 3." in found[3].err


def test_a_link_that_goes_down_in_the_midst_of_a_run_ends_it_with_what_was_saved(
    start: Start, nodes: list[Node], tmp_path: Path
) -> None:
    """The interface is the one that leads to the first pod, also where there is only one."""
    pair = nodes[::2]
    found = gang(
        start, pair, "launch", "--", "-m", "trainer", "train", "--steps", "1000000",
        "--timeout", "2", "--checkpoint-every", "20", "--checkpoint-dir", str(tmp_path / "saved"),
    )  # fmt: skip
    found[0].says("step 50/")
    cut(pair[1])
    assert [pod.ends() for pod in found] == [138, 138], [pod.err for pod in found]
    assert all("GLOO_SOCKET_IFNAME=eth0" in pod.err for pod in found)
    assert "another rank is gone or stuck" in found[0].err
    assert complete(tmp_path / "saved")[-1].step >= 40


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for two checkpoints."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "muster-test", str(place)]
    made = subprocess.run(mount, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no file systems may be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_fills_up_ends_the_run_and_room_on_it_lets_it_go_on(
    start: Start, disk: Path
) -> None:
    saved = disk / "saved"

    def run() -> ForkedPod:
        return start(
            "launch", "--nproc-per-node", "2", "--", "-m", "trainer", "train", "--steps", "40",
            "--checkpoint-every", "10", "--keep", "9", "--checkpoint-dir", str(saved),
        )  # fmt: skip

    full = run()
    assert full.ends() == 138, full.err
    assert "is there room, and may the pod write there?" in full.err
    kept = [found.step for found in complete(saved)]
    assert kept, "what was saved before is kept"
    subprocess.run(["mount", "-o", "remount,size=2m", str(disk)], check=True)
    again = run()
    assert again.ends() == 0, again.err
    assert json.loads(again.out.splitlines()[-1])["resumed_from"] == kept[-1]
    assert [found.step for found in complete(saved)] == [10, 20, 30, 40]
