"""What can be set, where it comes from, and what it means.

The only module that reads the environment for settings. Each command has one frozen dataclass;
a field's metadata holds the text of `--help` and the name of its variable. A flag wins over the
variable, the variable over the default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from trainer import numbers
from trainer.errors import SettingsError

S = TypeVar("S", bound="Settings")

ENV_PREFIX = "MUSTER_"


def text(help: str, *, has_variable: bool = True) -> dict[str, Any]:
    """A field's metadata. The field's type says how a string is read."""
    return {"help": help, "has_variable": has_variable}


class Settings:
    """What every settings class can do."""

    @classmethod
    def load(cls: type[S], env: Mapping[str, str], given: Mapping[str, object]) -> S:
        """Take `given` (flags; None = not given), then the environment, then the defaults.

        Raises SettingsError, naming the flag or the variable.
        """
        chosen = {}
        for item in fields(cls):  # type: ignore[arg-type]
            origin, raw = _pick(item, env, given)
            if raw is not None:
                chosen[item.name] = _convert(item, origin, raw)
        return cls(**chosen)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    return ENV_PREFIX + name.upper()


def help_of(cls: type[Settings], name: str) -> str:
    """The help text of one field, with its variable and default."""
    item = next(item for item in fields(cls) if item.name == name)  # type: ignore[arg-type]
    default = "" if item.default in (None, False) else f" [default: {item.default}]"
    from_env = f" [env: {variable(name)}]" if item.metadata["has_variable"] else ""
    return f"{item.metadata['help']}{from_env}{default}"


def environment() -> dict[str, str]:
    """A copy of this process's environment."""
    return dict(os.environ)


def _pick(
    item: Field[Any], env: Mapping[str, str], given: Mapping[str, object]
) -> tuple[str, object | None]:
    if given.get(item.name) is not None:
        return flag(item.name), given[item.name]
    if not item.metadata["has_variable"]:
        return "", None
    # An empty variable is how a pod template says "not set".
    return variable(item.name), env.get(variable(item.name)) or None


def _convert(item: Field[Any], origin: str, raw: object) -> object:
    if not isinstance(raw, str):
        return raw
    try:
        return _CONVERTERS[str(item.type).removesuffix(" | None")](raw)
    except ValueError as error:
        raise SettingsError(f"{origin}={numbers.shown(raw)}: {error}") from None


def _integer(raw: str) -> int:
    if not numbers.is_whole(raw, -numbers.MOST, numbers.MOST):
        raise ValueError("want a whole number")
    return int(raw)


def _number(raw: str) -> float:
    try:
        return numbers.decimal(raw, -numbers.MOST)
    except ValueError:
        raise ValueError("want a number") from None


_WORDS = {"1": True, "true": True, "yes": True, "on": True}
_WORDS |= {"0": False, "false": False, "no": False, "off": False}


def _boolean(raw: str) -> bool:
    if raw.lower() not in _WORDS:
        raise ValueError("want true or false")
    return _WORDS[raw.lower()]


_CONVERTERS: dict[str, Callable[[str], object]] = {
    "int": _integer,
    "float": _number,
    "bool": _boolean,
    "str": str,
    "Path": Path,
}


def one_of(name: str, value: str | None, words: tuple[str | None, ...]) -> None:
    if value not in words:
        known = ", ".join(word for word in words if word)
        said = numbers.shown(value)
        raise SettingsError(f"{flag(name)} ({variable(name)}) is {said}; want one of {known}")


def at_least(name: str, value: float, least: int) -> None:
    if not value >= least:
        said = numbers.shown(value)
        raise SettingsError(f"{flag(name)} ({variable(name)}) is {said}; want {least} or more")


def at_most(settings: Settings, bounds: Mapping[str, int]) -> None:
    for name, most in bounds.items():
        value = getattr(settings, name)
        if not value <= most:
            said = numbers.shown(value)
            raise SettingsError(f"{flag(name)} ({variable(name)}) is {said}; want {most} or less")


@dataclass(frozen=True, slots=True)
class HintSource:
    """Where a hint may be, in order of precedence."""

    file: Path | None = None
    """Given on the command line."""
    text: str | None = None
    """MUSTER_HINT: the JSON itself (downward API, `env`)."""
    variable_file: Path | None = None
    """MUSTER_HINT_FILE: a file with the JSON (downward API, volume)."""
    annotations: Path | None = None
    """MUSTER_ANNOTATIONS_FILE: all annotations of the pod (downward API, volume)."""

    @classmethod
    def load(cls, env: Mapping[str, str], file: Path | None = None) -> HintSource:
        paths = [env.get("MUSTER_HINT_FILE"), env.get("MUSTER_ANNOTATIONS_FILE")]
        hint, annotations = (Path(path) if path else None for path in paths)
        return cls(file, env.get("MUSTER_HINT"), hint, annotations)


