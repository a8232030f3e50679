"""Who asks and what they may see is asked of the API server, seldom and within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scheduler.errors import ClusterError
from scheduler.service import access
from scheduler.service.access import EVERYWHERE, Access, Person

ANN, ROOT = Person("ann", "uid-1", ("team-a",)), Person("root")


class Cluster:
    """An API server that knows two tokens, and counts what it is asked."""

    def __init__(self) -> None:
        self.people = {"ann-token": ANN, "root-token": ROOT}
        self.rights = {("ann", "a"), ("root", EVERYWHERE)}
        self.asked: list[tuple[str, str]] = []
        self.away = False

    def who(self, token: str) -> Person | None:
        self._count("who", token)
        return self.people.get(token)

    def may_see(self, person: Person, namespace: str) -> bool:
        self._count(person.name, namespace)
        return (person.name, namespace) in self.rights

    def _count(self, what: str, which: str) -> None:
        self.asked.append((what, which))
        if self.away:
            raise ClusterError("the API server cannot be reached")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def asked(cluster: Cluster, clock: Clock) -> Access:
    return Access(cluster, clock)


def test_one_sees_what_one_may_list_and_an_administrator_everything(asked: Access) -> None:
    ann, root = asked.sight("ann-token"), asked.sight("root-token")

    assert ann is not None
    assert root is not None
    assert (ann.all, ann.sees("a"), ann.sees("b")) == (False, True, False)
    assert (root.all, root.sees("a"), root.sees("never-heard-of")) == (True, True, True)


@pytest.mark.parametrize("token", ["", "nobodys", "x" * (access.TOKEN_BYTES + 1)])
def test_nobodys_token_sees_nothing(asked: Access, token: str) -> None:
    assert asked.sight(token) is None


def test_a_token_that_is_none_is_not_even_asked_about(asked: Access, cluster: Cluster) -> None:
    asked.sight("")
    asked.sight("x" * (access.TOKEN_BYTES + 1))
    assert cluster.asked == []


def test_answers_are_good_for_a_minute_and_then_asked_anew(
    asked: Access, cluster: Cluster, clock: Clock
) -> None:
    for _ in range(5):
        sight = asked.sight("ann-token")
        assert sight is not None
        assert sight.sees("a")
    assert cluster.asked == [("who", "ann-token"), ("ann", EVERYWHERE), ("ann", "a")]

    cluster.rights.clear()
    clock.now = access.REMEMBER_S - 1
    assert sight.sees("a")
    clock.now = access.REMEMBER_S + 1
    assert not sight.sees("a")
    cluster.people.clear()
    assert asked.sight("ann-token") is None


def test_a_token_that_was_nobodys_may_soon_be_somebodys(
    asked: Access, cluster: Cluster, clock: Clock
) -> None:
    assert asked.sight("new") is None
    cluster.people["new"] = ANN
    assert asked.sight("new") is None
    clock.now = access.REFUSED_S + 1
    assert asked.sight("new") is not None


def test_an_api_server_that_does_not_say_is_an_error_and_not_remembered(
    asked: Access, cluster: Cluster
) -> None:
    cluster.away = True
    with pytest.raises(ClusterError):
        asked.sight("ann-token")
    cluster.away = False
    sight = asked.sight("ann-token")
    assert sight is not None
    cluster.away = True
    with pytest.raises(ClusterError):
        sight.sees("a")
    cluster.away = False
    assert sight.sees("a")


def test_no_more_is_remembered_than_there_is_room_for(
    asked: Access, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.rights |= {("ann", f"n{number}") for number in range(10)}
    small = Access(cluster)
    monkeypatch.setattr(small._rights, "_most", 3)
    sight = small.sight("ann-token")
    assert sight is not None
    for number in range(10):
        sight.sees(f"n{number}")
    assert len(small._rights._until) == 3
    cluster.asked.clear()
    sight.sees("n9")
    assert ("ann", "n9") not in cluster.asked
    sight.sees("n0")
    assert ("ann", "n0") in cluster.asked


def test_people_of_one_name_with_other_groups_are_others(asked: Access, cluster: Cluster) -> None:
    cluster.people["other"] = ANN._replace(groups=("team-b",))
    first, second = asked.sight("ann-token"), asked.sight("other")
    assert first is not None
    assert second is not None
    first.sees("a")
    cluster.rights.clear()
    assert first.sees("a")
    assert not second.sees("a")


def test_tokens_of_one_person_with_unlike_scopes_have_rights_of_their_own() -> None:
    class Scoped:
        """Lets a token see what its scopes say, as OpenShift's authorizer does."""

        def who(self, token: str) -> Person:
            return Person("ann", "uid-1", ("team-a",), {"scopes": [token]})

        def may_see(self, person: Person, namespace: str) -> bool:
            del namespace
            return person.extra["scopes"] == ["user:full"]

    asked = Access(Scoped())
    full, narrow = asked.sight("user:full"), asked.sight("user:info")
    assert full is not None
    assert narrow is not None
    assert (full.sees("a"), narrow.sees("a"), full.sees("a")) == (True, False, True)


def test_made_up_tokens_push_out_no_real_ones(asked: Access, cluster: Cluster) -> None:
    asked.sight("ann-token")
    for number in range(access.PEOPLE + 1):
        asked.sight(f"junk-{number}")
    cluster.asked.clear()
    assert asked.sight("ann-token") is not None
    assert cluster.asked == []


@contextmanager
def crowd(asked: Access, line: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As many in a line as may ask at once."""
    monkeypatch.setattr(access, "PATIENCE_S", 0.0)
    turns = getattr(asked, line)._turns
    for _ in range(access.AT_ONCE):
        turns.acquire()
    yield
    for _ in range(access.AT_ONCE):
        turns.release()


def test_too_many_at_once_are_told_to_come_back(
    asked: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        crowd(asked, "_strangers", monkeypatch),
        pytest.raises(access.CrowdedError, match="try again"),
    ):
        asked.sight("ann-token")
    assert asked.sight("ann-token") is not None


def test_a_crowd_of_strangers_is_in_nobodys_way_who_was_known(
    asked: Access, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.sight("ann-token")
    clock.now = access.REMEMBER_S + 1
    with crowd(asked, "_strangers", monkeypatch):
        sight = asked.sight("ann-token")
        assert sight is not None
        assert sight.sees("a")
