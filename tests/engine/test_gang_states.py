"""The table of a gang's life, row by row."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.gang import (
    Gang,
    Reason,
    Refusal,
    Stage,
    Status,
    status,
)
from scheduler.core.judging import judge
from scheduler.core.terms import Terms, merged
from scheduler.model import GangKey, Group, GroupKey, Options, Phase, Pod

KEY = GangKey("t", "A")
GROUP = GroupKey("PodGroup.scheduling.k8s.io", "t", "A")


def gang(reserved: int = 0, admitted: bool = False, **members: int) -> Gang:
    """A gang with so many members of each status."""
    made = Gang(KEY)
    for name, count in members.items():
        made.by_status[Status(name)] = {f"{name}-{number}": None for number in range(count)}
    made.reserved = {f"waiting-{number}": None for number in range(reserved)}
    made.memory.admitted = admitted
    return made


TABLE = [
    # who is there                                             stage          reason
    (gang(waiting=1), Stage.FORMING, Reason.TOO_FEW),
    (gang(waiting=2, gated=3), Stage.FORMING, Reason.TOO_FEW),
    (gang(waiting=2, leaving=1, failed=1), Stage.FORMING, Reason.TOO_FEW),
    (gang(gated=3), Stage.FORMING, Reason.TOO_FEW),
    (gang(waiting=3), Stage.QUEUED, Reason.NONE),
    (gang(waiting=2, succeeded=1), Stage.QUEUED, Reason.NONE),
    (gang(waiting=3, reserved=3), Stage.STARTING, Reason.NONE),
    (gang(waiting=1, seated=2, reserved=1), Stage.STARTING, Reason.NONE),
    (gang(seated=3), Stage.RUNNING, Reason.NONE),
    (gang(seated=2, succeeded=1), Stage.RUNNING, Reason.NONE),
    (gang(seated=1, succeeded=2), Stage.RUNNING, Reason.NONE),
    (gang(seated=3, waiting=2, reserved=1), Stage.RUNNING, Reason.NONE),
    (gang(seated=2), Stage.BROKEN, Reason.PARTIAL),
    (gang(seated=2, admitted=True), Stage.BROKEN, Reason.PARTIAL),
    (gang(seated=2, leaving=1, admitted=True), Stage.BROKEN, Reason.PARTIAL),
    (gang(seated=1, failed=2, admitted=True), Stage.BROKEN, Reason.PARTIAL),
    (gang(waiting=2, admitted=True), Stage.BROKEN, Reason.PARTIAL),
    (gang(succeeded=3), Stage.DONE, Reason.NONE),
    (gang(succeeded=1, failed=2), Stage.DONE, Reason.NONE),
    (gang(leaving=3), Stage.DONE, Reason.NONE),
    (gang(stale=2), Stage.DONE, Reason.NONE),
    (gang(faulty=1), Stage.INVALID, Reason.FAULT),
    (gang(faulty=1, waiting=3), Stage.QUEUED, Reason.NONE),
    (gang(faulty=1, waiting=2), Stage.FORMING, Reason.TOO_FEW),
]


@pytest.mark.parametrize(
    ("members", "stage", "reason"),
    TABLE,
    ids=[
        ", ".join(f"{len(uids)} {item}" for item, uids in row[0].by_status.items() if uids)
        + (f", {len(row[0].reserved)} reserved" if row[0].reserved else "")
        + (", ran" if row[0].memory.admitted else "")
        for row in TABLE
    ],
)
def test_a_gang_of_three(members: Gang, stage: Stage, reason: Reason) -> None:
    life = judge(members, Terms(None, Options(min_available=3)))

    assert (life.stage, life.reason) == (stage, reason)


def test_a_refusal_is_told_while_the_gang_queues() -> None:
    waiting = gang(waiting=3)
    waiting.memory.refusal = Refusal(Reason.NO_ROOM, "no room: 1 of 3 placeable", 7)

    life = judge(waiting, Terms(None, Options(min_available=3)))

    assert (life.stage, life.reason, life.text) == (
        Stage.QUEUED,
        Reason.NO_ROOM,
        "no room: 1 of 3 placeable",
    )


def test_the_text_says_who_is_missing_and_why() -> None:
    forming = gang(waiting=1, gated=2, leaving=1, failed=1, faulty=1)

    text = judge(forming, Terms(None, Options(min_available=4))).text

    assert text == "1 of 4 pods exist (2 gated, 1 leaving, 1 failed, 1 faulty)"


def test_without_its_group_a_gang_waits_unless_members_already_sit() -> None:
    terms = Terms(GROUP, Options())

    assert judge(gang(waiting=1), terms).reason is Reason.GROUP_MISSING
    assert "t/A" in judge(gang(waiting=1), terms).text
    assert judge(gang(waiting=1, seated=1), terms).stage is Stage.RUNNING


def test_a_group_that_cannot_be_read_makes_the_gang_invalid() -> None:
    terms = Terms(None, Options(), group_fault="spec.minMember: 'x' is not a number")

    life = judge(gang(waiting=3), terms)

    assert (life.stage, life.reason) == (Stage.INVALID, Reason.FAULT)
    assert "spec.minMember" in life.text


@pytest.mark.parametrize(
    ("options", "least"),
    [
        (Options(), 1),
        (Options(size=4), 4),
        (Options(min_available=2, size=4), 2),
        (Options(min_available=2, role_min=(("m", 1), ("w", 3))), 4),
        (Options(min_available=5, role_min=(("m", 1), ("w", 3))), 5),
    ],
)
def test_min_when_more_or_less_is_said(options: Options, least: int) -> None:
    assert Terms(None, options).min == least


def with_roles(**roles: int) -> Gang:
    made = gang(waiting=sum(roles.values()))
    names = [role for role, count in roles.items() for _ in range(count)]
    made.roles = dict(zip(made.by_status[Status.WAITING], names, strict=True))
    return made


@pytest.mark.parametrize(
    ("roles", "stage"),
    [
        ({"m": 1, "w": 4}, Stage.QUEUED),
        ({"w": 5}, Stage.FORMING),
        ({"w": 9}, Stage.FORMING),
        ({"m": 2, "w": 3}, Stage.FORMING),
    ],
)
def test_each_role_needs_its_own_minimum(roles: dict[str, int], stage: Stage) -> None:
    terms = Terms(None, Options(min_available=5, role_min=(("m", 1), ("w", 4))))

    assert judge(with_roles(**roles), terms).stage is stage


def pod(**fields: object) -> Pod:
    return Pod("t", "A-0", "u", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("member", "counts_as"),
    [
        (pod(), Status.WAITING),
        (pod(gates=("quota",)), Status.GATED),
        (pod(fault="bad"), Status.FAULTY),
        (pod(node="n1"), Status.SEATED),
        (pod(node="n1", fault="bad"), Status.SEATED),
        (pod(node="n1", phase=Phase.RUNNING), Status.SEATED),
        (pod(node="n1", phase=Phase.UNKNOWN), Status.SEATED),
        (pod(node="n1", phase=Phase.RUNNING, deleting=True), Status.LEAVING),
        (pod(deleting=True), Status.LEAVING),
        (pod(node="n1", phase=Phase.SUCCEEDED), Status.SUCCEEDED),
        (pod(node="n1", phase=Phase.SUCCEEDED, deleting=True), Status.SUCCEEDED),
        (pod(node="n1", phase=Phase.FAILED), Status.FAILED),
        (pod(phase=Phase.FAILED, deleting=True), Status.FAILED),
    ],
)
def test_what_a_member_counts_as(member: Pod, counts_as: Status) -> None:
    assert status(member) is counts_as


def declared(*options: Options) -> Gang:
    made = Gang(KEY)
    made.declared = Counter(options)
    return made


def test_where_members_differ_the_largest_number_wins() -> None:
    said = declared(Options(min_available=2, size=3), Options(min_available=4))

    assert merged(said, None) == Options(min_available=4, size=3)


def test_members_win_over_their_group_which_fills_in_the_rest() -> None:
    said = declared(Options(required="rack"))
    group = Group(GROUP, "u", Options(min_available=4, required="block", timeout=30.0))

    assert merged(said, group) == Options(min_available=4, required="rack", timeout=30.0)


OPTIONS = st.builds(
    Options,
    min_available=st.none() | st.integers(1, 9),
    size=st.none() | st.integers(1, 9),
    required=st.sampled_from(["", "rack", "block"]),
    timeout=st.none() | st.sampled_from([5.0, 60.0]),
)


@given(st.lists(OPTIONS, min_size=1, max_size=5), st.randoms())
def test_what_members_say_together_does_not_depend_on_their_order(
    said: list[Options], chance: object
) -> None:
    shuffled = sorted(said, key=lambda _: chance.random())  # type: ignore[attr-defined]

    assert merged(declared(*said), None) == merged(declared(*shuffled), None)


@given(
    st.dictionaries(st.sampled_from(list(Status)), st.integers(0, 3)),
    st.integers(1, 4),
    st.booleans(),
)
def test_only_a_gang_with_min_members_held_runs(
    members: dict[Status, int], least: int, admitted: bool
) -> None:
    made = gang(admitted=admitted, **{item.value: count for item, count in members.items()})

    life = judge(made, Terms(None, Options(min_available=least)))

    if life.stage is Stage.RUNNING:
        assert made.held >= least
    if life.stage is Stage.QUEUED:
        assert made.held + made.count(Status.WAITING) >= least
    if life.stage is not Stage.DONE and made.held >= least:
        assert life.stage is Stage.RUNNING
    assert len(life.text) < 1000
