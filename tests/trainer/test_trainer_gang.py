"""Gangs of real launchers on this machine: every controller's environment, and how they end."""

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from trainer_pods import ForkedPod, pods
from trainer_worlds import free_port, hint, wait_until

from trainer.checkpoint import complete

Start = Callable[..., ForkedPod]

ANYBODYS = """
import json, os, torch, torch.distributed as dist
dist.init_process_group("gloo")
ranks = [None] * dist.get_world_size()
dist.all_gather_object(ranks, [dist.get_rank(), int(os.environ["LOCAL_RANK"])])
print(json.dumps(ranks))
dist.barrier()
dist.destroy_process_group()
"""
"""A script that knows nothing of Muster."""

OURS = """
import json, torch.distributed as dist
from trainer.rendezvous import init_process_group
ranks = init_process_group()
print(json.dumps([ranks.rank, ranks.places]))
dist.barrier()
dist.destroy_process_group()
"""

FOR_EVER = ("--", "-m", "trainer", "train", "--steps", "1000000", "--checkpoint-every", "0")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with pods(tmp_path) as begin:
        yield begin


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(ANYBODYS)
    return path


def of_two(pod: int, port: int | str, **more: str) -> dict[str, str]:
    """What a template says to one of two pods."""
    said = {"NNODES": 2, "NODE_RANK": pod, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {name: str(value) for name, value in said.items()} | more


# ── every controller's environment ──

LAUNCHERS = {
    "plain": {"NNODES": "2", "NODE_RANK": "{pod}"},
    "pytorchjob": {"WORLD_SIZE": "2", "RANK": "{pod}"},
    "volcano": {"WORLD_SIZE": "2", "RANK": "{pod}", "VC_TASK_INDEX": "{pod}"},
    "indexed-job": {"NNODES": "2", "JOB_COMPLETION_INDEX": "{pod}"},
    "indexed-job, as Kubeflow Trainer writes it": {
        "PET_NNODES": "2", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": "{port}",
        "JOB_COMPLETION_INDEX": "{pod}",
    },
    "jobset": {
        "JOBSET_NAME": "s", "REPLICATED_JOB_NAME": "w", "JOB_INDEX": "{pod}",
        "REPLICATED_JOB_REPLICAS": "2", "JOB_COMPLETION_INDEX": "0",
    },
    "leaderworkerset": {
        "LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "{pod}", "LWS_LEADER_ADDRESS": "127.0.0.1",
    },
    "mpi": {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "{pod}"},
    "torchrun": {
        "PET_NNODES": "2", "PET_NODE_RANK": "{pod}", "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": "{port}",
    },
}  # fmt: skip
MASTER = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{port}"}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_pods_of_a_controller_are_one_world(start: Start, script: Path, launcher: str) -> None:
    port = free_port()
    found = [
        start("launch", "--nproc-per-node", "1", "--", str(script), **{
            name: value.format(pod=pod, port=port)
            for name, value in (MASTER | LAUNCHERS[launcher]).items()
        })
        for pod in range(2)
    ]  # fmt: skip
    assert [pod.ends() for pod in found] == [0, 0], [pod.err for pod in found]
    assert [json.loads(pod.out) for pod in found] == [[[0, 0], [1, 0]]] * 2
    for number, pod in enumerate(found):
        assert f"pod {number} of 2, launched by {launcher.partition(',')[0]};" in pod.err


def test_a_volume_with_annotations_is_enough(start: Start, script: Path, tmp_path: Path) -> None:
    """Neither an index nor a hint in the environment."""
    port, found = free_port(), []
    for pod in range(2):
        notes = {
            "batch.kubernetes.io/job-completion-index": str(pod),
            "muster.scheduler/hint": json.dumps(hint(pod, f"n{pod}", size=2, min=2)),
        }
        file = tmp_path / f"annotations-{pod}"
        file.write_text("".join(f"{key}={json.dumps(value)}\n" for key, value in notes.items()))
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        found.append(start("launch", "--", str(script), MUSTER_ANNOTATIONS_FILE=str(file), **where))
    assert [pod.ends() for pod in found] == [0, 0], [pod.err for pod in found]
    assert [json.loads(pod.out) for pod in found] == [[[0, 0], [1, 0]]] * 2


def test_two_gangs_on_the_network_of_one_node_do_not_meet(start: Start, script: Path) -> None:
    """C35: nothing says a port, so each gang has its own."""
    found = [
        start(
            "launch", "--host-network", "--", str(script),
            NNODES="2", NODE_RANK=str(pod), MASTER_ADDR="127.0.0.1",
            MUSTER_HINT=json.dumps(hint(pod, "n0", id=gang, size=2, min=2)),
        )
        for gang in ("uid-a", "uid-b")
        for pod in range(2)
    ]  # fmt: skip
    assert [pod.ends() for pod in found] == [0] * 4, [pod.err for pod in found]
    assert [json.loads(pod.out) for pod in found] == [[[0, 0], [1, 0]]] * 4
    ports = [line for pod in found for line in pod.err.splitlines() if "muster: port " in line]
    assert ports[0] == ports[1] != ports[2] == ports[3]


# ── the first pod: late, wrong, moved, taken ──


def test_a_first_pod_that_comes_late_is_waited_for(start: Start, script: Path) -> None:
    port = free_port()
    second = start("launch", "--", str(script), **of_two(1, port))
    second.says("pod 1 of 2")
    first = start("launch", "--", str(script), **of_two(0, port))
    assert [first.ends(), second.ends()] == [0, 0], second.err
    assert f"first pod reached at 127.0.0.1:{port} after" in second.err


def test_a_first_pod_that_moved_is_found_at_its_new_address(start: Start, script: Path) -> None:
    """At first its name still leads to its predecessor."""
    port = free_port()
    moved = of_two(1, port, MASTER_ADDR="localhost")
    second = start("launch", "--", str(script), options=OLD, **moved)
    first = start("launch", "--", str(script), **of_two(0, port, MASTER_ADDR="localhost"))
    assert [first.ends(), second.ends()] == [0, 0], second.err
    assert "asked for 127.77.0.1, which is gone" in second.err


def remember_an_old_address() -> None:
    """In the place of a resolver's cache."""
    real, connect, answers = socket.getaddrinfo, socket.create_connection, ["127.77.0.1"] * 3

    def resolve(host: str, *args: object, **options: object) -> list:
        old = host == "localhost" and answers
        return real(answers.pop() if old else host, *args, **options)

    def connected(address: tuple[str, int], *args: object) -> socket.socket:
        if address[0] == "127.77.0.1":
            os.write(2, b"asked for 127.77.0.1, which is gone\n")
        return connect(address, *args)

    socket.getaddrinfo, socket.create_connection = resolve, connected


OLD = {"before": remember_an_old_address}


@pytest.mark.parametrize("address", ["nowhere.invalid", "127.77.0.1"])
def test_a_first_pod_that_is_not_there_ends_the_others_with_a_code_that_is_retried(
    start: Start, address: str
) -> None:
    wrong = of_two(1, "29400", MASTER_ADDR=address)
    pod = start("launch", "--reach-timeout", "1", "--", "script.py", **wrong)
    assert pod.ends() == 138
    assert f"could not be reached at {address}:29400 within 1." in pod.err


def test_a_port_that_is_taken_is_found_out_before_anybody_waits(start: Start) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        pod = start("launch", "--", "script.py", **of_two(0, port))
        assert pod.ends() == 138
    assert f"port {port} of this pod is taken" in pod.err


def test_a_launcher_that_waits_for_others_is_healthy_and_leaves_on_sigterm(start: Start) -> None:
    """torchrun waits for up to 15 minutes inside C++, where no signal handler of Python runs."""
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as first_pod:
        first_pod.settimeout(60)
        where = of_two(1, first_pod.getsockname()[1], MUSTER_METRICS_PORT=str(port))
        pod = start("launch", "--", "script.py", **where)
        with first_pod.accept()[0]:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
                assert answer.read() == b"ok\n"
            pod.send(signal.SIGTERM)
            assert pod.ends() == 143
    assert "SIGTERM before any worker ran" in pod.err


def test_checks_before_the_run_name_who_did_not_come(start: Start) -> None:
    alone = of_two(0, free_port(), MUSTER_DEADLINE="1")
    pod = start("launch", "--preflight", "--", "script.py", **alone)
    assert pod.ends() == 138
    assert "1 of 2 ranks did not come within 1 s: [1]" in pod.err


def test_checks_before_the_run_and_then_the_run(start: Start, script: Path) -> None:
    quick = {"MUSTER_SIZE_MIB": "1", "MUSTER_REPEATS": "1", "MUSTER_MIN_SHARE": "0"}
    port = free_port()
    found = [
        start("launch", "--preflight", "--", str(script), **of_two(pod, port, **quick))
        for pod in range(2)
    ]
    assert [pod.ends() for pod in found] == [0, 0], [pod.err for pod in found]
    assert "all-reduce, bus bandwidth" in found[0].err
    assert json.loads(found[1].out) == [[0, 0], [1, 0]]


def test_pods_of_which_one_has_no_hint_keep_the_launcher_s_order(
    start: Start, tmp_path: Path
) -> None:
    """c10d numbers the pods itself, by their addresses."""
    (tmp_path / "script.py").write_text(OURS)
    endpoint = f"127.0.0.1:{free_port()}"
    found = [
        start(
            "launch", "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint,
            "--local-addr", f"127.0.0.{pod + 2}", "--", str(tmp_path / "script.py"),
            MUSTER_HINT=text,
        )
        for pod, text in enumerate([json.dumps(hint(1, "n0")), ""])
    ]  # fmt: skip
    assert [pod.ends() for pod in found] == [0, 0], [pod.err for pod in found]
    places = ["b0/r0/n0", socket.gethostname()]
    assert [json.loads(pod.out) for pod in found] == [[0, places], [1, places]]


# ── exit codes ──


@pytest.mark.parametrize(
    ("does", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("raise ValueError('no such data')", 1),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.abort()", 134),
        ("import sys; sys.exit(143)", 143),
        ("from trainer.errors import *; raise SystemExit(138)", 138),
    ],
)
def test_a_launcher_ends_with_the_code_of_its_worker(
    start: Start, tmp_path: Path, does: str, code: int
) -> None:
    (tmp_path / "script.py").write_text(does)
    pod = start("launch", "--", str(tmp_path / "script.py"))
    assert pod.ends() == code, pod.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--model", "resnet"], "--model resnet: want mlp"),
        (["--max-bad-steps", "0", "--lr", "1e30"], "not finite in 1 steps in a row"),
    ],
)
def test_a_mistake_ends_all_pods_with_a_code_that_is_not_retried(
    start: Start, args: list[str], says: str
) -> None:
    pod = start("launch", "--nproc-per-node", "2", "--", "-m", "trainer", "train", *args)
    assert pod.ends() == 2, pod.err
    assert says in pod.err


