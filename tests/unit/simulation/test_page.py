"""The page is one file that trusts no text it is given and asks no other host."""

from __future__ import annotations

import re
from importlib import resources

PAGE = resources.files("scheduler").joinpath("web/index.html").read_text(encoding="utf-8")


def test_it_never_turns_text_into_markup() -> None:
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "DOMParser",
    ):
        assert way not in PAGE


def test_it_asks_only_the_host_it_comes_from() -> None:
    assert re.findall(r"https?://|//[a-z0-9.-]+\.[a-z]{2,}/", PAGE) == []
    assert "default-src 'none'" in PAGE
    assert "connect-src 'self'" in PAGE
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(?!data:)", PAGE) == []


def test_it_is_made_for_light_dark_and_the_keyboard() -> None:
    assert "prefers-color-scheme: dark" in PAGE
    assert 'tabindex="0"' in PAGE
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Enter", "Escape"):
        assert key in PAGE
    assert "aria-live" in PAGE


def test_it_stays_small() -> None:
    assert len(PAGE.encode()) < 32_000
