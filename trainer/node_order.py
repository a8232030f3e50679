"""Which node rank each pod gets where torchrun's rendezvous is static: the decision alone.

With a static rendezvous torchrun takes the node rank that it is told, so ranks can follow the
topology for any script. The node with rank 0 serves torchrun's store; where that is another pod
than the controller's first, all are told its address and a port that is free there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainer.errors import RendezvousError, TrainerError
from trainer.hints import Hint, parse
from trainer.ranks import Card, arrange
from trainer.world import port as checked_port


@dataclass(frozen=True, slots=True)
class PodCard:
    """What one pod's launcher says about itself."""

    rank: int
    """By the controller."""
    size: int
    """Pods."""
    host: str
    address: str
    """By which the others reach it; empty for the controller's first pod, whom all know."""
    port: int
    """Free there for torchrun's store."""
    hint: Hint | None
    problem: str | None = None
    """Why there is no hint although there should be one."""

    def encode(self) -> str:
        return json.dumps(asdict(self) | {"hint": self.hint.as_json() if self.hint else None})

    def is_of(self, other: PodCard) -> bool:
        """Whether one pod brought both; its launcher may have been restarted in between."""
        return replace(self, port=other.port) == other


def decode_card(text: str) -> PodCard:
    """Raises RendezvousError for what is none."""
    try:
        raw: dict[str, Any] = json.loads(text)
        hint = raw.pop("hint")
        card = PodCard(**raw, hint=parse(hint) if hint else None)
        numbers = type(card.rank) is int and type(card.size) is int
        if not numbers or not 0 <= card.rank < card.size:
            raise ValueError(f"rank {card.rank} of {card.size}")
        if not isinstance(card.address, str) or not isinstance(card.host, str):
            raise ValueError("host and address have to be texts")
        checked_port(str(card.port), "port")
    except (ValueError, TypeError, KeyError, AttributeError, TrainerError, RecursionError) as error:
        raise RendezvousError(f"a pod's card cannot be read ({error}): {text[:80]!r}") from error
    return card


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome, the same for every pod."""

    ranks: tuple[int, ...]
    """Node rank of the pod that the controller gave rank i."""
    places: tuple[str, ...]
    """Where each node lies, in the new order."""
    by: str
    """`hint rank`, `topology path` or `launcher`."""
    warning: str | None = None
    address: str | None = None
    """Of the node with rank 0; None where that is the controller's first pod still."""
    port: int | None = None

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Decision:
        """Raises RendezvousError for what is none."""
        try:
            raw = json.loads(text)
            for name in ("ranks", "places"):
                raw[name] = tuple(raw[name])
            return cls(**raw)
        except (ValueError, TypeError, KeyError) as error:
            raise RendezvousError(
                f"the first pod's word on the order cannot be read ({error}): {text[:80]!r}; run "
                "the same muster-train in every pod"
            ) from error


def decide(cards: Sequence[PodCard | None], seconds: float) -> Decision:
    """Give every pod its node rank.

    cards: by the controller's rank; None for a pod that did not come within the seconds.

    All keep the controller's order, with a warning, where `trainer.ranks.arrange` says so or any
    card is missing: torchrun waits for such a pod, and whoever starts it need not be us.
    """
    missing = [rank for rank, card in enumerate(cards) if card is None]
    here = [card for card in cards if card is not None]
    if missing:
        return _kept(cards, f"pods {missing[:20]} did not say where they are in {seconds:g} s")
    try:
        order = arrange([_as_process(card) for card in here])
    except RendezvousError as error:
        return _kept(cards, str(error))
    first = here[order.groups[0]]
    moved = order.groups[0] != 0
    return Decision(
        ranks=order.ranks,
        places=order.places,
        by=order.by,
        warning=order.warning,
        address=first.address if moved else None,
        port=first.port if moved else None,
    )


def _kept(cards: Sequence[PodCard | None], warning: str) -> Decision:
    places = tuple(card.host if card else "?" for card in cards)
    return Decision(tuple(range(len(cards))), places, "launcher", warning)


def _as_process(card: PodCard) -> Card:
    """A pod as a world's process: its one, on a node of its own."""
    return Card(card.rank, card.size, 0, card.rank, card.host, "", card.hint, card.problem)
