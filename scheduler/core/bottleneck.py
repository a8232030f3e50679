"""Whether trying a refused gang again is of any use: has its scarcest kind seats enough by now?

A thousand gangs may wait, each for a room of its own size. When room comes free, all of them are
asked; to plan each anew and explain its failure takes half a millisecond, to count what came free
takes microseconds. What is counted is a bound from above: a gang that fits is always tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from scheduler.core.gang import Gang
from scheduler.core.kinds import Bottleneck, Kind, kind_of
from scheduler.core.rooming import Room, fits_of, room_of, takeable
from scheduler.core.state import State
from scheduler.model import Pod


def of(state: State, gang: Gang, pods: Sequence[Pod], level: int | None) -> Bottleneck | None:
    """The kind that lacks most seats; None if all kinds have enough and only do not fit together.

    None, too, where the members' own anti-affinity decides: any pod that goes may open many nodes.

    ``pods`` could not be placed, all inside one domain of ``level``. O(kinds x nodes).
    """
    if any(pod.anti_affinity for pod in pods):
        return None
    topology = state.topology() if level is not None else None
    room = _widest_room(state, gang)
    scarce: list[Bottleneck] = []
    for kind, need in Counter(map(kind_of, pods)).items():
        asked = Bottleneck(kind, need, 0, level, topology)
        seats = _most_seats(state, asked, room)
        if seats < need:
            scarce.append(replace(asked, seats=seats))
    return max(scarce, key=lambda found: found.need - found.seats, default=None)


def is_shut(
    state: State, gang: Gang, found: Bottleneck, freed: Iterable[str] | None
) -> Bottleneck | None:
    """The bottleneck as it is now, if there still are too few seats; None if there may be enough.

    ``freed``: the only nodes on which room came free since; None = it may be anywhere.
    """
    if found.topology is not None and found.topology is not state.topology():
        return None
    seats = found.need if freed is None else found.seats + _seats_on(state, found.kind, freed)
    if seats >= found.need:
        seats = _most_seats(state, found, _widest_room(state, gang))
    return replace(found, seats=seats) if seats < found.need else None


def _widest_room(state: State, gang: Gang) -> Room:
    """All that the gang could have, seats of lower priority included."""
    return room_of(state, gang, takeable(state, gang))


def _most_seats(state: State, asked: Bottleneck, room: Room) -> int:
    """Members of the kind that have room at most, in one domain if they must share one."""
    fits = np.minimum(fits_of(state, asked.kind, room), asked.need)
    if asked.topology is None:
        return int(fits.sum())
    domains = asked.topology.fabric.domains[asked.level]
    inside = domains >= 0
    sums = np.bincount(domains[inside], weights=fits[inside], minlength=1)
    return int(sums.max())


def _seats_on(state: State, kind: Kind, nodes: Iterable[str]) -> int:
    """Members that may have found room on these nodes, whoever is reserved there."""
    seats = 0
    for name in nodes:
        node = state.node(name)
        if node is not None:
            have = node.allocatable if name in state.reserved_on else state.ledger.free(name)
            seats += min((have.get(key, 0) // amount for key, amount in kind.requests), default=0)
    return seats
