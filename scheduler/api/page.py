"""The page: one static file, and the headers that keep it from doing anything but show."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from starlette.responses import Response

PAGE = Path(__file__).parent.parent / "web" / "index.html"

_INLINE = re.compile(rb"<(style|script)>(.*?)</\1>", re.DOTALL)


def page() -> Response | None:
    """The page with its Content-Security-Policy; None if this installation has none."""
    if not PAGE.is_file():
        return None
    content = PAGE.read_bytes()
    headers = {
        "Content-Security-Policy": policy(content),
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    return Response(content, headers=headers, media_type="text/html")


def policy(content: bytes) -> str:
    """What the page may do: run its own script and style, known by their hashes, and ask its host.

    Nothing else can be loaded, run, framed or sent, whatever text the page is given.
    """
    hashes: dict[bytes, list[str]] = {b"style": [], b"script": []}
    for kind, inline in _INLINE.findall(content):
        digest = base64.b64encode(hashlib.sha256(inline).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(hashes[b'script'])}",
            f"style-src {' '.join(hashes[b'style'])}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
