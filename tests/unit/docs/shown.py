"""The commands that README and docs show to a reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"),
]
"""All but what is written from the code: it shows options, and no commands."""

SHELLS = ("sh", "bash", "shell", "console")
PLAIN = ("", "text")
"""Blocks of no language: outputs and pictures, unless a line looks like a command."""
PROGRAMS = (
    *("muster", "muster-train", "make", "python", "python3", "pip", "uv", "export"),
    *("kubectl", "helm", "docker", "kind", "kube-scheduler", "kwok", "curl", "jq"),
    *("pre-commit", "apt-get", "sudo", "git", "torchrun", "promtool"),
)
"""What a command in running text begins with. In a block, every line is a command."""

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_FORM = re.compile(r"\b[A-Z]{3,}\b(?!=)|\[|…|\.\.\.")
"""A word that stands for another one, such as ``FILE`` or ``[options]``."""


class Shown(NamedTuple):
    """One command, and the page that shows it."""

    page: str
    line: str


def commands() -> list[Shown]:
    """Every command in the order of the pages; one that is shown twice stands here twice."""
    return [Shown(_name(page), line) for page in PAGES for line in lines(page.read_text("utf-8"))]


def lines(text: str) -> Iterator[str]:
    """The commands of one page: those of its blocks first, then those of its sentences."""
    for language, block in _FENCE.findall(text):
        typed = map(_bare, block.replace("\\\n", " ").splitlines())
        if language in SHELLS:
            yield from filter(None, typed)
        elif language in PLAIN:
            yield from (line for line in typed if line and _is_command(line))
    spans = _SPAN.findall(_FENCE.sub("", text))
    yield from (span for span in spans if _is_command(span))


def block(page: str, language: str, beginning: str = "") -> str:
    """The only block of a page in a language that begins so."""
    text = (ROOT / page).read_text("utf-8")
    found = [
        block
        for name, block in _FENCE.findall(text)
        if name == language and block.startswith(beginning)
    ]
    assert len(found) == 1, f"{page} has {len(found)} blocks of {language} like that"
    return str(found[0])


def _bare(line: str) -> str:
    return re.sub(r"(^| +)#.*$", "", line).strip().removeprefix("$ ")


def _is_command(span: str) -> bool:
    """Whether it can be typed as it stands: a bare ``muster why`` only names one."""
    words = span.split() or [""]
    least = 2 if words[0] in ("make", "export", "pre-commit") else 3
    return words[0] in PROGRAMS and len(words) >= least and not _FORM.search(span)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))
