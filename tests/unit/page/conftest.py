"""One Chromium for all tests of the page.

Without one they are left out, which the end of the run says; in CI they fail, for nobody would look
at the page otherwise. MUSTER_PAGE=skip leaves them out everywhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import MISSING, Chromium, Tab, browser, path

sys.path.append(str(Path(__file__).parent.parent / "people"))

OUT = Path(__file__).parents[3] / "out" / "page"
"""Screenshots and figures go here; it is not committed."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """The browser."""
    if os.environ.get("MUSTER_PAGE") == "skip":
        pytest.skip("MUSTER_PAGE=skip: the page was not tested in a browser")
    binary = path()
    if binary is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
    with browser(binary) as made:
        yield made


@pytest.fixture
def tab(chromium: Chromium) -> Iterator[Tab]:
    """A fresh page of 1,280 by 900."""
    made = Tab(chromium, 1280, 900)
    yield made
    made.close()


@pytest.fixture(scope="session")
def out() -> Path:
    """Where artefacts go."""
    return OUT
