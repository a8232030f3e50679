"""Who asks for a view: by a bearer token, where that is wanted."""

from __future__ import annotations

from starlette.requests import Request

from scheduler.errors import MusterError
from scheduler.service.access import Access, OpenSight, Sight

TOKEN_HEADER = "X-Muster-Token"  # noqa: S105 - a name
"""Beside ``Authorization``, which the API server's proxy keeps to itself."""

CHALLENGE = 'Bearer realm="muster"'

_OPEN = OpenSight()


class UnknownPersonError(MusterError):
    """Nobody knows who asks."""

    def __init__(self) -> None:
        super().__init__(
            "Muster shows this to people whom the API server knows: send a token of the cluster as "
            f"'Authorization: Bearer …', or as '{TOKEN_HEADER}: …' through the API server's proxy; "
            "`kubectl create token SERVICEACCOUNT` makes one"
        )


class HiddenError(MusterError):
    """The one who asks may not see it."""


class Guard:
    """Lets everybody see everything, or asks ``access``."""

    def __init__(self, access: Access | None = None) -> None:
        self._access = access

    def sight(self, request: Request) -> Sight:
        """What may be seen by who sent the request.

        Raises UnknownPersonError, and ClusterError if the API server does not say who it is.
        """
        found = self.sight_of(token_of(request))
        if found is None:
            raise UnknownPersonError
        return found

    def sight_of(self, token: str) -> Sight | None:
        """What may be seen with a token; None for nobody's. Raises ClusterError."""
        return self._access.sight(token) if self._access is not None else _OPEN


def token_of(request: Request) -> str:
    """The request's token; "" for none."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    stated = token if kind.lower() == "bearer" else ""
    return (stated or request.headers.get(TOKEN_HEADER, "")).strip()
