"""Who leads is read off the Lease that the kube-schedulers compete for, and never guessed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cluster import leases
from cluster.fake_apiserver import FakeApi, until
from cluster.leases import LEASES, ONE
from scheduler.cluster import Transport, lease
from scheduler.cluster.leadership import Leadership
from scheduler.errors import SettingsError


class Told:
    """A replica that writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.hindrance = ""
        self.willing = True

    def lead(self) -> bool:
        self.said += ["lead"] if self.willing else []
        return self.willing

    def stand_by(self) -> None:
        self.said.append("stand by")

    def hindered(self, reason: str) -> None:
        self.hindrance = reason


class Clocks:
    """Monotonic and wall seconds, which a test moves apart from the real ones."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def mono(self) -> float:
        return time.monotonic() + self.ahead

    def wall(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def leadership(
    api: FakeApi, transport: Transport, told: Told, clocks: Clocks
) -> Iterator[Leadership]:
    leases.serve(api)
    made = Leadership(
        transport, lease.lease_name(leases.NAME), "muster-a", clocks.mono, clocks.wall
    )
    made.start(told)
    yield made
    made.stop(5.0)


def test_it_leads_while_the_scheduler_of_its_own_pod_does(
    api: FakeApi, leadership: Leadership, told: Told
) -> None:
    assert not leadership.holds()
    leases.put(api, "muster-b_7")
    until(lambda: leadership.holder == "muster-b_7")
    assert not leadership.holds()

    leases.put(api, "muster-a_1", 2)
    until(lambda: told.said == ["lead"])
    assert leadership.holds()

    leases.put(api, "muster-b_7", 3)
    until(lambda: told.said == ["lead", "stand by"])
    assert not leadership.holds()


@pytest.mark.parametrize("holder", ["muster-ab_1", "muster", "", "x-muster-a_1"])
def test_a_name_that_only_looks_alike_is_another(
    api: FakeApi, leadership: Leadership, told: Told, holder: str
) -> None:
    leases.put(api, holder)
    api.wait_for_watch(LEASES)
    leases.put(api, holder)
    until(lambda: leadership.holder == holder)
    assert not leadership.holds()
    assert told.said == []


def test_two_thirds_of_the_lease_after_the_last_renewal_nothing_may_be_sent_any_more(
    api: FakeApi, leadership: Leadership, told: Told, clocks: Clocks
) -> None:
    leases.put(api, "muster-a_1")
    until(lambda: told.said == ["lead"])

    clocks.ahead = 9.0
    assert leadership.holds()
    clocks.ahead = 10.5
    # At once, before anything was read: what asks is what sends.
    assert not leadership.holds()
    until(lambda: told.said == ["lead", "stand by"])


def test_a_lease_from_a_clock_that_was_ahead_ends_however_often_it_is_read(
    api: FakeApi, leadership: Leadership, told: Told, clocks: Clocks
) -> None:
    leases.put(api, "muster-a_1", ago_s=-3600.0)
    until(lambda: told.said == ["lead"])

    api.wait_for_watch(LEASES)
    clocks.ahead = 10.5
    for _ in range(2):
        seen = api.collections[LEASES].watches
        api.cut(LEASES)
        api.wait_for_watch(LEASES, seen + 1)
    until(lambda: told.said == ["lead", "stand by"])
    assert not leadership.holds()

    leases.put(api, "muster-a_1", ago_s=-3600.0)
    until(lambda: told.said == ["lead", "stand by", "lead"])


@pytest.mark.parametrize(
    ("holder", "identity", "own"),
    [
        ("a_1", "a", True),
        ("a_b_1", "a_b", True),
        ("a", "a", True),
        ("a_b_1", "a", False),
        ("_1", "", False),
        ("", "", False),
    ],
)
def test_a_holder_is_a_host_and_what_follows_the_last_underscore(
    holder: str, identity: str, own: bool
) -> None:
    found = lease.read(b'{"spec":{"holderIdentity":"%s"}}' % holder.encode())
    assert found.held_by(identity) is own


def test_a_renewal_that_arrives_late_does_not_count_from_its_arrival(
    api: FakeApi, leadership: Leadership, told: Told
) -> None:
    leases.put(api, "muster-a_1", ago_s=11.0)
    until(lambda: leadership.holder == "muster-a_1")
    assert not leadership.holds()
    assert told.said == []


def test_another_term_of_the_same_holder_is_a_new_beginning(
    api: FakeApi, leadership: Leadership, told: Told
) -> None:
    leases.put(api, "muster-a_1", 1)
    until(lambda: told.said == ["lead"])
    leases.put(api, "muster-a_1", 1)
    leases.put(api, "muster-a_1", 3)
    until(lambda: told.said == ["lead", "stand by", "lead"])


def test_it_waits_with_a_new_term_until_the_replica_is_done_with_the_old_one(
    api: FakeApi, leadership: Leadership, told: Told
) -> None:
    told.willing = False
    leases.put(api, "muster-a_1")
    until(lambda: leadership.holds())
    leases.put(api, "muster-a_1")
    api.wait_for_watch(LEASES)
    assert told.said == []
    told.willing = True
    leases.put(api, "muster-a_1")
    until(lambda: told.said == ["lead"])


def test_a_lease_that_may_not_be_read_is_said_with_what_to_do(
    api: FakeApi, leadership: Leadership, told: Told
) -> None:
    until(lambda: told.hindrance == "")
    api.fail("GET", ONE, 403, times=1000)
    api.cut(LEASES)
    until(lambda: "403" in told.hindrance)
    assert "needs get and watch" in told.hindrance
    assert "nobody knows who leads" in told.hindrance
    api.heal()
    leases.put(api, "muster-a_1")
    until(lambda: told.said == ["lead"])
    assert told.hindrance == ""


def test_a_deleted_lease_is_nobodys(api: FakeApi, leadership: Leadership, told: Told) -> None:
    leases.put(api, "muster-a_1")
    until(lambda: told.said == ["lead"])
    api.delete(LEASES, "kube-system", "muster-kube-scheduler")
    until(lambda: told.said == ["lead", "stand by"])


@pytest.mark.parametrize("text", ["x", "/x", "a/", "a/b/c", ""])
def test_a_lease_has_a_namespace_and_a_name(text: str) -> None:
    with pytest.raises(SettingsError, match="NAMESPACE/NAME"):
        lease.lease_name(text)
