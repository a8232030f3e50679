"""Asks `muster fit` about documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from people_site import Site, muster

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"


def documents(*texts: str) -> list[Any]:
    return [found for text in texts for found in yaml.safe_load_all(text)]


def fit(here: Site, *documents: Any, arguments: tuple[str, ...] = ()) -> Any:
    text = yaml.safe_dump_all(documents)
    return muster("fit", "-f", "-", "--server", here.url, *arguments, given=text)
