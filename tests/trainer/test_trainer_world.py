"""From a pod's launch environment to one description of the world."""

import pytest

from trainer.errors import WorldError
from trainer.world import LaunchWorld, read_launch, read_worker, torchrun_variables

HOST = "train-3.train.team.svc.cluster.local"

KUBEFLOW_V2 = {
    "PET_NNODES": "4",
    "PET_NPROC_PER_NODE": "8",
    "PET_NODE_RANK": "3",
    "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29500",
}
KUBEFLOW_V1 = {
    "MASTER_ADDR": "job-master-0",
    "MASTER_PORT": "23456",
    "WORLD_SIZE": "16",
    "RANK": "1",
    "PET_NPROC_PER_NODE": "8",
}
VOLCANO = {"MASTER_ADDR": "job-master-0", "WORLD_SIZE": "3", "RANK": "2", "MASTER_PORT": "23456"}
INDEXED_JOB = {"JOB_COMPLETION_INDEX": "3", "NNODES": "4"}
PLAIN = {"MASTER_ADDR": "10.0.0.7", "NNODES": "2", "NODE_RANK": "1", "NPROC_PER_NODE": "gpu"}
ELASTIC = {
    "PET_NNODES": "2:4",
    "PET_RDZV_BACKEND": "c10d",
    "PET_RDZV_ENDPOINT": "job-worker-0:29400",
}


@pytest.mark.parametrize(
    ("env", "want"),
    [
        pytest.param({}, LaunchWorld("none"), id="nothing launched this pod"),
        pytest.param(
            KUBEFLOW_V2,
            LaunchWorld("torchrun", "4", 3, "8", "job-node-0-0.job", 29500),
            id="kubeflow trainer v2 speaks to torchrun directly",
        ),
        pytest.param(
            KUBEFLOW_V1,
            LaunchWorld("pytorchjob", "2", 1, "8", "job-master-0", 23456),
            id="kubeflow v1 counts processes in WORLD_SIZE and pods in RANK",
        ),
        pytest.param(
            KUBEFLOW_V1 | {"PET_NNODES": "2", "PET_NODE_RANK": "1"},
            LaunchWorld("pytorchjob", "2", 1, "8", "job-master-0", 23456),
            id="and newer ones also speak to torchrun",
        ),
        pytest.param(
            VOLCANO,
            LaunchWorld("pytorchjob", "3", 2, None, "job-master-0", 23456),
            id="volcano counts pods in both",
        ),
        pytest.param(
            INDEXED_JOB,
            LaunchWorld("indexed-job", "4", 3, None, "train-0.train.team.svc.cluster.local", 29500),
            id="an indexed job's first pod is derived from the host name",
        ),
        pytest.param(
            INDEXED_JOB | {"MASTER_ADDR": "first", "MASTER_PORT": "5"},
            LaunchWorld("indexed-job", "4", 3, None, "first", 5),
            id="unless it is said",
        ),
        pytest.param(
            PLAIN, LaunchWorld("plain", "2", 1, "gpu", "10.0.0.7", 29500), id="plain variables"
        ),
        pytest.param(
            PLAIN | {"PET_NODE_RANK": "0", "PET_NPROC_PER_NODE": ""},
            LaunchWorld("plain", "2", 0, "gpu", "10.0.0.7", 29500),
            id="torchrun's own variables win, empty ones say nothing",
        ),
        pytest.param(
            ELASTIC,
            LaunchWorld(
                "torchrun",
                "2:4",
                rdzv_backend="c10d",
                rdzv_endpoint="job-worker-0:29400",
            ),
            id="elastic jobs have no ranks",
        ),
    ],
)
def test_each_launcher_is_read(env: dict[str, str], want: LaunchWorld) -> None:
    assert read_launch(env, HOST) == want


def test_a_worker_s_own_variables_are_not_taken_for_a_pod_s() -> None:
    env = VOLCANO | {"LOCAL_RANK": "0"}
    assert read_launch(env, HOST) == LaunchWorld("none")


def test_the_hint_gives_the_number_of_pods_where_nothing_else_does() -> None:
    world = read_launch({"JOB_COMPLETION_INDEX": "3"}, HOST, hinted_size=5)
    assert (world.nnodes, world.node_rank) == ("5", 3)
    assert read_launch(INDEXED_JOB, HOST, hinted_size=5).nnodes == "4"


def test_the_command_line_wins() -> None:
    said = LaunchWorld("command line", nnodes="8", master_addr="there")
    world = read_launch(INDEXED_JOB, HOST, said=said)
    assert (world.nnodes, world.node_rank, world.master_addr) == ("8", 3, "there")


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ({"JOB_COMPLETION_INDEX": "2"}, "NNODES"),
        ({"JOB_COMPLETION_INDEX": "x", "NNODES": "2"}, "JOB_COMPLETION_INDEX"),
        (PLAIN | {"NODE_RANK": "-1"}, "NODE_RANK"),
        (PLAIN | {"NODE_RANK": "2"}, "rank 2"),
        (PLAIN | {"NNODES": "4:2"}, "4:2"),
        (PLAIN | {"NNODES": "zero"}, "zero"),
        (PLAIN | {"MASTER_ADDR": ""}, "MASTER_ADDR"),
        (PLAIN | {"MASTER_PORT": "http"}, "MASTER_PORT"),
        (KUBEFLOW_V1 | {"WORLD_SIZE": "15"}, "WORLD_SIZE=15"),
        (KUBEFLOW_V2 | {"PET_NODE_RANK": ""}, "PET_NODE_RANK"),
        ({"PET_NNODES": "3", "PET_NODE_RANK": "1"}, "MASTER_ADDR"),
    ],
)
def test_a_contradiction_is_an_error_that_names_it(env: dict[str, str], names: str) -> None:
    with pytest.raises(WorldError, match=names):
        read_launch(env, "some-host")


def test_torchrun_is_told_the_same() -> None:
    assert torchrun_variables(read_launch(KUBEFLOW_V2, HOST)) == KUBEFLOW_V2
    assert torchrun_variables(read_launch(ELASTIC, HOST)) == ELASTIC
    for env in (KUBEFLOW_V1, VOLCANO, INDEXED_JOB, PLAIN):
        world = read_launch(env, HOST)
        again = read_launch(torchrun_variables(world), HOST)
        assert (again.nnodes, again.node_rank, again.master_addr, again.master_port) == (
            world.nnodes,
            world.node_rank,
            world.master_addr,
            world.master_port,
        )


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


class TestWorkers:
    def test_a_worker_is_read(self) -> None:
        worker = read_worker(WORKER)
        assert (worker.rank, worker.world_size, worker.local_rank) == (5, 8, 1)
        assert (worker.group_rank, worker.master_addr, worker.master_port) == (1, "host", 1234)

    def test_a_process_without_a_rank_is_none(self) -> None:
        assert read_worker({"WORLD_SIZE": "2"}) is None

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
