"""The real thing: launchers, torchrun's agents and workers as processes of this machine."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_trainer_training import run
from trainer_worlds import (
    IN_ORDER,
    INTERLEAVED,
    environments,
    free_port,
    hint,
    run_world,
    wait_until,
)

from trainer.checkpoint import complete

SCRIPT = """
import json
from trainer.rendezvous import init_process_group
import os, torch.distributed as dist
ranks = init_process_group()
print(json.dumps({"was": os.environ["MY_POD"], "rank": ranks.rank, "places": ranks.places}))
dist.barrier()
dist.destroy_process_group()
"""


class Pod:
    """One `muster-train` process with its output in files."""

    def __init__(self, folder: Path, args: list[str], env: dict[str, str]) -> None:
        folder.mkdir()
        self.folder = folder
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trainer", *args], env=env, stdout=out, stderr=err
            )

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def says(self, text: str) -> None:
        wait_until(lambda: text in self.err or self.process.poll() is not None, text)
        assert text in self.err, self.err

    def ends(self) -> int:
        return self.process.wait(120)

    def workers(self) -> list[int]:
        return children(self.process.pid)

    def stop(self) -> None:
        """Leave nothing behind, whatever the test did."""
        family = descendants(self.process.pid)
        self.process.kill()
        self.process.wait()
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    return [found for child in children(pid) for found in (child, *descendants(child))]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A pod's own environment. Compiled modules are kept for all the processes of this file,
    also where Python is told not to write any beside the sources.
    """
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return env | {
        "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("compiled")),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


@pytest.fixture
def start(tmp_path: Path, environment: dict[str, str]) -> Iterator[Any]:
    """Starts `muster-train ARGS` with more variables; all are gone after the test."""
    pods: list[Pod] = []

    def begin(*args: str, **variables: str) -> Pod:
        pods.append(Pod(tmp_path / f"pod-{len(pods)}", list(args), environment | variables))
        return pods[-1]

    yield begin
    for pod in pods:
        pod.stop()


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


def test_two_launchers_meet_and_keep_their_order_when_one_has_no_hint(
    start: Any, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    endpoint = f"127.0.0.1:{free_port()}"
    pods = [
        start(
            "launch", "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", endpoint, "--local-addr", f"127.0.0.{number + 2}",
            "--", str(tmp_path / "script.py"),
            MUSTER_HINT=text, MY_POD=str(number),
        )
        for number, text in enumerate([json.dumps(hint(1, "n0")), ""])
    ]  # fmt: skip
    assert [pod.ends() for pod in pods] == [0, 0], [pod.err for pod in pods]
    found = [json.loads(pod.out) for pod in pods]
    assert [each["rank"] for each in found] == [0, 1]
    assert found[0]["places"] == ["b0/r0/n0", socket.gethostname()]


def test_an_evicted_pod_stops_the_whole_gang_with_its_state_saved(
    start: Any, tmp_path: Path
) -> None:
    saved, port = tmp_path / "saved", str(free_port())
    pods = [
        start(
            "launch", "--nproc-per-node", "1", "--", "-m", "trainer", "train",
            "--steps", "1000000", "--checkpoint-every", "0", "--checkpoint-dir", str(saved),
            NNODES="2", NODE_RANK=str(number), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
        )
        for number in range(2)
    ]  # fmt: skip
    pods[0].says("step 25/")
    pods[1].process.send_signal(signal.SIGTERM)
    assert [pod.ends() for pod in pods] == [143, 143], [pod.err for pod in pods]
    (checkpoint,) = complete(saved)
    assert checkpoint.step > 25
    assert f"stopped by SIGTERM at step {checkpoint.step}" in pods[0].err
    assert not [pid for pod in pods for pid in pod.workers()]


def test_a_killed_worker_is_restarted_and_the_result_is_the_same(
    start: Any, tmp_path: Path
) -> None:
    changes = {"steps": 300}
    pod = start(
        "launch", "--nproc-per-node", "2", "--max-restarts", "1", "--", "-m", "trainer", "train",
        "--steps", "300", "--checkpoint-every", "20", "--checkpoint-dir", str(tmp_path / "saved"),
    )  # fmt: skip
    pod.says("step 25/")
    os.kill(pod.workers()[1], signal.SIGKILL)
    whole = run_world(tmp_path / "store", environments([1, 1]), run, changes)[0]
    assert pod.ends() == 0, pod.err
    report = json.loads(pod.out.splitlines()[-1])
    assert report["resumed_from"] >= 20
    assert report["loss"] == pytest.approx(whole["loss"], abs=1e-6)
    assert report["accuracy"] == whole["accuracy"]


def test_a_launcher_that_waits_for_others_leaves_on_sigterm(start: Any) -> None:
    """torchrun waits for up to 15 minutes inside C++, where no signal handler of Python runs."""
    with socket.create_server(("127.0.0.1", 0)) as first_pod:
        first_pod.settimeout(60)
        pod = start(
            "launch", "--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1",
            "--master-port", str(first_pod.getsockname()[1]), "--", "script.py",
        )  # fmt: skip
        with first_pod.accept()[0]:
            pod.process.send_signal(signal.SIGTERM)
            assert pod.ends() == 143
    assert "SIGTERM before any worker ran" in pod.err


def test_a_pod_s_health_and_metrics_are_served_while_its_workers_train(start: Any) -> None:
    port = free_port()
    pod = start(
        "launch", "--metrics-port", str(port), "--nproc-per-node", "1", "--", "-m", "trainer",
        "train", "--steps", "1000000",
    )  # fmt: skip
    pod.says("step 25/")

    def metrics() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return answer.read().decode()

    wait_until(lambda: 'muster_train_loss{rank="0"}' in metrics(), "the worker's metrics")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
        assert answer.read() == b"ok\n"
    pod.process.send_signal(signal.SIGTERM)
    assert pod.ends() == 143


def test_a_first_pod_whose_name_is_wrong_ends_the_others_with_a_code_that_is_retried(
    start: Any,
) -> None:
    pod = start(
        "launch", "--reach-timeout", "1", "--", "script.py",
        NNODES="2", NODE_RANK="1", MASTER_ADDR="nowhere.invalid", MASTER_PORT="29400",
    )  # fmt: skip
    assert pod.ends() == 138
    assert "could not be reached at nowhere.invalid:29400 within 1." in pod.err


def test_a_port_that_is_taken_is_found_out_before_anybody_waits(start: Any) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        pod = start(
            "launch", "--", "script.py",
            NNODES="2", NODE_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
        )  # fmt: skip
        assert pod.ends() == 138
    assert f"port {port} of this pod is taken" in pod.err
