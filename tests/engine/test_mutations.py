"""The random sequences and the cases notice deliberate faults: tests of the tests.

Each fault is one that a scheduler has had in public, or that is easy to make in the bookkeeping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from cases import (
    test_anti_affinity,
    test_backfill,
    test_c01_interleaved,
    test_c04_expiry,
    test_c05_bind_failures,
    test_c06_restarted_member,
    test_c12_restart,
    test_c19_bypassed,
    test_c23_preempt,
    test_c26_missing_labels,
    test_c28_ranks,
    test_c29_rejoin,
    test_c31_what_a_pod_asks,
    test_ending,
    test_nomination_ignored,
)

from scheduler.core import (
    answers,
    backfill,
    booking,
    bottleneck,
    charting,
    effort,
    ending,
    gang,
    life,
    membership,
    planning,
    ranking,
    repulsion,
    rooming,
    roster,
    seating,
    starting,
)
from scheduler.core.capacity import Ledger
from scheduler.core.messages import FilterReply, PreemptReply
from scheduler.core.queue import Queue
from scheduler.core.state import State, Turn

from . import kits, sequences

Patch = pytest.MonkeyPatch
Fault = Callable[[Patch], None]

MOST = 120
"""Sequences that are tried before a fault counts as missed; without it all of them pass."""

FAULTS: dict[str, tuple[Fault, int]] = {}


def fault(start: int = 0) -> Callable[[Fault], Fault]:
    """A deliberate fault that random sequences must notice; ``start`` is the seed to begin with,
    which only saves time."""

    def note(make: Fault) -> Fault:
        FAULTS[make.__name__] = (make, start)
        return make

    return note


@fault(12)
def room_given_back_is_not_noticed(patch: Patch) -> None:
    patch.setattr(State, "gain_on", lambda self, node: None)


@fault(4)
def a_gang_that_was_refused_is_shut_for_good(patch: Patch) -> None:
    patch.setattr(bottleneck, "is_shut", lambda state, asking, found, freed: found)


@fault(12)
def what_comes_free_gives_nobody_a_seat(patch: Patch) -> None:
    patch.setattr(bottleneck, "_seats_on", lambda state, kind, nodes: 0)


@fault()
def a_network_that_changes_stays_as_it_was(patch: Patch) -> None:
    patch.setattr(charting, "_redraw", lambda turn: None)


@fault()
def a_description_of_the_network_that_is_gone_counts_on(patch: Patch) -> None:
    patch.setattr(charting, "chart_gone", lambda turn, key: None)


@fault(17)
def a_gang_stays_at_its_place_in_the_queue(patch: Patch) -> None:
    put = Queue.put

    def stays(self: Queue, waiting: gang.Gang) -> None:
        if waiting.key not in self:
            put(self, waiting)

    patch.setattr(Queue, "put", stays)


@fault(90)
def nobody_keeps_off_pods_that_run(patch: Patch) -> None:
    patch.setattr(repulsion, "_avoided", lambda state, waiting: ())


@fault(101)
def pods_that_run_keep_nobody_off(patch: Patch) -> None:
    patch.setattr(repulsion, "_kept_by_others", lambda state, holders, waiting: ())


@fault()
def a_hold_names_who_keeps_the_room(patch: Patch) -> None:
    def told(state: State, pod: object) -> dict[str, str]:
        kept = {name: next(iter(uids)) for name, uids in state.reserved_on.items()}
        return {name: f"for {state.reservations[uid].gang}" for name, uid in kept.items()}

    patch.setattr(answers, "_tight_nodes", told)


@fault(2)
def a_pod_that_is_gone_keeps_its_room(patch: Patch) -> None:
    pod_gone = roster.pod_gone

    def leaking(turn: Turn, uid: str) -> None:
        pod = turn.state.pods.get(uid)
        pod_gone(turn, uid)
        if pod is not None and pod.holds_node:
            turn.state.ledger.put(uid, pod.node, pod.requests, ())

    patch.setattr(roster, "pod_gone", leaking)


@fault()
def a_pod_that_has_ended_keeps_its_room(patch: Patch) -> None:
    patch.setattr(roster.Pod, "holds_node", property(lambda pod: bool(pod.node)))


@fault(4)
def a_terminating_pod_gives_its_room_back_too_soon(patch: Patch) -> None:
    early = property(lambda pod: bool(pod.node) and not pod.deleting and not pod.phase.terminal)
    patch.setattr(roster.Pod, "holds_node", early)


@fault()
def a_pod_that_moves_is_counted_twice(patch: Patch) -> None:
    drop = Ledger.drop

    def put(self: Ledger, key: str, node: str, resources: object, ports: object) -> None:
        original(self, key, node, resources, ports)  # type: ignore[arg-type]
        for name, amount in resources.items():  # type: ignore[attr-defined]
            self._rooms[node].used[name] += amount

    original = Ledger.put
    patch.setattr(Ledger, "put", put)
    patch.setattr(Ledger, "drop", drop)


@fault(14)
def gated_members_count(patch: Patch) -> None:
    status = roster.status
    for module in (roster, membership):
        patch.setattr(module, "status", lambda pod: status(replace(pod, gates=())))


@fault(6)
def terminating_members_count(patch: Patch) -> None:
    status = roster.status
    for module in (roster, membership):
        patch.setattr(module, "status", lambda pod: status(replace(pod, deleting=False)))


@fault(4)
def reservations_never_run_out(patch: Patch) -> None:
    def expire(turn: Turn, late: gang.Gang) -> None:
        late.deadline = turn.now + 60

    patch.setattr(starting, "expire", expire)


@fault(25)
def a_binding_on_its_way_has_no_room(patch: Patch) -> None:
    def give_back(turn: Turn, reservation: object) -> None:
        if turn.state.ledger.drop(reservation.uid):  # type: ignore[attr-defined]
            turn.state.gains += 1

    patch.setattr(booking, "_give_back", give_back)


@fault(45)
def a_node_in_doubt_takes_new_pods(patch: Patch) -> None:
    patch.setattr(rooming, "_open_rows", lambda _, frame: np.ones(len(frame.names), dtype=np.bool_))


@fault(5)
def the_name_counts_on_delete_and_not_the_uid(patch: Patch) -> None:
    pod_gone, pod_seen = roster.pod_gone, roster.pod_seen
    names: dict[str, tuple[str, str]] = {}

    def seen(turn: Turn, pod: roster.Pod) -> None:
        names[pod.uid] = (pod.namespace, pod.name)
        pod_seen(turn, pod)

    def gone(turn: Turn, uid: str) -> None:
        pod_gone(turn, turn.state.by_name.get(names.get(uid, ("", "")), uid))

    patch.setattr(roster, "pod_seen", seen)
    patch.setattr(roster, "pod_gone", gone)


@fault(17)
def a_node_that_changed_keeps_its_plans(patch: Patch) -> None:
    patch.setattr(life, "_check_nodes", lambda turn: turn.suspect.clear())


@fault()
def a_cordon_is_overlooked(patch: Patch) -> None:
    patch.setattr(Ledger, "_remask", lambda self, node: None)


@fault()
def free_room_is_not_refreshed(patch: Patch) -> None:
    fill = Ledger._fill

    def sometimes(self: Ledger, frame: object, name: str) -> None:
        if len(self.claims(name)) != 2:
            fill(self, frame, name)  # type: ignore[arg-type]

    patch.setattr(Ledger, "_fill", sometimes)


@fault(4)
def half_a_gang_may_start(patch: Patch) -> None:
    def portions(wanting: gang.Gang, waiting: list[roster.Pod]) -> Iterator[list[roster.Pod]]:
        yield waiting
        yield waiting[:1]

    patch.setattr(planning, "_portions", portions)
    patch.setattr(life, "_check_min", lambda turn, started: None)


@fault(12)
def what_no_longer_makes_up_min_is_kept(patch: Patch) -> None:
    patch.setattr(life, "_check_min", lambda turn, started: None)


@fault(8)
def the_required_level_is_ignored(patch: Patch) -> None:
    patch.setattr(planning, "required_level", lambda state, asking: None)


@fault(2)
def every_plan_counts_ranks_from_zero(patch: Patch) -> None:
    patch.setattr(ranking, "ranks", lambda pods, *_: list(range(len(pods))))


@fault(12)
def host_ports_are_ignored(patch: Patch) -> None:
    patch.setattr(Ledger, "without_ports", lambda self, _: np.array(True))


@fault(5)
def no_tick_is_ever_asked_for(patch: Patch) -> None:
    patch.setattr(State, "next_due", lambda self: None)


@fault(6)
def filter_names_a_node_that_was_not_offered(patch: Patch) -> None:
    member = answers._member

    def wrong(turn: Turn, asking: gang.Gang, pod: roster.Pod, names: list[str]) -> FilterReply:
        reply = member(turn, asking, pod, names)
        reserved = turn.state.reservations.get(pod.uid)
        return FilterReply((reserved.node,), {}, {}) if reserved else reply

    patch.setattr(answers, "_member", wrong)


@fault(5)
def a_seat_already_given_is_planned_again(patch: Patch) -> None:
    def waiting_pods(state: State, wanting: gang.Gang) -> list[roster.Pod]:
        pods = [state.pods[uid] for uid in wanting.by_status[gang.Status.WAITING]]
        return ranking.in_order(pods, seating.gang_size(wanting))

    patch.setattr(planning, "waiting_pods", waiting_pods)


def is_noticed(start: int) -> bool:
    """Whether any of the sequences fails, tried from ``start`` on and round again."""
    seeds = [*range(start, MOST), *range(start)]
    runs = ((kits.make(seed), sequences.draw(seed)) for seed in seeds)
    return any(sequences.failure_of(kit, operations) is not None for kit, operations in runs)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noticed(name: str, monkeypatch: Patch) -> None:
    make, start = FAULTS[name]
    make(monkeypatch)

    assert is_noticed(start), f"{MOST} random sequences do not notice that {name}"


Case = Callable[[], None]


def _forget_the_levels(turn: Turn) -> None:
    turn.state.topology_kept = None


BY_CASE: list[tuple[str, Fault, Case]] = [
    (
        "nobody is tried again when the network changes",
        lambda patch: patch.setattr(charting, "_redraw", _forget_the_levels),
        test_c26_missing_labels.test_a_gang_starts_once_somebody_describes_the_network,
    ),
    (
        "a nomination that could not be cleared stays",
        lambda patch: patch.setattr(booking, "not_cleared", lambda turn, uid: None),
        lambda: test_c04_expiry.test_a_nomination_that_could_not_be_taken_away_is_taken_away_later(
            "error"
        ),
    ),
    (
        "a nomination that was not followed is written again and nobody is woken",
        lambda patch: patch.setattr(starting, "wake", lambda turn, pod: None),
        lambda: (
            test_nomination_ignored.test_a_pod_that_was_passed_by_is_woken_with_its_next_nomination(
                "t/a-1"
            )
        ),
    ),
    (
        "room is given away while the gang that had it still ends",
        lambda patch: patch.setattr(ending, "note", lambda turn, uid: None),
        test_ending.test_the_room_of_a_gang_that_ends_is_given_away_as_one,
    ),
    (
        "room that a running pod gives back is not noticed",
        lambda patch: patch.setattr(roster, "_is_less", lambda asked, before: False),
        lambda: test_c31_what_a_pod_asks.test_a_gang_starts_in_the_room_that_a_pod_gives_back(
            "muster"
        ),
    ),
    (
        "partners do not keep off each other",
        lambda patch: patch.setattr(
            repulsion, "_where", lambda state, pod: state.ledger.where(pod.uid) or ""
        ),
        lambda: test_anti_affinity.test_where_one_partner_keeps_off_another_each_has_its_nodes("A"),
    ),
    (
        "a partner that has changed is not noticed",
        lambda patch: patch.setattr(life, "_tell_partners", lambda turn, changed: None),
        test_c01_interleaved.test_a_gang_is_let_go_once_its_partner_is_past_waiting,
    ),
    (
        "nodes are kept for a gang that can never start",
        lambda patch: patch.setattr(backfill, "give_up", lambda turn: None),
        test_backfill.test_a_gang_that_is_changed_so_that_it_never_fits_keeps_nothing_from_others,
    ),
    (
        "a Binding that was given up takes no room from plain pods",
        lambda patch: patch.setattr(booking, "given_up", lambda state: {}),
        test_c19_bypassed.test_a_plain_pod_keeps_off_room_that_a_binding_on_its_way_may_take,
    ),
    (
        "a Binding that was given up leaves its rank to others",
        lambda patch: patch.setattr(booking, "ranks_given_up", lambda state, given: {}),
        test_c28_ranks.test_a_binding_that_was_given_up_keeps_its_rank_until_it_is_known,
    ),
    (
        "the seat of a lost member is not kept",
        lambda patch: patch.setattr(roster, "_lose_seat", lambda turn, pod: None),
        test_c06_restarted_member.test_a_seat_is_kept_for_the_grace_and_no_longer,
    ),
    (
        "every victim may go",
        lambda patch: patch.setattr(
            answers, "on_preempt", lambda turn, call: PreemptReply(call.victims)
        ),
        lambda: test_c23_preempt.test_no_candidate_is_ever_allowed("t/A-0", {"n1": ["t/v"]}),
    ),
    (
        "ranks ignore the index",
        lambda patch: patch.setattr(ranking, "indexes", lambda pods, size: {}),
        lambda: test_c28_ranks.test_index_i_lands_in_rack_i_over_four_whatever_the_order(0),
    ),
    (
        "a replacement forgets where the others live",
        lambda patch: patch.setattr(effort, "home", lambda state, rejoining, frame, ids: None),
        lambda: test_c29_rejoin.test_a_replacement_waits_for_its_own_rack(""),
    ),
    (
        "nominations from before a restart stay",
        lambda patch: patch.setattr(booking, "clear_nomination", lambda turn, ref: None),
        test_c12_restart.test_nominations_left_from_before_are_cleared,
    ),
    (
        "tries without a pause",
        lambda patch: patch.setattr(starting, "doubled", lambda first, times, most: first),
        test_c05_bind_failures.test_the_pause_between_two_tries_doubles_up_to_sixteen_seconds,
    ),
]


@pytest.mark.parametrize(("name", "make", "case"), BY_CASE, ids=[row[0] for row in BY_CASE])
def test_a_case_notices_a_fault(name: str, make: Fault, case: Case, monkeypatch: Patch) -> None:
    case()
    make(monkeypatch)

    with pytest.raises(AssertionError):
        case()
