"""``muster agent``: says on each node how its GPUs are linked and who has which."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scheduler.commands.logs import LogFormat, LogLevel, set_up
from scheduler.errors import ClusterError, SettingsError

if TYPE_CHECKING:
    from scheduler.agent import Agent, Look, NodeObject
    from scheduler.cluster import Transport

FAILED = 1


class InUseFrom(StrEnum):
    """As `scheduler.agent.Source`, which is not imported before it is needed."""

    CHECKPOINT = "checkpoint"
    POD_RESOURCES = "pod-resources"
    AUTO = "auto"


def agent(
    node: Annotated[str, typer.Option(help="Name of this node; not needed with --print.")] = "",
    kubeconfig: Annotated[
        str, typer.Option(help="A kubeconfig file, or in-cluster for the pod's service account.")
    ] = "in-cluster",
    interval: Annotated[
        float, typer.Option(min=1, max=3600, help="Seconds between two looks at who has which GPU.")
    ] = 30,
    in_use_from: Annotated[
        InUseFrom,
        typer.Option(
            help="Where to read who has which GPU: the kubelet's checkpoint file, its "
            "pod-resources socket, or the file and, where it cannot be read, the socket."
        ),
    ] = InUseFrom.AUTO,
    root: Annotated[
        Path, typer.Option(help="Where the node's /sys and /var/lib/kubelet are mounted.")
    ] = Path("/"),
    once: Annotated[bool, typer.Option("--once", help="Look and publish once, then end.")] = False,
    print_: Annotated[
        bool, typer.Option("--print", help="Print what would be published; needs no cluster.")
    ] = False,
    log_level: Annotated[LogLevel, typer.Option(help="How much to log.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="How to log.")] = LogFormat.TEXT,
) -> None:
    """Publish how this node's GPUs are linked and which pods have them, as its annotations.

    Exit status 1 with --once or --print: something that should be readable or writable was not.
    """
    if not node and not print_:
        raise SettingsError("--node is missing; name this node, in a pod with spec.nodeName")
    set_up(log_level, log_format)
    if print_:
        _end(_agent(root, in_use_from, interval, None).once(), printed=True)
    else:
        _serve(lambda api: _agent(root, in_use_from, interval, api), node, kubeconfig, once=once)


def _serve(
    agent_on: Callable[[NodeObject], Agent], name: str, kubeconfig: str, *, once: bool
) -> None:
    from scheduler.cluster import Transport, load

    transport = Transport(load(kubeconfig))
    try:
        found = agent_on(ApiNode(transport, name))
        if once:
            _end(found.once(), printed=False)
        else:
            found.run(_stopped())
    finally:
        transport.close()


def _agent(root: Path, source: str, interval: float, node: NodeObject | None) -> Agent:
    from scheduler.agent import Agent, Publisher, Source, Watcher, read_devices, read_holders

    watcher = Watcher(
        lambda: read_devices(root), lambda: read_holders(root, Source(source)), interval
    )
    return Agent(watcher, Publisher(node) if node else None, interval)


def _stopped() -> threading.Event:
    """Set by SIGTERM and SIGINT."""
    event = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: event.set())
    return event


def _end(look: Look, *, printed: bool) -> None:
    if printed:
        shown = {key: json.loads(text) for key, text in look.wanted.items() if text is not None}
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    if look.failed:
        raise typer.Exit(FAILED)


class ApiNode:
    """One node in the API."""

    def __init__(self, transport: Transport, name: str) -> None:
        from scheduler.cluster.transport import segment

        self._transport = transport
        self._name = name
        self._path = f"/api/v1/nodes/{segment(name)}"

    def annotations(self) -> Mapping[str, str]:
        """All annotations of the node. Raises ClusterError."""
        answer = self._transport.get(self._path)
        if not answer.ok:
            raise self._refused("read", answer.status, answer.text)
        return _annotations(answer.body)

    def annotate(self, changes: Mapping[str, str | None]) -> None:
        """Merge annotations in. Raises ClusterError."""
        answer = self._transport.patch(self._path, {"metadata": {"annotations": dict(changes)}})
        if not answer.ok:
            raise self._refused("annotated", answer.status, answer.text)

    def _refused(self, what: str, status: int, said: str) -> ClusterError:
        advice = {
            403: "; allow get and patch on nodes to its service account",
            404: "; --node must be the node's name in the API",
        }.get(status, "")
        return ClusterError(f"node {self._name} cannot be {what}: {said}{advice}")


def _annotations(body: bytes) -> Mapping[str, str]:
    try:
        return json.loads(body)["metadata"].get("annotations") or {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ClusterError("the API server's answer is no node; is it the right server?") from error