@dataclass(frozen=True)
class LaunchSettings(Settings):
    """What `muster-train launch` knows beyond torchrun's own options."""

    hint: Path | None = field(
        default=None,
        metadata=text(
            "File with the pod's hint; without it MUSTER_HINT (JSON), MUSTER_HINT_FILE, then "
            "/etc/muster/hint.",
            has_variable=False,  # MUSTER_HINT is the JSON itself, see HintSource
        ),
    )
    grace: int = field(
        default=30,
        metadata=text(
            "The pod's terminationGracePeriodSeconds; on SIGTERM workers get 5 s less to leave."
        ),
    )
    socket_ifname: str | None = field(
        default=None,
        metadata=text(
            "Interfaces that reach every other pod, exact names joined by commas (eth0); only "
            "needed where the automatic choice picks one that does not."
        ),
    )
    ib_hca: str | None = field(
        default=None,
        metadata=text(
            "InfiniBand or RoCE devices of the data fabric, exact names joined by commas "
            "(mlx5_0,mlx5_1); only needed to keep storage or management devices out."
        ),
    )
    backend: str | None = field(
        default=None,
        metadata=text(
            "nccl, gloo, hccl or mpi instead of the choice by the devices; an error where it "
            "cannot work."
        ),
    )
    rdma: str = field(
        default="auto",
        metadata=text(
            "InfiniBand or RoCE: auto takes what is there, expected warns where there is none, "
            "required refuses to start without it."
        ),
    )
    single_switch: bool = field(
        default=False,
        metadata=text("All NICs of a node hang off one switch fabric, not off a rail each."),
    )
    fast_sockets: bool = field(
        default=False,
        metadata=text(
            "Plain TCP at 100 Gb/s or more: several sockets and threads for each connection."
        ),
    )
    topo_file: Path | None = field(
        default=None,
        metadata=text(
            "The cloud vendor's NCCL topology file, for virtual machines that hide the PCI tree."
        ),
    )
    host_network: bool = field(
        default=False,
        metadata=text(
            "The pods use their nodes' network (hostNetwork): derive a port for the gang unless "
            "one is said. Known without this where the pod is called like the node of its hint."
        ),
    )
    flight_recorder: int = field(
        default=2000,
        metadata=text(
            "Collectives that each rank remembers, dumped when one times out; 0 turns it off."
        ),
    )

    reach_timeout: int = field(
        default=600,
        metadata=text(
            "Seconds for the first pod's name to resolve and its port to open; 0 leaves the "
            "waiting to torchrun."
        ),
    )
    rank_order: str = field(
        default="hint",
        metadata=text(
            "hint gives pods of a static rendezvous node ranks in topology order, whatever the "
            "script; launcher leaves them those of their controller."
        ),
    )
    metrics_port: int = field(
        default=0,
        metadata=text("Port of this pod's /healthz and /metrics (Prometheus); 0 serves none."),
    )
    preflight: bool = field(
        default=False,
        metadata=text(
            "Before the workers start, check that all pods are there and that the network between "
            "them is as fast as it should be (see muster-train preflight)."
        ),
    )

    def __post_init__(self) -> None:
        at_least("reach_timeout", self.reach_timeout, 0)
        one_of("backend", self.backend, ("nccl", "gloo", "hccl", "mpi", None))
        one_of("rdma", self.rdma, ("auto", "expected", "required"))
        one_of("rank_order", self.rank_order, ("hint", "launcher"))
        at_least("grace", self.grace, 2)
        for name in ("flight_recorder", "metrics_port"):
            at_least(name, getattr(self, name), 0)
        at_most(self, _MOST_OF_LAUNCH)


_MOST_OF_LAUNCH = {
    "reach_timeout": numbers.YEAR_S,
    "grace": numbers.YEAR_S,
    "metrics_port": 65_535,
    "flight_recorder": 10_000_000,
}


@dataclass(frozen=True)
class PreflightSettings(Settings):
    """What the checks before a run want to see."""

    deadline: float = field(
        default=300.0,
        metadata=text("Seconds for all ranks to come, the first pod's name and port included."),
    )
    timeout: float = field(
        default=60.0, metadata=text("Seconds after which one transfer counts as stuck.")
    )
    size_mib: int = field(
        default=16, metadata=text("MiB of one transfer between two ranks, and of an all-reduce.")
    )
    repeats: int = field(default=3, metadata=text("Transfers of each kind; the fastest counts."))
    min_gbps: float = field(
        default=0.0,
        metadata=text(
            "Gbit/s that every pair of ranks must reach; 0 compares with the median pair instead."
        ),
    )
    min_share: float = field(
        default=0.3,
        metadata=text("Share of the median pair's speed below which a pair counts as slow."),
    )
    min_allreduce_gbps: float = field(
        default=0.0, metadata=text("Gbit/s of bus bandwidth that an all-reduce must reach.")
    )

    def __post_init__(self) -> None:
        for name in ("size_mib", "repeats"):
            at_least(name, getattr(self, name), 1)
        for name in ("deadline", "timeout", "min_gbps", "min_share", "min_allreduce_gbps"):
            at_least(name, getattr(self, name), 0)
        at_most(self, _MOST_OF_PREFLIGHT)


_MOST_OF_PREFLIGHT = {
    "deadline": numbers.YEAR_S,
    "timeout": numbers.YEAR_S,
    "size_mib": 65_536,
    "repeats": 1_000_000,
}
