"""Views for people and for probes: health, metrics, gangs, nodes, topology, the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import Metric
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from scheduler import __version__
from scheduler.api import fit
from scheduler.api.body import BodyTooLargeError, read_body
from scheduler.api.domains import domains
from scheduler.api.figures import figures
from scheduler.api.lookup import named
from scheduler.api.page import page
from scheduler.api.stream import Streams
from scheduler.errors import ClusterError, DecodeError
from scheduler.service import BusyError, Service


def add(app: FastAPI, service: Service) -> None:
    """Add the routes. They are plain functions, so they run in worker threads."""
    views = Views(service)
    routes: dict[str, Callable[..., Response]] = {
        "/healthz": views.healthz,
        "/readyz": views.readyz,
        "/metrics": views.metrics,
        "/v1/gangs": views.gangs,
        "/v1/gangs/{namespace}/{name}": views.gang,
        "/v1/gangs/{namespace}/{name}/why": views.why,
        "/v1/status": views.status,
        "/v1/history": views.history,
        "/v1/nodes": views.nodes,
        "/v1/topology": views.topology,
        "/v1/state": views.state,
        "/v1/snapshot": views.snapshot,
        "/": views.page,
    }
    for path, view in routes.items():
        app.add_api_route(path, view, methods=["GET"], response_class=Response)
    app.add_route("/v1/fit", views.fit, methods=["POST"])
    app.state.streams = Streams(service)
    app.add_route("/v1/events", app.state.streams.handle, methods=["GET"])
    app.add_exception_handler(BusyError, _busy)
    service.metrics.add_observer(views.observe)


class Views:
    """The handlers of the routes above."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def healthz(self) -> Response:
        """Whether the process answers at all."""
        return Response("ok", media_type="text/plain")

    def readyz(self) -> Response:
        """503 with the reason until the first full list is in; plain pods pass even then."""
        ready = self._service.ready
        answer = {"ready": ready, "reason": self._service.unready_reason}
        return _json(answer, 200 if ready else 503)

    def metrics(self) -> Response:
        """The Prometheus text format."""
        return Response(self._service.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def gangs(self) -> Response:
        """Every gang."""
        return _json({"gangs": self._service.gangs()})

    def gang(self, namespace: str, name: str) -> Response:
        """One gang."""
        key = f"{namespace}/{name}"
        found = named(self._service.gangs(), key)
        return _json(found[0]) if len(found) == 1 else _no_gang(key, found)

    def why(self, namespace: str, name: str) -> Response:
        """Why a gang is where it is."""
        key = f"{namespace}/{name}"
        found = self._service.why(key)
        return _json(found) if found else _no_gang(key, named(self._service.gangs(), key))

    async def fit(self, request: Request) -> Response:
        """Whether pods that do not exist yet would start now, where, and what is missing."""
        try:
            return await run_in_threadpool(self._fit, await read_body(request, fit.BODY_LIMIT))
        except DecodeError as error:
            return _json({"error": f"fit: {error}"}, 400)
        except BodyTooLargeError:
            return _json({"error": f"fit: more than {fit.BODY_LIMIT} bytes are not judged"}, 413)
        except ClientDisconnect:
            return Response(status_code=499)

    def _fit(self, body: bytes) -> Response:
        pods = fit.read(body)
        warnings = fit.warnings(pods, self._service.settings.scheduler_names)
        return _json({**self._service.fit(pods), "pods": len(pods), "warnings": warnings})

    def status(self) -> Response:
        """Whether all is well, and the cluster in a few figures."""
        ready = {"ready": self._service.ready, "reason": self._service.unready_reason}
        role = {"leads": self._service.leads, "leader": self._service.leader}
        return _json({"version": __version__, **ready, **role, **self._service.overview()})

    def history(self) -> Response:
        """Room, fragmentation and the queue over the last day, one point a minute."""
        return _json({"points": self._service.history()})

    def nodes(self) -> Response:
        """Every node with its room."""
        return _json({"levels": self._service.levels(), "nodes": self._service.nodes()})

    def topology(self) -> Response:
        """The levels, and every domain with its nodes and accelerators."""
        nodes, levels = self._service.nodes(), self._service.levels()
        return _json({"levels": levels, "domains": domains(nodes)})

    def state(self) -> Response:
        """Gangs, reservations, free room and bound pods."""
        return _json(self._service.snapshot())

    def snapshot(self) -> Response:
        """The cluster as a file for ``muster replay``, for a bug report."""
        try:
            text = "".join(line + "\n" for line in self._service.snapshot_lines())
        except ClusterError as error:
            return _json({"error": str(error)}, 502)
        return Response(text, media_type="application/x-ndjson")

    def page(self) -> Response:
        """The page with a picture of the cluster."""
        missing = {"error": "this installation has no page; see /v1/gangs"}
        return page() or _json(missing, 404)

    def observe(self) -> Iterable[Metric]:
        """What is computed on a scrape; nothing while the engine is busy."""
        try:
            found, totals = self._service.overview(), self._service.totals()
        except BusyError:
            return
        yield from figures(found, totals, self._service.leads)


def _json(value: Mapping[str, Any], code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), code, media_type="application/json")


def _no_gang(key: str, alike: Sequence[Mapping[str, Any]]) -> Response:
    if len(alike) > 1:
        names = ", ".join(gang["key"] for gang in alike)
        return _json({"error": f"gang {key} may be any of {names}: ask for one of them"}, 409)
    return _json({"error": f"there is no gang {key}; muster gangs and /v1/gangs list all"}, 404)


def _busy(_request: Request, error: Exception) -> Response:
    return _json({"error": f"{error}; try again"}, 503)
