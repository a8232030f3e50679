"""The HTTP application: the extender's verbs on raw requests, and the views for people."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import msgspec
from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from scheduler import decode
from scheduler.api import views, wire
from scheduler.api.body import (
    BODY_LIMIT,
    BodyTooLargeError,
    SlowBodyError,
    closing,
    read_body,
)
from scheduler.api.listeners import guarded, views_only
from scheduler.core.messages import FilterReply
from scheduler.errors import DecodeError
from scheduler.model import Pod
from scheduler.service import Service
from scheduler.service.access import Access
from scheduler.service.answers import BROKEN, hold
from scheduler.service.patience import Patience

INLINE_BYTES = 1 << 18
"""Bodies up to this size, such as 5,000 names, are answered in the event loop; whole nodes or
victims would block it for long."""

LOOK_S = 0.02
"""Seconds between two looks for an answer that is about to change."""

MOST_LOOKS = 25
"""Looks for one request: half a second, a tenth of what the scheduler waits."""

MOST_WAIT_S = MOST_LOOKS * LOOK_S
"""Seconds after which no look is begun any more: each may have to wait for the engine as well, and
a scheduler that gives up a call goes on without the gang check."""

THREADS = 32
"""Requests that may wait for the engine at once, each for at most two seconds."""

Answer = Callable[[bytes], Awaitable[bytes]]

R = TypeVar("R")

log = logging.getLogger(__name__)


def create_app(
    service: Service,
    *,
    body_limit: int = BODY_LIMIT,
    access: Access | None = None,
    patience: Patience | None = None,
) -> FastAPI:
    """The application around a service. ``body_limit`` is in bytes.

    ``access`` says who may see what on an address for views alone; on the scheduler's own address
    nobody is asked. ``patience`` bounds how long answers are held back.
    """
    app = FastAPI(
        title="Muster",
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    verbs = Verbs(service, body_limit, patience or Patience())
    for name, answer in verbs.answers.items():
        app.add_route(f"/{name}", partial(verbs.handle, name, answer), methods=["POST"])
    views.add(app, service)
    service.metrics.add_observer(views.observe(service))
    app.state.views = views_only(app) if access is None else guarded(service, access)
    return app


class Verbs:
    """The four verbs. None ever answers 5xx: the scheduler would skip the gang check."""

    def __init__(self, service: Service, body_limit: int, patience: Patience) -> None:
        self._service = service
        self._limit = body_limit
        self._patience = patience
        self._threads: Executor = ThreadPoolExecutor(THREADS, thread_name_prefix="muster-verb")
        self.answers: dict[str, Answer] = {
            "filter": self._filter,
            "prioritize": partial(self._quick, self._prioritize),
            "preempt": partial(self._quick, self._preempt),
            "bind": self._bind,
        }

    async def handle(self, verb: str, answer: Answer, request: Request) -> Response:
        """Read the body, answer it, and measure both."""
        began = time.perf_counter()
        code, content = await self._respond(verb, answer, request)
        requests = self._service.metrics.requests.labels(verb, code)
        requests.observe(time.perf_counter() - began)
        response = Response(content, code, media_type="application/json")
        return closing(response) if code == 408 else response

    async def _respond(self, verb: str, answer: Answer, request: Request) -> tuple[int, bytes]:
        try:
            return 200, await answer(await read_body(request, self._limit))
        except DecodeError as error:
            return 400, _fault(f"{verb}: {error}")
        except RecursionError:
            return 400, _fault(f"{verb}: the body is nested too deeply")
        except BodyTooLargeError as error:
            return 413, _fault(f"{verb}: {error}")
        except SlowBodyError as error:
            return 408, _fault(f"{verb}: {error}")
        except ClientDisconnect:
            return 499, b""
        except Exception:
            log.exception("%s failed", verb)
            return 200, _broken(verb)

    async def _quick(self, answer: Callable[[bytes], bytes], body: bytes) -> bytes:
        return await self._soon(len(body) <= INLINE_BYTES, answer, body)

    async def _soon(self, small: bool, call: Callable[..., R], *arguments: object) -> R:
        """Make a call here and now if it is quick, else in a thread."""
        if small and not self._service.busy:
            return call(*arguments)
        return await self._aside(call, *arguments)

    async def _aside(self, call: Callable[..., R], *arguments: object) -> R:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, call, *arguments)

    async def _filter(self, body: bytes) -> bytes:
        """Answers that are about to change are waited for, as far as patience goes."""
        small = len(body) <= INLINE_BYTES
        offer = wire.read_offer(body) if small else await self._aside(wire.read_offer, body)
        ask = partial(self._service.filter, offer.ref, offer.names, partial(_pod, offer.pod))
        reply = await self._settled(small, ask)
        write = partial(wire.write_filter, offer, reply)
        return write() if small else await self._aside(write)

    async def _settled(self, small: bool, ask: Callable[..., FilterReply]) -> FilterReply:
        """The last answer of several, each of which is as new as its look."""
        now = self._patience.clock
        began = now()
        reply = await self._soon(small, ask)
        for _ in range(MOST_LOOKS):
            looked = now()
            late = looked - began >= MOST_WAIT_S
            if late or not reply.unsettled or not self._patience.take(LOOK_S):
                break
            await asyncio.sleep(LOOK_S)
            reply = await self._soon(small, partial(ask, again=True))
            self._patience.spend(now() - looked - LOOK_S)
        return reply

    def _prioritize(self, body: bytes) -> bytes:
        offer = wire.read_offer(body)
        reply = self._service.prioritize(offer.ref, offer.names, partial(_pod, offer.pod))
        return wire.write_prioritize(reply)

    def _preempt(self, body: bytes) -> bytes:
        args = wire.read_preempt(body)
        reply = self._service.preempt(args.ref, args.victims, partial(_pod, args.pod))
        return wire.write_preempt(args, reply)

    async def _bind(self, body: bytes) -> bytes:
        args = wire.read_bind(body)
        future = await self._soon(True, self._service.start_bind, args.ref, args.node)
        try:
            waiting = asyncio.wrap_future(future)
            reply = await asyncio.wait_for(waiting, self._service.bind_deadline_s)
        except TimeoutError:
            reply = self._service.give_up_bind(args.ref, args.node, future)
        return wire.write_bind(reply)


def _pod(raw: msgspec.Raw) -> Pod:
    if not raw:
        raise DecodeError("there is none")
    return decode.pod_bytes(bytes(raw))


def _fault(text: str) -> bytes:
    return msgspec.json.encode({"Error": text})


def _broken(verb: str) -> bytes:
    """The safest answer where not even the request could be looked at."""
    if verb == "prioritize":
        return b"[]"
    if verb == "preempt":
        return b'{"NodeNameToMetaVictims":{}}'
    if verb == "bind":
        return _fault(BROKEN)
    nothing: FilterReply = hold(BROKEN)
    return msgspec.json.encode(
        {"NodeNames": [], "FailedNodes": {}, "FailedAndUnresolvableNodes": nothing.unresolvable}
    )
