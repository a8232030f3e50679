"""Views for people and for probes: health, metrics, gangs, nodes, topology, the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.requests import Request
from starlette.responses import Response

from scheduler.api.domains import domains
from scheduler.errors import ClusterError
from scheduler.service import BusyError, Service
from scheduler.service.metrics import gauge

PAGE = Path(__file__).parent.parent / "web" / "index.html"


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
        "/v1/nodes": views.nodes,
        "/v1/topology": views.topology,
        "/v1/state": views.state,
        "/v1/snapshot": views.snapshot,
        "/": views.page,
    }
    for path, view in routes.items():
        app.add_api_route(path, view, methods=["GET"], response_class=Response)
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
        keys = (key, f"{key}#pod")
        found = [gang for gang in self._service.gangs() if gang["key"] in keys]
        return _json(found[0]) if found else _no_gang(key)

    def why(self, namespace: str, name: str) -> Response:
        """Why a gang is where it is."""
        key = f"{namespace}/{name}"
        found = self._service.why(key)
        return _no_gang(key) if found is None else _json(found)

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
        if not PAGE.is_file():
            return _json({"error": "this installation has no page; see /v1/gangs"}, 404)
        return Response(PAGE.read_bytes(), media_type="text/html")

    def observe(self) -> Iterable[Metric]:
        """What is computed on a scrape; nothing while the engine is busy."""
        try:
            gangs, totals = self._service.gangs(), self._service.totals()
        except BusyError:
            return
        states = Counter(str(gang["state"]) for gang in gangs)
        yield gauge("muster_gangs", "Gangs, by state.", "state", dict(states))
        yield GaugeMetricFamily(
            "muster_reservations", "Seats reserved and not yet bound.", value=totals.reserved
        )
        yield CounterMetricFamily(
            "muster_expired_reservations",
            "Reservations that ran out before their pods were bound.",
            value=totals.expired,
        )


def _json(value: Mapping[str, Any], code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), code, media_type="application/json")


def _no_gang(key: str) -> Response:
    return _json({"error": f"there is no gang {key}; /v1/gangs lists all"}, 404)


def _busy(_request: Request, error: Exception) -> Response:
    return _json({"error": f"{error}; try again"}, 503)
