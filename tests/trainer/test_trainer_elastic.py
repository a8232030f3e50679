"""torchrun's restarts and elastic worlds: whatever the way there, the same result."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_trainer_training import run
from trainer_pods import ForkedPod, pods
from trainer_worlds import environments, free_port, hint, run_world, wait_until

from trainer.checkpoint import complete

Start = Callable[..., ForkedPod]

MODELS = """
import os, signal, time
from pathlib import Path
from torch import nn

def mlp():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

def slow():
    "Takes its time until there is a file called hurry."
    net = mlp()
    net.register_forward_pre_hook(lambda *_: None if Path("hurry").exists() else time.sleep(0.1))
    return net

def deadly():
    "In each of the first eight attempts one rank is killed at its 13th step, in turn."
    attempt, steps = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), [0]
    net = mlp()
    def count(*_):
        steps[0] += 1
        if steps[0] == 13 and attempt < 8 and int(os.environ["RANK"]) == attempt % 2:
            os.kill(os.getpid(), signal.SIGKILL)
    net.register_forward_pre_hook(count)
    return net
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "models.py").write_text(MODELS)
    with pods(tmp_path) as begin:
        yield begin


def undisturbed(folder: Path, steps: int) -> dict[str, Any]:
    found: dict[str, Any] = run_world(folder, environments([1, 1]), run, {"steps": steps})[0]
    return found


def test_killed_in_eight_attempts_in_a_row_the_ninth_ends_as_if_undisturbed(
    start: Start, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"
    pod = start(
        "launch", "--nproc-per-node", "2", "--max-restarts", "8", "--",
        "-m", "trainer", "train", "--model", "models:deadly", "--steps", "110",
        "--checkpoint-every", "5", "--checkpoint-dir", str(saved),
    )  # fmt: skip
    assert pod.ends() == 0, pod.err
    report = json.loads(pod.out.splitlines()[-1])
    whole = undisturbed(tmp_path / "whole", 110)
    assert report["resumed_from"] >= 80, "each attempt goes on where the last one saved"
    assert report["loss"] == pytest.approx(whole["loss"], abs=1e-6)
    assert report["accuracy"] == whole["accuracy"]


def test_a_worker_that_dies_more_often_than_it_may_ends_the_launcher_with_its_code(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    pod = start("launch", "--max-restarts", "2", "--", str(tmp_path / "script.py"))
    assert pod.ends() == 137


def elastic(start: Start, endpoint: str, number: int, saved: Path, steps: int) -> ForkedPod:
    """A pod of one to two. The first to come serves the rendezvous."""
    return start(
        "launch", "--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3",
        "--rdzv-backend", "c10d", "--rdzv-id", "e", "--rdzv-endpoint", endpoint,
        "--rdzv-conf", "last_call_timeout=1,join_timeout=60,keep_alive_interval=1",
        "--local-addr", f"127.0.0.{number + 2}", "--",
        "-m", "trainer", "train", "--model", "models:slow", "--steps", str(steps),
        "--checkpoint-every", "5", "--checkpoint-dir", str(saved), "--log-every", "5",
        MUSTER_HINT=json.dumps(hint(1 - number, f"n{number}", size=2, min=1)),
    )  # fmt: skip


def test_a_second_pod_joins_and_is_lost_and_the_result_is_that_of_a_quiet_world(
    start: Start, tmp_path: Path
) -> None:
    """1 → 2 → 1. The second has the lower rank by its hint, so the order changes each time."""
    saved, endpoint, steps = tmp_path / "saved", f"127.0.0.1:{free_port()}", 300
    first = elastic(start, endpoint, 0, saved, steps)
    first.says("step 5/")
    wait_until(lambda: complete(saved), "steps of one")
    alone = complete(saved)[-1].step
    second = elastic(start, endpoint, 1, saved, steps)
    second.says("resumed at step")
    assert "2 ranks in order of hint rank: b0/r0/n1 b0/r0/n0" in first.err + second.err
    together = complete(saved)[-1].step
    assert together >= alone
    wait_until(lambda: complete(saved)[-1].step >= together + 5, "steps of two")
    second.vanish()
    first.says("resumed at step")
    (tmp_path / "hurry").touch()
    assert first.ends() == 0, first.err
    report = json.loads(first.out.splitlines()[-1])
    assert (report["world"], report["rank_order"]) == (1, ["b0/r0/n0"])
    assert report["resumed_from"] >= together
    assert report["loss"] == pytest.approx(undisturbed(tmp_path, steps)["loss"], abs=1e-6)


def test_when_the_pod_that_serves_the_rendezvous_is_lost_the_other_asks_for_another_try(
    start: Start, tmp_path: Path
) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    first = elastic(start, endpoint, 0, tmp_path / "saved", 100000)
    first.says("launched by")
    second = elastic(start, endpoint, 1, tmp_path / "saved", 100000)
    wait_until(lambda: second.workers(), "the second's worker")
    second.says("step 5/")
    first.vanish()
    assert second.ends() == 138, second.err
