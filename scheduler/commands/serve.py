"""``muster serve``: the extender beside a real kube-scheduler."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TextIO

import typer

from scheduler.commands.garbage import short_collections
from scheduler.commands.logs import LogFormat, LogLevel, set_up
from scheduler.errors import SettingsError

if TYPE_CHECKING:
    from scheduler.api import Address, TlsFiles, TlsFront
    from scheduler.settings import Settings

BAD_ADDRESS = 2
"""Exit status where it cannot listen: --host or --port has to be another."""


class Addresses(NamedTuple):
    """Where to listen, and whether people have to say who they are."""

    verbs: Address
    views: Address | None
    authenticate: bool
    tls: Tls | None


class Tls(NamedTuple):
    """Where calls over TLS are taken besides, and with which files."""

    address: Address
    files: TlsFiles


class Election(NamedTuple):
    """Which Lease decides who acts, and by which name its holder is known here."""

    lease: str
    identity: str


def serve(
    kubeconfig: Annotated[
        str, typer.Option(help="A kubeconfig file, or in-cluster for the pod's service account.")
    ] = "in-cluster",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8085,
    views_host: Annotated[
        str,
        typer.Option(help="Address for views, metrics and probes alone; empty for none."),
    ] = "",
    views_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of --views-host; 0 takes a free one.")
    ] = 8086,
    authenticate_views: Annotated[
        bool,
        typer.Option(
            "--authenticate-views",
            help="On --views-host, ask who is looking (TokenReview), and show the namespaces whose "
            "pods they may list (SubjectAccessReview). Metrics and probes stay open.",
        ),
    ] = False,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            help="Certificate (PEM) with which the scheduler's calls are taken over TLS on "
            "--tls-host, besides. Needs --tls-key and --tls-client-ca."
        ),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key of --tls-cert.")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(help="Who signs the certificates that callers over TLS have to show."),
    ] = None,
    tls_host: Annotated[str, typer.Option(help="Address for TLS.")] = "0.0.0.0",  # noqa: S104
    tls_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of --tls-host; 0 takes a free one.")
    ] = 8443,
    scheduler_name: Annotated[
        list[str] | None,
        typer.Option(help="A schedulerName whose pods are ours; may be given several times."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings file (TOML); MUSTER_SET_… variables win over it.")
    ] = None,
    follow_lease: Annotated[
        str,
        typer.Option(
            help="NAMESPACE/NAME of the kube-schedulers' Lease: act only while the one beside this "
            "process holds it. Empty: there is one replica, which always acts."
        ),
    ] = "",
    identity: Annotated[
        str,
        typer.Option(help="Host name of the kube-scheduler beside; empty for that of this host."),
    ] = "",
    record: Annotated[
        Path | None,
        typer.Option(help="Write all that is seen and asked to this file, for muster replay."),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="How much to log.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="How to log.")] = LogFormat.TEXT,
) -> None:
    """Serve the extender for a cluster until SIGTERM.

    Plain pods pass at once; /readyz says when nodes and pods are known and gangs are planned.
    The verbs ask nobody who is calling: keep --host where only the scheduler can reach it.
    """
    from scheduler.api import Address

    files = _tls_files(tls_cert, tls_key, tls_client_ca)
    settings = read_settings(config, scheduler_name or ())
    set_up(log_level, log_format)
    address = Address(host, port)
    views = Address(views_host, views_port) if views_host else None
    if authenticate_views and views is None:
        raise SettingsError(
            "--authenticate-views is for the address of --views-host, which is empty; the other "
            "address asks nobody who is calling, and belongs on loopback"
        )
    with _recording(record) as file:
        election = Election(follow_lease, identity or socket.gethostname())
        tls = Tls(Address(tls_host, tls_port), files) if files else None
        where = Addresses(address, views, authenticate_views, tls)
        _run(settings, kubeconfig, election, where, file)


def _recording(path: Path | None) -> AbstractContextManager[TextIO | None]:
    """The file that is recorded to, emptied. Raises SettingsError if it cannot be written."""
    try:
        return nullcontext() if path is None else path.open("w", encoding="utf-8")
    except OSError as error:
        text = f"cannot write {path}: {error.strerror}: choose another file with --record"
        raise SettingsError(text) from error


def read_settings(config: Path | None, scheduler_names: list[str] | tuple[str, ...]) -> Settings:
    """Settings from the file, then the environment, then the options. Raises SettingsError."""
    from scheduler.settings import Settings, from_environment, from_file, from_mapping

    settings = from_environment(from_file(config) if config else Settings())
    if scheduler_names:
        settings = from_mapping({"scheduler_names": list(scheduler_names)}, settings)
    return settings


def _run(
    settings: Settings,
    kubeconfig: str,
    election: Election,
    where: Addresses,
    record: TextIO | None,
) -> None:
    import logging

    from scheduler.api import ServerError, run
    from scheduler.cluster import Connection
    from scheduler.commands.traces import traces
    from scheduler.service import Recorder

    log = logging.getLogger(__name__)
    recorder = None if record is None else Recorder(settings, lambda line: _append(record, line))
    with traces() as tracing, short_collections():
        connection = Connection(
            settings,
            kubeconfig,
            recorder,
            lease=election.lease,
            identity=election.identity,
            tracing=tracing,
        )
        names = ", ".join(settings.scheduler_names)
        log.info("the API server is %s; schedulerNames: %s", connection.host, names)
        try:
            with _front(where.tls) as front, connection as service:
                access = connection.access() if where.authenticate else None
                listening = partial(_listening, front)
                run(service, *where.verbs, listening, where.views, access)
        except ServerError as error:
            typer.echo(f"muster serve: {error}", err=True)
            raise typer.Exit(BAD_ADDRESS) from error
    log.info("stopped")


def _tls_files(
    certificate: Path | None, key: Path | None, authority: Path | None
) -> TlsFiles | None:
    """All three, or none. Raises SettingsError if some are missing."""
    stated = {"--tls-cert": certificate, "--tls-key": key, "--tls-client-ca": authority}
    missing = [name for name, path in stated.items() if path is None]
    if len(missing) == len(stated):
        return None
    if certificate is None or key is None or authority is None:
        raise SettingsError(
            f"for calls over TLS there has to be {' and '.join(missing)}, too: without a "
            "certificate of who calls, anybody could have pods bound"
        )
    from scheduler.api import TlsFiles

    return TlsFiles(certificate, key, authority)


def _front(tls: Tls | None) -> AbstractContextManager[TlsFront | None]:
    from scheduler.api import TlsFront

    return nullcontext() if tls is None else TlsFront(*tls)


def _listening(front: TlsFront | None, url: str, views_url: str) -> None:
    import logging
    from urllib.parse import urlsplit

    from scheduler.api import Address

    log = logging.getLogger(__name__)
    log.info("listening on %s", url)
    if views_url:
        log.info("views on %s", views_url)
    if front is not None:
        at = urlsplit(url)
        front.start(Address(at.hostname or "", at.port or 0))
        log.info("calls over TLS on %s:%s", *front.address)


def _append(file: TextIO, line: str) -> None:
    # Flushed line by line: a recording matters most when the process ends without warning.
    file.write(line + "\n")
    file.flush()
