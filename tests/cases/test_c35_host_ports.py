"""C35: two pods with the same host port cannot share a node, also inside one gang."""

from __future__ import annotations

from typing import Any

import pytest

from .story import GPU, Story


def listening(port: int, protocol: str = "TCP", ip: str = "", gpu: int = 2) -> dict[str, Any]:
    amounts = {GPU: str(gpu)}
    socket = {"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": ip}
    return {
        "containers": [
            {"name": "c", "ports": [socket], "resources": {"requests": amounts, "limits": amounts}}
        ]
    }


def two_nodes() -> Story:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    return story


def test_members_with_one_port_go_to_one_node_each() -> None:
    story = two_nodes()

    story.gang("A", 2, spec=listening(23456))

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n2"}


def test_one_node_is_not_enough_for_two() -> None:
    story = Story()
    story.node("n1", gpu=8)

    story.gang("A", 2, spec=listening(23456))

    assert story.placed == {}


@pytest.mark.parametrize("port", [23456, 23456 + 256])
def test_a_second_gang_starts_unless_the_very_port_is_taken(port: int) -> None:
    story = two_nodes()
    story.gang("A", 2, spec=listening(23456))

    story.gang("B", 2, spec=listening(port))

    assert ("t/B-0" in story.bound) == (port != 23456)
    for key in ("t/A-0", "t/A-1"):
        story.delete(key)
    assert {"t/B-0", "t/B-1"} <= set(story.bound)


@pytest.mark.parametrize(
    ("other", "clash"),
    [
        (listening(80), True),
        (listening(80, ip="0.0.0.0"), True),
        (listening(80, ip="10.0.0.1"), True),
        (listening(80, "UDP"), False),
        (listening(81), False),
    ],
    ids=["same", "every address", "one address", "protocol", "port"],
)
def test_which_sockets_clash(other: dict[str, Any], clash: bool) -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.gang("A", 1, spec=listening(80))

    story.gang("B", 1, spec=other)

    assert ("t/B-0" not in story.placed) == clash


def test_a_reserved_port_is_as_good_as_taken() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=8)
    story.gang("A", 1, spec=listening(80))

    story.gang("B", 1, spec=listening(80))

    assert story.placed == {"t/A-0": "n1"}


def test_priorities_256_apart_are_not_the_same() -> None:
    story = Story()
    story.gang("A", 1, of=8, priority=0)
    story.gang("B", 1, of=8, priority=256)

    story.node("n1", gpu=8)

    assert story.placed == {"t/B-0": "n1"}


def test_unlike_members_with_one_port_are_kept_apart_where_there_is_room() -> None:
    story = two_nodes()
    story.pod("t/A-0", gang="A", min=2, spec=listening(23456, gpu=2))
    story.pod("t/A-1", gang="A", min=2, spec=listening(23456, gpu=4))

    assert sorted(story.bound.values()) == ["n1", "n2"]
