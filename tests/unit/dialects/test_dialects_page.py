"""The page about dialects names all that is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler import dialects

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dialects.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("dialect", [one.NAME for one in dialects.DIALECTS])
def test_every_dialect_has_a_row(page: str, dialect: str) -> None:
    assert re.search(rf"^\| {dialect}[ ,]", page, re.MULTILINE)


@pytest.mark.parametrize("kind", sorted(dialects.OWNERS))
def test_every_owner_is_named(page: str, kind: str) -> None:
    assert f"`{kind}`" in page


@pytest.mark.parametrize("kind", dialects.KINDS)
def test_every_kind_of_pod_group_is_named(page: str, kind: str) -> None:
    assert f"`{kind.removeprefix('PodGroup.')}`" in page


@pytest.mark.parametrize("one", dialects._CLOSE, ids=lambda one: one.NAME)
def test_every_topology_request_is_named(page: str, one: object) -> None:
    for key in one.TOPOLOGY:  # type: ignore[attr-defined]
        assert key.rpartition("/")[2] in page, key
