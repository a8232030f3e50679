"""Who may ask what, by the address that a request came to: the scheduler everything, people views.

One server answers on both addresses, so that there is one event loop, one set of streams and one
set of metrics, whatever an address shows.
"""

from __future__ import annotations

from typing import NamedTuple

from fastapi import FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from scheduler.api import views
from scheduler.service import Service
from scheduler.service.access import Access

READ_ONLY = frozenset({"/", "/healthz", "/readyz", "/metrics"})
"""What is not below ``/v1/`` and still changes nothing."""


class Address(NamedTuple):
    """Where to listen; port 0 takes a free one."""

    host: str
    port: int


def views_only(app: FastAPI) -> FastAPI:
    """An application with those paths of ``app`` that read; all others are 404 there.

    It shares the handlers, so nothing is registered or counted twice.
    """
    reading = _reading()
    reading.router.routes = [route for route in app.router.routes if _reads(route)]
    reading.exception_handlers = app.exception_handlers
    reading.state.streams = app.state.streams
    return reading


def guarded(service: Service, access: Access) -> FastAPI:
    """An application with the same paths, for people who say who they are."""
    reading = _reading()
    views.add(reading, service, access)
    return reading


def _reading() -> FastAPI:
    return FastAPI(
        title="Muster, views",
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )


class ByPort:
    """Hands each request to the views if it came to their port, else to the whole application.

    The port is that of the connection itself, as the kernel knows it: no header can change it.
    """

    def __init__(self, app: ASGIApp, views: ASGIApp, views_port: int) -> None:
        self._app = app
        self._views = views
        self._views_port = views_port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        local = scope.get("server")
        to_views = local is None or local[1] == self._views_port
        await (self._views if to_views else self._app)(scope, receive, send)


def _reads(route: BaseRoute) -> bool:
    path = getattr(route, "path", "")
    return path in READ_ONLY or path.startswith("/v1/")
