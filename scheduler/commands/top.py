"""``muster top``: what is free where, how large a gang would fit, and what waits."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from scheduler.commands import client, printing, status
from scheduler.commands.client import AsJson, Context, Home, Kubeconfig, Namespace, Server, Token
from scheduler.errors import MusterError

BAR = 20
"""Characters of a bar."""

Json = Mapping[str, Any]


def top(
    rows: Annotated[int, typer.Option(min=1, help="Domains and gangs to show at most.")] = 12,
    namespace: Namespace = None,
    output: client.Form = client.Output.TABLE,
    as_json: AsJson = False,
    server: Server = "",
    kubeconfig: Kubeconfig = client.KUBECONFIG,
    context: Context = None,
    muster_namespace: Home = "muster-system",
    token: Token = "",
) -> None:
    """Show use and free room by domain, the largest gangs that would fit, and the queue.

    With --namespace, only its gangs are listed; the room is that of the whole cluster.

    Exit status: 0 done, 1 no answer now, 3 Muster cannot be reached.
    """
    try:
        asked = client.connect(server, kubeconfig, context, muster_namespace, token)
        found = {
            "status": client.answer("top", asked.get("/v1/status")),
            "topology": client.answer("top", asked.get("/v1/topology")),
            "gangs": _of(client.answer("top", asked.get("/v1/gangs"))["gangs"], namespace),
        }
    except MusterError as error:
        client.gone_wrong("top", error)
    if client.form(output, as_json) is client.Output.JSON:
        printing.as_json(_without_nodes(found))
    else:
        printing.lines(_told(found, sys.maxsize if output is client.Output.WIDE else rows))


def _of(gangs: Sequence[Json], namespace: str | None) -> list[Json]:
    return [gang for gang in gangs if namespace in (None, str(gang["key"]).partition("/")[0])]


def _without_nodes(found: Json) -> dict[str, Any]:
    """The same with numbers of nodes instead of their names, of which there may be thousands."""
    domains = [item | {"nodes": len(item["nodes"])} for item in found["topology"]["domains"]]
    return {**found, "topology": {**found["topology"], "domains": domains}}


def _told(found: Json, rows: int) -> list[Text]:
    parts: list[list[Text]] = [
        printing.facts(status.figures(found["status"]), indent=0),
        _largest(found["status"]["largest_gang"]),
        _domains(found["topology"], rows),
        _queue(found["gangs"], rows),
    ]
    shown = [part for part in parts if part]
    return [line for part in shown for line in (*part, Text())][:-1]


def _largest(found: Sequence[Json]) -> list[Text]:
    """One line a level: how many pods of 1, 2, 4, … fit into one domain."""
    sizes = sorted({row["gpus_per_pod"] for row in found})
    lines: dict[tuple[str, str], dict[int, str]] = {}
    for row in found:
        line = lines.setdefault((row["resource"], row["level"]), {})
        line[row["gpus_per_pod"]] = str(row["pods"])
    if not lines:
        return []
    head = ["LARGEST GANG IN ONE", *(f"{size}/POD" for size in sizes), "OF"]
    table = [
        [printing.short(level), *(line.get(size, "") for size in sizes), resource]
        for (resource, level), line in lines.items()
    ]
    return printing.table(head, table)


def _domains(topology: Json, rows: int) -> list[Text]:
    """Domains of the finest level, those with the most free first."""
    depth = len(topology["levels"])
    finest = [item for item in topology["domains"] if len(item["path"]) == depth]
    if not finest:
        return []
    finest.sort(key=lambda item: (-_free(item), item["path"]))
    table = [_domain(item) for item in finest[:rows]]
    head = [printing.short(topology["levels"][-1]).upper(), "NODES", "GPUS", "FREE", "USE"]
    more = len(finest) - rows
    said = [Text(f"and {more} more with no more free", style="dim")] if more > 0 else []
    return [*printing.table(head, table), *said]


def _domain(item: Json) -> list[Text | str]:
    used = item["used"] + item["reserved"]
    part = used / item["gpus"] if item["gpus"] else 0.0
    filled = min(BAR, round(part * BAR))
    bar = "#" * filled + "." * (BAR - filled)
    counts = [str(len(item["nodes"])), str(item["gpus"]), str(_free(item))]
    return ["/".join(item["path"]), *counts, f"{bar} {100 * part:3.0f} %"]


def _free(item: Json) -> int:
    return max(0, int(item["gpus"]) - int(item["used"]) - int(item["reserved"]))


def _queue(gangs: Sequence[Json], rows: int) -> list[Text]:
    """Gangs that are not well, broken ones and high priority first."""
    order = ("broken", "queued", "starting", "invalid", "forming")
    waits = [gang for gang in gangs if gang["state"] in order]
    waits.sort(key=lambda gang: (order.index(gang["state"]), -gang["priority"], gang["key"]))
    if not waits:
        return []
    table = [
        [
            gang["key"],
            printing.state(gang["state"]),
            f"{gang['bound']}/{gang['min']}",
            gang["reason"],
        ]
        for gang in waits[:rows]
    ]
    more = len(waits) - rows
    said = [Text(f"and {more} more; see muster gangs -A", style="dim")] if more > 0 else []
    return [*printing.table(["NOT RUNNING", "STATE", "BOUND", "REASON"], table), *said]
