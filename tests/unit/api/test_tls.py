"""Calls over TLS: who shows a certificate is answered as on loopback, and nobody else is."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from service.scripted import ManualTimer, RecordingActuator, ScriptedEngine

from scheduler.api import Address, ServerError, ServerThread, TlsFiles, TlsFront, create_app, tls
from scheduler.service import Service
from scheduler.settings import Settings
from tests.certificates import Authority

PATIENCE_S = 10.0
HERE = Address("127.0.0.1", 0)


class Secured(NamedTuple):
    """A service behind TLS, and who signs what."""

    front: TlsFront
    files: TlsFiles
    folder: Path
    authority: Authority

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.front.address.port}"

    def asked(self, shown: tuple[Path, Path] | None) -> httpx.Response:
        """The answer to a call of somebody who shows this certificate."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if shown:
            context.load_cert_chain(*shown)
        with httpx.Client(verify=context, timeout=PATIENCE_S) as client:
            pod = {"metadata": {"namespace": "t", "name": "p", "uid": "u"}, "spec": {}}
            return client.post(f"{self.url}/filter", json={"Pod": pod, "NodeNames": ["n1"]})


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    authority = Authority(tmp_path, "authority")
    return TlsFiles(*authority.sign("muster"), authority.certificate)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    authority = Authority(tmp_path, "authority")
    callers = shutil.copyfile(authority.certificate, tmp_path / "callers.crt")
    files = TlsFiles(*authority.sign("muster"), callers)
    service = Service(Settings(), RecordingActuator(), engine=ScriptedEngine(), timer=ManualTimer())
    service.start()
    with ServerThread(create_app(service)) as server, TlsFront(HERE, files) as front:
        front.start(Address(server.host, server.port))
        yield Secured(front, files, tmp_path, authority)
    service.stop()


def test_who_shows_a_certificate_is_answered(secured: Secured) -> None:
    shown = secured.authority.sign("kube-scheduler")
    assert secured.asked(shown).json()["NodeNames"] == ["n1"]


def test_who_shows_none_is_not(secured: Secured) -> None:
    with pytest.raises(httpx.TransportError):
        secured.asked(None)


def test_neither_is_who_shows_one_of_somebody_else(secured: Secured) -> None:
    strange = Authority(secured.folder, "stranger").sign("stranger-scheduler")
    with pytest.raises(httpx.TransportError):
        secured.asked(strange)


def the_warning_before_an_answer(secured: Secured, caplog: pytest.LogCaptureFixture) -> str:
    """The only one, when another caller is answered."""
    shown = secured.authority.sign("kube-scheduler")
    assert secured.asked(shown).status_code == 200
    (told,) = [one.message for one in caplog.records if one.levelname == "WARNING"]
    return told


