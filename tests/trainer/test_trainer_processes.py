"""The commands as they are typed: interpreters of their own for launchers and for workers."""

import json
import os
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_trainer_training import run
from trainer_pods import OwnPod, pods
from trainer_worlds import IN_ORDER, INTERLEAVED, environments, free_port, run_world, wait_until

SLOW = """
import time
from pathlib import Path
from torch import nn

def mlp():
    "Takes its time until there is a file called hurry."
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    hurry = Path(__file__).with_name("hurry")
    net.register_forward_pre_hook(lambda *_: None if hurry.exists() else time.sleep(0.02))
    return net
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., OwnPod]]:
    (tmp_path / "slow.py").write_text(SLOW)
    with pods(tmp_path, OwnPod) as begin:
        yield begin


def test_a_gang_rehearsed_on_one_machine_ranks_by_rack_and_learns(
    start: Any, tmp_path: Path
) -> None:
    (tmp_path / "hints.json").write_text(json.dumps(INTERLEAVED))
    report_file = tmp_path / "report.json"
    pod = start(
        "rehearse", str(tmp_path / "hints.json"), "--", "-m", "trainer", "train",
        "--report", str(report_file),
    )  # fmt: skip
    assert pod.ends() == 0, pod.err
    report = json.loads(pod.out.splitlines()[-1])
    assert report["rank_order"] == IN_ORDER
    assert report["world"] == 4
    assert report["accuracy"] >= 0.93
    assert report == json.loads(report_file.read_text())


def test_a_pod_whose_worker_is_killed_shows_its_health_and_ends_with_the_same_result(
    start: Any, tmp_path: Path
) -> None:
    port = free_port()
    pod = start(
        "launch", "--metrics-port", str(port), "--nproc-per-node", "1", "--max-restarts", "1",
        "--", "-m", "trainer", "train", "--steps", "300", "--checkpoint-every", "20",
        "--checkpoint-dir", str(tmp_path / "saved"), "--model", "slow:mlp",
        PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    pod.says("step 25/")
    os.kill(pod.workers()[0], signal.SIGKILL)
    pod.says("resumed at step")

    def metrics() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return answer.read().decode()

    wait_until(lambda: 'muster_train_loss{rank="0"}' in metrics(), "the worker's metrics")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
        assert answer.read() == b"ok\n"
    (tmp_path / "hurry").touch()
    whole = run_world(tmp_path / "store", environments([1]), run, {"steps": 300})[0]
    assert pod.ends() == 0, pod.err
    report = json.loads(pod.out.splitlines()[-1])
    assert report["resumed_from"] >= 20
    assert report["loss"] == pytest.approx(whole["loss"], abs=1e-6)
    assert report["accuracy"] == whole["accuracy"]
