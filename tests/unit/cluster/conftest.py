"""A fake API server for every test, and a transport to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.fake_apiserver import FakeApi
from scheduler.cluster import Transport, load


@pytest.fixture
def api() -> Iterator[FakeApi]:
    api = FakeApi()
    yield api
    api.close()


@pytest.fixture
def transport(api: FakeApi, tmp_path: Path) -> Iterator[Transport]:
    transport = Transport(load(str(api.kubeconfig(tmp_path))), read_s=2.0)
    yield transport
    transport.close()
