"""C38: the first pod is not there yet, or its name leads elsewhere. Time is the test's own."""

import random
import re
import socket
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainer_worlds import free_port

from trainer.errors import PreflightError
from trainer.reach import LONGEST_PAUSE, Network, is_here, wait_for


@dataclass
class Cluster:
    """A name and a port that come to life at some time, and a clock that sleeping moves."""

    resolves_at: float = 0.0
    opens_at: float = 0.0
    old_until: float = 0.0
    """Up to then the name leads to the first pod's predecessor, where nobody listens."""
    now: float = 0.0
    lookups: list[float] = field(default_factory=list)
    connects: list[str] = field(default_factory=list)

    def resolve(self, host: str, _port: int) -> list[str]:
        self.lookups.append(self.now)
        if self.now < self.resolves_at:
            raise socket.gaierror(-2, "Name or service not known")
        return ["10.0.0.1" if self.now < self.old_until else "10.0.0.2"]

    def connect(self, address: str, _port: int, _seconds: float) -> None:
        self.connects.append(address)
        if address == "10.0.0.1" or self.now < self.opens_at:
            raise ConnectionRefusedError(111, "Connection refused")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def network(self, seed: int = 0) -> Network:
        jitter = random.Random(seed).random
        return Network(self.resolve, self.connect, lambda: self.now, self.sleep, jitter)


def test_a_name_that_comes_late_and_a_port_that_opens_later() -> None:
    found = wait_for("head", 29500, 60, Cluster(resolves_at=8, opens_at=14).network())
    assert found.address == "10.0.0.2"
    assert 14 <= found.seconds <= 14 + 1.5 * LONGEST_PAUSE


def test_a_name_that_never_comes_is_an_error_with_host_port_and_seconds() -> None:
    cluster = Cluster(resolves_at=1e9)
    with pytest.raises(PreflightError, match=r"head:29500 within 5\.0 s .*does not resolve"):
        wait_for("head", 29500, 5, cluster.network())
    assert 5 <= cluster.now <= 7


def test_a_restarted_first_pod_is_found_at_its_new_address() -> None:
    cluster = Cluster(old_until=6)
    found = wait_for("head", 29500, 60, cluster.network())
    assert found.address == "10.0.0.2"
    assert cluster.connects[0] == "10.0.0.1"
    assert found.tries == len(cluster.lookups), "the name is resolved anew for every try"


def test_a_refusal_that_is_cached_for_half_a_minute_is_waited_out() -> None:
    assert wait_for("head", 29500, 60, Cluster(resolves_at=30).network()).seconds >= 30


def test_all_addresses_of_a_name_are_tried() -> None:
    cluster = Cluster()
    both = Network(lambda *_: ["10.0.0.1", "10.0.0.2"], cluster.connect, lambda: 0.0, cluster.sleep)
    assert wait_for("head", 1, 5, both).address == "10.0.0.2"


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_pods_do_not_knock_in_step(one: int, other: int) -> None:
    seen = []
    for seed in (one, other):
        cluster = Cluster(opens_at=20)
        wait_for("head", 1, 60, cluster.network(seed))
        seen.append(cluster.lookups[1:])
    assert (seen[0] == seen[1]) == (one == other)


def test_a_real_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert wait_for("localhost", port, 5).address == "127.0.0.1"
    with pytest.raises(PreflightError, match=re.escape(f"127.0.0.1:{free_port()}"[:10])):
        wait_for("127.0.0.1", free_port(), 0)


def test_own_addresses_are_known() -> None:
    assert is_here("127.0.0.9")
    assert not is_here("192.0.2.254")
    assert not is_here("does-not-resolve.invalid")
