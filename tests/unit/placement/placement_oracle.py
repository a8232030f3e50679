"""Slow, obvious answers to compare the placement with, and clusters to ask about."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from scheduler.core.placement import Ask, Fabric, Seats


def fabric_of(*labels: tuple[str | None, ...]) -> Fabric:
    """A fabric from one tuple of label values per node, broadest first, None where missing."""
    levels = len(labels[0]) if labels else 0
    domains = np.full((levels, len(labels)), -1, dtype=np.int32)
    for level in range(levels):
        paths = [tuple(row[: level + 1]) for row in labels]
        known = {p: i for i, p in enumerate(sorted({p for p in paths if None not in p}))}
        for node, path in enumerate(paths):
            if None not in path:
                domains[level, node] = known[path]
    return Fabric(domains)


def ask_for(count: int, fits: list[int], **options: object) -> Ask:
    """An ask of single-accelerator members, unless `options` say otherwise."""
    options.setdefault("per_member", 1)
    options.setdefault("free", [fit * options["per_member"] for fit in fits])
    arrays = {"free": np.int64, "near": np.int64, "within": np.bool_}
    for name in arrays.keys() & options.keys():
        if options[name] is not None:
            options[name] = np.array(options[name], dtype=arrays[name])
    return Ask(count=count, fits=np.array(fits, dtype=np.int64), **options)


def domain_of(fabric: Fabric, level: int, node: int) -> tuple[str, int]:
    """The domain of a node; a node without one is a domain of its own, after the others."""
    domain = int(fabric.domains[level, node])
    return ("domain", domain) if domain >= 0 else ("node", node)


def topology_order(fabric: Fabric) -> list[int]:
    levels, nodes = fabric.domains.shape
    return sorted(
        range(nodes), key=lambda i: ([domain_of(fabric, level, i) for level in range(levels)], i)
    )


def objective(fabric: Fabric, ask: Ask, members: dict[int, int]) -> tuple[object, ...]:
    """What `place` minimises, straight from its docstring. `members`: node -> members on it."""
    near = [] if ask.near is None else [int(i) for i in np.flatnonzero(ask.near)]
    levels, nodes = fabric.domains.shape
    on_accelerators = on_unlabelled = 0
    for node, count in members.items():
        on_accelerators += count * bool(ask.per_member == 0 and ask.free[node] > 0)
        if ask.preferred is not None:
            on_unlabelled += count * bool(fabric.domains[ask.preferred, node] < 0)
    counts, left = [], []
    for level in range(levels):
        living = {domain_of(fabric, level, i) for i in near}
        new = {domain_of(fabric, level, i) for i in members} - living
        counts.append(len(new))
        left.append(
            sum(int(ask.free[i]) for i in range(nodes) if domain_of(fabric, level, i) in new)
        )
    new_nodes = members.keys() - set(near)
    node_left = sum(int(ask.free[i]) for i in new_nodes)
    position = {node: at for at, node in enumerate(topology_order(fabric))}
    return (
        on_accelerators,
        on_unlabelled,
        *counts,
        len(new_nodes),
        node_left,
        *left[::-1],
        len(members),
        sorted(position[i] for i in members),
    )


def allowed(fabric: Fabric, ask: Ask, members: dict[int, int]) -> bool:
    if any(count > ask.fits[node] for node, count in members.items()):
        return False
    if ask.within is not None and not all(ask.within[node] for node in members):
        return False
    if ask.required is None:
        return True
    used = {int(fabric.domains[ask.required, node]) for node in members}
    return len(used) == 1 and -1 not in used


def every_way(count: int, room: list[int], node: int = 0) -> Iterator[dict[int, int]]:
    """All ways to put `count` members on nodes with that much room."""
    if count == 0:
        yield {}
    elif node < len(room):
        for here in range(min(count, room[node]) + 1):
            for rest in every_way(count - here, room, node + 1):
                yield {node: here, **rest} if here else rest


def brute_force(fabric: Fabric, ask: Ask) -> tuple[object, ...] | None:
    """The least objective of all ways to place the members, None where there is none."""
    ways = every_way(ask.count, ask.fits.tolist())
    return min(
        (objective(fabric, ask, way) for way in ways if allowed(fabric, ask, way)), default=None
    )


def members_of(seats: Seats) -> dict[int, int]:
    return dict(zip(seats.rows.tolist(), seats.counts.tolist(), strict=True))


@st.composite
def fabrics(draw: st.DrawFn, max_nodes: int = 6, max_levels: int = 3) -> Fabric:
    """Small trees in which every node may lack its label from some level on."""
    levels = draw(st.integers(0, max_levels))
    label = st.sampled_from(["a", "b", "c"])
    node = st.tuples(st.tuples(*[label] * levels), st.integers(0, 3))
    rows = draw(st.lists(node, min_size=1, max_size=max_nodes))
    full = [row[: max(0, levels - cut)] if cut < 3 else row for row, cut in rows]
    return fabric_of(*[(*row, *[None] * (levels - len(row))) for row in full])


@st.composite
def asks(draw: st.DrawFn, fabric: Fabric, max_count: int = 5) -> Ask:
    """Anything that can be asked of a fabric, feasible or not."""
    nodes, levels = fabric.nodes, fabric.levels
    level = st.none() if not levels else st.none() | st.integers(0, levels - 1)
    per_member = draw(st.sampled_from([0, 1, 1, 2]))
    numbers = st.lists(st.integers(0, 3), min_size=nodes, max_size=nodes)
    fits, spare = draw(numbers), draw(numbers)
    spare = draw(st.sampled_from([spare, [0] * nodes]))
    near = draw(st.none() | st.lists(st.sampled_from([0, 0, 1]), min_size=nodes, max_size=nodes))
    within = draw(
        st.none() | st.lists(st.sampled_from([True, True, False]), min_size=nodes, max_size=nodes)
    )
    return ask_for(
        draw(st.integers(1, max_count)),
        fits,
        free=[fit * per_member + more for fit, more in zip(fits, spare, strict=True)],
        per_member=per_member,
        required=draw(level),
        preferred=draw(level),
        near=near,
        within=within,
    )


def random_puzzle(rng: np.random.Generator) -> tuple[Fabric, Ask]:
    """A few nodes with little room and everything that makes a choice hard; it often fits."""
    nodes, levels = int(rng.integers(3, 7)), int(rng.integers(0, 4))
    labels = rng.choice(["a", "b"], (nodes, levels)).astype(object)
    for node in np.flatnonzero(rng.random(nodes) < 0.3):
        labels[node, int(rng.integers(levels)) if levels else 0 :] = None
    per_member = int(rng.choice([0, 0, 1, 1, 2]))
    fits = rng.integers(0, 3, nodes)
    spare = rng.integers(0, 3, nodes) * (rng.random(nodes) < rng.choice([0.0, 0.5]))

    def maybe(chance: float, value: object) -> object:
        return value if rng.random() < chance else None

    ask = ask_for(
        int(rng.integers(1, max(2, min(6, fits.sum() + 1)))),
        fits.tolist(),
        free=fits * per_member + spare,
        per_member=per_member,
        required=maybe(0.3, int(rng.integers(levels))) if levels else None,
        preferred=maybe(0.6, int(rng.integers(levels))) if levels else None,
        near=maybe(0.5, rng.random(nodes) < 0.4),
        within=maybe(0.2, rng.random(nodes) < 0.8),
    )
    return fabric_of(*map(tuple, labels.tolist())), ask


def random_cluster(rng: np.random.Generator, least: int = 128, most: int = 1024) -> Fabric:
    """Blocks of racks of nodes; sometimes some nodes lack the rack label, or both."""
    nodes = int(rng.integers(least, most + 1))
    rack = np.arange(nodes) // int(rng.choice([4, 8, 16, 32]))
    block = rack // int(rng.choice([2, 4, 8, 16]))
    labels = [[f"b{b:03d}", f"r{r:04d}"] for b, r in zip(block, rack, strict=True)]
    if rng.random() < 0.3:
        for node in np.flatnonzero(rng.random(nodes) < 0.05):
            labels[node][1] = None
            labels[node][0] = labels[node][0] if rng.random() < 0.7 else None
    return fabric_of(*map(tuple, labels))


def random_ask(rng: np.random.Generator, fabric: Fabric, most: int = 1024) -> Ask:
    """Members alike on nodes of 8 accelerators, free and busy in any mixture; they often fit."""
    idle, busy = rng.uniform(0, 0.5), rng.uniform(0, 0.5)
    kind = rng.random(fabric.nodes)
    some = rng.integers(1, 9, fabric.nodes)
    free = np.where(kind < idle, 8, np.where(kind < idle + busy, 0, some))
    per_member = int(rng.choice([1, 1, 2, 3, 4, 8]))
    fits = free // per_member
    count = max(1, min(most, int(fits.sum() * rng.uniform(0.02, 0.95))))
    return ask_for(count, fits.tolist(), free=free.tolist(), per_member=per_member)
