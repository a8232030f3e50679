"""Who gets which rank: whole nodes, in topology order, the same for all."""

import json
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trainer_worlds import IN_ORDER, INTERLEAVED, hint

from trainer.errors import RendezvousError
from trainer.hints import Hint, parse
from trainer.ranks import Card, Order, arrange, decode_card


def cards(
    local_sizes: Sequence[int], hints: Sequence[dict | Hint | None] | None = None, **changes: object
) -> list[Card]:
    """What the processes of pods with so many of them each say."""
    found = []
    for group, size in enumerate(local_sizes):
        raw = hints[group] if hints else None
        parsed = raw if isinstance(raw, Hint) or raw is None else parse(json.dumps(raw))
        for local in range(size):
            fields = {"rank": len(found), "local_rank": local, "group_rank": group}
            fields |= {"world_size": sum(local_sizes), "host": f"pod-{group}", "backend": "gloo"}
            found.append(Card(**(fields | {"hint": parsed} | changes)))
    return found


def with_place(hint_rank: int, *path: str | None) -> Hint:
    return parse(json.dumps(hint(hint_rank, f"n{hint_rank}", *path)))


class TestExamples:
    def test_pods_placed_alternately_in_two_racks_are_sorted_by_rack(self) -> None:
        order = arrange(cards([1, 1, 1, 1], INTERLEAVED))
        assert order.ranks == (0, 2, 1, 3)
        assert list(order.places) == IN_ORDER
        assert order.groups == (0, 2, 1, 3)
        assert (order.by, order.warning) == ("hint rank", None)

    def test_a_node_s_processes_stay_together_whatever_their_number(self) -> None:
        order = arrange(cards([2, 1, 3], [hint(2, "a"), hint(1, "b"), hint(0, "c")]))
        assert order.ranks == (4, 5, 3, 0, 1, 2)
        assert order.places == ("b0/r0/c", "b0/r0/b", "b0/r0/a")

    def test_members_that_are_missing_from_an_elastic_gang_leave_no_gap(self) -> None:
        order = arrange(cards([1, 1], [hint(7, "a"), hint(3, "b")]))
        assert order.ranks == (1, 0)

    @pytest.mark.parametrize(
        ("second", "says"),
        [
            (hint(0, "n1", "b0", "r0"), "2 pods have rank 0"),
            (hint(1, "n1", "b0", "r0", id="uid-2"), "2 gangs"),
            (hint(1, "n1", "b0", "r0", gang="team/other"), "2 gangs"),
        ],
    )
    def test_where_ranks_do_not_compare_paths_do(self, second: dict, says: str) -> None:
        order = arrange(cards([1, 1], [hint(0, "n0", "b0", "r1"), second]))
        assert (order.by, order.ranks) == ("topology path", (1, 0))
        assert says in order.warning

    def test_nodes_without_a_label_come_last_in_their_domain(self) -> None:
        same = [hint(0, f"n{i}", "b0", rack) for i, rack in enumerate((None, "r9", "r1"))]
        assert arrange(cards([1, 1, 1], same)).places == ("b0/r1/n2", "b0/r9/n1", "b0/n0")


class TestKeepingTheLaunchersOrder:
    def check(self, given_cards: list[Card], warning: str | None) -> None:
        order = arrange(given_cards)
        assert order.by == "launcher"
        assert order.ranks == tuple(range(len(given_cards)))
        assert order.warning is None if warning is None else warning in order.warning

    def test_without_any_hint_silently(self) -> None:
        self.check(cards([2, 2]), None)

    def test_when_one_hint_is_missing(self) -> None:
        self.check(cards([1, 1, 1], [hint(1, "a"), None, hint(0, "c")]), "1 of 3 pods have no hint")

    def test_when_one_hint_is_unreadable(self) -> None:
        found = cards([1, 1], [hint(1, "a"), None])
        bad = cards([1, 1], None, problem="the hint is not JSON")[1]
        self.check([found[0], bad], "rank 1 on pod-1: the hint is not JSON")

    def test_when_neither_ranks_nor_levels_compare(self) -> None:
        other = hint(1, "b", "r1", levels=["rack"], id="uid-2")
        self.check(cards([1, 1], [hint(1, "a"), other]), "different levels")

    def test_when_processes_of_one_pod_have_different_hints(self) -> None:
        found = cards([2, 1], [hint(1, "a"), hint(0, "b")])
        found[1] = cards([2, 1], [hint(2, "a"), None])[1]
        self.check(found, "different hints")

    def test_when_the_launcher_spread_a_node_s_ranks(self) -> None:
        one, two = cards([2, 2], [hint(1, "a"), hint(0, "b")])[1:3]
        found = cards([2, 2], [hint(1, "a"), hint(0, "b")])
        found[1] = Card(**(fields_of(two) | {"rank": 1, "local_rank": 0}))
        found[2] = Card(**(fields_of(one) | {"rank": 2, "local_rank": 1}))
        self.check(found, "consecutive ranks")

    def test_when_local_ranks_are_not_those_of_devices(self) -> None:
        found = cards([2], [hint(0, "a")], local_rank=0)
        self.check(found, "local ranks")


