"""Node ranks in topology order for scripts that know nothing of it: the launchers agree on them."""

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from trainer_pods import ForkedPod, pods
from trainer_worlds import hint, wait_until

from trainer import listening
from trainer.errors import PreflightError, RendezvousError
from trainer.hints import parse
from trainer.node_order import Decision, PodCard, decide, decode_card
from trainer.ports import any_free, is_free
from trainer.roll_call import GREETING, OFFSET, RollCall, Visit

Start = Callable[..., ForkedPod]


def card(pod: int, size: int, place: int | None, **changes: Any) -> PodCard:
    """A pod's card, whose place in topology order is what its hint says."""
    found = parse(json.dumps(hint(place, f"n{place}", size=size))) if place is not None else None
    said = {"host": f"pod-{pod}", "address": f"10.0.0.{pod}", "port": 29500, "hint": found}
    return PodCard(**{"rank": pod, "size": size, **said, **changes})


# ── the decision ──


@example(list(range(511, -1, -1)))
@given(st.integers(1, 32).flatmap(lambda size: st.permutations(range(size))))
def test_every_pod_gets_the_rank_of_its_hint(places: list[int]) -> None:
    cards = [card(pod, len(places), place) for pod, place in enumerate(places)]
    found = decide(cards, 1)
    assert list(found.ranks) == places
    first = places.index(0)
    assert found.address == (f"10.0.0.{first}" if first else None)
    assert Decision.decode(found.encode()) == found


def test_all_keep_the_controller_s_ranks_where_one_cannot_be_ranked() -> None:
    cards = [card(0, 3, 2), card(1, 3, 1), card(2, 3, 0)]
    for odd, why in (
        (None, r"pods [1] did not say where they are in 7 s"),
        (card(1, 3, None), "1 of 3 pods have no hint: pod-1"),
        (card(1, 3, None, problem="the hint is not JSON"), "pod-1: the hint is not JSON"),
        (card(1, 4, 1), "the ranks do not form one world"),
    ):
        found = decide([cards[0], odd, cards[2]], 7)
        assert found.ranks == (0, 1, 2)
        assert found.address is None
        assert found.warning is not None
        assert why in found.warning


GOOD = card(0, 2, 0).encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "{" * 9000,
        '{"hint": 3}',
        GOOD.replace('"rank": 0', '"rank": 2'),
        GOOD.replace('"rank": 0', '"rank": "0"', 1),
        GOOD.replace('"rank": 0', '"rank": 0.5', 1),
        GOOD.replace('"rank": 0', '"rank": true', 1),
        GOOD.replace('"size": 2', '"size": 2.5', 1),
        GOOD.replace('"pod-0"', "7"),
        GOOD.replace("29500", "70000"),
        GOOD.replace("team/job", ""),
        GOOD.replace('"10.0.0.0"', "10"),
    ],
)
def test_a_card_that_is_none_is_refused(text: str) -> None:
    assert text != GOOD
    with pytest.raises(RendezvousError, match="a pod's card cannot be read"):
        decode_card(text)


# ── the roll-call, in threads ──


class Hall:
    """A first pod's roll-call, and visits of other pods to it."""

    def __init__(self, size: int, place: int, seconds: float = 60.0) -> None:
        self.port, self.size, self.over = any_free(OFFSET), size, False
        self.call = RollCall(self.port + OFFSET, card(0, size, place), seconds, lambda: self.over)

    def visit(self, pod: int, place: int | None, seconds: float = 30.0, **changes: Any) -> Any:
        visit = Visit(lambda _seen: card(pod, self.size, place, **changes), seconds)
        visit.pay("127.0.0.1", self.port)
        return visit.decision


