"""In which order gangs are planned."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.gang import Gang, Life, Reason, Stage
from scheduler.core.queue import Queue, order
from scheduler.model import GangKey, Options


def waiting(
    name: str, *, priority: int = 0, complete: int | None = 1, broken: bool = False
) -> Gang:
    gang = Gang(GangKey("t", name))
    gang.priorities[priority] = 1
    gang.memory.complete = complete
    stage = Stage.BROKEN if broken else Stage.QUEUED
    gang.life = Life(stage, Reason.NONE, "", 1, 1, Options())
    return gang


def test_priority_then_broken_then_completion_then_name() -> None:
    wanted = [
        waiting("urgent", priority=10, complete=9),
        waiting("broken", complete=8, broken=True),
        waiting("first", complete=1),
        waiting("a-twin", complete=2),
        waiting("b-twin", complete=2),
        waiting("incomplete", complete=None),
        waiting("humble", priority=-5, complete=0, broken=True),
    ]

    for mixed in permutations(wanted):
        assert [gang.key.name for gang in order(mixed)] == [gang.key.name for gang in wanted]


def test_a_gang_is_as_urgent_as_its_most_urgent_member() -> None:
    gang = waiting("A", priority=0)
    gang.priorities[7] = 1

    assert order([waiting("B", priority=5), gang])[0] is gang


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.booleans(),
        st.integers(-1, 1),
        st.sampled_from([None, 1, 2]),
        st.booleans(),
    )
)


@given(CHANGES)
def test_a_queue_is_in_order_whoever_comes_goes_and_changes_place(
    changes: list[tuple[str, bool, int, int | None, bool]],
) -> None:
    queue, gangs = Queue(), {}
    for name, stays, priority, complete, broken in changes:
        gang = waiting(name, priority=priority, complete=complete, broken=broken)
        if stays:
            gangs[gang.key] = gang
            queue.put(gang)
        else:
            gangs.pop(gang.key, None)
            queue.drop(gang.key)

        assert list(queue) == [one.key for one in order(gangs.values())]
        assert len(queue) == len(gangs)
        assert all(key in queue for key in gangs)
