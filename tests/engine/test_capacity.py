"""The books: exact sums, never negative, and arrays that say the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.capacity import Ledger
from scheduler.model import Constraints, HostPort, Node, Taint

GPU = "nvidia.com/gpu"
TB = 2**40


def node(name: str = "n1", gpu: int = 8, **fields: object) -> Node:
    allocatable = {"cpu": 64_000, "memory": TB, "pods": 110, GPU: gpu}
    return Node(name, allocatable=allocatable, **fields)  # type: ignore[arg-type]


def ledger(*nodes: Node) -> Ledger:
    made = Ledger()
    for item in nodes or (node(),):
        made.put_node(item)
    return made


def free_in_arrays(books: Ledger, name: str, resource: str = GPU) -> int:
    frame = books.frame()
    return int(frame.free[frame.row[name], frame.column[resource]])


def test_a_claim_takes_room_and_gives_it_back() -> None:
    books = ledger()

    books.put("a", "n1", {GPU: 6, "cpu": 1000}, ())
    assert books.free("n1")[GPU] == free_in_arrays(books, "n1") == 2
    assert books.drop("a")

    assert books.free("n1")[GPU] == free_in_arrays(books, "n1") == 8
    assert books.used("n1") == {}


def test_a_claim_that_moves_is_counted_once() -> None:
    books = ledger(node("n1"), node("n2"))

    books.put("a", "n1", {GPU: 6}, ())
    books.put("a", "n2", {GPU: 4}, ())

    assert books.free("n1")[GPU] == 8
    assert books.free("n2")[GPU] == 4
    assert books.where("a") == "n2"


def test_giving_back_what_nobody_has_is_harmless() -> None:
    assert not ledger().drop("nobody")


def test_a_node_with_less_than_is_in_use_has_nothing_free_and_keeps_the_rest() -> None:
    books = ledger(node(gpu=8))
    books.put("a", "n1", {GPU: 8, "cpu": 1000}, ())

    books.put_node(node(gpu=6))

    assert books.over("n1")
    assert books.free("n1")[GPU] == free_in_arrays(books, "n1") == 0
    assert not books.has_room("n1", {GPU: 1})
    assert books.has_room("n1", {"cpu": 63_000})
    books.drop("a")
    assert not books.over("n1")
    assert books.free("n1")[GPU] == 6


def test_pods_may_be_known_before_their_node_and_survive_it() -> None:
    books = Ledger()
    books.put("a", "n1", {GPU: 3}, ())
    assert not books.has_room("n1", {})

    books.put_node(node())
    assert books.free("n1")[GPU] == 5
    books.drop_node("n1")
    assert list(books.nodes()) == []
    books.put_node(node())

    assert books.free("n1")[GPU] == free_in_arrays(books, "n1") == 5


def test_a_resource_that_only_one_node_has() -> None:
    books = ledger(node("n1"))
    books.frame()

    books.put_node(Node("n2", allocatable={"cpu": 1000, "example.com/fpga": 2}))

    frame = books.frame()
    assert frame.names == ("n1", "n2")
    assert frame.free[frame.row["n1"], frame.column["example.com/fpga"]] == 0
    assert frame.columns({"example.com/fpga": 1}) is not None
    assert frame.columns({"example.com/other": 1}) is None


@pytest.mark.parametrize("amount", [2**61, 2**63 - 1, 2**63, 2**64, 10**30])
def test_huge_requests_never_wrap_around_into_small_ones(amount: int) -> None:
    books = ledger(
        Node("n1", allocatable={"memory": 10**30}), Node("n2", allocatable={"memory": 1})
    )
    frame = books.frame()

    at = frame.columns({"memory": amount})

    assert at is not None
    columns, amounts = at
    assert amounts[0] > 0
    assert frame.free[frame.row["n2"], columns[0]] // amounts[0] == 0
    assert frame.free.min() >= 0


def test_a_verdict_follows_the_node() -> None:
    books = ledger(node("n1"), node("n2"))
    assert books.mask(Constraints()).tolist() == [True, True]

    books.put_node(node("n1", unschedulable=True))
    assert books.mask(Constraints()).tolist() == [False, True]
    books.put_node(node("n2", taints=(Taint("a", "", "NoSchedule"),)))
    assert books.mask(Constraints()).tolist() == [False, False]
    books.put_node(node("n1"))
    assert books.mask(Constraints()).tolist() == [True, False]


def test_host_ports_are_taken_and_given_back() -> None:
    books = ledger()
    port = (HostPort("", "TCP", 29500),)

    books.put("a", "n1", {}, port)
    assert not books.has_room("n1", {}, port)
    assert books.without_ports(port).tolist() == [False]
    books.drop("a")

    assert books.has_room("n1", {}, port)
    assert books.without_ports(port).tolist() == [True]


NODES = st.sampled_from(["n1", "n2", "n3"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), NODES, st.integers(1, 9)),
        st.tuples(st.just("drop"), st.sampled_from("abcdef")),
        st.tuples(st.just("node"), NODES, st.integers(0, 8), st.booleans()),
        st.tuples(st.just("gone"), NODES),
        st.tuples(st.just("look")),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(STEPS)
def test_the_books_are_what_a_plain_list_of_claims_says(steps: list[tuple[object, ...]]) -> None:
    books, claims, have, cordoned = Ledger(), {}, {}, {}
    for step in steps:
        match step:
            case ("put", str(key), str(name), int(amount)):
                books.put(key, name, {GPU: amount}, ())
                claims[key] = (name, amount)
            case ("drop", str(key)):
                assert books.drop(key) == (claims.pop(key, None) is not None)
            case ("node", str(name), int(gpu), bool(cordon)):
                books.put_node(node(name, gpu, unschedulable=cordon))
                have[name], cordoned[name] = gpu, cordon
            case ("gone", str(name)):
                books.drop_node(name)
                have.pop(name, None)
            case _:
                books.frame()
                books.mask(Constraints())

    for name, gpu in have.items():
        used = sum(amount for where, amount in claims.values() if where == name)
        assert books.used(name).get(GPU, 0) == used
        assert books.free(name)[GPU] == max(0, gpu - used)
        assert books.over(name) == (used > gpu)
    frame, mask = books.frame(), books.mask(Constraints())
    assert list(frame.names) == sorted(have)
    for name, row in frame.row.items():
        assert frame.free[row, frame.column[GPU]] == books.free(name)[GPU]
        assert mask[row] == (not cordoned[name])


def test_every_change_of_a_node_or_of_a_claim_is_counted() -> None:
    books = Ledger()
    counts = [books.changes]
    changes: list[Callable[[], object]] = [
        lambda: books.put_node(node(gpu=8)),
        lambda: books.put_node(node(gpu=4)),
        lambda: books.put("a", "n1", {GPU: 1}, ()),
        lambda: books.drop("a"),
        lambda: books.drop_node("n1"),
    ]

    for change in changes:
        change()
        counts.append(books.changes)
    books.drop("a")
    books.drop_node("n1")

    assert all(earlier < later for earlier, later in pairwise(counts))
    assert books.changes == counts[-1], "nothing is left to change"
