"""Credentials: every way in which they can be missing has a text that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.cluster import IN_CLUSTER, load
from scheduler.errors import ClusterError

GOOD = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: c, context: {cluster: k, user: u}}]
"""


def write(folder: Path, text: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(text)
    return str(path)


def test_a_kubeconfig(tmp_path: Path) -> None:
    found = load(write(tmp_path, GOOD))
    assert found.host == "http://127.0.0.1:1"
    assert found.auth_settings()["BearerToken"]["value"] == "Bearer secret"


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no such file; name one with --kubeconfig"):
        load(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    "text",
    ["", "a: [", "5", GOOD.replace("current-context: c", "current-context: other"), "\x00"],
    ids=["empty", "no YAML", "a number", "no such context", "binary"],
)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    with pytest.raises(ClusterError, match="cannot be used"):
        load(write(tmp_path, text))


def test_a_file_of_another_kind_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="does not have the form of a kubeconfig"):
        load(write(tmp_path, "[{v: 1}]"))
    with pytest.raises(ClusterError, match="cannot be used: it is no YAML: line 2, column 1: "):
        load(write(tmp_path, "a: [\n"))


def test_outside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="no service account"):
        load(IN_CLUSTER)
