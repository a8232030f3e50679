"""The command line of `muster-train launch`: torchrun's own, with a few options more."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

from trainer import torchrun_numbers, world
from trainer.errors import WorldError
from trainer.node_order import Decision
from trainer.settings import LaunchSettings, environment, flag, help_of

log = logging.getLogger("muster.launch")

UNSHARED_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""Gives each attempt a store of its own. Otherwise restarted workers find the addresses of dead
ones in it, and some restarts fail with connections refused."""

_NO_SCRIPT = "\0"


def parser() -> argparse.ArgumentParser:
    """torchrun's parser (its defaults come from `PET_*` at this moment) with our options.

    Raises WorldError, naming the variable, for a number among the defaults that is none.
    """
    from torch.distributed.run import get_args_parser

    torchrun_numbers.check_flags(environment())
    found: argparse.ArgumentParser = get_args_parser()
    found.prog = "muster-train launch"
    torchrun_numbers.bound(found, environment())
    group = found.add_argument_group("muster", "What torchrun does not know.")
    for item in fields(LaunchSettings):
        kind: dict[str, Any] = {"metavar": item.name.upper()}
        if str(item.type) == "bool":
            kind = {"action": "store_const", "const": "true"}
        text = help_of(LaunchSettings, item.name).replace("%", "%%")
        group.add_argument(flag(item.name), dest=_dest(item.name), help=text, **kind)
    return found


def _dest(name: str) -> str:
    return f"muster_{name}"


def said(args: Sequence[str]) -> tuple[LaunchSettings, world.LaunchWorld]:
    """What the command line says, and nothing of what `PET_*` or a default says."""
    names = [item.name for item in fields(world.LaunchWorld) if item.name != "launcher"]
    everything = parser()
    everything.set_defaults(**dict.fromkeys(names))
    options = vars(everything.parse_args(args))
    given = {item.name: options[_dest(item.name)] for item in fields(LaunchSettings)}
    told = world.LaunchWorld("command line", **{name: options[name] for name in names})
    return LaunchSettings.load(environment(), given), told


def without_separator(args: Sequence[str]) -> list[str]:
    """Drop the `--` before the script, which torchrun does not know; one behind the script is
    the script's own.
    """
    if "--" not in args:
        return list(args)
    at = list(args).index("--")
    before, after = list(args[:at]), list(args[at + 1 :])
    if parser().parse_args([*before, _NO_SCRIPT]).training_script == _NO_SCRIPT:
        return before + after
    return list(args)


def prepare(options: argparse.Namespace, pods: world.LaunchWorld) -> None:
    """See to what torchrun would accept and then break on."""
    if options.max_restarts or pods.elastic:
        os.environ.setdefault(UNSHARED_STORE, "1")
    if pods.static and pods.max_nodes > 1 and options.max_restarts:
        log.warning(
            "--max-restarts with a static rendezvous restarts each pod's workers on their own, and "
            "they will not find each other; use --rdzv-backend c10d, or 0 and let the controller "
            "recreate the pods"
        )
    if options.run_path and options.module:
        options.training_script = module_file(options.training_script)


def renumber(options: argparse.Namespace, rank: int, decision: Decision) -> None:
    """Tell torchrun, and the variables that its workers inherit, what the pods agreed on."""
    options.node_rank = decision.ranks[rank]
    os.environ["PET_NODE_RANK"] = str(options.node_rank)
    if decision.address is not None:
        options.master_addr, options.master_port = decision.address, decision.port
        options.rdzv_endpoint = ""
        os.environ["PET_MASTER_ADDR"] = decision.address
        os.environ["PET_MASTER_PORT"] = str(decision.port)
        os.environ.pop("PET_RDZV_ENDPOINT", None)


def module_file(name: str) -> str:
    """The file that `python -m NAME` runs."""
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        spec = find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None:
        raise WorldError(f"no module named {name} to run")
    return spec.origin
