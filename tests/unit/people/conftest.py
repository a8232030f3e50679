"""A small cluster for every test, and one for all tests that only ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from people_site import Site, site


@pytest.fixture
def here() -> Iterator[Site]:
    """Two blocks of two racks of two nodes of eight GPUs, all known."""
    with site() as made:
        made.nodes()
        made.synced()
        yield made


@pytest.fixture(scope="session")
def idle() -> Iterator[Site]:
    """The same, shared: for tests that put nothing on it."""
    with site() as made:
        made.nodes()
        made.synced()
        yield made
