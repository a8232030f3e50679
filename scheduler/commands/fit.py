"""``muster fit``: would this job start now, before it is submitted."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.text import Text

from scheduler.commands import client, printing, why
from scheduler.commands.client import AsJson, Context, Home, Kubeconfig, Namespace, Server, Token
from scheduler.commands.controllers import WorkloadError
from scheduler.commands.workloads import KINDS, Question, questions, unread
from scheduler.core.quoting import bounded
from scheduler.errors import MusterError, misread, unreadable

LONGEST = 16 << 20
"""Characters of a file."""

MOST_NODES = 16
"""Nodes that are named unless all are asked for."""

Fit = Mapping[str, Any]


def fit(
    filename: Annotated[
        str, typer.Option("--filename", "-f", help="YAML or JSON of the job; - reads it.")
    ],
    replicas: Annotated[
        int | None, typer.Option(min=1, help="So many pods instead of what the file says.")
    ] = None,
    namespace: Namespace = None,
    output: client.Form = client.Output.TABLE,
    as_json: AsJson = False,
    server: Server = "",
    kubeconfig: Kubeconfig = client.KUBECONFIG,
    context: Context = None,
    muster_namespace: Home = "muster-system",
    token: Token = "",
) -> None:
    """Say whether a job would start now, where, and what is missing. Submits nothing.

    Reads pods, Jobs (Volcano's, too), JobSets, LeaderWorkerSets, RayClusters, Kubeflow's jobs
    (TrainJobs with their runtime), Argo's workflows (each step by itself), and lists of them; what
    else is in the file is named and left out. Exit status: 0 it would start now, 1 it would not or
    no answer now, 2 the file cannot be used, 3 Muster cannot be reached.
    """
    documents = _documents(filename)
    try:
        asked = client.connect(server, kubeconfig, context, muster_namespace, token)
        parts = questions(documents, namespace or asked.namespace or "default", replicas)
        if not any(part.pods for part in parts):
            raise WorkloadError(_no_pods(filename, unread(parts[0].objects)))
        answers = [_asked(asked, part) for part in parts]
    except WorkloadError as error:
        _unusable(str(error), error)
    except MusterError as error:
        client.gone_wrong("fit", error)
    for part, found in zip(parts, answers, strict=True):
        for warning in (*_skipped(unread(part.objects)), *found.get("warnings", ())):
            typer.echo(bounded(f"Warning: {warning}"), err=True)
    _show(parts, answers, client.form(output, as_json))
    good = all(found["fits"] and not foreign(found) for found in answers)
    raise typer.Exit(client.FINE if good else client.NOT_THERE)


def _asked(asked: client.Client, part: Question) -> Fit:
    body = {"pods": part.pods, "objects": part.objects}
    return client.answer("fit", asked.post("/v1/fit", body))


def _show(parts: Sequence[Question], answers: Sequence[Fit], output: client.Output) -> None:
    """One answer as it is; those of a workflow's steps each below its step's name."""
    as_json = output is client.Output.JSON
    whole = len(parts) == 1 and not parts[0].about
    if as_json and whole:
        printing.as_json(answers[0])
    elif as_json:
        steps = [{"step": part.about, **found} for part, found in zip(parts, answers, strict=True)]
        printing.as_json({"fits": all(found["fits"] for found in answers), "steps": steps})
    else:
        for part, found in zip(parts, answers, strict=True):
            head = [Text(f"{part.about}:", style="bold")] if part.about else []
            printing.lines([*head, *told(found, wide=output is client.Output.WIDE)])


def told(found: Fit, *, wide: bool = False) -> list[Text]:
    """The answer as people read it."""
    count = found["pods"]
    pods = f"{count} pod{'' if count == 1 else 's'}"
    if foreign(found):
        head = Text("It would fit", style="yellow").append(f" if Muster placed it: {pods}")
    elif found["fits"]:
        starting = len(found.get("nodes") or {})
        some = f"{starting} of {pods}" if 0 < starting < count else pods
        head = Text("It fits", style="green").append(f": {some} would start now")
    elif found.get("undecided"):
        head = Text("It is not decided", style="yellow").append(f" whether {pods} would start now")
    elif found["never"]:
        head = Text("It never fits", style="bold red").append(f" on these nodes: {pods}")
    else:
        head = Text("It would wait", style="yellow").append(f": {pods} would not start now")
    return [head, *printing.facts(_facts(found, wide))]


def foreign(found: Fit) -> list[str]:
    """Pods that have a place, but name another scheduler than Muster's."""
    return [pod for pod in found.get("foreign") or () if pod in (found.get("nodes") or {})]


def _no_pods(filename: str, skipped: Sequence[str]) -> str:
    made = f"pods are made of {', '.join(KINDS)}"
    return f"{filename}: no pods come of it" + (
        f": {printing.named(skipped)} {_are(skipped)} not read; {made}" if skipped else f"; {made}"
    )


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _skipped(skipped: Sequence[str]) -> list[str]:
    return [f"{name} is not read: if it makes pods, they are not counted" for name in skipped]


def _passing(found: Fit) -> str:
    """Pods that need no place of Muster's; where some wait for room, it is not known which."""
    nodes = found.get("nodes") or {}
    count = found["pods"] - len(nodes)
    if not found["fits"] or not count or found.get("reason"):
        return ""
    pods = "1 pod" if count == 1 else f"{count} pods"
    return f"{pods} without a gang and without accelerators: left to the scheduler alone"


def _facts(found: Fit, wide: bool) -> list[tuple[str, Text | str]]:
    short = found.get("short_by") or {}
    return [
        ("why", found.get("reason", "")),
        ("short by", " and ".join(f"{amount} {name}" for name, amount in sorted(short.items()))),
        ("best place now", why.best(found)),
        ("held there by", why.held(found)),
        ("blocked by", printing.named(found.get("blocked_by", ()))),
        ("would help", Text(str(found.get("next", "")), style="bold")),
        *((f"domain of {gang}", "/".join(path)) for gang, path in _domains(found)),
        *_places(found.get("nodes") or {}, wide),
        ("besides", _passing(found)),
    ]


def _domains(found: Fit) -> list[tuple[str, list[str]]]:
    """Of gangs of several pods; where a single one goes is said anyway."""
    gangs = sorted((found.get("domains") or {}).items())
    return [(name, path) for name, path in gangs if not name.endswith("#pod")]


def _places(nodes: Mapping[str, str], wide: bool) -> list[tuple[str, Text | str]]:
    """Node -> how many of the pods go there; their names, where it is one."""
    by_node: dict[str, list[str]] = {}
    for pod, node in sorted(nodes.items()):
        by_node.setdefault(node, []).append(pod)
    shown = list(by_node.items())[: None if wide else MOST_NODES]
    rest = len(by_node) - len(shown)
    lines: list[tuple[str, Text | str]] = [
        (f"on {node}", printing.named(pods, 8, wide=wide)) for node, pods in shown
    ]
    return lines + ([("and on", f"{rest} more nodes")] if rest else [])


def _documents(filename: str) -> list[Any]:
    import yaml

    try:
        return _parsed(_text(filename))
    except (OSError, UnicodeDecodeError) as error:
        _unusable(f"{filename} cannot be read: {unreadable(error)}", error)
    except yaml.YAMLError as error:
        _unusable(f"{filename} is no YAML: {misread(error)}", error)
    except RecursionError as error:
        _unusable(f"{filename} is nested too deeply", error)
    except WorkloadError as error:
        _unusable(f"{filename}: {error}", error)


def _text(filename: str) -> str:
    """What the file holds, up to what is judged: it may be endless."""
    if filename == "-":
        text = sys.stdin.read(LONGEST + 1)
    else:
        with Path(filename).open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise WorkloadError(f"it has more than {LONGEST} characters: ask about fewer objects")
    return text


def _parsed(text: str) -> list[Any]:
    """JSON by its own reader, which takes a hundredth of the time."""
    import yaml

    if text.lstrip()[:1] in ("{", "["):
        with suppress(msgspec.DecodeError):
            return [msgspec.json.decode(text)]
    return list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def _unusable(text: str, error: Exception) -> NoReturn:
    typer.echo(bounded(f"muster fit: {text}"), err=True)
    raise typer.Exit(client.BAD_USAGE) from error
