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
from scheduler.api import fit, seen
from scheduler.api.body import BodyTooLargeError, SlowBodyError, closing, read_body
from scheduler.api.domains import domains
from scheduler.api.figures import figures, role
from scheduler.api.guard import CHALLENGE, Guard, HiddenError, UnknownPersonError
from scheduler.api.lookup import named
from scheduler.api.page import page
from scheduler.api.stream import Streams
from scheduler.errors import ClusterError, DecodeError
from scheduler.service import AskedError, BusyError, Service
from scheduler.service.access import Access, CrowdedError, Sight


def add(app: FastAPI, service: Service, access: Access | None = None) -> None:
    """Add the routes. Those that take long are plain functions, so they run in worker threads; what
    probes ask is answered in the event loop, and waits for no thread.

    With ``access``, who asks has to say who they are, and sees their own namespaces.
    """
    guard = Guard(access)
    views = Views(service, guard)
    routes: dict[str, Callable[..., Any]] = {
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
    app.state.streams = Streams(service, guard)
    app.add_route("/v1/events", app.state.streams.handle, methods=["GET"])
    for kind, answer in _ANSWERS.items():
        app.add_exception_handler(kind, answer)


def observe(service: Service) -> Callable[[], Iterable[Metric]]:
    """What is computed on a scrape; nothing while the engine is busy.

    One who stands by leaves the cluster's figures to who leads: they would be summed up twice.
    """

    def computed() -> Iterable[Metric]:
        if not service.leads:
            yield role(leads=False)
            return
        try:
            found, totals = service.overview(), service.totals()
        except BusyError:
            return
        yield from figures(found, totals)

    return computed


class Views:
    """The handlers of the routes above."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service = service
        self._guard = guard

    async def healthz(self) -> Response:
        """Whether the process answers at all."""
        return Response("ok", media_type="text/plain")

    async def readyz(self) -> Response:
        """503 with the reason until the first full list is in; plain pods pass even then."""
        ready = self._service.ready
        answer = {"ready": ready, "reason": self._service.unready_reason}
        return _json(answer, 200 if ready else 503)

    def metrics(self) -> Response:
        """The Prometheus text format."""
        return Response(self._service.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def gangs(self, request: Request) -> Response:
        """Every gang."""
        sight = self._guard.sight(request)
        return _json({"gangs": seen.gangs(self._service.gangs(), sight)})

    def gang(self, request: Request, namespace: str, name: str) -> Response:
        """One gang."""
        key = f"{namespace}/{name}"
        found = self._named(key, self._guard.sight(request))
        return _json(found[0]) if len(found) == 1 else _no_gang(key, found)

    def why(self, request: Request, namespace: str, name: str) -> Response:
        """Why a gang is where it is."""
        key = f"{namespace}/{name}"
        sight = self._guard.sight(request)
        found = self._service.why(key) if sight.sees(namespace) else None
        return _json(seen.why(found, sight)) if found else _no_gang(key, self._named(key, sight))

    def _named(self, key: str, sight: Sight) -> Sequence[Mapping[str, Any]]:
        seen_there = sight.sees(seen.namespace_of(key))
        return named(seen.gangs(self._service.gangs(), sight), key) if seen_there else ()

    async def fit(self, request: Request) -> Response:
        """Whether pods that do not exist yet would start now, where, and what is missing."""
        try:
            sight = await run_in_threadpool(self._guard.sight, request)
            body = await read_body(request, fit.BODY_LIMIT)
            with self._service.question():
                return await run_in_threadpool(self._fit, body, sight)
        except DecodeError as error:
            return _json({"error": f"fit: {error}"}, 400)
        except BodyTooLargeError:
            return _json({"error": f"fit: more than {fit.BODY_LIMIT} bytes are not judged"}, 413)
        except SlowBodyError as error:
            return closing(_json({"error": f"fit: {error}"}, 408))
        except AskedError as error:
            return _later(f"fit: {error}", 429)
        except ClientDisconnect:
            return Response(status_code=499)

    def _fit(self, body: bytes, sight: Sight) -> Response:
        pods = fit.read(body)
        hidden = sorted({pod.namespace for pod in pods if not sight.sees(pod.namespace)})
        if hidden:
            raise HiddenError(f"fit: you may not list the pods of namespace {hidden[0]}")
        names = self._service.settings.scheduler_names
        found = seen.why(self._service.fit(pods), sight)
        # What needs no place of Muster's is left to whichever scheduler it names.
        placed = found.get("nodes")
        asking = pods if placed is None else [pod for pod in pods if pod.key in placed]
        warnings = fit.warnings(asking, names) + list(found.get("warnings", ()))
        foreign = [pod.key for pod in pods if pod.scheduler not in names]
        return _json({**found, "pods": len(pods), "foreign": foreign, "warnings": warnings})

    def status(self, request: Request) -> Response:
        """Whether all is well, and the cluster in a few figures."""
        self._guard.sight(request)
        ready = {"ready": self._service.ready, "reason": self._service.unready_reason}
        role = {"leads": self._service.leads, "leader": self._service.leader}
        return _json({"version": __version__, **ready, **role, **self._service.overview()})

    def history(self, request: Request) -> Response:
        """Room, fragmentation and the queue over the last day, one point a minute."""
        self._guard.sight(request)
        return _json({"points": self._service.history()})

    def nodes(self, request: Request) -> Response:
        """Every node with its room."""
        sight = self._guard.sight(request)
        nodes = seen.nodes(self._service.nodes(), sight)
        return _json({"levels": self._service.levels(), "nodes": nodes})

    def topology(self, request: Request) -> Response:
        """The levels, and every domain with its nodes and accelerators."""
        self._guard.sight(request)
        nodes, levels = self._service.nodes(), self._service.levels()
        return _json({"levels": levels, "domains": domains(nodes)})

    def state(self, request: Request) -> Response:
        """Gangs, reservations, free room and bound pods."""
        self._all(request, "state")
        return _json(self._service.snapshot())

    def snapshot(self, request: Request) -> Response:
        """The cluster as a file for ``muster replay``, for a bug report."""
        self._all(request, "snapshot")
        lines = self._service.snapshot_lines()
        if lines is None:
            return _json({"error": _NO_OBJECTS}, 404)
        text = "".join(line + "\n" for line in lines)
        return Response(text, media_type="application/x-ndjson")

    def _all(self, request: Request, what: str) -> None:
        if not self._guard.sight(request).all:
            raise HiddenError(f"{what}: it is for those who may list the pods of all namespaces")

    def page(self) -> Response:
        """The page with a picture of the cluster."""
        missing = {"error": "this installation has no page; see /v1/gangs"}
        return page() or _json(missing, 404)


_NO_OBJECTS = (
    "snapshot: this Muster keeps no API objects and knows nobody to list them; /v1/state has what "
    "it made of them"
)


def _json(value: Mapping[str, Any], code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), code, media_type="application/json")


def _no_gang(key: str, alike: Sequence[Mapping[str, Any]]) -> Response:
    if len(alike) > 1:
        names = ", ".join(gang["key"] for gang in alike)
        return _json({"error": f"gang {key} may be any of {names}: ask for one of them"}, 409)
    return _json({"error": f"there is no gang {key}; /v1/gangs lists all"}, 404)


def _busy(_request: Request, error: Exception) -> Response:
    return _json({"error": f"{error}; try again"}, 503)


def _unknown(_request: Request, error: Exception) -> Response:
    answer = _json({"error": str(error)}, 401)
    answer.headers["WWW-Authenticate"] = CHALLENGE
    return answer


def _hidden(_request: Request, error: Exception) -> Response:
    return _json({"error": str(error)}, 403)


def _crowded(_request: Request, error: Exception) -> Response:
    return _later(str(error), 503)


def _later(text: str, code: int) -> Response:
    answer = _json({"error": text}, code)
    answer.headers["Retry-After"] = "1"
    return answer


def _cluster(_request: Request, error: Exception) -> Response:
    return _json({"error": str(error)}, 502)


_ANSWERS: dict[type[Exception], Callable[[Request, Exception], Response]] = {
    BusyError: _busy,
    UnknownPersonError: _unknown,
    HiddenError: _hidden,
    CrowdedError: _crowded,
    ClusterError: _cluster,
}
