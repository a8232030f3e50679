"""`make page-check`: what the page with 5,000 nodes costs the browser, and whether it may."""

from __future__ import annotations

import json
import sys
from pathlib import Path

FIGURES = Path(__file__).parents[3] / "out" / "page" / "figures.json"

BARS_MS = {
    "interactive_ms": ("from asking for the page to seeing and using it", 2000),
    "main_thread_ms_per_update": ("an update, all that the main thread does for it", 100),
    "largest_update_ms": ("the largest update while 1,000 nodes change", 100),
    "key_ms": ("a key that moves from node to node", 100),
}


def main() -> int:
    """Print each figure beside its bar; 1 if one is over it."""
    if not FIGURES.is_file():
        sys.stderr.write("there are no figures: the page was not opened in a browser\n")
        return 1
    found = json.loads(FIGURES.read_text())
    found["largest_update_ms"] = max(found["updates_ms"])
    over = 0
    sys.stdout.write(f"page with {found['nodes']} nodes, headless Chromium:\n")
    for name, (what, bar) in BARS_MS.items():
        verdict = "" if found[name] < bar else "  OVER"
        over += bool(verdict)
        sys.stdout.write(f"  {what}: {found[name]:.1f} ms, bar {bar} ms{verdict}\n")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
