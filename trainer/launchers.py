"""Every launcher's environment, read into one world of pods.

Many controllers write RANK and WORLD_SIZE for pods, torchrun writes them for processes; the
presence of LOCAL_RANK tells them apart. torchrun itself reads only `PET_*`.

Sources: training-operator pkg/controller.v1/pytorch/envvar.go; trainer
pkg/runtime/framework/plugins/torch; volcano plugins/distributed-framework/pytorch; jobset and lws
API documentation; Kubernetes, Indexed Job; Open MPI and Hydra environment variables.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict

from trainer.errors import WorldError
from trainer.numbers import is_whole
from trainer.world import Env, LaunchWorld, checked, nodes, overlay, port, whole


@dataclass(frozen=True, slots=True)
class _Source:
    """A launcher: it is recognised by variables, and read by a function."""

    name: str
    needs: tuple[str, ...]
    read: Callable[[Env, str], LaunchWorld]
    lacks: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()

    def matches(self, env: Env) -> bool:
        return (
            all(env.get(name) for name in self.needs)
            and not any(env.get(name) for name in self.lacks)
            and (not self.any_of or any(env.get(name) for name in self.any_of))
        )


class _Master(TypedDict):
    master_addr: str | None
    master_port: int | None


def read_launch(
    env: Env, host: str, hinted_size: int | None = None, said: LaunchWorld | None = None
) -> LaunchWorld:
    """The world of pods: the first launcher that matches, `PET_*` on top of it, and what the
    command line said on top of that.

    host: this pod's host name, from which an Indexed Job's first pod is derived.
    hinted_size: pods in the gang by the scheduler's hint, used where there is a rank but no count.

    Raises WorldError, naming the variable or what is missing.
    """
    source = next((source for source in SOURCES if source.matches(env)), None)
    world = source.read(env, host) if source else LaunchWorld("none")
    world = overlay(overlay(world, _pet(env)), said or LaunchWorld("none"))
    if world.nnodes is None and world.node_rank is not None and hinted_size:
        world = replace(world, nnodes=str(hinted_size))
    return checked(world)


def own_name(env: Env) -> str:
    """This pod's host name; with its domain, which may take a DNS query, only where it matters."""
    return socket.getfqdn() if env.get("JOB_COMPLETION_INDEX") else socket.gethostname()


def _plain(env: Env, _host: str) -> LaunchWorld:
    return LaunchWorld(
        "plain",
        nnodes=_pods_said(env, "NNODES"),
        node_rank=whole(env, "NODE_RANK"),
        nproc_per_node=env.get("NPROC_PER_NODE"),
        **_master(env),
    )


def _trainjob(env: Env, _host: str) -> LaunchWorld:
    """Kubeflow Trainer v2 speaks to torchrun, which is read for all launchers alike."""
    name = "trainjob" if "-node-0-0" in env["PET_MASTER_ADDR"] else "indexed-job"
    return LaunchWorld(name, node_rank=whole(env, "JOB_COMPLETION_INDEX"))


def _pytorchjob(env: Env, _host: str) -> LaunchWorld:
    return _pod_ranks("pytorchjob", env, _pods(env))


def _volcano(env: Env, _host: str) -> LaunchWorld:
    return _pod_ranks("volcano", env, whole(env, "WORLD_SIZE", least=1))


def _pods_said(env: Env, name: str) -> str | None:
    """A variable's number of pods, as it is written."""
    text = env.get(name)
    if text:
        nodes(text, name)
    return text or None


def _pod_ranks(launcher: str, env: Env, pods: int) -> LaunchWorld:
    rank = whole(env, "RANK")
    return LaunchWorld(launcher, nnodes=str(pods), node_rank=rank, **_master(env))


def _pods(env: Env) -> int:
    """Pods in a world of RANK and WORLD_SIZE without LOCAL_RANK. Kubeflow v1 counts processes
    in WORLD_SIZE and says how many a pod has by PET_NPROC_PER_NODE, where a word counts as one.
    """
    size, each = whole(env, "WORLD_SIZE", least=1), env.get("PET_NPROC_PER_NODE", "")
    if not is_whole(each, 1):
        return size
    if size % int(each):
        raise WorldError(f"WORLD_SIZE={size} is no multiple of PET_NPROC_PER_NODE={each}")
    return size // int(each)


def _leaderworkerset(env: Env, _host: str) -> LaunchWorld:
    """One group of the set is one gang; the leader has index 0."""
    return LaunchWorld(
        "leaderworkerset",
        nnodes=_pods_said(env, "LWS_GROUP_SIZE"),
        node_rank=whole(env, "LWS_WORKER_INDEX"),
        nproc_per_node=env.get("NPROC_PER_NODE"),
        **_master(env, env["LWS_LEADER_ADDRESS"]),
    )


