"""Finds the service and asks it: at a URL, or through the API server that a kubeconfig names.

The way through the API server is its proxy to the Service ``muster`` in ``muster-system``, else to
a pod of that name, so that nobody has to forward a port.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, Protocol

import typer

from scheduler.errors import MusterError

FINE, NOT_THERE, BAD_USAGE, UNREACHABLE = 0, 1, 2, 3
"""Exit statuses."""

SERVICE = "muster"
PORT_NAME = "http"
PORT = 8086
POD_LABEL = "app.kubernetes.io/name=muster"
KUBECONFIG = "~/.kube/config"
HOME = "muster-system"
"""The namespace in which Muster runs, unless another one is named."""

CONNECT_S, READ_S = 3.0, 15.0

NOBODY = 401
TOKEN_HEADER = "X-Muster-Token"  # noqa: S105 - a name

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _namespace(given: str | None) -> str | None:
    """What may name a namespace. Raises BadParameter for what cannot."""
    if given is not None and not _LABEL.fullmatch(given):
        raise typer.BadParameter(
            f"{given!r} is no namespace: at most 63 small letters, digits and - are expected"
        )
    return given


Server = Annotated[
    str,
    typer.Option("--server", envvar="MUSTER_SERVER", help="URL of Muster, instead of a kubeconfig"),
]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", envvar="KUBECONFIG", help="Names the API server to go by.")
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]
Home = Annotated[
    str,
    typer.Option(
        "--muster-namespace", help="Namespace in which Muster itself runs.", callback=_namespace
    ),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="MUSTER_TOKEN",
        help="Who asks, where Muster wants to know; with a kubeconfig its own token is taken.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Only this namespace.", callback=_namespace),
]


class Output(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


Form = Annotated[
    Output,
    typer.Option("--output", "-o", help="table; wide, in which no list is shortened; or json."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The service's answer as it is.")]


def form(output: Output, as_json: bool) -> Output:
    """How an answer is printed: ``--json`` is another word for ``-o json``."""
    return Output.JSON if as_json else output


class ServiceError(MusterError):
    """The service cannot be reached; the text says what to try."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service said."""

    status: int
    body: bytes

    @property
    def value(self) -> dict[str, Any]:
        """Its JSON object. Raises ServiceError if it is none."""
        try:
            found = json.loads(self.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise _no_muster(self)
        return found

    @property
    def error(self) -> str:
        """Its ``error``, for people. Raises ServiceError if what answers is no Muster."""
        said = self.value.get("error")
        if not said:
            raise _no_muster(self)
        return str(said)


def _no_muster(reply: Reply) -> ServiceError:
    text = " ".join(reply.body[:200].decode("utf-8", "replace").split())
    said = "a page of HTML" if text.startswith("<") else text or "nothing"
    return ServiceError(
        f"this is no answer of Muster ({reply.status}): {said}. Is the URL (--server or "
        "MUSTER_SERVER) that of Muster, without a path?"
    )


class Client(Protocol):
    """Asks the service. Every call raises ServiceError if it cannot be reached."""

    where: str
    """What is asked, for people."""
    namespace: str | None
    """The namespace that the user works in, if that is known."""

    def get(self, path: str) -> Reply:
        """GET a path such as ``/v1/gangs``."""

    def post(self, path: str, body: Any) -> Reply:
        """POST a value as JSON."""


def connect(
    server: str, kubeconfig: str, context: str | None, home: str, token: str = ""
) -> Client:
    """A client by URL if there is one, else through the API server. Raises ServiceError.

    ``token`` says who asks; it is sent only where Muster wants to know.
    """
    if server:
        return ByUrl(server, token)
    from scheduler.commands.proxy import ThroughApiServer

    return ThroughApiServer(_kubeconfig(kubeconfig), context, home, token)


def typed(
    words: str, server: str = "", kubeconfig: str = "", context: str | None = None, home: str = ""
) -> str:
    """A command as it would be typed, with what it takes to ask the same Muster as the same user.

    A token is left out: it belongs into no text.
    """
    program = Path(sys.argv[0]).name
    stated = {
        "--server": server,
        "--kubeconfig": "" if server or kubeconfig == KUBECONFIG else kubeconfig,
        "--context": "" if server else context,
        "--muster-namespace": "" if server or home == HOME else home,
    }
    options = "".join(f" {name} {shlex.quote(value)}" for name, value in stated.items() if value)
    plugin = program.startswith("kubectl")
    return f"{'kubectl muster' if plugin else 'muster'} {words}{options}"


def gone_wrong(command: str, error: MusterError) -> NoReturn:
    """Say that the service cannot be reached, and end."""
    typer.echo(f"muster {command}: {error}", err=True)
    raise typer.Exit(UNREACHABLE) from error


def refused(command: str, reply: Reply) -> NoReturn:
    """Say why the service has no answer, and end."""
    typer.echo(f"muster {command}: {reply.error}", err=True)
    raise typer.Exit(BAD_USAGE if reply.status in (400, 413) else NOT_THERE)


def answer(command: str, reply: Reply) -> dict[str, Any]:
    """The reply's value, if it is one; ends otherwise."""
    if reply.status != 200:
        refused(command, reply)
    return reply.value


# ── by URL ──


class ByUrl:
    """Straight to the service."""

    namespace: str | None = None

    def __init__(self, url: str, token: str = "") -> None:
        self._token = token
        self._known = False
        scheme, stated, _ = url.partition("://")
        if stated and scheme not in ("http", "https"):
            raise typer.BadParameter(
                f"--server {url!r} must look like http://127.0.0.1:8086, or https://…"
            )
        if not stated:
            url = f"http://{url}"
        self.where = url.rstrip("/")

    def get(self, path: str) -> Reply:
        """GET."""
        return self._send("GET", path, None)

    def post(self, path: str, body: Any) -> Reply:
        """POST."""
        return self._send("POST", path, json.dumps(body).encode())

    def _send(self, method: str, path: str, body: bytes | None) -> Reply:
        reply = self._once(method, path, body)
        if reply.status == NOBODY and self._token and not self._known:
            self._known = True
            reply = self._once(method, path, body)
        if reply.status == NOBODY:
            raise ServiceError(who_are_you(reply, self._token, "--token or MUSTER_TOKEN"))
        return reply

    def _once(self, method: str, path: str, body: bytes | None) -> Reply:
        import urllib3

        headers = {"Content-Type": "application/json"} if body else {}
        if self._known:
            headers["Authorization"] = f"Bearer {self._token}"
        timeout = urllib3.Timeout(connect=CONNECT_S, read=READ_S)
        try:
            with urllib3.PoolManager() as pool:
                found = pool.request(
                    method,
                    self.where + path,
                    body=body,
                    headers=headers,
                    timeout=timeout,
                    retries=False,
                )
                return Reply(found.status, found.data)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ServiceError(
                f"Muster does not answer at {self.where}: {plain(error)}. Is it running, and is "
                "the URL (--server or MUSTER_SERVER) right? Without one, the kubeconfig is used"
            ) from error


# ── what both ways need ──


def who_are_you(reply: Reply, token: str, way: str) -> str:
    """What to say where Muster does not know who asks; ``way`` is how a token is named."""
    if token:
        return f"the token is not valid (any more), says Muster: {reply.error}"
    return f"Muster wants to know who asks, and there is no token: name {way}. {reply.error}"


def _kubeconfig(named: str) -> Path:
    """The first file of a list such as ``KUBECONFIG`` holds that exists, else the first."""
    paths = [Path(part).expanduser() for part in named.split(":") if part] or [
        Path(KUBECONFIG).expanduser()
    ]
    return next((path for path in paths if path.is_file()), paths[0])


def plain(error: BaseException) -> str:
    """The innermost reason: what wraps it repeats addresses and object names."""
    reason = getattr(error, "reason", None)
    found = reason if isinstance(reason, BaseException) else error
    text = str(found)
    return text.partition("): ")[2] or text
