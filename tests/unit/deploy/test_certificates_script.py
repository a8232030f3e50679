"""deploy/certificates.sh with a stand-in for kubectl: what it stores, and who trusts whom by it."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
from deploy_objects import DEPLOY

SCRIPT = DEPLOY / "certificates.sh"
HOST = "muster-verbs.muster-system.svc"

# Keeps what a Secret is made of, in a folder of its name.
_STAND_IN = """#!/bin/sh
echo "$*" >> "$STORE/log"
case "$*" in *\\ create\\ secret\\ generic\\ *) ;; *) cat > /dev/null; exit;; esac
name=${*#*generic }
name=${name%% *}
mkdir "$STORE/$name"
for word; do
  case $word in --from-file=*) file=${word#*=}; cp "${file#*=}" "$STORE/$name/${file%%=*}";; esac
done
"""


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl, which makes the certificates: install it")
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(_STAND_IN)
    program.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    path = f"{program.parent}:{os.environ['PATH']}"
    return {"PATH": path, "STORE": str(tmp_path), "TMPDIR": str(scratch)}


def _run(tools: dict[str, str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT], env=tools | variables, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def stored(tools: dict[str, str]) -> Path:
    """The folder with what was stored."""
    done = _run(tools)
    assert done.returncode == 0, done.stderr
    return Path(tools["STORE"])


def test_two_secrets_are_stored_with_what_both_need(stored: Path) -> None:
    for name in ("muster-verbs", "muster-kube-scheduler"):
        assert {file.name for file in (stored / name).iterdir()} == {"tls.crt", "tls.key", "ca.crt"}
    log = (stored / "log").read_text().splitlines()
    assert all(line.startswith("--namespace muster-system ") for line in log)
    applied = [line for line in log if " apply " in line]
    assert len(applied) == 2
    # Otherwise the key would lie in an annotation as well.
    assert all("--server-side" in line for line in applied)


def test_nothing_is_left_of_the_authority_but_its_certificate(stored: Path) -> None:
    keys = {file.read_bytes() for file in stored.rglob("*.key")}

    assert len(keys) == 2
    assert list((stored / "scratch").iterdir()) == []
    authorities = {(stored / name / "ca.crt").read_bytes() for name in _names()}
    assert len(authorities) == 1


def _names() -> tuple[str, str]:
    return ("muster-verbs", "muster-kube-scheduler")


def _server(stored: Path, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    _load(context, stored / name)
    return context


def _client(stored: Path, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load(context, stored / name)
    return context


def _load(context: ssl.SSLContext, folder: Path) -> None:
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    context.load_verify_locations(folder / "ca.crt")


def _agree(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bool:
    """Whether each takes the other's certificate."""
    one, other = socket.socketpair()
    taken: list[bool] = []

    def serve() -> None:
        try:
            with server.wrap_socket(one, server_side=True) as call:
                call.sendall(b"x")
                taken.append(True)
        except (ssl.SSLError, ConnectionError):
            taken.append(False)
            one.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(other, server_hostname=host) as call:
            answered = call.recv(1) == b"x"
    except (ssl.SSLError, ConnectionError):
        answered = False
        other.close()
    thread.join(10)
    return answered and taken == [True]


def test_the_scheduler_and_muster_trust_each_other_in_these_roles_alone(stored: Path) -> None:
    muster, scheduler = _names()

    assert _agree(_server(stored, muster), _client(stored, scheduler), HOST)
    assert not _agree(_server(stored, muster), _client(stored, scheduler), "elsewhere.svc")
    assert not _agree(_server(stored, muster), _client(stored, muster), HOST)
    assert not _agree(_server(stored, scheduler), _client(stored, scheduler), HOST)


def test_the_name_is_that_of_the_service_where_muster_is_installed(tools: dict[str, str]) -> None:
    done = _run(tools, NAMESPACE="elsewhere", CONTEXT="mine")

    assert done.returncode == 0, done.stderr
    stored, (muster, scheduler) = Path(tools["STORE"]), _names()
    ends = _server(stored, muster), _client(stored, scheduler)
    assert _agree(*ends, "muster-verbs.elsewhere.svc")
    log = (stored / "log").read_text().splitlines()
    assert all(line.startswith("--context mine --namespace elsewhere ") for line in log)


@pytest.mark.parametrize("days", ["many", "0", "-1"])
def test_what_is_no_number_of_days_is_told(tools: dict[str, str], days: str) -> None:
    done = _run(tools, DAYS=days)

    assert done.returncode == 1
    assert f"DAYS={days} is not a number of days" in done.stderr
    assert not (Path(tools["STORE"]) / "log").exists()


def test_what_openssl_says_is_told(tools: dict[str, str]) -> None:
    program = Path(tools["PATH"].partition(":")[0]) / "openssl"
    program.write_text("#!/bin/sh\necho no such curve >&2\nexit 3\n")
    program.chmod(0o755)

    done = _run(tools)

    assert done.returncode == 1
    assert "openssl req failed: no such curve" in done.stderr
    assert not (Path(tools["STORE"]) / "log").exists()


def test_a_missing_tool_is_named(tools: dict[str, str]) -> None:
    folder = Path(tools["PATH"].partition(":")[0])
    (folder / "kubectl").unlink()
    for tool in ("bash", "mktemp", "rm", "openssl"):
        (folder / tool).symlink_to(str(shutil.which(tool)))

    done = _run(tools | {"PATH": str(folder)})

    assert done.returncode == 1
    assert "kubectl is not in the search path" in done.stderr