def _jobset(env: Env, _host: str) -> LaunchWorld:
    """A pod's index in its Job, behind those of the Jobs before it. The set's pods are called
    `SET-JOB-JOBINDEX-PODINDEX` below a service named like the set.
    """
    name, role = env["JOBSET_NAME"], env["REPLICATED_JOB_NAME"]
    index, job = whole(env, "JOB_COMPLETION_INDEX", 0), whole(env, "JOB_INDEX", 0)
    pods, jobs = _pods_said(env, "NNODES"), _pods_said(env, "REPLICATED_JOB_REPLICAS")
    return LaunchWorld(
        "jobset",
        nnodes=pods or (jobs if index == 0 else None),
        node_rank=job * _pods_of_each_job(pods, jobs, job) + index,
        nproc_per_node=env.get("NPROC_PER_NODE"),
        **_master(env, f"{name}-{role}-0-0.{name}"),
    )


def _pods_of_each_job(said: str | None, jobs: str | None, job: int) -> int:
    if job == 0:
        return 0
    if said is None or jobs is None:
        return 1
    pods, each = nodes(said, "NNODES")[1], nodes(jobs, "REPLICATED_JOB_REPLICAS")[1]
    if pods % each:
        raise WorldError(f"NNODES={said} pods in REPLICATED_JOB_REPLICAS={jobs} jobs: want as "
                         "many pods in each")  # fmt: skip
    return pods // each


def _indexed_job(env: Env, host: str) -> LaunchWorld:
    index = whole(env, "JOB_COMPLETION_INDEX")
    return LaunchWorld(
        "indexed-job",
        nnodes=_pods_said(env, "NNODES"),
        node_rank=index,
        nproc_per_node=env.get("NPROC_PER_NODE"),
        **_master(env, _first_pod(host, index)),
    )


def _first_pod(host: str, index: int) -> str | None:
    """Pods of an Indexed Job are called `JOB-INDEX`, with the job's subdomain behind."""
    found = re.fullmatch(rf"(.+)-{index}(\..+)?", host)
    return f"{found[1]}-0{found[2] or ''}" if found else None


class _MpiNames(NamedTuple):
    """One MPI's variables."""

    size: str
    rank: str
    local_size: str


_OMPI = _MpiNames(*(f"OMPI_COMM_WORLD_{name}" for name in ("SIZE", "RANK", "LOCAL_SIZE")))
_PMI = _MpiNames("PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS")


def _open_mpi(env: Env, _host: str) -> LaunchWorld:
    return _mpi(env, _OMPI)


def _hydra(env: Env, _host: str) -> LaunchWorld:
    return _mpi(env, _PMI)


def _mpi(env: Env, names: _MpiNames) -> LaunchWorld:
    """mpirun started this launcher: once in each pod, or there would be workers of workers."""
    size, rank = whole(env, names.size, least=1), whole(env, names.rank)
    local = whole(env, names.local_size, 1)
    if local > 1:
        raise WorldError(
            f"mpirun starts {local} launchers in this pod ({names.local_size}={local}), and each "
            "would start workers; run one a node (-npernode 1), or run the script itself"
        )
    return LaunchWorld("mpi", nnodes=str(size), node_rank=rank, **_master(env))


def _master(env: Env, otherwise: str | None = None) -> _Master:
    """Where the first pod is; the port only where it is said, see `trainer.ports`."""
    said = env.get("MASTER_PORT")
    return _Master(
        master_addr=env.get("MASTER_ADDR") or otherwise,
        master_port=port(said, "MASTER_PORT") if said else None,
    )


_IN_WORKERS = ("LOCAL_RANK",)

SOURCES: tuple[_Source, ...] = (
    _Source("plain", needs=("NNODES", "NODE_RANK"), read=_plain),
    _Source(
        "volcano",
        needs=("MASTER_ADDR", "WORLD_SIZE", "RANK"),
        any_of=("VC_TASK_INDEX", "VK_TASK_INDEX"),
        lacks=_IN_WORKERS,
        read=_volcano,
    ),
    _Source(
        "pytorchjob",
        needs=("MASTER_ADDR", "WORLD_SIZE", "RANK"),
        lacks=_IN_WORKERS,
        read=_pytorchjob,
    ),
    _Source(
        "leaderworkerset",
        needs=("LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"),
        read=_leaderworkerset,
    ),
    _Source(
        "trainjob", needs=("PET_NNODES", "PET_MASTER_ADDR", "JOB_COMPLETION_INDEX"), read=_trainjob
    ),
    _Source("jobset", needs=("JOBSET_NAME", "REPLICATED_JOB_NAME"), read=_jobset),
    _Source("indexed-job", needs=("JOB_COMPLETION_INDEX",), read=_indexed_job),
    _Source("mpi", needs=("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), read=_open_mpi),
    _Source("mpi", needs=("PMI_SIZE", "PMI_RANK"), read=_hydra),
)
"""In order of precedence. A launcher more is a row more."""


def _pet(env: Env) -> LaunchWorld:
    said = env.get("PET_MASTER_PORT")
    return LaunchWorld(
        "torchrun",
        nnodes=_pods_said(env, "PET_NNODES"),
        node_rank=whole(env, "PET_NODE_RANK") if env.get("PET_NODE_RANK") else None,
        nproc_per_node=env.get("PET_NPROC_PER_NODE"),
        master_addr=env.get("PET_MASTER_ADDR"),
        master_port=port(said, "PET_MASTER_PORT") if said else None,
        rdzv_backend=env.get("PET_RDZV_BACKEND"),
        rdzv_endpoint=env.get("PET_RDZV_ENDPOINT"),
    )
