"""Writes deploy/muster.yaml: the base in one file, for people without Kustomize.

``python -m deploy.render`` writes it, ``python -m deploy.render --check`` says whether it is
up to date. Concatenation is exact because the base lists resources and does nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

BASE = Path(__file__).parent / "base"
MANIFEST = Path(__file__).parent / "muster.yaml"

_HEADER = "# Written by `python -m deploy.render` from deploy/base; change it there.\n"
_UNDERSTOOD = {"apiVersion", "kind", "resources"}


class RenderError(Exception):
    """The base asks for something that concatenation cannot do."""


def render(base: Path = BASE) -> str:
    """All resources of the base, in its order.

    Raises RenderError if its kustomization.yaml does more than to list files.
    """
    kustomization: dict[str, Any] = yaml.safe_load((base / "kustomization.yaml").read_text())
    if beyond := kustomization.keys() - _UNDERSTOOD:
        raise RenderError(
            f"{base}/kustomization.yaml uses {', '.join(sorted(beyond))}, which this script does "
            "not do; put such changes into an overlay of your own"
        )
    texts = [(base / name).read_text().strip("\n") for name in kustomization["resources"]]
    return _HEADER + "".join(f"---\n{text}\n" for text in texts)


def main(arguments: list[str]) -> int:
    """The exit status: 1 if ``--check`` finds a difference."""
    if "--check" not in arguments:
        MANIFEST.write_text(render())
    elif not MANIFEST.is_file() or MANIFEST.read_text() != render():
        sys.stderr.write(f"{MANIFEST} is not what deploy/base says: run python -m deploy.render\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
