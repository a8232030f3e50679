"""Gangs whose members are not alike: launchers, workers, parameter servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from placement_oracle import (
    every_way,
    fabric_of,
    members_of,
    objective,
    random_ask,
    random_cluster,
)

from scheduler.core import roles as roles_module
from scheduler.core.placement import Ask, Fabric, NoRoom, Seats, place
from scheduler.core.roles import RoleAsk, member_fits, place_roles

GPU, CPU = 0, 1
Ways = list[dict[int, int]]


def role(
    count: int, gpu: int, cpu: int = 1, mask: list[bool] | None = None, **options: int
) -> RoleAsk:
    allowed = np.ones(64, dtype=bool) if mask is None else np.array(mask)
    return RoleAsk(count, np.array([gpu, cpu]), allowed, **options)


def on_nodes(roles: Sequence[RoleAsk], nodes: int) -> list[RoleAsk]:
    return [RoleAsk(r.count, r.request, r.mask[:nodes], r.cap) for r in roles]


def placed(
    fabric: Fabric, roles: Sequence[RoleAsk], free: list[list[int]], **options: object
) -> Ways:
    """Per role: node -> members on it."""
    for name in {"near", "within", "accelerated"} & options.keys():
        options[name] = np.array(options[name])
    answer = place_roles(fabric, on_nodes(roles, fabric.nodes), np.array(free), [GPU], **options)
    assert not isinstance(answer, NoRoom), answer
    return [members_of(seats) for seats in answer]


# ── Stories ───────────────────────────────────────────────────────────────────────────────────────


def test_the_launcher_does_not_waste_a_gpu_node() -> None:
    fabric = fabric_of((), (), ())
    launcher, workers = role(1, 0, 4), role(4, 4, 1)
    free = [[0, 8], [8, 8], [8, 8]]
    accelerated = [False, True, True]
    both = placed(fabric, [launcher, workers], free, accelerated=accelerated)
    assert both == [{0: 1}, {1: 2, 2: 2}]
    other_way_round = placed(fabric, [workers, launcher], free, accelerated=accelerated)
    assert other_way_round == both[::-1]


def test_a_launcher_without_a_node_of_its_own_sits_beside_the_workers() -> None:
    fabric = fabric_of(("r1",), ("r1",), ("r2",), ("r2",))
    free = [[0, 8], [8, 8], [8, 8], [0, 8]]
    answer = placed(fabric, [role(1, 0), role(1, 8)], free, accelerated=[True] * 4)
    assert answer == [{1: 1}, {1: 1}]


def test_the_biggest_members_go_first() -> None:
    fabric = fabric_of((), (), (), ())
    free = [[8, 9], [8, 9], [4, 9], [1, 9]]
    answer = placed(fabric, [role(1, 1), role(3, 4), role(1, 8)], free)
    assert answer == [{3: 1}, {1: 2, 2: 1}, {0: 1}]


def test_roles_share_what_is_free() -> None:
    fabric = fabric_of((), ())
    answer = place_roles(
        fabric, on_nodes([role(2, 4), role(3, 2)], 2), np.array([[8, 9], [4, 9]]), [GPU]
    )
    assert answer == NoRoom(fits_in_best=4, best_domain=None)


def test_members_that_exclude_each_other_get_a_node_each() -> None:
    fabric = fabric_of((), (), ())
    answer = placed(fabric, [role(3, 1, cap=1), role(2, 2)], [[4, 9], [4, 9], [8, 9]])
    assert answer[0] == {0: 1, 1: 1, 2: 1}
    assert placed(fabric, [role(3, 1)], [[4, 9], [4, 9], [8, 9]]) == [{0: 3}]


def test_a_required_level_binds_all_roles_to_one_domain() -> None:
    fabric = fabric_of(("r1",), ("r1",), ("r2",), ("r2",))
    free = [[8, 4], [0, 0], [8, 4], [0, 9]]
    answer = placed(fabric, [role(1, 0, 5), role(1, 8)], free, required=0)
    assert answer == [{3: 1}, {2: 1}]


def test_where_no_domain_holds_all_roles_the_fullest_is_named() -> None:
    fabric = fabric_of(("r1",), ("r1",), ("r2",), ("r2",))
    free = np.array([[8, 4], [0, 0], [8, 4], [4, 4]])
    answer = place_roles(fabric, on_nodes([role(3, 4), role(1, 8)], 4), free, [GPU], required=0)
    assert answer == NoRoom(fits_in_best=3, best_domain=(0, 1))


def test_a_rack_that_holds_all_roles_beats_the_tightest_rack_for_the_first() -> None:
    fabric = fabric_of(("r1",), ("r1",), ("r2",), ("r2",))
    free = [[8, 9], [0, 9], [8, 9], [2, 9]]
    assert placed(fabric, [role(1, 8), role(1, 2)], free) == [{2: 1}, {3: 1}]


def test_a_role_that_may_only_use_few_nodes_is_not_locked_out() -> None:
    fabric = fabric_of((), ())
    narrow = role(1, 1, mask=[True, False])
    assert placed(fabric, [role(1, 2), narrow], [[2, 9], [3, 9]]) == [{1: 1}, {0: 1}]


def test_a_rack_for_all_is_found_where_each_role_alone_would_choose_another() -> None:
    fabric = fabric_of(("r1",), ("r2",), ("r3",), ("r3",), ("r4",))
    free = [[8, 9], [4, 9], [8, 9], [4, 9], [0, 99]]
    roles = [role(1, 0, 50), role(1, 8), role(1, 4)]
    answer = placed(fabric, roles, free, accelerated=[True, True, True, True, False])
    assert answer == [{4: 1}, {2: 1}, {3: 1}]


def test_a_gang_without_accelerators_is_kept_together_too() -> None:
    fabric = fabric_of(("r1",), ("r2",), ("r2",))
    free = [[0, 4], [0, 5], [0, 1]]
    assert placed(fabric, [role(1, 0, 4), role(1, 0, 1)], free) == [{1: 1}, {1: 1}]


def test_a_replacement_joins_the_gang_that_lives() -> None:
    fabric = fabric_of(("r1",), ("r2",))
    assert placed(fabric, [role(1, 1), role(1, 0)], [[1, 9], [2, 9]], near=[0, 3]) == [
        {1: 1},
        {1: 1},
    ]


def test_nothing_is_placed_outside_the_wall() -> None:
    fabric = fabric_of(("r1",), ("r2",))
    wall = np.array([False, True])
    answer = place_roles(
        fabric, on_nodes([role(1, 1)], 2), np.array([[8, 9], [0, 9]]), [GPU], within=wall
    )
    assert answer == NoRoom(0, None)


def test_several_kinds_of_accelerators_count_together() -> None:
    fabric = fabric_of((), ())
    free = np.array([[4, 4], [4, 1]])
    big, small = (
        RoleAsk(1, np.array([1, 1]), np.ones(2, bool)),
        RoleAsk(1, np.array([1, 0]), np.ones(2, bool)),
    )
    answer = place_roles(fabric, [small, big], free, [0, 1])
    assert not isinstance(answer, NoRoom)
    assert [members_of(seats) for seats in answer] == [{1: 1}, {1: 1}]


def test_one_role_is_placed_as_members_alike_are() -> None:
    rng = np.random.default_rng(11)
    for _ in range(40):
        fabric = random_cluster(rng, 20, 200)
        ask = random_ask(rng, fabric, most=100)
        request = np.array([ask.per_member, 0])
        free = np.stack([ask.free, np.full(fabric.nodes, 5)], axis=1)
        alone = RoleAsk(ask.count, request, np.ones(fabric.nodes, bool))
        answer = place_roles(fabric, [alone], free, [GPU])
        alike = place(fabric, ask)
        assert isinstance(alike, Seats)
        assert not isinstance(answer, NoRoom)
        assert members_of(answer[0]) == members_of(alike)


# ── How many members fit ──────────────────────────────────────────────────────────────────────────


def test_the_scarcest_resource_limits() -> None:
    free = np.array([[8, 3, 100], [2, 9, 100], [-1, 9, 100]])
    assert member_fits(free, np.array([2, 1, 0])).tolist() == [3, 1, 0]
    assert member_fits(free, np.array([2, 1, 0]), cap=1).tolist() == [1, 1, 0]


def test_a_resource_that_is_not_asked_for_never_limits() -> None:
    assert member_fits(np.array([[-4, 2]]), np.array([0, 1])).tolist() == [2]
    assert member_fits(np.array([[0, 0]]), np.array([0, 0])).tolist() == [2**31 - 1]


# ── Mistakes ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ([], "there must be at least one role"),
        ([RoleAsk(1, np.array([1]), np.ones(2, bool))], r"role 0: request has shape \(1,\)"),
        ([RoleAsk(1, np.array([1, 1]), np.ones(3, bool))], r"role 0: mask has shape \(3,\)"),
    ],
)
def test_mistaken_roles_are_named(roles: list[RoleAsk], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        place_roles(fabric_of((), ()), roles, np.array([[1, 1], [1, 1]]), [GPU])


def test_a_free_matrix_of_another_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="free has 1 rows, the fabric 2 nodes"):
        place_roles(fabric_of((), ()), on_nodes([role(1, 1)], 2), np.array([[1, 1]]), [GPU])


# ── Against all ways there are ────────────────────────────────────────────────────────────────────


def role_ways(
    fabric: Fabric, roles: Sequence[RoleAsk], free: np.ndarray, required: int | None
) -> Iterator[Ways]:
    """All ways to place all roles."""
    if not roles:
        yield []
        return
    first = roles[0]
    fits = np.where(first.mask, member_fits(free, first.request, first.cap), 0)
    if required is not None:
        fits = np.where(fabric.domains[required] >= 0, fits, 0)
    for way in every_way(first.count, np.minimum(fits, first.count).tolist()):
        left = free.copy()
        for node, count in way.items():
            left[node] -= count * first.request
        for rest in role_ways(fabric, roles[1:], left, required):
            yield [way, *rest]


def in_one_domain(fabric: Fabric, ways: Ways, required: int | None) -> bool:
    if required is None:
        return True
    return len({int(fabric.domains[required, node]) for way in ways for node in way}) == 1


def joint_objective(
    fabric: Fabric, roles: Sequence[RoleAsk], free: np.ndarray, options: dict, ways: Ways
) -> tuple[object, ...]:
    """Members without accelerators on nodes with some; then the objective of members alike."""
    accelerated = options["accelerated"]
    wasted = sum(
        count * bool(accelerated[node])
        for role, way in zip(roles, ways, strict=True)
        for node, count in way.items()
        if not role.request[GPU]
    )
    members: dict[int, int] = {}
    for way in ways:
        for node, count in way.items():
            members[node] = members.get(node, 0) + count
    ask = Ask(
        sum(members.values()),
        free[:, CPU],
        free[:, GPU],
        1,
        near=options["near"],
        preferred=options["preferred"],
    )
    return (wasted, *objective(fabric, ask, members))


def random_roles(rng: np.random.Generator, nodes: int) -> list[RoleAsk]:
    return [
        RoleAsk(
            int(rng.integers(1, 4)),
            np.array([rng.choice([0, 1, 2, 4]), rng.integers(0, 3)]),
            rng.random(nodes) < 0.9,
            1 if rng.random() < 0.3 else None,
        )
        for _ in range(rng.choice([2, 2, 3]))
    ]


def random_case(rng: np.random.Generator) -> tuple[Fabric, list[RoleAsk], np.ndarray, dict]:
    """A few nodes, two or three roles; about half of them fit."""
    nodes, levels = int(rng.integers(2, 6)), int(rng.integers(0, 3))
    labels = rng.choice(["a", "b", None], (nodes, levels), p=[0.47, 0.47, 0.06])
    free = np.stack([rng.choice([0, 0, 2, 4, 4, 8], nodes), rng.integers(1, 9, nodes)], axis=1)
    options = {
        "accelerated": (free[:, GPU] > 0) | (rng.random(nodes) < 0.4),
        "required": int(rng.integers(levels)) if levels and rng.random() < 0.4 else None,
        "preferred": int(rng.integers(levels)) if levels and rng.random() < 0.3 else None,
        "near": (rng.random(nodes) < 0.4) * 1 if rng.random() < 0.3 else None,
        "within": rng.random(nodes) < 0.8 if rng.random() < 0.2 else None,
    }
    return fabric_of(*map(tuple, labels.tolist())), random_roles(rng, nodes), free, options


def best_of_all(
    fabric: Fabric, roles: Sequence[RoleAsk], free: np.ndarray, options: dict
) -> tuple[object, ...] | None:
    """The least objective of all ways there are; None where there is none."""
    required, within = options["required"], options["within"]
    walled = [
        RoleAsk(r.count, r.request, r.mask if within is None else r.mask & within, r.cap)
        for r in roles
    ]
    return min(
        (
            joint_objective(fabric, roles, free, options, ways)
            for ways in role_ways(fabric, walled, free, required)
            if in_one_domain(fabric, ways, required)
        ),
        default=None,
    )


def test_small_gangs_are_placed_in_the_best_of_all_ways_or_there_is_none() -> None:
    rng = np.random.default_rng(3)
    possible = 0
    for number in range(500):
        fabric, roles, free, options = random_case(rng)
        least = best_of_all(fabric, roles, free, options)
        answer = place_roles(fabric, roles, free, [GPU], **options)
        if least is None:
            assert isinstance(answer, NoRoom), number
            continue
        assert not isinstance(answer, NoRoom), number
        mine = [members_of(seats) for seats in answer]
        assert [sum(way.values()) for way in mine] == [role.count for role in roles]
        assert joint_objective(fabric, roles, free, options, mine) == least, number
        possible += 1
    assert possible > 150


def test_what_the_attempts_miss_is_found_before_a_gang_is_told_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roles_module, "AT_ONCE", 0)
    rng = np.random.default_rng(3)
    missed = 0
    for number in range(1000):
        fabric, roles, free, options = random_case(rng)
        answer = place_roles(fabric, roles, free, [GPU], **options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(roles_module, "BEFORE_NO", 0)
            attempted = place_roles(fabric, roles, free, [GPU], **options)
        if isinstance(answer, NoRoom):
            assert best_of_all(fabric, roles, free, options) is None, number
        missed += isinstance(attempted, NoRoom) and not isinstance(answer, NoRoom)
    assert missed > 0
