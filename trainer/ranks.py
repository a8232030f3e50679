"""Which rank each process gets: the decision alone, without any communication.

NCCL takes its nodes in order of first appearance by rank, links neighbours of that order in a
ring and builds its trees over the same index; it knows nothing of racks or leaf switches. So
ranks in topology order are what keeps most of the traffic inside a rack: a ring over nodes
sorted by leaf crosses as many leaf borders as there are leaves, and a random one nearly every
time.

Whole nodes are permuted. The processes of one node stay together and in the order of their
local ranks, which are the indexes of their devices.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainer.errors import RendezvousError
from trainer.hints import Hint, parse

CARD_VERSION = 2


@dataclass(frozen=True, slots=True)
class Card:
    """What one process tells the others about itself before ranks are given."""

    rank: int
    """By the launcher."""
    world_size: int
    local_rank: int
    group_rank: int
    host: str
    backend: str
    hint: Hint | None
    problem: str | None = None
    """Why there is no hint although there should be one."""

    def encode(self) -> str:
        fields = asdict(self) | {"v": CARD_VERSION}
        return json.dumps(fields | {"hint": self.hint.as_json() if self.hint else None})


@dataclass(frozen=True, slots=True)
class Node:
    """The processes of one pod, ordered by local rank. Ranks are the launcher's."""

    group_rank: int
    ranks: tuple[int, ...]
    host: str
    hint: Hint | None

    @property
    def place(self) -> str:
        return self.hint.place if self.hint else self.host


@dataclass(frozen=True, slots=True)
class Order:
    """The outcome, the same for every process."""

    ranks: tuple[int, ...]
    """New rank of the process that the launcher gave rank i."""
    places: tuple[str, ...]
    """Where each node lies, in the new order."""
    groups: tuple[int, ...]
    """The launcher's group rank of each node, in the new order."""
    sizes: tuple[int, ...]
    """Processes of each node, in the new order."""
    by: str
    """`hint rank`, `topology path` or `launcher`."""
    warning: str | None = None
    """Why the launcher's order was kept although there were hints, or something like it."""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Order:
        raw = json.loads(text)
        for name in ("ranks", "places", "groups", "sizes"):
            raw[name] = tuple(raw[name])
        return cls(**raw)


def decode_card(text: str) -> Card:
    """Read a card. Raises RendezvousError where another version of the trainer wrote it."""
    try:
        raw: dict[str, Any] = json.loads(text)
        version = raw.pop("v")
        if version != CARD_VERSION:
            raise RendezvousError(
                f"a rank speaks version {version} of the rendezvous and this one {CARD_VERSION}; "
                "run the same muster-train in every pod"
            )
        hint = raw.pop("hint")
        return Card(**raw, hint=parse(hint) if hint else None)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RendezvousError(f"a rank's card cannot be read ({error}): {text[:80]!r}") from error


def arrange(cards: Sequence[Card]) -> Order:
    """Give every process its rank.

    Parameters
    ----------
    cards:
        One of each process, in any order.

    Nodes are sorted by the pods' ranks in the hints, if every node has one, all of one gang and
    none twice; else by topology path, if every node has one over the same levels (missing
    values last, ties in the launcher's order); else they stay in the launcher's order.

    The launcher's order is kept for all, with a warning, when any node's hint is missing or
    cannot be read, or when the launcher's numbers do not describe whole nodes. The same cards
    give the same order, whatever order they come in. O(n log n).

    Raises RendezvousError for cards that cannot form a world: a rank missing or twice,
    different world sizes, or different backends, where going on would hang.
    """
    cards = sorted(cards, key=lambda card: card.rank)
    _check_world(cards)
    nodes = _nodes(cards)
    trouble = _trouble_with_nodes(nodes, cards) or _trouble_with_hints(nodes, cards)
    if trouble is not None:
        return _kept(nodes, len(cards), trouble or None)
    by, key, warning = _choose(nodes)
    if key is None:
        return _kept(nodes, len(cards), warning)
    return _sorted(sorted(nodes, key=key), by, len(cards), warning)


