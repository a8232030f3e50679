"""The world of pods: what a launcher must know before any worker exists.

A launch world counts pods (nodes, in torchrun's words). `trainer.launchers` reads it from the
environment; `trainer.worker` is one process that torchrun, mpirun or a pod's template started.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from trainer import numbers
from trainer.errors import WorldError
from trainer.numbers import MOST_COUNT, MOST_PROCESSES, is_whole, shown

Env = Mapping[str, str]

DEFAULT_PORT = 29500
FLEXIBLE = ("auto", "gpu", "cpu", "xpu")
"""Words of torchrun for one process a device."""


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
    def min_nodes(self) -> int:
        return nodes(self.nnodes or "1", "--nnodes")[0]

    @property
    def max_nodes(self) -> int:
        return nodes(self.nnodes or "1", "--nnodes")[1]

    @property
    def elastic(self) -> bool:
        return self.min_nodes != self.max_nodes

    @property
    def position(self) -> str:
        """For people: `pod 2 of 4`."""
        if self.node_rank is None or not self.static:
            return f"one of {self.nnodes} pods" if self.nnodes else "a pod alone"
        return f"pod {self.node_rank} of {self.nnodes}"

    @property
    def static(self) -> bool:
        return self.rdzv_backend in (None, "static")

    @property
    def meeting_point(self) -> tuple[str, int] | None:
        """Host and port that every pod must reach; None where nothing says it."""
        if not self.static and self.rdzv_endpoint:
            host, port = address(self.rdzv_endpoint, "PET_RDZV_ENDPOINT")
            return host, port or 29400
        if not self.master_addr:
            return None
        return self.master_addr, self.master_port or DEFAULT_PORT


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


def overlay(base: LaunchWorld, top: LaunchWorld) -> LaunchWorld:
    """What the top says, and below it what the base says."""
    said = {item.name: getattr(top, item.name) for item in fields(top)}
    del said["launcher"]
    said = {name: value for name, value in said.items() if value not in (None, "")}
    name = top.launcher if base.launcher == "none" and said else base.launcher
    return replace(base, launcher=name, **said)


def checked(world: LaunchWorld) -> LaunchWorld:
    """The same, with the master's address in one form. Raises WorldError for contradictions."""
    world = _with_plain_address(world)
    _check_processes(world)
    if world.nnodes is None and world.node_rank:
        raise WorldError(
            f"this pod has rank {world.node_rank} ({world.launcher}), but nothing says how many "
            "there are; set NNODES or PET_NNODES, or pass --nnodes"
        )
    if world.static and world.max_nodes > 1:
        _check_static(world)
    return world


def address(text: str, origin: str) -> tuple[str, int | None]:
    """Host and port of `host`, `host:port`, `tcp://host:port`, `[v6]:port` or a bare IPv6 address.

    A trailing dot goes: names are compared as text elsewhere. Raises WorldError.
    """
    bare = re.sub(r"^[a-z][a-z0-9+.-]*://", "", text.strip()).rstrip("/")
    if _is_ipv6(bare):
        return bare, None
    found = re.fullmatch(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^\[\]:/\s]+))(?::(?P<port>\d+))?", bare)
    if found is None or (found["v6"] and not _is_ipv6(found["v6"])):
        raise WorldError(f"{origin}={shown(text)}: want a host name or an address, and no path")
    host = found["v6"] or found["host"].rstrip(".")
    return host, port(found["port"], origin) if found["port"] else None


def port(text: str, origin: str) -> int:
    """A TCP port. Raises WorldError, naming the variable."""
    return _number(text, origin, 1, 65535)


def whole(env: Env, name: str, default: int | None = None, *, least: int = 0) -> int:
    """A variable's whole number. Raises WorldError, naming it."""
    text = env.get(name) or ("" if default is None else str(default))
    return _number(text, name, least)


def nodes(text: str, origin: str) -> tuple[int, int]:
    """Least and most pods of `N` or `MIN:MAX`. Raises WorldError, naming the variable."""
    least, _, most = text.partition(":")
    if is_whole(least, 1) and is_whole(most if ":" in text else least, int(least)):
        return int(least), int(most or least)
    raise WorldError(
        f"{origin}={shown(text)}: want a number of pods, N or MIN:MAX with 1 <= MIN <= MAX"
    )


def _number(text: str, origin: str, least: int = 0, most: int = MOST_COUNT) -> int:
    try:
        return numbers.whole(text, least, most)
    except ValueError as error:
        raise WorldError(f"{origin}={shown(text)}: {error}") from None


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def _with_plain_address(world: LaunchWorld) -> LaunchWorld:
    if not world.master_addr:
        return world
    host, said = address(world.master_addr, "MASTER_ADDR")
    if said and world.master_port and said != world.master_port:
        raise WorldError(
            f"MASTER_ADDR says port {said} and MASTER_PORT says {world.master_port}; leave one out"
        )
    return replace(world, master_addr=host, master_port=world.master_port or said)


def _check_processes(world: LaunchWorld) -> None:
    text = world.nproc_per_node
    if text and text not in FLEXIBLE and not is_whole(text, 1, MOST_PROCESSES):
        raise WorldError(
            f"{shown(text)} processes per pod (PET_NPROC_PER_NODE, NPROC_PER_NODE or "
            f"--nproc-per-node): want a whole number of 1 to {MOST_PROCESSES}, or one of "
            f"{', '.join(FLEXIBLE)}"
        )


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
