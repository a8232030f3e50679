"""A control plane of one file's own, for what the shared one cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.controlplane.cluster import ControlPlane


@contextmanager
def own_plane(request: pytest.FixtureRequest, **settings: Any) -> Iterator[ControlPlane]:
    """Start one; its logs are kept if a test fails while it is there."""
    failed = request.session.testsfailed
    with ControlPlane(**settings) as plane:
        yield plane
        if request.session.testsfailed > failed:
            plane.keep_logs(f"a test of {request.module.__name__} failed")
