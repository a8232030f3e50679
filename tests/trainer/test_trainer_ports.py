"""C35: gangs that share their nodes' network do not meet on one port."""

import json
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainer_worlds import hint

from trainer.errors import RendezvousError
from trainer.nccl import Devices
from trainer.plan import plan
from trainer.ports import FIRST, LAST, Beacon, candidates, find, is_free
from trainer.settings import LaunchSettings

VOLCANO = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "127.0.0.1"}


@given(st.text(min_size=1, max_size=60))
def test_a_gang_s_row_of_ports_is_its_own_and_always_the_same(gang: str) -> None:
    row = candidates(gang)
    assert row == candidates(gang)
    assert len(set(row)) == len(row)
    assert all(FIRST <= port <= LAST and port % 2 == 0 for port in row)


def test_gangs_rarely_share_their_first_port() -> None:
    firsts = [candidates(f"team/job-{number}/uid")[0] for number in range(100)]
    assert len(set(firsts)) >= 97


@pytest.fixture
def beacons() -> Iterator[list[Beacon]]:
    lit: list[Beacon] = []
    yield lit
    for beacon in lit:
        beacon.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_all_pods_of_a_gang_agree(beacons: list[Beacon], host: str) -> None:
    beacons.append(Beacon("team/a/1"))
    assert {find("team/a/1", host, 5) for _ in range(3)} == {beacons[0].store_port}


@pytest.mark.parametrize("listens", ["127.0.0.1", "", "::1"])
def test_a_port_that_is_taken_on_any_interface_is_passed_over_by_all(
    beacons: list[Beacon], listens: str
) -> None:
    family = socket.AF_INET6 if ":" in listens else socket.AF_INET
    gang = f"team/taken/{listens}"
    with socket.create_server((listens, candidates(gang)[0]), family=family):
        beacons.append(Beacon(gang))
        assert beacons[0].store_port == candidates(gang)[1]
        assert find(gang, "127.0.0.1", 5) == candidates(gang)[1]
    assert is_free(candidates(gang)[0])


def test_another_gang_on_the_same_port_is_not_taken_for_ours(beacons: list[Beacon]) -> None:
    ours = "team/mine/1"
    with socket.create_server(("", candidates(ours)[0] + 1)) as stranger:
        stranger.settimeout(5)
        beacons.append(Beacon(ours))
        assert beacons[0].store_port == candidates(ours)[1]


def test_a_first_pod_that_never_comes_is_an_error_with_host_ports_and_seconds() -> None:
    with pytest.raises(
        RendezvousError, match=r"gang g answered on no port of 127\.0\.0\.1 within 0"
    ):
        find("g", "127.0.0.1", 0, sleep=lambda _: None)


class TestWhenItIsDone:
    def gang(self, host: str, env: dict[str, str] | None = None, **settings: object) -> str | None:
        found = {**VOLCANO, "MUSTER_HINT": json.dumps(hint(1, "n1"))} | (env or {})
        return plan(LaunchSettings(**settings), found, Devices(0), host).gang

    def test_a_pod_called_like_its_node_has_the_node_s_network(self) -> None:
        assert self.gang("n1") == self.gang("n1.example") == "team/job/uid-1"
        assert self.gang("pod-1") is None
        assert self.gang("pod-1", host_network=True) == "team/job/uid-1"

    @pytest.mark.parametrize(
        "env",
        [{"MASTER_PORT": "1234"}, {"PET_MASTER_PORT": "1234"}, {"NNODES": "1", "NODE_RANK": "0"},
         {"MUSTER_HINT": ""}],
        ids=["a port is said", "to torchrun", "one pod", "no hint"],
    )  # fmt: skip
    def test_not_where_nobody_could_disagree(self, env: dict[str, str]) -> None:
        assert self.gang("n1", env) is None

    def test_a_pod_with_its_own_network_takes_torchrun_s_port(self) -> None:
        chosen = plan(LaunchSettings(), VOLCANO, Devices(0), "pod-1")
        assert chosen.variables["PET_MASTER_PORT"] == "29500"
