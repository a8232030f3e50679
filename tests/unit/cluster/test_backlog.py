"""The order in which effects are sent, and that no node stands in the way of the others."""

from __future__ import annotations

from threading import Event, Thread

from scheduler.cluster.backlog import CROWD, LAST_S, SPARE, Backlog
from scheduler.core.messages import Bind, Cancel, Effect, Wake
from scheduler.model import GangKey, PodRef

WORKERS = 16


def bind(number: int, node: str, gang: str = "g") -> Bind:
    ref = PodRef("t", f"p{number}", f"uid-{number}")
    return Bind(number, ref, node, {}, GangKey("t", gang), "")


def wake(number: int) -> Wake:
    return Wake(number, PodRef("t", f"p{number}", f"uid-{number}"))


def backlog(*effects: Effect, workers: int = WORKERS) -> Backlog:
    made = Backlog(1000, workers)
    for effect in effects:
        assert made.put(effect)
    return made


def taken(made: Backlog, count: int) -> list[int]:
    found = [made.take() for _ in range(count)]
    return [effect.id for effect in found if effect is not None]


def taken_in_time(made: Backlog) -> Effect | None:
    """What a worker gets that is already waiting when it begins to."""
    got: list[Effect | None] = []
    thread = Thread(target=lambda: got.append(made.take()))
    thread.start()
    thread.join(10)
    return got[0] if got else None


def test_order_is_that_of_submission() -> None:
    made = backlog(*(bind(at, f"n{at}") for at in range(WORKERS)))
    assert taken(made, WORKERS) == list(range(WORKERS))


def test_a_node_that_does_not_answer_leaves_workers_for_the_others() -> None:
    slow = [bind(at, "slow") for at in range(30)]
    made = backlog(*slow, bind(100, "a"), bind(101, "b"), wake(102))
    assert taken(made, WORKERS - SPARE) == list(range(WORKERS - SPARE))
    assert taken(made, 3) == [100, 101, 102]


def test_many_nodes_that_do_not_answer_take_one_more_worker_each() -> None:
    slow = [bind(at, "slow") for at in range(30)]
    made = backlog(*slow, bind(100, "a"), bind(101, "a"), bind(102, "b"))
    taken(made, WORKERS - SPARE)
    assert taken(made, 2) == [100, 102]


def test_what_was_passed_over_goes_as_soon_as_its_node_answers() -> None:
    slow = [bind(at, "slow") for at in range(WORKERS - SPARE + 1)]
    made = backlog(*slow)
    taken(made, WORKERS - SPARE)
    got: list[Effect | None] = []
    thread = Thread(target=lambda: got.append(made.take()))
    thread.start()
    for effect in slow[:-1]:
        made.done(effect)
    thread.join(10)
    assert got == [slow[-1]]


def test_few_workers_keep_the_order_strictly() -> None:
    made = backlog(*(bind(at, "n") for at in range(3)), workers=1)
    for number in range(3):
        effect = taken_in_time(made)
        assert effect == bind(number, "n")
        made.done(bind(number, "n"))


def test_cancelled_until_it_is_done() -> None:
    made = backlog(bind(1, "n"))
    assert taken(made, 1) == [1]
    made.put(Cancel(2, 1))
    assert made.is_cancelled(1)
    made.done(bind(1, "n"))
    assert not made.is_cancelled(1)


def test_one_who_waits_for_quiet_takes_no_wake_up_from_a_worker() -> None:
    """Both wait for the same queue; only a worker has any use for a new effect."""
    for _ in range(50):
        made = backlog(bind(1, "n"))
        taken(made, 1)
        quiet, got = Event(), Event()
        threads = [
            Thread(target=lambda made=made, quiet=quiet: (made.wait_idle(10), quiet.set())),
            Thread(target=lambda made=made, got=got: made.take() and got.set()),
        ]
        for thread in threads:
            thread.start()
        made.put(bind(2, "m"))
        assert got.wait(10)
        assert not quiet.is_set()
        made.done(bind(1, "n"))
        made.done(bind(2, "m"))
        assert quiet.wait(10)
        for thread in threads:
            thread.join()


def test_what_nobody_took_is_given_back_on_closing() -> None:
    made = backlog(bind(1, "n"), bind(2, "n"))
    taken(made, 1)
    assert made.close() == [bind(2, "n")]
    assert made.take() is None
    assert not made.put(bind(3, "n"))
    assert made.is_cancelled(1)
    made.done(bind(1, "n"))
    made.done(bind(2, "n"))
    made.wait_idle(0.0)


def test_many_bindings_at_once_are_a_crowd_until_the_last_has_ended() -> None:
    effects = [bind(at, f"n{at}") for at in range(CROWD)]
    made = backlog(*effects[:-1])
    assert not made.crowded()
    made.put(effects[-1])
    assert made.crowded()
    for effect in effects[:-1]:
        made.take()
        made.done(effect)
    assert made.crowded()
    made.take()
    assert made.crowded(), "the last Binding is under way"
    made.done(effects[-1])
    assert not made.crowded()


def test_a_binding_that_hangs_does_not_make_a_crowd_without_end() -> None:
    now = 0.0
    made = Backlog(1000, WORKERS, lambda: now)
    for at in range(CROWD):
        made.put(bind(at, f"n{at}"))
    for at in range(CROWD):
        made.take()
        if at:
            made.done(bind(at, f"n{at}"))
    assert made.crowded()
    now = LAST_S
    assert not made.crowded()
    for at in range(CROWD - 1):
        made.put(bind(100 + at, "n", "another"))
    assert not made.crowded(), "a small gang makes none, whatever still hangs"


def test_gangs_that_come_one_after_the_other_are_no_crowd() -> None:
    made = backlog()
    for number in range(3 * CROWD):
        made.put(bind(number, "n"))
        made.take()
        made.done(bind(number, "n"))
        assert not made.crowded()


def test_many_gangs_at_once_are_no_crowd_unless_one_is_large() -> None:
    made = backlog(*(bind(at, "n", f"g{at % 20}") for at in range(20 * (CROWD - 1))))
    assert not made.crowded()
    made.put(bind(10_000, "n", "g7"))
    assert made.crowded()


def test_many_of_another_sort_are_no_crowd() -> None:
    made = backlog(*(wake(at) for at in range(3 * CROWD)), *(bind(at, "n") for at in range(3)))
    assert not made.crowded()


def test_nothing_is_late_once_the_queue_is_closed() -> None:
    made = backlog(*(bind(at, f"n{at}") for at in range(CROWD)))
    made.close()
    assert not made.crowded()
