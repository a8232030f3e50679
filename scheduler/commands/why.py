"""``muster why``: why a gang, or the gang of a pod, is where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from scheduler.commands import client, printing
from scheduler.commands.client import AsJson, Context, Home, Kubeconfig, Namespace, Server, Token
from scheduler.errors import MusterError

Why = Mapping[str, Any]


def why(
    name: Annotated[str, typer.Argument(help="NAMESPACE/NAME of a gang or of a pod, or a NAME.")],
    namespace: Namespace = None,
    output: client.Form = client.Output.TABLE,
    as_json: AsJson = False,
    server: Server = "",
    kubeconfig: Kubeconfig = client.KUBECONFIG,
    context: Context = None,
    muster_namespace: Home = "muster-system",
    token: Token = "",
) -> None:
    """Say why a gang waits: who is missing, what is short and where, and what comes next.

    Exit status: 0 answered, 1 there is no such gang or no answer now, 3 Muster cannot be reached.
    """
    try:
        asked = client.connect(server, kubeconfig, context, muster_namespace, token)
        home, text = _split(name, namespace or asked.namespace or "default")
        path = f"/v1/gangs/{quote(home, safe='')}/{quote(text, safe='')}/why"
        reply = asked.get(path)
        if reply.status == 404 and reply.error:
            everything = client.typed("gangs -A", server, kubeconfig, context, muster_namespace)
            typer.echo(
                f"muster why: there is no gang {home}/{text}; `{everything}` lists all", err=True
            )
            raise typer.Exit(client.NOT_THERE)
        found = client.answer("why", reply)
    except MusterError as error:
        client.gone_wrong("why", error)
    if client.form(output, as_json) is client.Output.JSON:
        printing.as_json(found)
    else:
        printing.lines(told(found, wide=output is client.Output.WIDE))


def told(why: Why, *, wide: bool = False) -> list[Text]:
    """The answer as people read it: every line says what one key of the JSON says."""
    head = Text(str(why["gang"]), style="bold").append(" is ").append(printing.state(why["state"]))
    if why.get("reason"):
        head.append(f": {why['reason']}")
    return [head, *printing.facts(_facts(why, wide))]


def _split(name: str, namespace: str) -> tuple[str, str]:
    """Namespace and name. Raises BadParameter for what cannot be one."""
    home, slash, rest = name.rpartition("/")
    if (slash and not home) or not rest or "/" in home:
        raise typer.BadParameter(f"{name!r} is neither NAME nor NAMESPACE/NAME")
    return home or namespace, rest


def _facts(why: Why, wide: bool) -> list[tuple[str, Text | str]]:
    named = partial(printing.named, wide=wide)
    return [
        ("pods", _pods(why)),
        ("missing", _count(why.get("missing_pods"), "pod")),
        *((word, named(why.get(word, ()))) for word in ("gated", "leaving", "failed")),
        *((f"fault in {pod}", text) for pod, text in sorted(why.get("faults", {}).items())),
        *(("warning", text) for text in why.get("warnings", ())),
        ("short by", _short(why)),
        ("best place now", best(why)),
        ("held there by", held(why)),
        ("blocked by", named(why.get("blocked_by", ()))),
        ("placed in", "/".join(why.get("domain", ()))),
        ("nodes", named(sorted(set(why.get("nodes", ()))), 8)),
        ("next", Text(str(why.get("next", "")), style="bold")),
    ]


def _pods(why: Why) -> str:
    if "members" not in why:
        return ""
    return f"{why['members']} there, {why['bound']} bound, {why['min']} needed at once"


def _count(number: int | None, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}" if number else ""


def _short(why: Why) -> str:
    short = why.get("short_by", {})
    text = " and ".join(f"{amount} {name}" for name, amount in sorted(short.items()))
    return f"{text}, in one {why['level']}" if text and why.get("level") else text


def best(why: Why) -> str:
    """Where the most members fit; without a level that is the whole cluster."""
    fits, domain = why.get("fits_in_best"), _path(why.get("best_domain", ()))
    if fits is None:
        return domain
    verb = "fits" if fits in (0, 1) else "fit"
    return f"{domain or 'the whole cluster'}: {_count(fits, 'pod') or 'no pod'} {verb}"


def _path(domain: Sequence[str | None]) -> str:
    return "/".join(part or "none" for part in domain)


def held(why: Why) -> str:
    """Who has accelerators there, and how many."""
    names = [f"{item['gang']} ({item['accelerators']})" for item in why.get("held_there", ())]
    return printing.named(names)
