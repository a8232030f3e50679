"""Launch environments as controllers write them, each with the world that it means."""

from typing import NamedTuple

from trainer.world import LaunchWorld

HOST = "train-3.train.team.svc.cluster.local"
"""The pod's name, where a case does not have its own."""


class Case(NamedTuple):
    name: str
    env: dict[str, str]
    want: LaunchWorld
    host: str = HOST


def world(
    launcher: str,
    nodes: str | None = None,
    rank: int | None = None,
    each: str | None = None,
    master: str | None = None,
    port: int | None = None,
    **more: str,
) -> LaunchWorld:
    return LaunchWorld(launcher, nodes, rank, each, master, port, **more)


TRAINJOB = {
    "PET_NNODES": "4",
    "PET_NPROC_PER_NODE": "8",
    "PET_NODE_RANK": "3",
    "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29500",
    "JOB_COMPLETION_INDEX": "3",
}
TORCHRUN = {name: value for name, value in TRAINJOB.items() if name.startswith("PET_")}
PYTORCHJOB = {
    "MASTER_ADDR": "job-master-0",
    "MASTER_PORT": "23456",
    "WORLD_SIZE": "16",
    "RANK": "1",
    "PET_NPROC_PER_NODE": "8",
}
VOLCANO = {
    "MASTER_ADDR": "job-master-0.job",
    "MASTER_PORT": "23456",
    "WORLD_SIZE": "3",
    "RANK": "2",
    "VC_TASK_INDEX": "1",
    "VK_TASK_INDEX": "1",
}
INDEXED = {"JOB_COMPLETION_INDEX": "3", "NNODES": "4"}
JOBSET = {
    "JOBSET_NAME": "set",
    "REPLICATED_JOB_NAME": "workers",
    "JOB_INDEX": "2",
    "JOB_COMPLETION_INDEX": "0",
    "REPLICATED_JOB_REPLICAS": "4",
}
LWS = {
    "LWS_GROUP_SIZE": "4",
    "LWS_WORKER_INDEX": "2",
    "LWS_LEADER_ADDRESS": "serve-0.serve.team",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "MASTER_ADDR": "mpi-worker-0.mpi",
}
HYDRA = {"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALNRANKS": "1", "MASTER_ADDR": "h0"}
PLAIN = {"MASTER_ADDR": "10.0.0.7", "NNODES": "2", "NODE_RANK": "1", "NPROC_PER_NODE": "gpu"}
ELASTIC = {
    "PET_NNODES": "2:4",
    "PET_RDZV_BACKEND": "c10d",
    "PET_RDZV_ENDPOINT": "job-worker-0:29400",
}
FIRST = "train-0.train.team.svc.cluster.local"
RDZV = {"rdzv_backend": "c10d", "rdzv_endpoint": "job-worker-0:29400"}


def without(env: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in names}


