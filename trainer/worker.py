"""One process of the world, as whatever started it numbered it.

torchrun gives every process RANK and LOCAL_RANK; mpirun has variables of its own; a pod that
runs a script without either is one process with the pod's RANK and WORLD_SIZE.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.errors import WorldError
from trainer.numbers import shown
from trainer.world import DEFAULT_PORT, Env, address, port, whole


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
class _Names:
    """Variables of one process manager."""

    rank: str
    size: str
    local_rank: str
    local_size: str


_TORCHRUN = _Names("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_OTHERS = (
    _Names(
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Names("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)

_PODS = ("PET_NNODES", "NNODES", "LWS_GROUP_SIZE")


def read_worker(env: Env) -> Worker | None:
    """This process as a worker; None where nothing launched it as one.

    Raises WorldError, naming the variable; also where the environment speaks of several
    processes and gives this one no rank, so that it cannot take itself for a world of one.
    """
    names = next((names for names in (_TORCHRUN, *_OTHERS) if _speaks(env, names)), None)
    if names is None:
        _check_alone(env)
        return None
    rank, size = whole(env, names.rank), whole(env, names.size)
    if not 0 <= rank < size:
        raise WorldError(f"{names.rank}={rank} lies outside {names.size}={size}")
    local_size = whole(env, names.local_size, 1)
    host, said = _meeting_point(env, size == local_size)
    return Worker(
        rank=rank,
        world_size=size,
        local_rank=whole(env, names.local_rank, 0),
        local_world_size=local_size,
        group_rank=whole(env, "GROUP_RANK", rank // max(1, local_size)),
        master_addr=host,
        master_port=said,
        store_is_served=env.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=_attempt(env),
    )


def _speaks(env: Env, names: _Names) -> bool:
    return bool(env.get(names.rank) and env.get(names.size))


def _check_alone(env: Env) -> None:
    """A process of several that takes itself for the only one would train a model of its own."""
    size = env.get("WORLD_SIZE")
    if size and whole(env, "WORLD_SIZE") > 1:
        raise WorldError(
            f"WORLD_SIZE={size}, but RANK is not set; start this process through "
            "muster-train launch, or set both"
        )
    for name in _PODS:
        if env.get(name, "") not in ("", "1", "1:1"):
            raise WorldError(
                f"{name}={shown(env[name])}, but this process has no RANK: it would train alone; "
                "start it through muster-train launch (or torchrun)"
            )


def _meeting_point(env: Env, on_one_host: bool) -> tuple[str, int]:
    text = env.get("MASTER_ADDR") or ("127.0.0.1" if on_one_host else "")
    if not text:
        raise WorldError("MASTER_ADDR is not set; start this process through muster-train launch")
    host, said = address(text, "MASTER_ADDR")
    if env.get("MASTER_PORT"):
        return host, port(env["MASTER_PORT"], "MASTER_PORT")
    return host, said or DEFAULT_PORT


def _attempt(env: Env) -> str:
    """The restart count is each agent's own, so it names an attempt only where agents count
    alike: with a static rendezvous, whose store lives on over restarts. With an unshared store
    every attempt has an empty store, and nothing needs telling apart.
    """
    run = env.get("TORCHELASTIC_RUN_ID", "none")
    if env.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return run
    return f"{run}/{env.get('TORCHELASTIC_RESTART_COUNT', '0')}"
