"""Tables that people have posted. They are not part of this repository."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.table import Table
from scheduler.agent.topology_text import parse
from scheduler.core.devices import choose, weight

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "topology"
EXPECTED = FOLDER / "EXPECTED.json"
STATED: Mapping[str, dict[str, Any]] = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}


def read(name: str) -> Table:
    table = parse((FOLDER / name).read_text(encoding="utf-8"))
    assert isinstance(table, Table), table
    return table


def word(stated: str, same_node: bool) -> str:
    if stated == "PCIE":
        return "NODE" if same_node else "SYS"
    return "SYS" if stated == "SOC" else stated


def test_the_tables_are_there() -> None:
    if not EXPECTED.exists():
        pytest.skip("../shared/topology is absent: no real tables were read")
    assert sorted(STATED) == sorted(file.name for file in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", sorted(STATED))
def test_a_real_table(name: str) -> None:
    stated = STATED[name]

    table = read(name)

    links = stated["link"] if "link" in stated else stated["Link Type"]
    assert table.gpus == stated["gpus"]
    assert {f"{a}-{b}": word for (a, b), word in table.words.items()} == {
        pair: word(text, _same_node(stated, pair)) for pair, text in links.items()
    }
    assert _groups(table.numa) == sorted(stated["numa"].values())
    assert [nic.name for nic in table.nics] == stated.get("nics", [])
    assert table.remarks == ()


@pytest.mark.parametrize(
    "name", sorted(name for name, stated in STATED.items() if stated.get("nearest_nic"))
)
def test_the_nearest_cards_of_a_real_table(name: str) -> None:
    columns = _columns(name)
    matrix = read(name).matrix()

    for gpu, near in STATED[name]["nearest_nic"].items():
        ((how, cards),) = near.items()
        found = {nic.name for nic in matrix.nics if int(gpu.removeprefix("GPU")) in nic.near}
        expected = set() if how in ("SYS", "SOC") else {columns[card] for card in cards}
        assert found == expected, gpu


@pytest.mark.parametrize("name", sorted(STATED))
def test_of_a_real_node_the_best_linked_gpus_are_chosen(name: str) -> None:
    matrix = read(name).matrix()
    words = {(link.first, link.second): link.word for link in matrix.links}

    def score(gpus: Sequence[int]) -> int:
        return sum(weight(words.get(pair, "SYS")) for pair in combinations(gpus, 2))

    for count in range(1, matrix.gpus + 1):
        choice = choose(matrix, range(matrix.gpus), count)
        assert choice is not None
        best = max(map(score, combinations(range(matrix.gpus), count)))
        assert (choice.score, score(choice.gpus)) == (best, best)


def _same_node(stated: Mapping[str, Any], pair: str) -> bool:
    one, other = map(int, pair.split("-"))
    return any(one in gpus and other in gpus for gpus in stated["numa"].values())


def _groups(numa: tuple[int | None, ...]) -> list[list[int]]:
    found: dict[int | None, list[int]] = {}
    for gpu, node in enumerate(numa):
        found.setdefault(node, []).append(gpu)
    return sorted(found.values())


def _columns(name: str) -> dict[str, str]:
    """Column -> the card's name; the legend renames NIC0, NIC1, …"""
    names = STATED[name]["nics"]
    numbered = {f"NIC{at}": card for at, card in enumerate(names)}
    return numbered | {card: card for card in names}