@pytest.fixture
def hall() -> Iterator[Callable[..., Hall]]:
    opened: list[Hall] = []

    def open_one(*args: Any, **options: Any) -> Hall:
        opened.append(Hall(*args, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.call.close()


def test_sixty_four_launchers_leave_with_one_decision(hall: Any) -> None:
    here = hall(64, 63)
    with ThreadPoolExecutor(64) as pool:
        others = [pool.submit(here.visit, pod, 63 - pod) for pod in range(1, 64)]
        found = here.call.decision()
        assert {other.result() for other in others} == {found}
    assert found.ranks == tuple(range(63, -1, -1))
    assert found.address == "10.0.0.63"


def test_a_decision_about_thousands_of_pods_reaches_the_last_of_them(hall: Any) -> None:
    """Each place is as long as labels and a node's name may be together."""
    size, seconds = 3000, 0.0
    here = hall(size, 0, seconds)
    far = f"{'b' * 63}/{'r' * 63}/{'n' * 253}"
    here.call._cards[1:] = [card(pod, size, None, host=far) for pod in range(1, size)]
    found = here.call.decision()
    assert here.visit(size - 1, None, host=far) == found
    assert len(found.encode()) > size * len(far)


def test_a_closed_roll_call_leaves_its_port_at_once() -> None:
    here = Hall(2, 0)
    with socket.create_connection(("127.0.0.1", here.port + OFFSET)) as visitor:
        assert visitor.recv(99).decode() == GREETING.format(size=2)
    here.call.close()
    wait_until(lambda: is_free(here.port + OFFSET), "the port")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", here.port + OFFSET))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_pods_meet_by_either_family(hall: Any, host: str) -> None:
    here = hall(2, 1)
    with ThreadPoolExecutor(1) as pool:
        seen: list[str] = []
        visit = Visit(lambda address: seen.append(address) or card(1, 2, 0), 30)
        visiting = pool.submit(visit.pay, host, here.port)
        assert here.call.decision().ranks == (1, 0)
        visiting.result()
    assert seen == [host]


def test_both_sides_notice_when_the_other_s_node_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither says anything while it waits: of a dead node only the system's probes tell."""
    watched: list[tuple[int, int]] = []

    def note(link: socket.socket) -> None:
        real(link)
        on = link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        watched.append((on, link.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)))

    real = listening.notice_its_end
    monkeypatch.setattr("trainer.roll_call.notice_its_end", note)
    here = Hall(2, 1)
    with ThreadPoolExecutor(1) as pool:
        visitor = pool.submit(here.visit, 1, 0)
        here.call.decision()
        visitor.result()
    here.call.close()
    assert watched == [(1, listening.IDLE)] * 2


def test_who_comes_too_late_is_told_that_all_keep_their_ranks(hall: Any) -> None:
    here = hall(2, 1, seconds=0.0)
    found = here.call.decision()
    assert found.warning == "pods [1] did not say where they are in 0 s"
    assert here.visit(1, 0) == found


def test_a_launcher_restarted_before_the_workers_run_gets_the_same_decision(hall: Any) -> None:
    here = hall(2, 1)
    with ThreadPoolExecutor(1) as pool:
        once = pool.submit(here.visit, 1, 0)
        found = here.call.decision()
        assert once.result() == found
    assert here.visit(1, 0) == found
    assert here.visit(1, 0, port=4711) == found, "another port may be free by now"
    with pytest.raises(PreflightError, match="is that of the last attempt"):
        here.visit(1, 0, seconds=0.3, address="10.9.9.9")


def test_once_the_workers_run_a_newcomer_waits_for_the_next_attempt(hall: Any) -> None:
    here = hall(2, 1, seconds=0.0)
    here.call.decision()
    here.over = True
    with pytest.raises(PreflightError, match="is that of the last attempt"):
        here.visit(1, 0, seconds=0.3)
    with (
        socket.create_server(("127.0.0.1", here.port)),
        pytest.raises(PreflightError, match="is that of the last attempt"),
    ):
        here.visit(1, 0, seconds=0.3)  # torchrun's port is open, in that attempt


def test_strangers_neither_count_nor_hold_anybody_up(hall: Any) -> None:
    here = hall(2, 1)
    where = ("127.0.0.1", here.port + OFFSET)
    with socket.create_connection(where), socket.create_connection(where) as loud:
        loud.sendall(b"GET / HTTP/1.1\n" * 9)
        with ThreadPoolExecutor(1) as pool:
            visitor = pool.submit(here.visit, 1, 0)
            assert here.call.decision().ranks == (1, 0)
            assert visitor.result().ranks == (1, 0)


@pytest.mark.parametrize("words", ["muster 1 job/uid\n", GREETING.format(size=3), "\0" * 9, ""])
def test_another_s_port_is_no_roll_call(words: str) -> None:
    """A neighbour's on the same node, or one of more pods; torchrun's own port decides then."""
    port = any_free(OFFSET)
    with (
        socket.create_server(("127.0.0.1", port)),
        socket.create_server(("127.0.0.1", port + OFFSET)) as neighbour,
    ):
        threading.Thread(target=_greet, args=(neighbour, words), daemon=True).start()
        visit = Visit(lambda _seen: card(1, 2, 0), 30)
        assert visit.pay("127.0.0.1", port).address == "127.0.0.1"
        assert visit.decision is None


def _greet(server: socket.socket, words: str) -> None:
    while True:
        try:
            with server.accept()[0] as visitor:
                visitor.sendall(words.encode())
        except OSError:
            return


# ── real launchers, real torchrun, a script of anybody's ──

SCRIPT = """
import json, os, time, torch, torch.distributed as dist
from pathlib import Path
dist.init_process_group("gloo")
mine = [json.loads(os.environ["MUSTER_HINT"] or "{}").get("rank"), int(os.environ["LOCAL_RANK"])]
seats = [None] * dist.get_world_size()
dist.all_gather_object(seats, mine)
said = {"rank": dist.get_rank(), "seats": seats, "store": os.environ["MASTER_ADDR"]}
print(json.dumps(said) + "\\n", end="", flush=True)
busy = torch.ones(1)
while busy:
    busy = torch.tensor([float(Path("wait").exists())])
    try:
        dist.all_reduce(busy)
    except RuntimeError:
        while Path("wait").exists():
            time.sleep(0.02)
        raise
dist.destroy_process_group()
"""
"""Who sits where: each rank's place by its hint, and its local rank."""


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Callable[..., list[ForkedPod]]]:
    (tmp_path / "script.py").write_text(SCRIPT)
    with pods(tmp_path) as begin:

        def start(
            places: list[int | None], port: int, only: list[int] | None = None, **more: str
        ) -> list[ForkedPod]:
            """Pods with loopback addresses of their own, whose first is at 127.0.0.1."""
            return [
                begin(
                    "launch", "--nproc-per-node", "2", "--", "script.py",
                    NNODES=str(len(places)), NODE_RANK=str(pod), MASTER_PORT=str(port),
                    MUSTER_HINT="" if place is None else json.dumps(hint(place, f"n{place}")),
                    **{"MASTER_ADDR": "127.0.0.1", "PET_LOCAL_ADDR": f"127.0.0.{pod + 1}"} | more,
                )
                for pod, place in enumerate(places)
                if only is None or pod in only
            ]  # fmt: skip

        yield start


