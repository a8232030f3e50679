"""Before torchrun starts: the first pod is reached, and the pods' node ranks are agreed on.

torchrun waits for the first pod, too, but for 15 minutes and without saying for what.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from trainer import ports, reach
from trainer.errors import PreflightError
from trainer.interruption import workers_run
from trainer.node_order import Decision, PodCard
from trainer.plan import Plan
from trainer.roll_call import OFFSET, RollCall, Visit
from trainer.settings import LaunchSettings, environment
from trainer.world import LaunchWorld, whole

log = logging.getLogger("muster.launch")


def agreed_port(pods: LaunchWorld) -> int:
    """Where the pods meet: what is said, or what they agreed on since; 0 where nobody knows."""
    point = pods.meeting_point
    if point is not None and pods.static and pods.master_port is None:
        return whole(environment(), "PET_MASTER_PORT", point[1])
    return point[1] if point else 0


@contextmanager
def met(settings: LaunchSettings, chosen: Plan) -> Iterator[Decision | None]:
    """Reach the first pod, and agree with all pods on their node ranks.

    None where the launcher's ranks stay. The first pod answers to the others while inside.

    Raises PreflightError with host, port and seconds.
    """
    pods, point = chosen.world, chosen.world.meeting_point
    if point is None or pods.max_nodes == 1 or not settings.reach_timeout:
        yield None
        return
    host, port = point[0], agreed_port(pods)
    if not pods.static:
        if not reach.is_here(host):
            _say(reach.wait_for(host, port, settings.reach_timeout), port)
        yield None
    elif pods.node_rank == 0:
        with _asked_by_all(settings, chosen, port) as decision:
            yield decision
    else:
        yield _asking(settings, chosen, host, port)


@contextmanager
def _asked_by_all(settings: LaunchSettings, chosen: Plan, port: int) -> Iterator[Decision | None]:
    if not ports.is_free(port):
        raise PreflightError(
            f"port {port} of this pod is taken already, and the gang is to meet there; set "
            "MASTER_PORT in all pods to another"
        )
    held = _held(settings, chosen, port)
    try:
        decision = held.decision() if held else None
        _announce(decision, chosen)
        yield decision
    finally:
        if held:
            held.close()


def _held(settings: LaunchSettings, chosen: Plan, port: int) -> RollCall | None:
    """A pod without a hint cannot be ranked by hints, and then none is."""
    if settings.rank_order != "hint" or chosen.found.hint is None:
        return None
    try:
        return RollCall(port + OFFSET, _card(chosen, "", port), settings.reach_timeout, workers_run)
    except (OSError, OverflowError) as error:
        log.warning("the pods keep the launcher's order: no port %d: %s", port + OFFSET, error)
        return None


def _asking(settings: LaunchSettings, chosen: Plan, host: str, port: int) -> Decision | None:
    own = environment().get("PET_LOCAL_ADDR")
    visit = Visit(lambda seen: _card(chosen, own or seen, port), settings.reach_timeout)
    _say(visit.pay(host, port), port)
    if visit.decision is None and chosen.found.hint is not None:
        log.info("the first pod ranks nobody by hints, so the pods keep the launcher's order")
    return visit.decision


def _card(chosen: Plan, address: str, port: int) -> PodCard:
    pods = chosen.world
    return PodCard(
        rank=pods.node_rank or 0,
        size=pods.max_nodes,
        host=socket.gethostname(),
        address=address,
        port=port if ports.is_free(port) else ports.any_free(),
        hint=chosen.found.hint,
        problem=chosen.found.problem,
    )


def _say(found: reach.Reached, port: int) -> None:
    log.info("first pod reached at %s:%d after %.1f s", found.address, port, found.seconds)


def _announce(decision: Decision | None, chosen: Plan) -> None:
    if decision is None:
        return
    if decision.warning:
        log.warning("node ranks by %s: %s", decision.by, decision.warning)
    if decision.ranks != tuple(range(chosen.world.max_nodes)):
        places = " ".join(decision.places[:64])
        log.info("%d nodes in order of %s: %s", len(decision.places), decision.by, places)
