"""Virtual time jumps from action to action, in one order only."""

from __future__ import annotations

import threading

from scheduler.simulation.clock import EventLoop, Pacer
from scheduler.simulation.cluster import LoopTimer


def test_actions_run_in_order_of_time_then_of_planning() -> None:
    loop, ran = EventLoop(), list[object]()
    loop.call_at(2, lambda: ran.append("b"))
    loop.call_at(1, lambda: ran.append("a"))
    loop.call_at(2, lambda: ran.append("c"))
    while loop.run_instant():
        pass
    assert ran == ["a", "b", "c"]
    assert loop.now() == 2


def test_an_instant_includes_what_its_actions_plan_for_it() -> None:
    loop, ran = EventLoop(), list[object]()
    loop.call_at(1, lambda: loop.call_after(0, lambda: ran.append("now")))
    loop.call_at(1.5, lambda: ran.append("later"))
    loop.run_instant()
    assert ran == ["now"]


def test_a_cancelled_action_does_not_run() -> None:
    loop, ran = EventLoop(), list[object]()
    loop.call_at(1, lambda: ran.append("no")).cancel()
    assert loop.run_instant() is False
    assert ran == []


def test_the_past_is_now() -> None:
    loop, ran = EventLoop(), list[object]()
    loop.run_until(10)
    loop.call_at(3, lambda: ran.append(loop.now()))
    loop.run_instant()
    assert ran == [10]


def test_running_until_a_time_ends_there_and_leaves_the_rest() -> None:
    loop, ran = EventLoop(), list[object]()
    loop.call_at(1, lambda: ran.append(1))
    loop.call_at(5, lambda: ran.append(5))
    loop.run_until(3)
    assert (ran, loop.now(), loop.next_time()) == ([1], 3, 5)


def test_what_another_thread_hands_in_runs_before_time_moves() -> None:
    loop, ran = EventLoop(), list[object]()

    def hand_in() -> None:
        thread = threading.Thread(
            target=lambda: loop.call_threadsafe(lambda: ran.append(("thread", loop.now())))
        )
        thread.start()
        thread.join()

    loop.call_at(1, hand_in)
    loop.call_at(2, lambda: ran.append(("next", loop.now())))
    while loop.run_instant():
        pass
    assert ran == [("thread", 1), ("next", 2)]


def test_waiting_for_the_outside_holds_time_and_ends_by_its_deadline() -> None:
    loop, came = EventLoop(), list[str]()
    loop.call_at(1, lambda: came.append("timer"))
    thread = threading.Thread(target=lambda: loop.call_threadsafe(lambda: came.append("outside")))
    thread.start()
    assert loop.wait_until(lambda: "outside" in came, deadline_s=30)
    thread.join()
    assert came == ["outside"]
    assert not loop.wait_until(lambda: False, deadline_s=0.01)


def test_a_pacer_knows_how_far_virtual_time_is_ahead() -> None:
    wall = [100.0]
    pacer = Pacer(10, clock=lambda: wall[0])
    assert pacer.ahead(20) == 2.0
    wall[0] = 105.0
    assert pacer.ahead(20) == -3.0


def test_ticks_come_at_the_virtual_second_that_was_set_last() -> None:
    loop, ticks = EventLoop(), list[float]()
    timer = LoopTimer(loop)
    timer.set(9)
    timer.start(lambda: ticks.append(loop.now()))
    timer.set(5)
    loop.run_until(20)
    timer.set(30)
    timer.set(None)
    loop.run_until(40)
    timer.set(50)
    timer.stop()
    loop.run_until(60)
    assert ticks == [5]


def test_a_tick_that_wants_another_one_gets_it() -> None:
    loop, ticks = EventLoop(), list[float]()
    timer = LoopTimer(loop)

    def tick() -> None:
        ticks.append(loop.now())
        timer.set(loop.now() + 10)

    timer.start(tick)
    timer.set(1)
    loop.run_until(25)
    assert ticks == [1, 11, 21]