def said(found: list[ForkedPod]) -> list[dict[str, Any]]:
    assert [pod.ends() for pod in found] == [0] * len(found), [pod.err for pod in found]
    return [json.loads(line) for pod in found for line in pod.out.splitlines()]


def in_order(*places: int | None) -> list[list[int | None]]:
    return [[place, local] for place in places for local in (0, 1)]


def test_a_foreign_script_has_its_ranks_in_topology_order(gang: Any) -> None:
    """The first place is another pod's than the controller's first: torchrun's store moves."""
    found = gang([2, 1, 0], any_free(OFFSET))
    words = said(found)
    assert {json.loads(line)["rank"] for line in found[0].out.splitlines()} == {4, 5}
    assert all(each["seats"] == in_order(0, 1, 2) for each in words)
    assert {each["store"] for each in words} == {"127.0.0.3"}
    assert "3 nodes in order of hint rank" in found[0].err


def test_the_store_moves_to_a_pod_with_an_ipv6_address(gang: Any) -> None:
    found = gang([1, 0], any_free(OFFSET), MASTER_ADDR="::1", PET_LOCAL_ADDR="::1")
    words = said(found)
    assert all(each["seats"] == in_order(0, 1) for each in words)
    assert {each["store"] for each in words} == {"::1"}


def test_pods_that_moved_get_new_ranks_at_their_restart(gang: Any) -> None:
    port = any_free(OFFSET)
    for places in list(permutations(range(2)))[::-1]:
        words = said(gang(list(places), port))
        assert all(each["seats"] == in_order(0, 1) for each in words)
        assert {each["store"] for each in words} == {f"127.0.0.{places.index(0) + 1}"}


@pytest.mark.parametrize(
    ("places", "more", "why"),
    [
        ([1, None], {}, "1 of 2 pods have no hint"),
        ([None, 0], {}, "the first pod ranks nobody by hints"),
        ([1, 0], {"MUSTER_RANK_ORDER": "launcher"}, "the first pod ranks nobody by hints"),
    ],
    ids=["one without a hint", "the first without a hint", "asked not to"],
)
def test_all_keep_the_controller_s_ranks(
    gang: Any, places: list[int | None], more: dict[str, str], why: str
) -> None:
    found = gang(places, any_free(OFFSET), **more)
    words = said(found)
    assert all(each["seats"] == in_order(*places) for each in words)
    assert {each["store"] for each in words} == {"127.0.0.1"}
    assert why in found[0].err + found[1].err


def test_who_is_late_costs_the_order_and_not_the_run(gang: Any) -> None:
    """Nobody may take the new ranks when somebody does not: it may not be ours at all."""
    port = any_free(OFFSET)
    (first,) = gang([1, 0], port, only=[0], MUSTER_REACH_TIMEOUT="1")
    first.says("node ranks by launcher: pods [1] did not say where they are in 1 s")
    words = said([first, *gang([1, 0], port, only=[1])])
    assert all(each["seats"] == in_order(1, 0) for each in words)


def test_a_first_pod_that_waits_for_the_others_leaves_on_sigterm(gang: Any) -> None:
    port = any_free(OFFSET)
    (first,) = gang([1, 0], port, only=[0])
    wait_until(lambda: not is_free(port + OFFSET), "the roll-call")
    first.send(signal.SIGTERM)
    assert first.ends() == 143, first.err


def test_a_pod_that_restarts_before_the_others_waits_for_them(gang: Any, tmp_path: Path) -> None:
    """Its gang's first pod still runs the last attempt, and must not tell it that one's ranks."""
    (tmp_path / "wait").touch()
    port = any_free(OFFSET)
    first, second = gang([1, 0], port)
    wait_until(lambda: first.out and second.out, "both to be at work")
    second.vanish()
    (again,) = gang([1, 0], port, only=[1])
    again.says("its launcher is that of the last attempt")
    (tmp_path / "wait").unlink()
    assert first.ends() != 0
    words = said([*gang([1, 0], port, only=[0]), again])
    assert all(each["seats"] == in_order(0, 1) for each in words)