# ── told to stop ──


@pytest.mark.parametrize("whom", ["one launcher", "all launchers", "one worker"])
def test_whoever_is_told_to_stop_the_whole_gang_stops_with_its_state_saved(
    start: Start, tmp_path: Path, whom: str
) -> None:
    saved, port = tmp_path / "saved", free_port()
    gang = [
        start("launch", *FOR_EVER, "--checkpoint-dir", str(saved), **of_two(pod, port))
        for pod in range(2)
    ]
    gang[0].says("step 25/")
    targets = {
        "one launcher": [gang[1].pid],
        "all launchers": [pod.pid for pod in gang],
        "one worker": gang[1].workers(),
    }[whom]
    for pid in targets:
        os.kill(pid, signal.SIGTERM)
    assert [pod.ends() for pod in gang] == [143, 143], [pod.err for pod in gang]
    (checkpoint,) = complete(saved)
    assert checkpoint.step > 25
    assert f"stopped by SIGTERM at step {checkpoint.step}" in gang[0].err
    assert not [pid for pod in gang for pid in pod.workers()]


def test_a_worker_that_will_not_stop_is_gone_within_the_grace(start: Start, tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True)"
    (tmp_path / "script.py").write_text(f"{stubborn}\ntime.sleep(600)")
    pod = start("launch", "--grace", "6", "--", str(tmp_path / "script.py"))
    wait_until(lambda: "deaf" in pod.out or not pod.running, "the worker")
    (worker,) = pod.workers()
    pod.send(signal.SIGTERM)
    assert pod.ends() == 143
    assert not Path(f"/proc/{worker}").exists()


# ── a node that is lost ──


def test_when_a_node_is_lost_the_others_end_and_the_next_attempt_resumes(
    start: Start, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"

    def gang(*more: str) -> list[ForkedPod]:
        port = free_port()
        args = ("--checkpoint-dir", str(saved), "--checkpoint-every", "20", *more)
        return [
            start("launch", "--", "-m", "trainer", "train", *args, **of_two(pod, port))
            for pod in range(2)
        ]

    first, second = gang("--steps", "1000000")
    first.says("step 50/")
    second.vanish()
    assert first.ends() == 138, first.err
    assert "another rank is gone or stuck" in first.err
    newest = complete(saved)[-1].step
    assert newest >= 40
    again = gang("--steps", str(newest + 10))
    assert [pod.ends() for pod in again] == [0, 0], [pod.err for pod in again]
    assert json.loads(again[0].out)["resumed_from"] == newest