def fields_of(card: Card) -> dict:
    return {name: getattr(card, name) for name in Card.__slots__}


class TestWorldsThatCannotBe:
    @pytest.mark.parametrize(
        "found",
        [
            cards([1, 1])[:1],
            [cards([1, 1])[0]] * 2,
            [cards([1, 1])[0], cards([1, 1, 1])[1]],
        ],
        ids=["a rank missing", "a rank twice", "different sizes"],
    )
    def test_are_an_error(self, found: list[Card]) -> None:
        with pytest.raises(RendezvousError, match="do not form one world"):
            arrange(found)

    def test_different_backends_are_an_error_that_names_both_sides(self) -> None:
        one, two = cards([1, 1])[0], cards([1, 1], backend="cpu:gloo,cuda:nccl")[1]
        with pytest.raises(RendezvousError, match=r"nccl \(rank 1 on pod-1\), gloo \(rank 0"):
            arrange([one, two])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[int], list[Hint]]:
    """Pods with 1 to 8 processes each, up to 512 in all, scattered over racks; hint ranks
    follow the paths, as the scheduler's do.
    """
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=64))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = random.Random(seed)
    racks = draw(st.integers(1, 8))
    places = [(f"b{rng.randrange(3)}", f"r{rng.randrange(racks)}") for _ in sizes]
    ranks = {
        pod: rank for rank, pod in enumerate(sorted(range(len(sizes)), key=lambda i: places[i]))
    }
    return sizes, [with_place(ranks[pod], *places[pod]) for pod in range(len(sizes))]


class TestProperties:
    @given(worlds())
    @settings(max_examples=60)
    def test_whole_nodes_are_permuted(self, world: tuple[list[int], list[Hint]]) -> None:
        sizes, hints = world
        order = arrange(cards(sizes, hints))
        assert sorted(order.ranks) == list(range(sum(sizes)))
        first = 0
        for size in sizes:
            mine = order.ranks[first : first + size]
            assert mine == tuple(range(mine[0], mine[0] + size))
            first += size

    @given(worlds())
    @settings(max_examples=60)
    def test_each_domain_is_entered_once(self, world: tuple[list[int], list[Hint]]) -> None:
        """So a ring over the nodes crosses the fewest borders there can be."""
        sizes, hints = world
        order = arrange(cards(sizes, hints))
        for depth in (1, 2):
            domains = [place.split("/")[:depth] for place in order.places]
            borders = sum(a != b for a, b in pairwise(domains))
            assert borders == len({tuple(domain) for domain in domains}) - 1

    @given(worlds(), st.randoms())
    @settings(max_examples=60)
    def test_the_order_of_arrival_does_not_matter(
        self, world: tuple[list[int], list[Hint]], rng: random.Random
    ) -> None:
        sizes, hints = world
        found = cards(sizes, hints)
        shuffled = list(found)
        rng.shuffle(shuffled)
        assert arrange(shuffled) == arrange(found)

    @given(worlds())
    @settings(max_examples=60)
    def test_sorting_by_path_groups_domains_as_the_ranks_do(
        self, world: tuple[list[int], list[Hint]]
    ) -> None:
        sizes, hints = world
        by_rank = arrange(cards(sizes, hints))
        mixed = [parse(h.as_json().replace('"uid-1"', f'"uid-{i}"')) for i, h in enumerate(hints)]
        by_path = arrange(cards(sizes, mixed))
        assert [p.rsplit("/", 1)[0] for p in by_path.places] == [
            p.rsplit("/", 1)[0] for p in by_rank.places
        ]

    @given(worlds())
    @settings(max_examples=30)
    def test_cards_and_orders_survive_the_store(self, world: tuple[list[int], list[Hint]]) -> None:
        found = cards(*world)
        assert [decode_card(card.encode()) for card in found] == found
        order = arrange(found)
        assert Order.decode(order.encode()) == order


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"v": 2}', '{"v": 2, "x": 2, "hint": null}'])
def test_a_garbled_card_is_a_rendezvous_error(text: str) -> None:
    with pytest.raises(RendezvousError, match="cannot be read"):
        decode_card(text)


def test_a_card_of_another_version_is_an_error_that_says_so() -> None:
    text = cards([1])[0].encode().replace('"v": 2', '"v": 3')
    with pytest.raises(RendezvousError, match="same muster-train in every pod"):
        decode_card(text)
