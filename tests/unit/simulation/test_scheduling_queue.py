"""Back-off and wake-up as with SchedulerPopFromBackoffQ=false."""

from __future__ import annotations

from scheduler.simulation.scheduling_queue import FLUSH_S, SchedulingQueue


def test_priority_comes_first_then_age() -> None:
    queue = SchedulingQueue(1, 60)
    queue.add("old", 0, now=0)
    queue.add("young", 0, now=1)
    queue.add("high", 5, now=2)
    order = [queue.pop(3) for _ in range(3)]
    assert [pod.uid for pod in order if pod] == ["high", "old", "young"]
    assert queue.pop(3) is None


def test_back_off_doubles_up_to_the_maximum() -> None:
    queue, now, waits = SchedulingQueue(1, 10), 0.0, []
    queue.add("a", 0, now)
    for _ in range(6):
        pod = queue.pop(now)
        assert pod is not None
        queue.retry(pod, now)
        due = queue.next_time()
        assert due is not None
        waits.append(due - now)
        now = due
    assert waits == [1, 2, 4, 8, 10, 10]


def test_a_parked_pod_waits_for_an_event_and_for_its_back_off() -> None:
    queue = SchedulingQueue(1, 60)
    queue.add("a", 0, now=0)
    pod = queue.pop(0)
    assert pod is not None
    queue.park(pod, 0)
    assert queue.pop(100) is None
    assert queue.next_time() == FLUSH_S
    queue.wake_all()
    assert queue.next_time() == 1


def test_an_event_does_not_cut_a_back_off_short() -> None:
    queue = SchedulingQueue(4, 60)
    queue.add("a", 0, now=0)
    pod = queue.pop(0)
    assert pod is not None
    queue.park(pod, 0)
    queue.wake("a")
    assert queue.pop(3.9) is None
    again = queue.pop(4)
    assert again is not None
    assert again.attempts == 2


def test_an_event_wakes_only_the_pod_it_is_about() -> None:
    queue = SchedulingQueue(1, 60)
    for name in "ab":
        queue.add(name, 0, now=0)
        pod = queue.pop(0)
        assert pod is not None
        queue.park(pod, 0)
    queue.wake("b")
    woken = queue.pop(10)
    assert woken is not None
    assert woken.uid == "b"
    assert queue.pop(10) is None


def test_a_pod_that_left_is_not_tried() -> None:
    queue = SchedulingQueue(1, 60)
    queue.add("a", 0, now=0)
    queue.remove("a")
    assert queue.next_time() is None
    assert len(queue) == 0
