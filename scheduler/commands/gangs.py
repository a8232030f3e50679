"""``muster gangs``: every gang, its state and its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from scheduler.commands import client, printing
from scheduler.commands.client import AsJson, Context, Home, Kubeconfig, Namespace, Server, Token
from scheduler.errors import MusterError


def gangs(
    namespace: Namespace = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")
    ] = False,
    output: Annotated[
        client.Output, typer.Option("--output", "-o", help="Print more columns, or JSON.")
    ] = client.Output.TABLE,
    as_json: AsJson = False,
    server: Server = "",
    kubeconfig: Kubeconfig = client.KUBECONFIG,
    context: Context = None,
    muster_namespace: Home = "muster-system",
    token: Token = "",
) -> None:
    """List gangs: by default those of the kubeconfig's namespace, with a URL those of all.

    Exit status: 0 done (also if there is none), 1 no answer now, 3 Muster cannot be reached.
    """
    try:
        asked = client.connect(server, kubeconfig, context, muster_namespace, token)
        found = client.answer("gangs", asked.get("/v1/gangs"))["gangs"]
    except MusterError as error:
        client.gone_wrong("gangs", error)
    only = None if everywhere else namespace or asked.namespace
    shown = [gang for gang in found if only is None or _namespace(gang) == only]
    if client.form(output, as_json) is client.Output.JSON:
        printing.as_json({"gangs": shown})
    elif shown:
        printing.lines(_table(shown, wide=output is client.Output.WIDE, namespaces=only is None))
    else:
        where = f"in namespace {only}; -A lists all" if only else "at all"
        typer.echo(f"There are no gangs {where}.", err=True)


def _namespace(gang: Mapping[str, Any]) -> str:
    return str(gang["key"]).partition("/")[0]


def _table(gangs: Sequence[Mapping[str, Any]], *, wide: bool, namespaces: bool) -> list[Text]:
    head = ["NAME", "STATE", "BOUND", "MIN", "PODS", "PRIORITY"]
    head = [*(["NAMESPACE"] if namespaces else []), *head]
    head += ["DOMAIN", "RESERVED", "NODES"] if wide else []
    rows = [_row(gang, wide, namespaces) for gang in gangs]
    return printing.table([*head, "REASON"], rows)


def _row(gang: Mapping[str, Any], wide: bool, namespaces: bool) -> list[Text | str]:
    namespace, _, name = str(gang["key"]).partition("/")
    row: list[Text | str] = [namespace] if namespaces else []
    row += [name, printing.state(gang["state"]), str(gang["bound"]), str(gang["min"])]
    row += [str(gang["members"]), str(gang["priority"])]
    if wide:
        nodes = sorted(set(gang["nodes"]))
        row += ["/".join(gang["domain"]) or "-", str(gang["reserved"])]
        row += [printing.named(nodes, 4) or "-"]
    return [*row, gang["reason"]]
