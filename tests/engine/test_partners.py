"""What partners that wait cost: each plan of them is one of every one of them."""

from __future__ import annotations

from scheduler import decode
from scheduler.core import engine
from scheduler.core.messages import Event, NodeSeen, PodGone, PodSeen, Synced
from scheduler.settings import Settings
from tests import builders

PREFIX = "gang.scheduling.koordinator.sh/"


def test_partners_for_whom_too_little_is_free_in_all_are_not_planned_again() -> None:
    state = engine.new_state(Settings())

    def tell(event: Event) -> None:
        engine.step(state, event, 0.0)

    def runs(number: int) -> PodSeen:
        pod = builders.pod(f"t/x{number}", gpu=4, node=f"n{number}", scheduler="other")
        return PodSeen(decode.pod(pod))

    tell(Synced())
    for number in range(4):
        tell(NodeSeen(decode.node(builders.node(f"n{number}", gpu=4))))
        tell(runs(number))
    for name in "ABC":
        stated = {"name": name, "min-available": "1", "groups": '["t/A", "t/B", "t/C"]'}
        annotations = {PREFIX + key: value for key, value in stated.items()}
        pod = builders.pod(f"t/{name}-0", gpu=4, annotations=annotations)
        tell(PodSeen(decode.pod(pod)))
    plans = state.plans

    for number in range(2):
        tell(PodGone(runs(number).pod.uid))
    assert state.plans == plans

    tell(PodGone(runs(2).pod.uid))
    assert len(state.reservations) == 3
