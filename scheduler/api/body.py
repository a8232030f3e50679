"""Reads a request's body up to a limit, so that one request cannot take all memory."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from scheduler.errors import MusterError

BODY_LIMIT = 64 << 20
"""Bytes. 5,000 whole nodes are about 50 MB."""


BODY_S = 10.0
"""Seconds within which a body has to be there."""


class BodyTooLargeError(MusterError):
    """The body is larger than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the body is larger than {limit} bytes; "
            "set nodeCacheCapable: true so that the scheduler sends node names only"
        )


class SlowBodyError(MusterError):
    """The body does not come."""

    def __init__(self) -> None:
        super().__init__(f"the body was not there within {BODY_S:g} s; send it again")


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises BodyTooLargeError as soon as it is known to be over ``limit``, and SlowBodyError. Who
    answers these should close the connection: what is left of the body may still come.
    """
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > limit:
        raise BodyTooLargeError(limit)
    try:
        async with asyncio.timeout(BODY_S):
            return await _parts(request, limit)
    except TimeoutError as error:
        raise SlowBodyError from error


async def _parts(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise BodyTooLargeError(limit)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def closing(response: Response) -> Response:
    """An answer after which the connection is closed."""
    response.headers["Connection"] = "close"
    return response