CASES: list[Case] = [
    Case("nothing launched this pod", {}, world("none")),
    Case("a shell's variables mean nothing", {"HOSTNAME": "x", "PORT": "1"}, world("none")),
    Case("empty variables mean nothing", dict.fromkeys([*PLAIN, *TRAINJOB], ""), world("none")),
    # torchrun's own variables
    Case("torchrun", TORCHRUN, world("torchrun", "4", 3, "8", "job-node-0-0.job", 29500)),
    Case("torchrun, one pod", {"PET_NPROC_PER_NODE": "2"}, world("torchrun", each="2")),
    Case("torchrun, elastic", ELASTIC, world("torchrun", "2:4", **RDZV)),
    Case(
        "torchrun, one to one",
        {"PET_NNODES": "1:1", "PET_NPROC_PER_NODE": "auto"},
        world("torchrun", "1:1", each="auto"),
    ),
    Case(
        "torchrun, c10d with a fixed number",
        ELASTIC | {"PET_NNODES": "4"},
        world("torchrun", "4", **RDZV),
    ),
    Case(
        "torchrun, etcd", {"PET_NNODES": "3", "PET_RDZV_BACKEND": "etcd-v2"},
        world("torchrun", "3", rdzv_backend="etcd-v2"),
    ),
    # Kubeflow Trainer v2
    Case("trainjob", TRAINJOB, world("trainjob", "4", 3, "8", "job-node-0-0.job", 29500)),
    Case(
        "trainjob, first node", TRAINJOB | {"PET_NODE_RANK": "0", "JOB_COMPLETION_INDEX": "0"},
        world("trainjob", "4", 0, "8", "job-node-0-0.job", 29500),
    ),
    Case(
        "trainjob, rank only as completion index", without(TRAINJOB, "PET_NODE_RANK"),
        world("trainjob", "4", 3, "8", "job-node-0-0.job", 29500),
    ),
    Case(
        "trainjob, one node", TRAINJOB
        | {"PET_NNODES": "1", "PET_NODE_RANK": "0", "JOB_COMPLETION_INDEX": "0"},
        world("trainjob", "1", 0, "8", "job-node-0-0.job", 29500),
    ),
    Case(
        "trainjob, processes by the devices", TRAINJOB | {"PET_NPROC_PER_NODE": "auto"},
        world("trainjob", "4", 3, "auto", "job-node-0-0.job", 29500),
    ),
    Case(
        "trainjob, no port", without(TRAINJOB, "PET_MASTER_PORT"),
        world("trainjob", "4", 3, "8", "job-node-0-0.job"),
    ),
    # Kubeflow v1
    Case(
        "pytorchjob counts processes in WORLD_SIZE and pods in RANK", PYTORCHJOB,
        world("pytorchjob", "2", 1, "8", "job-master-0", 23456),
    ),
    Case(
        "pytorchjob, newer, speaks to torchrun, too",
        PYTORCHJOB | {"PET_NNODES": "2", "PET_NODE_RANK": "1"},
        world("pytorchjob", "2", 1, "8", "job-master-0", 23456),
    ),
    Case(
        "pytorchjob, master", PYTORCHJOB | {"RANK": "0"},
        world("pytorchjob", "2", 0, "8", "job-master-0", 23456),
    ),
    Case(
        "pytorchjob, a word counts as one", PYTORCHJOB
        | {"PET_NPROC_PER_NODE": "auto", "WORLD_SIZE": "4"},
        world("pytorchjob", "4", 1, "auto", "job-master-0", 23456),
    ),
    Case(
        "pytorchjob, gpu counts as one", PYTORCHJOB
        | {"PET_NPROC_PER_NODE": "gpu", "WORLD_SIZE": "2"},
        world("pytorchjob", "2", 1, "gpu", "job-master-0", 23456),
    ),
    Case(
        "pytorchjob, old, one process a pod", without(PYTORCHJOB, "PET_NPROC_PER_NODE"),
        world("pytorchjob", "16", 1, None, "job-master-0", 23456),
    ),
    Case(
        "pytorchjob, the master alone",
        PYTORCHJOB | {"WORLD_SIZE": "8", "RANK": "0"},
        world("pytorchjob", "1", 0, "8", "job-master-0", 23456),
    ),
    Case(
        "pytorchjob, the master names itself localhost", PYTORCHJOB
        | {"MASTER_ADDR": "localhost", "RANK": "0"},
        world("pytorchjob", "2", 0, "8", "localhost", 23456),
    ),
    Case("pytorchjob, elastic", ELASTIC | {"PET_NPROC_PER_NODE": "8"},
         world("torchrun", "2:4", each="8", **RDZV)),
    Case(
        "pytorchjob, elastic with counts",
        ELASTIC | {"WORLD_SIZE": "4", "RANK": "1", "MASTER_ADDR": "job-worker-0"},
        world("pytorchjob", "2:4", 1, None, "job-worker-0", **RDZV),
    ),
    # Volcano
    Case(
        "volcano counts pods in both", VOLCANO,
        world("volcano", "3", 2, None, "job-master-0.job", 23456),
    ),
    Case(
        "volcano without its env plugin looks like pytorchjob with one process",
        without(VOLCANO, "VC_TASK_INDEX", "VK_TASK_INDEX"),
        world("pytorchjob", "3", 2, None, "job-master-0.job", 23456),
    ),
    Case(
        "volcano, processes by PET do not divide its pods", VOLCANO | {"PET_NPROC_PER_NODE": "8"},
        world("volcano", "3", 2, "8", "job-master-0.job", 23456),
    ),
    Case(
        "volcano, master", VOLCANO | {"RANK": "0", "VC_TASK_INDEX": "0"},
        world("volcano", "3", 0, None, "job-master-0.job", 23456),
    ),
    Case(
        "volcano, old name of the index", without(VOLCANO, "VC_TASK_INDEX"),
        world("volcano", "3", 2, None, "job-master-0.job", 23456),
    ),
    Case(
        "volcano, no port", without(VOLCANO, "MASTER_PORT"),
        world("volcano", "3", 2, None, "job-master-0.job"),
    ),
    # Indexed Job
    Case(
        "indexed job, its first pod by the name", INDEXED,
        world("indexed-job", "4", 3, None, FIRST),
    ),
    Case(
        "indexed job, the first pod's address is said", INDEXED
        | {"MASTER_ADDR": "first", "MASTER_PORT": "5"},
        world("indexed-job", "4", 3, None, "first", 5),
    ),
    Case(
        "indexed job, first pod", INDEXED | {"JOB_COMPLETION_INDEX": "0"},
        world("indexed-job", "4", 0, None, FIRST), FIRST,
    ),
    Case(
        "indexed job, two digits", INDEXED | {"JOB_COMPLETION_INDEX": "13", "NNODES": "16"},
        world("indexed-job", "16", 13, None, "a-1-0.svc"), "a-1-13.svc",
    ),
    Case(
        "indexed job, name without a domain", INDEXED,
        world("indexed-job", "4", 3, None, "train-0"), "train-3",
    ),
    Case(
        "indexed job, a job whose name ends in its index", INDEXED,
        world("indexed-job", "4", 3, None, "exp-3-0"), "exp-3-3",
    ),
    Case(
        "indexed job, processes are said", INDEXED | {"NPROC_PER_NODE": "8"},
        world("indexed-job", "4", 3, "8", FIRST),
    ),
    Case(
        "indexed job, number of pods by torchrun's variable",
        {"JOB_COMPLETION_INDEX": "3", "PET_NNODES": "4"},
        world("indexed-job", "4", 3, None, FIRST),
    ),
    Case(
        "indexed job, template with torchrun's variables", INDEXED
        | {"PET_NNODES": "4", "PET_MASTER_ADDR": "train-0.train"},
        world("indexed-job", "4", 3, None, "train-0.train"),
    ),
    Case(
        "indexed job of one pod, nothing said", {"JOB_COMPLETION_INDEX": "0"},
        world("indexed-job", None, 0, None, FIRST), FIRST,
    ),
    # JobSet
    Case("jobset, a pod a job", JOBSET, world("jobset", "4", 2, None, "set-workers-0-0.set")),
    Case(
        "jobset, first job", JOBSET | {"JOB_INDEX": "0"},
        world("jobset", "4", 0, None, "set-workers-0-0.set"),
    ),
    Case(
        "jobset, two pods in each of four jobs",
        JOBSET | {"NNODES": "8", "JOB_COMPLETION_INDEX": "1"},
        world("jobset", "8", 5, None, "set-workers-0-0.set"),
    ),
    Case(
        "jobset, one job of four pods",
        JOBSET | {"JOB_INDEX": "0", "JOB_COMPLETION_INDEX": "3", "NNODES": "4",
                  "REPLICATED_JOB_REPLICAS": "1"},
        world("jobset", "4", 3, None, "set-workers-0-0.set"),
    ),
    Case(
        "jobset, the address is said", JOBSET | {"MASTER_ADDR": "coordinator.set"},
        world("jobset", "4", 2, None, "coordinator.set"),
    ),
    Case(
        "jobset, a port and processes", JOBSET | {"MASTER_PORT": "3389", "NPROC_PER_NODE": "4"},
        world("jobset", "4", 2, "4", "set-workers-0-0.set", 3389),
    ),
    # LeaderWorkerSet
    Case("leaderworkerset", LWS, world("leaderworkerset", "4", 2, None, "serve-0.serve.team")),
    Case(
        "leaderworkerset, leader", LWS | {"LWS_WORKER_INDEX": "0"},
        world("leaderworkerset", "4", 0, None, "serve-0.serve.team"),
    ),
    Case(
        "leaderworkerset, a group of one", LWS | {"LWS_GROUP_SIZE": "1", "LWS_WORKER_INDEX": "0"},
        world("leaderworkerset", "1", 0, None, "serve-0.serve.team"),
    ),
    Case(
        "leaderworkerset, a port", LWS | {"MASTER_PORT": "6000", "NPROC_PER_NODE": "8"},
        world("leaderworkerset", "4", 2, "8", "serve-0.serve.team", 6000),
    ),
    # mpirun
    Case("open mpi, a launcher a node", OPEN_MPI, world("mpi", "4", 1, None, "mpi-worker-0.mpi")),
    Case(
        "open mpi, one node",
        without(OPEN_MPI, "MASTER_ADDR")
        | {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"},
        world("mpi", "1", 0),
    ),
    Case("hydra, a launcher a node", HYDRA, world("mpi", "2", 1, None, "h0")),
    Case(
        "open mpi below trainer v2", OPEN_MPI | {"PET_NPROC_PER_NODE": "8"},
        world("mpi", "4", 1, "8", "mpi-worker-0.mpi"),
    ),
    # Plain variables
    Case("plain", PLAIN, world("plain", "2", 1, "gpu", "10.0.0.7")),
    Case(
        "plain, torchrun's own variables win and empty ones say nothing",
        PLAIN | {"PET_NODE_RANK": "0", "PET_NPROC_PER_NODE": ""},
        world("plain", "2", 0, "gpu", "10.0.0.7"),
    ),
    Case(
        "plain beats what a controller left", PLAIN | VOLCANO | {"MASTER_ADDR": "h"},
        world("plain", "2", 1, "gpu", "h", 23456),
    ),
    Case(
        "plain, elastic", PLAIN | {"NNODES": "1:2", "NPROC_PER_NODE": "2"},
        world("plain", "1:2", 1, "2", "10.0.0.7"),
    ),
    # One form of the master's address
    *(
        Case(f"address {text!r}", PLAIN | {"MASTER_ADDR": text},
             world("plain", "2", 1, "gpu", host, port))
        for text, host, port in [
            ("head:1234", "head", 1234),
            ("tcp://head:1234", "head", 1234),
            ("http://head/", "head", None),
            ("head.team.svc.", "head.team.svc", None),
            (" head ", "head", None),
            ("fd00::7", "fd00::7", None),
            ("[fd00::7]", "fd00::7", None),
            ("[fd00::7]:99", "fd00::7", 99),
        ]
    ),
    Case(
        "port in address and variable agree", PLAIN
        | {"MASTER_ADDR": "head:1234", "MASTER_PORT": "1234"},
        world("plain", "2", 1, "gpu", "head", 1234),
    ),
    # A worker's variables are not a pod's
    Case("inside a worker", VOLCANO | {"LOCAL_RANK": "0"}, world("none")),
]  # fmt: skip


BROKEN: list[tuple[dict[str, str], str]] = [
    ({"JOB_COMPLETION_INDEX": "2"}, "NNODES"),
    ({"JOB_COMPLETION_INDEX": "x", "NNODES": "2"}, "JOB_COMPLETION_INDEX"),
    (PLAIN | {"NODE_RANK": "-1"}, "NODE_RANK"),
    (PLAIN | {"NODE_RANK": "2"}, "rank 2"),
    (PLAIN | {"NNODES": "4:2"}, "4:2"),
    (PLAIN | {"NNODES": "zero"}, "zero"),
    (PLAIN | {"MASTER_ADDR": ""}, "MASTER_ADDR"),
    (PLAIN | {"MASTER_ADDR": "a b"}, "MASTER_ADDR='a b'"),
    (PLAIN | {"MASTER_ADDR": "head/path"}, "head/path"),
    (PLAIN | {"MASTER_ADDR": "head:99999"}, "65535"),
    (PLAIN | {"MASTER_ADDR": "head:1", "MASTER_PORT": "2"}, "port 1 and MASTER_PORT says 2"),
    (PLAIN | {"MASTER_PORT": "http"}, "MASTER_PORT"),
    (PLAIN | {"MASTER_PORT": "0"}, "MASTER_PORT"),
    (PLAIN | {"NPROC_PER_NODE": "many"}, "NPROC_PER_NODE"),
    (PLAIN | {"NPROC_PER_NODE": "0"}, "NPROC_PER_NODE"),
    (PYTORCHJOB | {"WORLD_SIZE": "15"}, "WORLD_SIZE=15"),
    (TORCHRUN | {"PET_NODE_RANK": ""}, "PET_NODE_RANK"),
    (TORCHRUN | {"PET_MASTER_PORT": "70000"}, "PET_MASTER_PORT"),
    ({"PET_NNODES": "3", "PET_NODE_RANK": "1"}, "MASTER_ADDR"),
    (VOLCANO | {"RANK": "3"}, "rank 3"),
    (VOLCANO | {"RANK": "first"}, "RANK"),
    (LWS | {"LWS_WORKER_INDEX": "4"}, "rank 4"),
    (LWS | {"LWS_GROUP_SIZE": "all"}, "all"),
    (JOBSET | {"NNODES": "7"}, "NNODES=7"),
    (without(JOBSET, "REPLICATED_JOB_REPLICAS"), "NNODES"),
    (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, "npernode 1"),
    (without(OPEN_MPI, "MASTER_ADDR"), "MASTER_ADDR"),
]
