"""Placement of a gang whose members are not alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from scheduler.core.fabric import BoolArray, Fabric, IntArray
from scheduler.core.placement import Ask, NoRoom, Seats
from scheduler.core.role_attempt import Attempt, RoleAsk, RoleProblem, member_fits
from scheduler.core.role_cover import cover_roles
from scheduler.core.work import Work

__all__ = ["RoleAsk", "member_fits", "place_roles"]

TRIES = 16
"""Domains of a level that are tried from each end, the tightest and the roomiest."""

AT_ONCE = 4_000_000
"""Cells up to which the best way is looked for at once: about 1,500 nodes, and some 40 ms."""

BEFORE_NO = 8_000_000
"""Cells up to which all ways are looked at before a gang is told that there is none."""

MOST_ROWS = 500_000
"""Rows of `Work` after which no further attempt is made: 80 roles placed on 5,000 nodes, or 400
inside one rack of these; less than half a second."""

LEAST_ATTEMPTS = 16
"""Roles that are placed in any case, however many nodes there are: all attempts at two roles."""

Key = tuple[int, ...]


def place_roles(
    fabric: Fabric,
    roles: Sequence[RoleAsk],
    free: IntArray,
    accelerators: Sequence[int],
    *,
    required: int | None = None,
    preferred: int | None = None,
    within: BoolArray | None = None,
    near: IntArray | None = None,
    accelerated: BoolArray | None = None,
    work: Work | None = None,
) -> tuple[Seats, ...] | NoRoom:
    """Place all roles together, or say how many members would fit. One `Seats` per role, in order.

    `free` is int64 [n, R], `accelerators` are its columns that count accelerators; `accelerated`
    marks the nodes that have any (by default: free ones), where members without accelerators go
    last. The other options are those of `Ask`; `required` binds all roles to one common domain.
    What is looked at is counted in `work`, and when that is over, no further attempt is made.

    Small gangs are placed exactly (`cover_roles`, up to AT_ONCE cells). In larger ones each role in
    turn, from the one with most accelerators per member, is placed exactly, close to those before
    it; a role that finds no room goes first in the next attempt. If one domain of a level is enough
    for that, all ways inside one are looked at (up to BEFORE_NO cells). Else, unless it is proven
    to be the closest, each of the other roles goes first once; and where the roles with
    accelerators end up in several domains of a level (or nowhere), single domains are tried, the
    finest level first, at most 2 TRIES of a level. In every attempt that places everybody, each
    role is placed once more beside the others. The best by the objective of `place`, for all roles
    together, is the answer. After MOST_ROWS (or LEAST_ATTEMPTS roles) the best so far has to do.
    Where nothing was found, all ways are looked at after all, up to BEFORE_NO cells: within that
    size no gang is told wrongly to wait. `benchmarks.roles` measures what the attempts miss.

    Raises ValueError for no roles and for arrays of the wrong shape.
    Complexity: that of `cover_roles` with those limits, and len(roles) calls of `place` where the
    first attempt is proven to be the closest; at worst (2 L TRIES + len(roles)) len(roles)**2, and
    not many more than MOST_ROWS / nodes or LEAST_ATTEMPTS.
    """
    _check(fabric, roles, free)
    work = Work() if work is None else work
    options = required, preferred, within, near, accelerated, work
    common = Ask(1, free[:, 0], free[:, 0], 0, *options)
    until = work.rows + max(MOST_ROWS, LEAST_ATTEMPTS * fabric.nodes)
    problem = RoleProblem(fabric, tuple(roles), free, tuple(accelerators), common, until)
    exact = cover_roles(problem, AT_ONCE)
    if exact is not None and exact.seats is not None:
        return exact.seats
    first = problem.attempt(problem.orders()[0])
    if exact is None and (closest := _best_inside(problem, first)) is not None:
        return closest
    tried = _attempts(problem, first)
    if exact is None and (found := _best(problem, tried)) is not None:
        return found
    exact = exact or cover_roles(problem, BEFORE_NO)
    return _no_room(problem, tried) if exact is None or exact.seats is None else exact.seats


def attempts(problem: RoleProblem) -> tuple[Seats, ...] | None:
    """The answer of the attempts alone, without `cover_roles`; None if none places everybody."""
    return _best(problem, _attempts(problem, problem.attempt(problem.orders()[0])))


def _attempts(problem: RoleProblem, first: Attempt) -> list[Attempt]:
    largest_first, *others = problem.orders()
    tried = [first]
    if _proven(problem, first):
        return tried
    tried += _as_allowed(problem, (partial(problem.attempt, order) for order in others))
    return tried + _single_domains(problem, first, largest_first)


def _as_allowed(
    problem: RoleProblem, attempts: Iterable[Callable[[], Attempt]]
) -> Iterator[Attempt]:
    """Attempts, one after the other, until what was found so far has to do."""
    for attempt in attempts:
        if problem.is_enough():
            return
        yield attempt()


def _best_inside(problem: RoleProblem, attempt: Attempt) -> tuple[Seats, ...] | None:
    """The best way of all, where an attempt shows that one domain of a level is enough for it.

    No way has less than one, so the best one lies inside one too, and only such domains are looked
    at as have room for every role alone. None: too large to say, or nothing is gained by it.
    """
    if attempt.missing is not None or problem.ground.near.any() or _proven(problem, attempt):
        return None
    keys, _ = key(problem, attempt.seats)
    counts = keys[2 : 2 + problem.fabric.levels]
    single = next((at for at, count in enumerate(counts) if count > 1), len(counts)) - 1
    if any(keys[:2]) or single < 0:
        return None
    found = cover_roles(problem, BEFORE_NO, single)
    return found.seats if found is not None else None


def _best(problem: RoleProblem, tried: Sequence[Attempt]) -> tuple[Seats, ...] | None:
    placed = [attempt for attempt in tried if attempt.missing is None]
    placed.sort(key=lambda attempt: key(problem, attempt.seats))
    if placed and len(tried) > 1:
        placed += _settled(problem, placed)
    best = min(placed, key=lambda attempt: key(problem, attempt.seats), default=None)
    return None if best is None else tuple(best.seats[role] for role in range(len(problem.roles)))


def _settled(problem: RoleProblem, placed: Sequence[Attempt]) -> list[Attempt]:
    """Each attempt with its roles placed once more, in the order given; at least the first."""
    others = (partial(problem.settled, attempt) for attempt in placed[1:])
    return [problem.settled(placed[0]), *_as_allowed(problem, others)]


def _check(fabric: Fabric, roles: Sequence[RoleAsk], free: IntArray) -> None:
    if not roles:
        raise ValueError("there must be at least one role")
    if len(free) != fabric.nodes:
        raise ValueError(f"free has {len(free)} rows, the fabric {fabric.nodes} nodes")
    for number, role in enumerate(roles):
        if role.request.shape != free.shape[1:]:
            raise ValueError(f"role {number}: request has shape {role.request.shape}")
        if role.mask.shape != (fabric.nodes,):
            raise ValueError(f"role {number}: mask has shape {role.mask.shape}")


def _proven(problem: RoleProblem, attempt: Attempt) -> bool:
    """Whether the domains and nodes are the fewest possible.

    They are if all roles together need no more than the one placed first alone, and no member is
    on a last resort: any answer has at least what that role needs.
    """
    if attempt.missing is not None:
        return False
    first = next(iter(attempt.seats))
    counts = 2 + problem.fabric.levels + 1
    together, _ = key(problem, attempt.seats)
    alone, _ = key(problem, {first: attempt.seats[first]})
    return not any(together[:2]) and together[:counts] == alone[:counts]


def _single_domains(problem: RoleProblem, first: Attempt, order: list[int]) -> list[Attempt]:
    """Attempts within one domain, of the finest level at which any succeeds.

    Only levels at which the first attempt needs more than one new domain can gain by it.
    """
    broadest = problem.common.required or 0
    tried: list[Attempt] = []
    for level in range(problem.fabric.levels - 1, broadest - 1, -1):
        if first.missing is None and not _is_spread(problem, first, level):
            continue
        inside = (partial(problem.attempt, order, *areas) for areas in _areas(problem, level))
        tried += _as_allowed(problem, inside)
        if any(attempt.missing is None for attempt in tried):
            break
    return tried


def _is_spread(problem: RoleProblem, attempt: Attempt, level: int) -> bool:
    rows = np.concatenate([attempt.seats[role].rows for role in problem.close])
    ids = problem.fabric.domains[level, rows]
    return bool((ids != ids[0]).any() or ids[0] < 0)


def _areas(problem: RoleProblem, level: int) -> Iterator[tuple[BoolArray, BoolArray | None]]:
    """Domains that could hold the close roles, with the area for the others."""
    required = problem.common.required
    for domain in _promising(problem, level):
        area = problem.fabric.domains[level] == domain
        outer = None if required is None else problem.domain_of(required, int(area.argmax()))
        yield area, outer


def _promising(problem: RoleProblem, level: int) -> list[int]:
    """Domains where each close role alone fits and all together do not ask for too much."""
    close = list(problem.close)
    counts = np.array([problem.roles[role].count for role in close])
    requests = np.array([problem.roles[role].request for role in close])
    wanted = counts @ requests
    free = np.array([problem.in_domains(level, column) for column in problem.free.T])
    enough = (problem.held(level)[close] >= counts[:, None]).all(axis=0)
    enough &= (free >= wanted[:, None])[wanted > 0].all(axis=0)
    tight = np.argsort(
        problem.in_domains(level, problem.free_accelerators(problem.free)), kind="stable"
    )
    order: list[int] = tight[enough[tight]].tolist()
    return order if len(order) <= 2 * TRIES else [*order[:TRIES], *order[-TRIES:]]


def key(problem: RoleProblem, seats: Mapping[int, Seats]) -> tuple[Key, list[int]]:
    """The objective of `place`, for some roles together: all keys, then the positions."""
    fabric, common = problem.fabric, problem.common
    on_accelerated = on_unlabelled = 0
    used = np.zeros(fabric.nodes, dtype=np.bool_)
    for role, seat in seats.items():
        used[seat.rows] = True
        if not problem.per_member[role]:
            on_accelerated += int(seat.counts[problem.accelerated[seat.rows]].sum())
        if common.preferred is not None:
            unlabelled = fabric.domains[common.preferred, seat.rows] < 0
            on_unlabelled += int(seat.counts[unlabelled].sum())
    chosen = np.flatnonzero(used[fabric.order])
    return (on_accelerated, on_unlabelled, *problem.ground.key(chosen)), chosen.tolist()


def _no_room(problem: RoleProblem, tried: Sequence[Attempt]) -> NoRoom:
    """What the attempt that got furthest could place, the most promising domain included."""
    required = problem.common.required
    if required is None:
        return NoRoom(max(attempt.members for attempt in tried), None)
    held = problem.held(required).sum(axis=0)
    if not held.any():
        return NoRoom(0, None)
    fullest = int(held.argmax())
    area = problem.fabric.domains[required] == fullest
    best = max([*tried, problem.attempt(problem.orders()[0], area, area)], key=lambda a: a.members)
    rows = [seats.rows[0] for seats in best.seats.values()]
    domain = int(problem.fabric.domains[required, rows[0]]) if rows else fullest
    return NoRoom(best.members, (required, domain))
