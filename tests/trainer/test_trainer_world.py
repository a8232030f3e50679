"""From a pod's launch environment to one description of the world."""

from pathlib import Path

import pytest
from launch_environments import (
    BROKEN,
    CASES,
    ELASTIC,
    HOST,
    INDEXED,
    LWS,
    OPEN_MPI,
    PLAIN,
    PYTORCHJOB,
    TORCHRUN,
    VOLCANO,
    Case,
)

from trainer import pod_annotations
from trainer.errors import WorldError
from trainer.launchers import read_launch
from trainer.worker import read_worker
from trainer.world import LaunchWorld, torchrun_variables


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_launcher_is_read(case: Case) -> None:
    assert read_launch(case.env, case.host) == case.want


def test_the_matrix_has_every_launcher() -> None:
    assert len({case.name for case in CASES}) >= 60
    assert {case.want.launcher for case in CASES} == {
        "none", "torchrun", "trainjob", "pytorchjob", "volcano", "indexed-job", "jobset",
        "leaderworkerset", "mpi", "plain",
    }  # fmt: skip


def test_the_hint_gives_the_number_of_pods_where_nothing_else_does() -> None:
    world = read_launch({"JOB_COMPLETION_INDEX": "3"}, HOST, hinted_size=5)
    assert (world.nnodes, world.node_rank) == ("5", 3)
    assert read_launch(INDEXED, HOST, hinted_size=5).nnodes == "4"


def test_the_command_line_wins() -> None:
    said = LaunchWorld("command line", nnodes="8", master_addr="there")
    world = read_launch(INDEXED, HOST, said=said)
    assert (world.nnodes, world.node_rank, world.master_addr) == ("8", 3, "there")


@pytest.mark.parametrize(("env", "names"), BROKEN)
def test_a_contradiction_is_an_error_that_names_it(env: dict[str, str], names: str) -> None:
    with pytest.raises(WorldError, match=names):
        read_launch(env, "some-host")


@pytest.mark.parametrize("env", [case.env for case in CASES], ids=[case.name for case in CASES])
def test_no_number_is_too_long_to_be_refused_by_name(env: dict[str, str]) -> None:
    for name in (key for key, value in env.items() if value.isdecimal()):
        assert len(refusal_of({**env, name: "9" * 5000})) < 1000


def refusal_of(env: dict[str, str]) -> str:
    """What is said of an environment; "" where it is read."""
    try:
        read_launch(env, HOST)
    except WorldError as refusal:
        return str(refusal)
    return ""


def test_torchrun_is_told_the_same() -> None:
    assert torchrun_variables(read_launch(TORCHRUN, HOST)) == TORCHRUN
    assert torchrun_variables(read_launch(ELASTIC, HOST)) == ELASTIC
    for env in (PYTORCHJOB, VOLCANO, INDEXED, PLAIN, LWS, OPEN_MPI):
        world = read_launch(env, HOST)
        again = read_launch(torchrun_variables(world), HOST)
        assert (again.nnodes, again.node_rank, again.master_addr, again.master_port) == (
            world.nnodes,
            world.node_rank,
            world.master_addr,
            world.master_port,
        )


@pytest.mark.parametrize(
    ("env", "point"),
    [
        ({}, None),
        (ELASTIC, ("job-worker-0", 29400)),
        (ELASTIC | {"PET_RDZV_ENDPOINT": "[fd00::1]:7"}, ("fd00::1", 7)),
        (PLAIN, ("10.0.0.7", 29500)),
        (PYTORCHJOB, ("job-master-0", 23456)),
    ],
)
def test_where_all_meet(env: dict[str, str], point: tuple[str, int] | None) -> None:
    assert read_launch(env, HOST).meeting_point == point


