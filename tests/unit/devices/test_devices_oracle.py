"""Choices against the plain definition, with every set and every partition written out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.devices import Link, Matrix, Nic, choose, weight
from scheduler.core.devices_many import grow_best, score
from scheduler.core.devices_subsets import partition_score

Gpus = tuple[int, ...]
WORDS = ["SYS", "NODE", "PIX", "NV1", "NV2"]


@st.composite
def matrices(draw: st.DrawFn, most: int = 7) -> Matrix:
    gpus = draw(st.integers(1, most))
    # Few words, so that ties are common and every criterion gets to decide.
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    links = [
        Link(a, b, word)
        for a, b in combinations(range(gpus), 2)
        if (word := draw(st.sampled_from([*words, None])))
    ]
    numa = draw(st.lists(st.sampled_from([0, 1, None]), min_size=gpus, max_size=gpus))
    near = st.sets(st.integers(0, gpus - 1))
    nics = [Nic(f"n{at}", None, tuple(sorted(draw(near)))) for at in range(draw(st.integers(0, 3)))]
    return Matrix(gpus, tuple(links), tuple(numa), tuple(nics))


def link_score(matrix: Matrix, gpus: Gpus) -> int:
    words = {(link.first, link.second): link.word for link in matrix.links}
    return sum(weight(words.get(pair, "SYS")) for pair in combinations(gpus, 2))


def cuts(gpus: Gpus, size: int) -> Iterator[list[Gpus]]:
    """All partitions into sets of ``size`` and one smaller rest."""
    if len(gpus) < size:
        yield [gpus]
        return
    for rest in combinations(gpus, len(gpus) % size):
        yield from ([rest, *whole] for whole in _whole_cuts(_without(gpus, rest), size))


def _whole_cuts(gpus: Gpus, size: int) -> Iterator[list[Gpus]]:
    if not gpus:
        yield []
        return
    for mates in combinations(gpus[1:], size - 1):
        first = (gpus[0], *mates)
        yield from ([first, *others] for others in _whole_cuts(_without(gpus, first), size))


def _without(gpus: Gpus, taken: Gpus) -> Gpus:
    return tuple(gpu for gpu in gpus if gpu not in taken)


def best_cut(matrix: Matrix, gpus: Gpus, size: int) -> int:
    return max(sum(link_score(matrix, part) for part in cut) for cut in cuts(gpus, size))


def by_definition(matrix: Matrix, free: Gpus, count: int) -> tuple[Gpus, int, int]:
    def order(chosen: Gpus) -> tuple[object, ...]:
        rest = _without(free, chosen)
        nodes = {matrix.numa[gpu] for gpu in chosen}
        return (
            -link_score(matrix, chosen),
            -best_cut(matrix, rest, count),
            -link_score(matrix, rest),
            len(nodes),
            sum(1 for gpu in rest if matrix.numa[gpu] in nodes),
            -sum(1 for nic in matrix.nics if set(nic.near) & set(chosen)),
            chosen,
        )

    best = min(combinations(free, count), key=order)
    return best, link_score(matrix, best), best_cut(matrix, _without(free, best), count)


@settings(max_examples=300)
@given(matrices(), st.data())
def test_the_choice_is_the_best_by_definition(matrix: Matrix, data: st.DataObject) -> None:
    free = data.draw(st.sets(st.integers(0, matrix.gpus - 1), min_size=1))
    count = data.draw(st.integers(1, len(free)))

    choice = choose(matrix, free, count)

    assert choice is not None
    assert (choice.gpus, choice.score, choice.leaves) == by_definition(
        matrix, tuple(sorted(free)), count
    )


@settings(max_examples=20)
@given(matrices(most=9), st.integers(1, 4))
def test_partitions_of_larger_nodes(matrix: Matrix, size: int) -> None:
    everything = tuple(range(matrix.gpus))

    found = partition_score(matrix, (1 << matrix.gpus) - 1, size)

    assert found == best_cut(matrix, everything, size)


@settings(max_examples=100)
@given(matrices(), st.data())
def test_choosing_does_not_depend_on_the_order_of_what_is_free(
    matrix: Matrix, data: st.DataObject
) -> None:
    free = data.draw(st.permutations(range(matrix.gpus)))

    assert choose(matrix, free, 1) == choose(matrix, sorted(free), 1)


@settings(max_examples=100)
@given(matrices(), st.data())
def test_growing_finds_a_set_of_the_right_size_and_score(
    matrix: Matrix, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, matrix.gpus))

    grown = grow_best(matrix, range(matrix.gpus), count)

    assert len(set(grown)) == count
    assert score(matrix, grown) == link_score(matrix, grown)
    assert score(matrix, grown) <= by_definition(matrix, tuple(range(matrix.gpus)), count)[1]


@pytest.mark.parametrize(("size", "ways"), [(2, 15), (3, 10), (4, 15)])
def test_the_oracle_writes_out_all_partitions(size: int, ways: int) -> None:
    found = [sorted(map(sorted, cut)) for cut in cuts(tuple(range(6)), size)]

    assert len({str(cut) for cut in found}) == ways
