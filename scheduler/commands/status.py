"""``muster status``: whether Muster works, and the cluster in a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from rich.text import Text

from scheduler.commands import client, printing
from scheduler.commands.client import AsJson, Context, Home, Kubeconfig, Server, Token
from scheduler.errors import MusterError

Status = Mapping[str, Any]


def status(
    output: client.Form = client.Output.TABLE,
    as_json: AsJson = False,
    server: Server = "",
    kubeconfig: Kubeconfig = client.KUBECONFIG,
    context: Context = None,
    muster_namespace: Home = "muster-system",
    token: Token = "",
) -> None:
    """Show whether Muster is ready, how much is free, and what waits.

    Exit status: 0 ready, 1 not ready or no answer now, 3 Muster cannot be reached.
    """
    try:
        asked = client.connect(server, kubeconfig, context, muster_namespace, token)
        found = client.answer("status", asked.get("/v1/status"))
    except MusterError as error:
        client.gone_wrong("status", error)
    if client.form(output, as_json) is client.Output.JSON:
        printing.as_json(found)
    else:
        printing.lines([_head(found, asked.where), *printing.facts(figures(found))])
    raise typer.Exit(client.FINE if found["ready"] else client.NOT_THERE)


def figures(found: Status) -> list[tuple[str, Text | str]]:
    """Nodes, accelerators, gangs and the queue."""
    nodes, gangs = found["nodes"], found["gangs"]
    listed = ", ".join(f"{count} {name}" for name, count in gangs.items())
    return [
        ("nodes", f"{nodes['total']}, of which {nodes['usable']} take new pods"),
        ("levels", levels(found)),
        ("doubtful", "; ".join(found.get("levels_doubts", ()))),
        ("outside", outside(found)),
        ("GPUs", gpus(found)),
        ("free", free(found)),
        ("fragmented", fragmented(found)),
        ("gangs", listed or "none"),
        ("waiting", waiting(found)),
    ]


def levels(found: Status) -> str:
    """The levels of the network, and who says so."""
    if not found["levels"]:
        return "none: nodes carry no label that is known"
    return f"{' > '.join(found['levels'])}, by {found['levels_from']}"


def outside(found: Status) -> str:
    """Nodes with accelerators that lack the label of a level, or of one above it."""
    lacking = found.get("outside", {}).items()
    told = [f"{count} in no {printing.short(key)}" for key, count in lacking]
    return f"of the nodes with GPUs, {', '.join(told)}" if told else ""


def gpus(found: Status) -> str:
    """Accelerators in all, used and reserved."""
    all_of = found["gpus"]
    used = 100 * all_of["used"] / all_of["total"] if all_of["total"] else 0.0
    starting = f", {all_of['reserved']} reserved" if all_of["reserved"] else ""
    return f"{all_of['used']} of {all_of['total']} used ({used:.0f} %){starting}"


def free(found: Status) -> str:
    """Free accelerators by completeness."""
    by = found["gpus"]["free"]
    away = f", {by['unusable']} on nodes that take no new pods" if by["unusable"] else ""
    return f"{by['whole']} on whole nodes, {by['part']} on nodes in use{away}"


def fragmented(found: Status) -> str:
    """The fragmentation, in words."""
    share = found["fragmentation"]
    if share is None:
        return ""
    return f"{100 * share:.0f} % of what is free is no use to the next pod, as pods are now"


def waiting(found: Status) -> str:
    """The queue."""
    queue = found["waiting"]
    if not queue["gangs"]:
        return "nothing"
    gangs = f"{queue['gangs']} gang{'' if queue['gangs'] == 1 else 's'}"
    return (
        f"{gangs} with {queue['pods']} pods, the longest for {printing.seconds(queue['longest_s'])}"
    )


def _head(found: Status, where: str) -> Text:
    text = Text(f"Muster {found['version']} at {where} is ")
    if found["ready"]:
        text.append("ready", style="green")
        return text if found.get("leads", True) else text.append(_standing_by(found))
    return text.append("not ready", style="bold red").append(f": {found['reason']}")


def _standing_by(found: Status) -> str:
    return f" and stands by; {found.get('leader') or 'nobody'} leads"