class TestAnnotations:
    TEXT = (
        'batch.kubernetes.io/job-completion-index="2"\n'
        'muster.scheduler/hint="{\\"v\\":1,\\"path\\":[\\"b\\\\\\\\1\\"]}"\n'
        'odd="line\\nbreak \\x41\\U0001F600\\101"\n'
        "garbage\n"
        'unfinished="abc\n'
    )

    def test_a_volume_s_lines_are_unquoted(self) -> None:
        assert pod_annotations.parse(self.TEXT) == {
            "batch.kubernetes.io/job-completion-index": "2",
            "muster.scheduler/hint": '{"v":1,"path":["b\\\\1"]}',
            "odd": "line\nbreak A😀A",
        }

    def test_they_give_what_the_environment_leaves_out(self) -> None:
        found = pod_annotations.parse(self.TEXT)
        assert pod_annotations.variables(found, {}) == {"JOB_COMPLETION_INDEX": "2"}
        assert pod_annotations.variables(found, {"JOB_COMPLETION_INDEX": "0"}) == {}

    def test_a_file_that_is_not_there_or_no_text_has_none(self, tmp_path: Path) -> None:
        assert pod_annotations.read(tmp_path / "absent") == {}
        (tmp_path / "bytes").write_bytes(b"\xff\xfe")
        assert pod_annotations.read(tmp_path / "bytes") == {}

    def test_a_leaderworkerset_that_only_annotates_is_a_world(self) -> None:
        text = (
            'leaderworkerset.sigs.k8s.io/size="3"\n'
            'leaderworkerset.sigs.k8s.io/worker-index="1"\n'
            'leaderworkerset.sigs.k8s.io/leader-address="s-0.s"\n'
        )
        env = pod_annotations.variables(pod_annotations.parse(text), {})
        assert read_launch(env, HOST) == LaunchWorld("leaderworkerset", "3", 1, None, "s-0.s")


WORKER = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "host",
    "MASTER_PORT": "1234",
    "TORCHELASTIC_RUN_ID": "run",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
BY_OPEN_MPI = OPEN_MPI | {
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
BY_HYDRA = {
    "PMI_SIZE": "8",
    "PMI_RANK": "5",
    "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "4",
    "MASTER_ADDR": "host",
}


class TestWorkers:
    @pytest.mark.parametrize("env", [WORKER, BY_OPEN_MPI, BY_HYDRA])
    def test_a_worker_is_read(self, env: dict[str, str]) -> None:
        worker = read_worker(env)
        assert (worker.rank, worker.world_size) == (5, 8)
        assert (worker.local_rank, worker.local_world_size, worker.group_rank) == (1, 4, 1)

    def test_a_pod_s_script_without_torchrun_is_one_process(self) -> None:
        worker = read_worker(VOLCANO)
        assert (worker.rank, worker.world_size, worker.group_rank) == (2, 3, 2)
        assert (worker.local_rank, worker.local_world_size) == (0, 1)
        assert (worker.master_addr, worker.master_port) == ("job-master-0.job", 23456)

    def test_processes_of_one_host_need_no_address(self) -> None:
        env = {name: value for name, value in BY_OPEN_MPI.items() if name != "MASTER_ADDR"}
        assert read_worker(env | {"OMPI_COMM_WORLD_LOCAL_SIZE": "8"}).master_addr == "127.0.0.1"
        with pytest.raises(WorldError, match="MASTER_ADDR"):
            read_worker(env)

    def test_a_process_that_nothing_launched_is_none(self) -> None:
        assert read_worker({}) is None
        assert read_worker({"WORLD_SIZE": "1"}) is None
        assert read_worker({"PET_NNODES": "1"}) is None

    @pytest.mark.parametrize(
        "env", [{"WORLD_SIZE": "2"}, TORCHRUN, ELASTIC, PLAIN, LWS], ids=lambda env: next(iter(env))
    )
    def test_one_of_several_never_takes_itself_for_a_world_of_one(self, env: dict) -> None:
        with pytest.raises(WorldError, match="muster-train launch"):
            read_worker(env)

    def test_a_store_that_outlives_attempts_gets_a_prefix_for_each(self) -> None:
        """With an unshared store the counts differ between agents, and must not matter."""
        served = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
        assert read_worker(WORKER | served).attempt == "run/2"
        assert read_worker(WORKER | served).store_is_served
        unshared = {"TORCHELASTIC_USE_AGENT_STORE": "False"}
        assert read_worker(WORKER | unshared).attempt == "run"
        assert not read_worker(WORKER | unshared).store_is_served

    @pytest.mark.parametrize(
        ("change", "names"),
        [
            ({"RANK": "8"}, "RANK=8"),
            ({"RANK": "x"}, "RANK"),
            ({"MASTER_ADDR": ""}, "MASTER_ADDR"),
            ({"MASTER_PORT": "x"}, "MASTER_PORT"),
        ],
    )
    def test_a_contradiction_is_an_error(self, change: dict[str, str], names: str) -> None:
        with pytest.raises(WorldError, match=names):
            read_worker(WORKER | change)