def test_that_somebody_was_refused_is_told_with_the_reason_and_not_for_each_call(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    strange = Authority(secured.folder, "stranger").sign("stranger-scheduler")
    for shown in (strange, None, strange):
        with pytest.raises(httpx.TransportError):
            secured.asked(shown)
    told = the_warning_before_an_answer(secured, caplog)
    assert "a caller over TLS was refused" in told
    assert "certificate verify failed" in told
    assert str(secured.files.client_authority) in told


def test_that_somebody_shows_no_certificate_is_told(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(httpx.TransportError):
        secured.asked(None)
    told = the_warning_before_an_answer(secured, caplog)
    assert "did not return a certificate" in told


def test_what_is_no_tls_gets_nothing(secured: Secured) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(secured.url.replace("https", "http"), timeout=PATIENCE_S)
    shown = secured.authority.sign("kube-scheduler")
    assert secured.asked(shown).status_code == 200, "and keeps nobody else out"


def test_a_renewed_certificate_is_shown_to_whoever_comes_next(secured: Secured) -> None:
    shown = secured.authority.sign("kube-scheduler")
    before = _shown_by(secured, shown)
    certificate, key = secured.authority.sign("renewed")
    shutil.copyfile(certificate, secured.files.certificate)
    shutil.copyfile(key, secured.files.key)

    secured.front.renew()

    assert _shown_by(secured, shown) != before
    assert secured.asked(shown).status_code == 200


def test_a_renewed_certificate_that_is_none_is_left(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    shown = secured.authority.sign("kube-scheduler")
    secured.files.certificate.write_text("half of a file")

    secured.front.renew()

    assert "a renewed certificate is not taken: --tls-cert" in caplog.text
    assert secured.asked(shown).status_code == 200


def test_an_authority_that_was_replaced_counts_no_longer(secured: Secured) -> None:
    before = secured.authority.sign("kube-scheduler")
    context = ssl.create_default_context(cafile=str(secured.authority.certificate))
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # There, a session is known at once.
    context.load_cert_chain(*before)
    session = _session(secured, context, None)
    successor = Authority(secured.folder, "successor")
    after = successor.sign("scheduler-after")
    shutil.copyfile(successor.certificate, secured.files.client_authority)

    secured.front.renew()

    assert secured.asked(after).status_code == 200
    with pytest.raises(httpx.TransportError):
        secured.asked(before)
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        _session(secured, context, session)


def test_who_only_begins_keeps_nobody_out(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKES", 4)
    monkeypatch.setattr(tls, "HANDSHAKE_S", 60 * PATIENCE_S)
    shown = secured.authority.sign("kube-scheduler")
    waiting = [socket.create_connection(secured.front.address, PATIENCE_S) for _ in range(5)]
    try:
        assert secured.asked(shown).status_code == 200
        for oldest in waiting[:2]:
            with suppress(ConnectionResetError):
                assert oldest.recv(1) == b"", "the oldest make room"
        waiting[4].setblocking(False)
        with pytest.raises(BlockingIOError):
            waiting[4].recv(1)
        secured.front.stop()
        with suppress(ConnectionResetError):
            waiting[4].settimeout(PATIENCE_S)
            assert waiting[4].recv(1) == b"", "and nobody outlives the front"
    finally:
        for each in waiting:
            each.close()


def _session(
    secured: Secured, context: ssl.SSLContext, before: ssl.SSLSession | None
) -> ssl.SSLSession | None:
    """The session of a new connection, which takes up the one before if the server has it still."""
    plain = socket.create_connection(secured.front.address, PATIENCE_S)
    with context.wrap_socket(plain, server_hostname="127.0.0.1", session=before) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: muster\r\n\r\n")
        if not connection.recv(1):
            raise ConnectionResetError
        return connection.session


def _shown_by(secured: Secured, shown: tuple[Path, Path]) -> bytes | None:
    context = ssl.create_default_context(cafile=str(secured.authority.certificate))
    context.load_cert_chain(*shown)
    plain = socket.create_connection(secured.front.address, PATIENCE_S)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        return connection.getpeercert(binary_form=True)


@pytest.mark.parametrize(
    ("at", "said"), [(0, "--tls-cert"), (1, "--tls-key"), (2, "--tls-client-ca")]
)
def test_a_file_that_cannot_be_used_is_named(
    files: TlsFiles, tmp_path: Path, at: int, said: str
) -> None:
    wrong = list(files)
    wrong[at] = tmp_path / "none.pem"
    with pytest.raises(ServerError, match=f"{said} .*none.pem.*No such file"):
        TlsFront(HERE, TlsFiles(*wrong))
    wrong[at].write_text("no PEM")
    with pytest.raises(ServerError, match=f"{said} .*none.pem"):
        TlsFront(HERE, TlsFiles(*wrong))


def test_a_port_in_use_is_told_with_its_option(files: TlsFiles) -> None:
    with socket.create_server(HERE) as taken, pytest.raises(ServerError, match="--tls-port"):
        TlsFront(Address("127.0.0.1", taken.getsockname()[1]), files)


def test_one_that_was_never_started_ends(files: TlsFiles) -> None:
    with TlsFront(HERE, files):
        pass
