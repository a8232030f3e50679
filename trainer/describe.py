"""What `muster-train env` says: one document for programs, one text for people."""

from __future__ import annotations

from collections import Counter
from typing import Any

from trainer.facts import Machine, Peer
from trainer.plan import Plan
from trainer.world import FLEXIBLE, LaunchWorld


def document(plan: Plan, machine: Machine) -> dict[str, Any]:
    """The decisions as JSON values."""
    decisions = plan.decisions
    ignored = [f"hint ignored: {plan.found.problem}"] if plan.found.problem else []
    return {
        "launcher": plan.world.launcher,
        "backend": plan.backend.name,
        "world": _world(plan, machine),
        "set": decisions.set,
        "kept": decisions.kept,
        "why": decisions.why,
        "warnings": [*ignored, *decisions.warnings, *_unequal(plan, machine)],
        "errors": [*decisions.errors, *_peer_faults(plan.world, machine)],
    }


def failure(message: str) -> dict[str, Any]:
    """The document where the launch environment or the facts cannot be read."""
    return {
        "launcher": None, "backend": None, "world": None, "set": {}, "kept": {}, "why": {},
        "warnings": [], "errors": [message],
    }  # fmt: skip


def _processes(count: object) -> str:
    return "1 process" if str(count) == "1" else f"{count} processes"


def text(plan: Plan, found: dict[str, Any]) -> str:
    """For people, a line for each decision."""
    world = found["world"]
    lines = [
        f"launcher  {found['launcher']}",
        f"world     {plan.world.position}, {_processes(world['nproc_per_node'])} each, "
        f"{world['world_size']} in all",
        f"hint      {plan.found.origin}",
        f"backend   {plan.backend.name}: {plan.backend.why}",
    ]
    if plan.profile:
        lines.append(f"profile   {plan.profile}: the network's variables are left to it")
    for verb in ("set", "kept"):
        lines += [
            f"{verb:<9} {name}={value}  ({found['why'][name]})"
            for name, value in found[verb].items()
        ]
    lines += [f"warning   {warning}" for warning in found["warnings"]]
    lines += [f"error     {error}" for error in found["errors"]]
    return "\n".join(lines)


def _world(plan: Plan, machine: Machine) -> dict[str, Any]:
    """rank_offset: processes of the pods before this one, in the launcher's order."""
    pods, each = plan.world, plan.processes
    sizes = _sizes(pods, machine, each)
    ranked = pods.node_rank if pods.static else None
    if pods.max_nodes == 1:
        ranked = 0
    return {
        "nodes": pods.max_nodes,
        "node_rank": ranked,
        "nproc_per_node": each,
        "world_size": sum(sizes),
        "rank_offset": None if ranked is None else sum(sizes[:ranked]),
        "master_addr": pods.master_addr,
        "master_port": pods.master_port,
        "elastic": [pods.min_nodes, pods.max_nodes] if pods.elastic else None,
    }


def _sizes(pods: LaunchWorld, machine: Machine, each: int) -> list[int]:
    """Processes of each pod: as many as devices where it says so, and the others' are known."""
    sizes = [each] * pods.max_nodes
    if pods.nproc_per_node in FLEXIBLE:
        for peer in machine.peers or ():
            if peer.index < len(sizes) and peer.index != pods.node_rank:
                sizes[peer.index] = peer.gpus
    return sizes


def _peer_faults(pods: LaunchWorld, machine: Machine) -> list[str]:
    peers = machine.peers or ()
    outside = [peer.index for peer in peers if peer.index >= pods.max_nodes]
    counts = Counter(peer.index for peer in peers)
    twice = [index for index, times in counts.items() if times > 1]
    return [
        *(f"fact peers: pod {index} of only {pods.max_nodes} pods" for index in outside),
        *(f"fact peers: pod {index} comes twice" for index in twice),
    ]  # fmt: skip


def _unequal(plan: Plan, machine: Machine) -> list[str]:
    """NCCL crosses rails where pods have different devices, and fails where one has too few."""
    peers = machine.peers or ()
    if plan.backend.name != "nccl" or not peers:
        return []
    if plan.world.nproc_per_node not in FLEXIBLE:
        return [_too_few(peer, plan.processes) for peer in peers if peer.gpus < plan.processes]
    counts = sorted({peer.gpus for peer in peers} | {plan.processes})
    if len(counts) == 1:
        return []
    return [
        f"the pods have different numbers of GPUs ({', '.join(map(str, counts))}); NCCL then "
        "crosses rails, and the pods with most wait for the others: ask for the same in each"
    ]


def _too_few(peer: Peer, processes: int) -> str:
    return f"pod {peer.index} has {peer.gpus} GPUs for {processes} processes, which NCCL refuses"