def _check_world(cards: Sequence[Card]) -> None:
    sizes = {card.world_size for card in cards}
    if sizes != {len(cards)} or [card.rank for card in cards] != list(range(len(cards))):
        raise RendezvousError(
            f"the ranks do not form one world: {len(cards)} came, with world sizes "
            f"{sorted(sizes)} and ranks {[card.rank for card in cards][:20]}; "
            "is another job using the same address and port?"
        )
    backends = {card.backend: card for card in reversed(cards)}
    if len(backends) > 1:
        chosen = ", ".join(
            f"{name} (rank {card.rank} on {card.host})" for name, card in sorted(backends.items())
        )
        raise RendezvousError(
            f"the ranks chose different backends: {chosen}; give every pod the same devices, "
            "or pass backend= to init_process_group"
        )


def _nodes(cards: Sequence[Card]) -> list[Node]:
    groups: dict[int, list[Card]] = {}
    for card in cards:
        groups.setdefault(card.group_rank, []).append(card)
    return [
        Node(group, tuple(card.rank for card in members), members[0].host, members[0].hint)
        for group, members in groups.items()
    ]


def _trouble_with_nodes(nodes: Sequence[Node], cards: Sequence[Card]) -> str | None:
    for node in nodes:
        first = node.ranks[0]
        if node.ranks != tuple(range(first, first + len(node.ranks))):
            return f"the processes of node {node.group_rank} do not have consecutive ranks"
        if [cards[rank].local_rank for rank in node.ranks] != list(range(len(node.ranks))):
            return f"the local ranks of node {node.group_rank} are not 0 to {len(node.ranks) - 1}"
        if len({cards[rank].hint for rank in node.ranks}) > 1:
            return f"the processes of node {node.group_rank} have different hints"
    return None


def _trouble_with_hints(nodes: Sequence[Node], cards: Sequence[Card]) -> str | None:
    """What keeps the hints from being used; empty where there simply are none."""
    problems = [
        f"rank {card.rank} on {card.host}: {card.problem}" for card in cards if card.problem
    ]
    if problems:
        return problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")
    without = [node for node in nodes if node.hint is None]
    if len(without) == len(nodes):
        return ""
    if without:
        names = ", ".join(f"{node.host} (rank {node.ranks[0]})" for node in without[:3])
        return f"{len(without)} of {len(nodes)} pods have no hint: {names}"
    return None


Key = Callable[[Node], Any]


def _choose(nodes: Sequence[Node]) -> tuple[str, Key | None, str | None]:
    hints = [node.hint for node in nodes if node.hint]
    trouble = _trouble_with_ranks(hints)
    if trouble is None:
        return "hint rank", _rank_key, None
    if len({hint.levels for hint in hints}) > 1:
        return "launcher", None, f"{trouble}, and their paths are over different levels"
    return "topology path", _path_key, f"{trouble}; sorting by topology path"


def _trouble_with_ranks(hints: Sequence[Hint]) -> str | None:
    gangs = sorted({f"{hint.gang} ({hint.id})" for hint in hints})
    if len(gangs) > 1:
        return f"the pods' hints name {len(gangs)} gangs, {gangs[0]} and {gangs[1]}"
    rank, times = Counter(hint.rank for hint in hints).most_common(1)[0]
    if times > 1:
        return f"{times} pods have rank {rank} in their hints"
    return None


def _rank_key(node: Node) -> int:
    assert node.hint is not None
    return node.hint.rank


def _path_key(node: Node) -> tuple[Any, ...]:
    assert node.hint is not None
    path = tuple((value is None, value or "") for value in node.hint.path)
    return (path, node.hint.node, node.ranks[0])


def _sorted(nodes: Sequence[Node], by: str, size: int, warning: str | None) -> Order:
    new = [0] * size
    for rank, old in enumerate(old for node in nodes for old in node.ranks):
        new[old] = rank
    return _over(nodes, new, by, warning)


def _kept(nodes: Sequence[Node], size: int, warning: str | None) -> Order:
    return _over(nodes, range(size), "launcher", warning)


def _over(nodes: Sequence[Node], new: Sequence[int], by: str, warning: str | None) -> Order:
    return Order(
        ranks=tuple(new),
        places=tuple(node.place for node in nodes),
        groups=tuple(node.group_rank for node in nodes),
        sizes=tuple(len(node.ranks) for node in nodes),
        by=by,
        warning=warning,
    )
