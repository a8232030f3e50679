"""Reads a request's body up to a limit, so that one request cannot take all memory."""

from __future__ import annotations

from starlette.requests import Request

from scheduler.errors import MusterError

BODY_LIMIT = 64 << 20
"""Bytes. 5,000 whole nodes are about 50 MB."""


class BodyTooLargeError(MusterError):
    """The body is larger than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the body is larger than {limit} bytes; "
            "set nodeCacheCapable: true so that the scheduler sends node names only"
        )


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Raises BodyTooLargeError as soon as it is known to be over ``limit``."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > limit:
        raise BodyTooLargeError(limit)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise BodyTooLargeError(limit)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
