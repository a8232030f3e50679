"""From whatever launched the pod to one description of the world.

Two views. A *launch world* counts pods (nodes, in torchrun's words) and is what the launcher
needs before any worker exists. A *worker* is one process that torchrun started, with a rank.

Many controllers write RANK and WORLD_SIZE for pods, torchrun writes them for processes; the
presence of LOCAL_RANK tells them apart. torchrun itself reads only `PET_*`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from trainer.errors import WorldError

Env = Mapping[str, str]

DEFAULT_PORT = 29500


@dataclass(frozen=True, slots=True)
class LaunchWorld:
    """What one launcher is told about the others. None: not said."""

    launcher: str
    nnodes: str | None = None
    """Pods, `4`, or `2:4` for an elastic job."""
    node_rank: int | None = None
    nproc_per_node: str | None = None
    master_addr: str | None = None
    master_port: int | None = None
    rdzv_backend: str | None = None
    rdzv_endpoint: str | None = None

    @property
    def max_nodes(self) -> int:
        return _nodes(self.nnodes or "1")[1]

    @property
    def elastic(self) -> bool:
        least, most = _nodes(self.nnodes or "1")
        return least != most

    @property
    def position(self) -> str:
        """For people: `pod 2 of 4`."""
        if self.node_rank is None or not self.static:
            return f"one of {self.nnodes} pods" if self.nnodes else "a pod alone"
        return f"pod {self.node_rank} of {self.nnodes}"

    @property
    def static(self) -> bool:
        return self.rdzv_backend in (None, "static")


@dataclass(frozen=True, slots=True)
class Worker:
    """One process of the world, as torchrun numbered it."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    group_rank: int
    """Number of this process's node (pod)."""
    master_addr: str
    master_port: int
    store_is_served: bool
    """The agent serves the store; otherwise the process with rank 0 must."""
    attempt: str
    """Tells this attempt's keys in a store that outlives attempts from those of earlier ones."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A launcher: it is recognised by variables, and read by a function."""

    name: str
    needs: tuple[str, ...]
    read: Callable[[Env, str], LaunchWorld]
    lacks: tuple[str, ...] = ()

    def matches(self, env: Env) -> bool:
        return all(env.get(name) for name in self.needs) and not any(
            env.get(name) for name in self.lacks
        )


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
    world = _overlay(_overlay(world, _pet(env)), said or LaunchWorld("none"))
    if world.nnodes is None and world.node_rank is not None and hinted_size:
        world = replace(world, nnodes=str(hinted_size))
    return _checked(world)


def own_name(env: Env) -> str:
    """This pod's host name; with its domain, which may take a DNS query, only where it matters."""
    return socket.getfqdn() if env.get("JOB_COMPLETION_INDEX") else socket.gethostname()


