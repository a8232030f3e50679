"""Segments: so many consecutive members share one domain of a level, or one NVLink domain."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from gang_oracle import Box, random_boxes, seated, state_of


def _place_of(boxes: list[Box], axis: str, node: int) -> str | None:
    return boxes[node].clique if axis == "clique" else boxes[node].domain(1)


def test_each_tray_of_four_ranks_shares_an_nvlink_domain() -> None:
    boxes = [Box("b", "r1", name, 4) for name in "xxyyz"]
    nodes = seated(boxes, 4, 4, segment_size=2, segment_level="nvidia.com/gpu.clique")
    assert nodes == [0, 1, 2, 3]
    nodes = seated(boxes, 5, 4, segment_size=2, segment_level="clique")
    assert nodes == [0, 1, 2, 3, 4], "what is left over needs no whole segment"
    assert seated(boxes, 6, 4, segment_size=3, segment_level="clique") is None


def test_what_is_left_of_a_gang_shares_a_domain_with_a_whole_segment_if_that_has_room() -> None:
    boxes = [Box("b", "r1", "x", 4), Box("b", "r2", "y", 5), Box("b", "r3", "z", 1)]
    nodes = seated(boxes, 5, 1, segment_size=4, segment_level="rack")
    assert nodes == [1, 1, 1, 1, 1]


def test_segments_without_a_level_share_the_finest_and_those_of_a_shared_rack_are_no_question() -> (
    None
):
    boxes = [Box("b", "r1", free=3), Box("b", "r2", free=4)]
    assert seated(boxes, 6, 1, segment_size=2) == [0, 0, 1, 1, 1, 1]
    assert seated(boxes, 4, 1, segment_size=2, required="rack") == [1, 1, 1, 1]


def test_a_required_block_holds_the_segments_too() -> None:
    boxes = [Box("b1", "r1", free=2), Box("b1", "r2", free=2), Box("b2", "r1", free=3)]
    boxes += [Box("b2", "r2", free=1)]
    assert seated(boxes, 4, 1, segment_size=2, segment_level="rack", required="block") == [
        0,
        0,
        1,
        1,
    ]


def test_domains_that_cross_the_levels_are_searched_block_by_block() -> None:
    boxes = [Box("b1", "r1", "x", 1), Box("b2", "r1", "x", 1), Box("b2", "r2", "x", 1)]
    boxes += [Box("b1", "r2", "y", 1), Box("b2", "r2", "y", 2)]
    assert state_of(boxes).cliques().nested is None
    nodes = seated(boxes, 4, 1, segment_size=2, segment_level="clique", required="block")
    assert sorted(nodes) == [1, 2, 4, 4]


# ── Against all ways there are ────────────────────────────────────────────────────────────────────


def least(boxes: list[Box], axis: str, members: int, size: int) -> tuple[int, ...] | None:
    """Fewest blocks (for racks), then fewest domains, over all ways to give segments domains."""
    room = Counter[str]()
    for node, box in enumerate(boxes):
        if (name := _place_of(boxes, axis, node)) is not None:
            room[name] += box.free
    whole, rest = divmod(members, size)
    sizes = [size] * whole + [rest] * bool(rest)
    keys = []
    for names in product(sorted(room), repeat=len(sizes)):
        asked = Counter[str]()
        for name, count in zip(names, sizes, strict=True):
            asked[name] += count
        if all(asked[name] <= room[name] for name in asked):
            keys.append(_key(axis, set(names)))
    return min(keys, default=None)


def _key(axis: str, names: set[str]) -> tuple[int, ...]:
    blocks = len({name.partition("/")[0] for name in names}) if axis == "rack" else 0
    return blocks, len(names)


@pytest.mark.parametrize("axis", ["rack", "clique"])
def test_segments_are_placed_in_the_closest_way_or_not_at_all(axis: str) -> None:
    rng = np.random.default_rng(41)
    outcomes = Counter[bool]()
    for number in range(300):
        boxes = random_boxes(rng, nested=False)
        crossing = state_of(boxes).cliques()
        if axis == "clique" and (crossing is None or crossing.nested is not None):
            continue
        members, size = int(rng.integers(2, 8)), int(rng.integers(2, 4))
        best = least(boxes, axis, members, size)
        nodes = seated(boxes, members, segment_size=size, segment_level=axis)
        outcomes[nodes is not None] += 1
        if nodes is None:
            assert best is None, number
            continue
        segments = [nodes[at : at + size] for at in range(0, members, size)]
        used = [{_place_of(boxes, axis, node) for node in segment} for segment in segments]
        assert all(len(names) == 1 and None not in names for names in used), number
        assert _key(axis, set.union(*used)) == best, number
        held = Counter(nodes)
        assert all(count <= boxes[node].free for node, count in held.items()), number
    assert min(outcomes[True], outcomes[False]) > 30


# ── Segments that make up larger ones ─────────────────────────────────────────────────────────────


def test_slices_of_a_rack_make_up_slices_of_a_block() -> None:
    boxes = [Box("b1", "r1", free=2), Box("b1", "r2", free=1), Box("b2", "r1", free=2)]
    boxes += [Box("b2", "r2", free=2), Box("b3", "r1", free=3), Box("b3", "r2", free=1)]
    layers = {"segment_size": 2, "segment_level": "rack", "segment_within": ((4, "block"),)}

    assert seated(boxes, 4, 1, **layers) == [2, 2, 3, 3]
    assert seated(boxes, 8, 1, **layers) is None, "b1 and b3 have room for four, not for two pairs"
    boxes += [Box("b1", "r2", free=1)]
    assert seated(boxes, 8, 1, **layers) == [0, 0, 1, 6, 2, 2, 3, 3]


def test_three_layers_down_to_the_node() -> None:
    boxes = [Box("b1", "r1", free=4), Box("b1", "r1", free=3), Box("b1", "r2", free=4)]
    boxes += [Box("b2", "r1", free=2), Box("b2", "r1", free=2), Box("b2", "r2", free=4)]
    within = ((4, "rack"), (8, "block"))
    layers = {"segment_size": 2, "segment_level": "node", "segment_within": within}

    found = seated(boxes, 8, 1, **layers)

    assert found is not None
    for size, level in ((8, "block"), (4, "rack"), (2, "host")):
        for at in range(0, 8, size):
            there = {(boxes[node].block, boxes[node].rack, node) for node in found[at : at + size]}
            depth = ("block", "rack", "host").index(level) + 1
            assert len({path[:depth] for path in there}) == 1, (level, found)


def test_what_is_left_of_a_gang_is_cut_into_whole_slices_but_for_its_last() -> None:
    layers = {"segment_size": 4, "segment_level": "rack", "segment_within": ((8, "block"),)}
    assert seated([Box("b1", "r1", free=3)], 3, 1, **layers) == [0, 0, 0]

    boxes = [Box("b1", "r1", free=4), Box("b1", "r2", free=3)]
    assert seated(boxes, 7, 1, **layers) == [0, 0, 0, 0, 1, 1, 1]
    boxes[0] = Box("b1", "r1", free=3)
    assert seated(boxes, 6, 1, **layers) is None, "no rack has room for four"

    boxes = [Box("b1", "r1", free=4), Box("b1", "r2", free=6), Box("b2", "r1", free=3)]
    assert seated(boxes, 11, 1, **layers) == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert seated(boxes, 10, 1, **layers) == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]


def fewest_blocks(boxes: list[Box], members: int, size: int, larger: int) -> int | None:
    """Over all ways to give segments racks, with all of each larger segment in one block."""
    room = Counter[str]()
    for box in boxes:
        if (name := box.domain(1)) is not None:
            room[name] += box.free
    sizes = [min(size, members - at) for at in range(0, members, size)]
    found = []
    for names in product(sorted(room), repeat=len(sizes)):
        asked = Counter[str]()
        for name, count in zip(names, sizes, strict=True):
            asked[name] += count
        blocks = [name.partition("/")[0] for name in names]
        share = larger // size
        parts = [set(blocks[at : at + share]) for at in range(0, len(blocks), share)]
        if all(asked[name] <= room[name] for name in asked) and all(
            len(part) == 1 for part in parts
        ):
            found.append(len(set(blocks)))
    return min(found, default=None)


def test_larger_segments_use_fewest_blocks_or_are_not_placed_at_all() -> None:
    rng = np.random.default_rng(43)
    outcomes = Counter[bool]()
    for number in range(200):
        boxes = random_boxes(rng, nested=False)
        size = int(rng.integers(1, 4))
        larger = size * int(rng.integers(1, 4))
        members = int(rng.integers(1, 2 * larger + 1))
        best = fewest_blocks(boxes, members, size, larger)
        layers = {"segment_size": size, "segment_level": "rack"}
        nodes = seated(boxes, members, segment_within=((larger, "block"),), **layers)
        outcomes[nodes is not None] += 1
        if nodes is None:
            # One whole segment as large as the gang needs no cut, and racks are no question then.
            assert best is None, number
            continue
        blocks = [str(boxes[node].block) for node in nodes]
        racks = [boxes[node].domain(1) for node in nodes]
        held = Counter(nodes)
        assert all(count <= boxes[node].free for node, count in held.items()), number
        assert all(len(set(blocks[at : at + larger])) == 1 for at in range(0, members, larger))
        if size > 1:
            assert None not in racks
            assert all(len(set(racks[at : at + size])) == 1 for at in range(0, members, size))
            assert len(set(blocks)) == best, number
    assert min(outcomes[True], outcomes[False]) > 20, outcomes


SIZES = (8, 4, 2)
"""Of slices of a block, a rack and a node."""

Tree = int | list["Tree"]
"""Free seats of a node, or the parts of a domain."""


def _whole(tree: Tree, depth: int) -> int:
    """Whole slices of that depth that one of its domains holds."""
    if isinstance(tree, int):
        return tree // SIZES[depth]
    return sum(_whole(part, depth + 1) for part in tree) * SIZES[depth + 1] // SIZES[depth]


def _holds(parts: list[Tree], depth: int, members: int) -> bool:
    """Whether these domains hold so many, by all places for what is left of whole slices."""
    whole, rest = divmod(members, SIZES[depth])
    room = [_whole(part, depth) for part in parts]
    if not rest:
        return sum(room) >= whole
    return any(
        beside + sum(room) - room[at] >= whole and _fits(part, depth, beside * SIZES[depth] + rest)
        for at, part in enumerate(parts)
        for beside in range(room[at] + 1)
    )


def _fits(part: Tree, depth: int, members: int) -> bool:
    return part >= members if isinstance(part, int) else _holds(part, depth + 1, members)


def test_any_number_of_members_has_room_in_three_layers_if_there_is_any() -> None:
    rng = np.random.default_rng(5)
    outcomes = Counter[bool]()
    layers = {
        "segment_size": 2,
        "segment_level": "node",
        "segment_within": ((4, "rack"), (8, "block")),
    }
    for number in range(200):
        shape = [[rng.integers(1, 3) for _ in range(rng.integers(1, 3))] for _ in range(2)]
        tree = [[rng.integers(0, 6, nodes).tolist() for nodes in racks] for racks in shape]
        members = int(rng.integers(1, 20))
        boxes = [
            Box(f"b{block}", f"r{rack}", free=free)
            for block, racks in enumerate(tree)
            for rack, nodes in enumerate(racks)
            for free in nodes
        ]
        found = seated(boxes, members, 1, **layers)
        outcomes[found is not None] += 1
        assert (found is not None) == _holds(tree, 0, members), number
        for depth, size in enumerate(SIZES if found else ()):
            for at in range(0, members, size):
                paths = {
                    (boxes[node].block, boxes[node].rack, node) for node in found[at : at + size]
                }
                assert len({path[: depth + 1] for path in paths}) == 1, number
    assert min(outcomes[True], outcomes[False]) > 30, outcomes


# ── With somebody beside them ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("required", ["", "block"])
def test_segments_of_workers_are_whole_beside_a_master_wherever_there_is_room(
    required: str,
) -> None:
    rng = np.random.default_rng(41)
    placed = 0
    for _ in range(300):
        boxes = random_boxes(rng, nested=True)
        near = {"required": required} if required else {}
        nodes = seated(boxes, 5, master=True, segment_size=2, segment_level="rack", **near)
        assert (nodes is not None) == _has_room_for_pairs_and_one(boxes, required), boxes
        if nodes is None:
            continue
        placed += 1
        racks = [boxes[node].domain(1) for node in nodes[1:]]
        assert racks[0] == racks[1] is not None
        assert racks[2] == racks[3] is not None
        assert all(count <= boxes[node].free for node, count in Counter(nodes).items())
        if required:
            assert len({boxes[node].domain(0) for node in nodes}) == 1
    assert 50 < placed < 280


def _has_room_for_pairs_and_one(boxes: list[Box], required: str) -> bool:
    """Whether two pairs, each in one rack, and one more fit, all in one block if they must."""
    blocks = {box.domain(0) for box in boxes} - {None} if required else {None}
    for block in blocks:
        inside = [box for box in boxes if block in (None, box.domain(0))]
        racks: Counter[str] = Counter()
        for box in inside:
            if box.domain(1) is not None:
                racks[str(box.domain(1))] += box.free
        if sum(free // 2 for free in racks.values()) >= 2 and sum(b.free for b in inside) >= 5:
            return True
    return False