def torchrun_variables(world: LaunchWorld) -> dict[str, str]:
    """The `PET_*` variables that say the same to torchrun."""
    said = {
        "PET_NNODES": world.nnodes,
        "PET_NODE_RANK": world.node_rank,
        "PET_NPROC_PER_NODE": world.nproc_per_node,
        "PET_MASTER_ADDR": world.master_addr,
        "PET_MASTER_PORT": world.master_port,
        "PET_RDZV_BACKEND": world.rdzv_backend,
        "PET_RDZV_ENDPOINT": world.rdzv_endpoint,
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def read_worker(env: Env) -> Worker | None:
    """This process as a worker; None where nothing launched it as one.

    Raises WorldError, naming the variable.
    """
    if "RANK" not in env or "WORLD_SIZE" not in env:
        return None
    rank, size = _integer(env, "RANK"), _integer(env, "WORLD_SIZE")
    local_size = _integer(env, "LOCAL_WORLD_SIZE", 1)
    worker = Worker(
        rank=rank,
        world_size=size,
        local_rank=_integer(env, "LOCAL_RANK", 0),
        local_world_size=local_size,
        group_rank=_integer(env, "GROUP_RANK", rank // max(1, local_size)),
        master_addr=_text(env, "MASTER_ADDR"),
        master_port=_integer(env, "MASTER_PORT", DEFAULT_PORT),
        store_is_served=env.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=_attempt(env),
    )
    if not 0 <= rank < size:
        raise WorldError(f"RANK={rank} lies outside WORLD_SIZE={size}")
    return worker


def _attempt(env: Env) -> str:
    """The restart count is each agent's own, so it names an attempt only where agents count
    alike: with a static rendezvous, whose store lives on over restarts. With an unshared store
    every attempt has an empty store, and nothing needs telling apart.
    """
    run = env.get("TORCHELASTIC_RUN_ID", "none")
    if env.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return run
    return f"{run}/{env.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def _plain(env: Env, _host: str) -> LaunchWorld:
    return LaunchWorld(
        "plain",
        nnodes=env["NNODES"],
        node_rank=_integer(env, "NODE_RANK"),
        nproc_per_node=env.get("NPROC_PER_NODE"),
        master_addr=env.get("MASTER_ADDR"),
        master_port=_integer(env, "MASTER_PORT", DEFAULT_PORT),
    )


def _pod_ranks(env: Env, _host: str) -> LaunchWorld:
    return LaunchWorld(
        "pytorchjob",
        nnodes=str(_pods(env)),
        node_rank=_integer(env, "RANK"),
        master_addr=env["MASTER_ADDR"],
        master_port=_integer(env, "MASTER_PORT", DEFAULT_PORT),
    )


def _pods(env: Env) -> int:
    """Pods in a world of RANK and WORLD_SIZE without LOCAL_RANK. Kubeflow v1 counts processes
    in WORLD_SIZE (and says so by PET_NPROC_PER_NODE), Volcano counts pods.
    """
    size, each = _integer(env, "WORLD_SIZE"), env.get("PET_NPROC_PER_NODE", "")
    if not each.isdecimal() or int(each) < 1:
        return size
    if size % int(each):
        raise WorldError(f"WORLD_SIZE={size} is no multiple of PET_NPROC_PER_NODE={each}")
    return size // int(each)


def _indexed_job(env: Env, host: str) -> LaunchWorld:
    index = _integer(env, "JOB_COMPLETION_INDEX")
    return LaunchWorld(
        "indexed-job",
        nnodes=env.get("NNODES"),
        node_rank=index,
        master_addr=env.get("MASTER_ADDR") or _first_pod(host, index),
        master_port=_integer(env, "MASTER_PORT", DEFAULT_PORT),
    )


def _first_pod(host: str, index: int) -> str | None:
    """Pods of an Indexed Job are called `JOB-INDEX`, with the job's subdomain behind."""
    found = re.fullmatch(rf"(.+)-{index}(\..+)?", host)
    return f"{found[1]}-0{found[2] or ''}" if found else None


SOURCES: tuple[_Source, ...] = (
    _Source("plain", needs=("NNODES", "NODE_RANK"), read=_plain),
    _Source(
        "pytorchjob",
        needs=("MASTER_ADDR", "WORLD_SIZE", "RANK"),
        lacks=("LOCAL_RANK",),
        read=_pod_ranks,
    ),
    _Source("indexed-job", needs=("JOB_COMPLETION_INDEX",), read=_indexed_job),
)
"""In order of precedence. A launcher more is a row more."""


def _pet(env: Env) -> LaunchWorld:
    return LaunchWorld(
        "torchrun",
        nnodes=env.get("PET_NNODES"),
        node_rank=_integer(env, "PET_NODE_RANK") if env.get("PET_NODE_RANK") else None,
        nproc_per_node=env.get("PET_NPROC_PER_NODE"),
        master_addr=env.get("PET_MASTER_ADDR"),
        master_port=_integer(env, "PET_MASTER_PORT") if env.get("PET_MASTER_PORT") else None,
        rdzv_backend=env.get("PET_RDZV_BACKEND"),
        rdzv_endpoint=env.get("PET_RDZV_ENDPOINT"),
    )


def _overlay(base: LaunchWorld, top: LaunchWorld) -> LaunchWorld:
    said = {item.name: getattr(top, item.name) for item in fields(top)}
    del said["launcher"]
    said = {name: value for name, value in said.items() if value not in (None, "")}
    name = top.launcher if base.launcher == "none" and said else base.launcher
    return replace(base, launcher=name, **said)


def _checked(world: LaunchWorld) -> LaunchWorld:
    if world.nnodes is None and world.node_rank:
        raise WorldError(
            f"this pod has rank {world.node_rank} ({world.launcher}), but nothing says how many "
            "there are; set NNODES or PET_NNODES, or pass --nnodes"
        )
    if world.static and world.max_nodes > 1:
        _check_static(world)
    return world


def _check_static(world: LaunchWorld) -> None:
    if world.node_rank is None or world.node_rank >= world.max_nodes:
        raise WorldError(
            f"{world.nnodes} pods, and this one has rank {world.node_rank} ({world.launcher}); "
            "set NODE_RANK or PET_NODE_RANK, or pass --node-rank"
        )
    if not world.master_addr and not world.rdzv_endpoint:
        raise WorldError(
            f"{world.nnodes} pods, but nothing says where the first one is; set MASTER_ADDR, pass "
            "--master-addr, or use --rdzv-backend c10d with --rdzv-endpoint"
        )


def _nodes(text: str) -> tuple[int, int]:
    """`N` or `MIN:MAX`."""
    found = re.fullmatch(r"(\d+)(?::(\d+))?", text)
    least = int(found[1]) if found else 0
    most = int(found[2] or found[1]) if found else 0
    if not 1 <= least <= most:
        raise WorldError(f"number of pods {text!r}: want N or MIN:MAX with 1 <= MIN <= MAX")
    return least, most


def _text(env: Env, name: str) -> str:
    if not env.get(name):
        raise WorldError(f"{name} is not set; start this process through muster-train launch")
    return env[name]


def _integer(env: Env, name: str, default: int | None = None) -> int:
    text = env.get(name) or ("" if default is None else str(default))
    if not text.isdecimal():
        raise WorldError(f"{name}={text!r}: want a whole number")
    return int(text)
