"""Checks before a run: who is missing, who is slow, and what all ranks then say."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainer_worlds import Process, environments, free_port, run_world

from trainer import preflight
from trainer.errors import PreflightError, WorldError
from trainer.facts import Gpu, Machine
from trainer.findings import Card, Findings, judged, table
from trainer.nccl import Decisions
from trainer.pairs import Pair, Verdict, first_rounds, judge, partner, swapped, threshold
from trainer.preflight import pod_as_worker, problems_of
from trainer.settings import PreflightSettings
from trainer.worker import read_worker
from trainer.world import LaunchWorld

QUICK = PreflightSettings(deadline=60, timeout=30, size_mib=1, repeats=1)


def checked(process: Process, settings: PreflightSettings = QUICK, slow: Any = None) -> Any:
    worker = read_worker(process.env)
    exchange = pretended(slow) if slow else None
    machine = Machine(hostname=f"pod-{worker.group_rank}", gpus=process.env.get("GPUS") or ())
    problems = ("its disk is full",) if process.env.get("FULL") else ()
    doubts = ("its /dev/shm is small",) if process.env.get("FULL") else ()
    return preflight.run(worker, settings, machine, problems, doubts, exchange=exchange)


def pretended(slow: dict[str, Any]) -> Callable[[int, int], float]:
    """Gbit/s of a network in which some ranks, or the ways between some, are slow."""

    def exchange(rank: int, other: int) -> float:
        pair = (min(rank, other), max(rank, other))
        is_slow = {rank, other} & set(slow.get("ranks", ())) or pair in slow.get("pairs", ())
        return 1.0 if is_slow else 10.0

    return exchange


def worlds(size: int) -> list[dict[str, str]]:
    port = {"MASTER_PORT": str(free_port())}
    return [env | port for env in environments([1] * size)]


def test_a_good_world_is_measured_and_all_ranks_say_the_same(tmp_path: Path) -> None:
    tolerant = replace(QUICK, min_share=0.0)  # a busy machine is no fault here
    found = run_world(tmp_path, worlds(3), checked, tolerant)
    assert all(replace(each, seconds=0) == replace(found[0], seconds=0) for each in found)
    assert (found[0].ok, found[0].hosts) == (True, ("pod-0", "pod-1", "pod-2"))
    assert found[0].pairs.keys() >= {"0-1", "0-2"}
    assert min(found[0].pairs.values()) > 0
    assert found[0].allreduce_gbps > 0


def test_a_slow_node_is_told_by_swapping_pairs(tmp_path: Path) -> None:
    found = run_world(tmp_path, worlds(4), checked, QUICK, {"ranks": [2]})
    assert {each.slow_hosts for each in found} == {("pod-2 (rank 2)",)}
    assert found[0].slow_links == ()
    assert "pod-2 (rank 2) is slow with two partners" in found[0].problems[0]
    assert not found[3].ok


def test_a_threshold_that_nobody_reaches_and_a_fault_that_one_pod_knows_of(tmp_path: Path) -> None:
    strict = replace(QUICK, min_allreduce_gbps=1e6)
    envs = worlds(2)
    envs[1]["FULL"] = "1"
    found = run_world(tmp_path, envs, checked, strict)
    assert [each.problems for each in found] == [found[0].problems] * 2
    assert found[0].problems[0] == "pod-1 (rank 1): its disk is full"
    assert "all-reduce runs at" in found[0].problems[1]
    assert found[0].warnings == found[1].warnings == ("pod-1: its /dev/shm is small",)


def test_who_does_not_come_is_named_by_all_who_did(tmp_path: Path) -> None:
    envs = worlds(4)
    found = run_world(tmp_path, [envs[0], envs[1], envs[3]], checked, replace(QUICK, deadline=2))
    assert {type(each) for each in found} == {PreflightError}
    assert "1 of 4 ranks did not come within 2 s: [2]" in str(found[0])


def test_a_first_pod_that_is_not_there_is_named_with_port_and_seconds(tmp_path: Path) -> None:
    envs = worlds(2)
    (found,) = run_world(tmp_path, envs[1:], checked, replace(QUICK, deadline=1))
    assert isinstance(found, PreflightError)
    assert f"127.0.0.1:{envs[1]['MASTER_PORT']} within 1." in str(found)


class TestPairs:
    @given(st.integers(1, 65))
    def test_every_rank_is_measured(self, size: int) -> None:
        rounds = first_rounds(size)
        seen = {rank for pairs in rounds for pair in pairs for rank in pair}
        assert seen == (set(range(size)) if size > 1 else set())
        for pairs in rounds:
            ranks = [rank for pair in pairs for rank in pair]
            assert len(ranks) == len(set(ranks)), "nobody is in two pairs at once"

    @given(st.integers(4, 40), st.data())
    def test_bad_nodes_are_found_and_their_partners_are_cleared(
        self, size: int, data: st.DataObject
    ) -> None:
        bad = data.draw(st.sets(st.integers(0, size - 1), max_size=(size - 2) // 4))

        def speed(pair: Pair) -> float:
            return 1.0 if bad & set(pair) else 10.0

        first = {pair: speed(pair) for pairs in first_rounds(size) for pair in pairs}
        second = {pair: speed(pair) for pairs in swapped(first, 5.0) for pair in pairs}
        assert judge(first, second, 5.0) == Verdict(tuple(sorted(bad)), (), 5.0)

    def test_a_slow_way_between_two_good_nodes_is_no_one_s_fault(self) -> None:
        first = {(0, 1): 1.0, (2, 3): 10.0}
        assert swapped(first, 5.0) == [[(0, 2), (1, 3)]]
        second = {(0, 2): 10.0, (1, 3): 10.0}
        assert judge(first, second, 5.0) == Verdict((), ((0, 1),), 5.0)

    def test_a_longer_way_to_the_second_partner_is_not_held_against_a_good_node(self) -> None:
        """Ranks 0 and 1 share a rack, and rank 1 is bad; between racks everybody is slower."""
        first = {(0, 1): 0.1, (2, 3): 10.0}
        second = {(0, 2): 2.0, (1, 3): 0.1}
        assert judge(first, second, 3.0, 0.3) == Verdict((1,), (), 3.0)

    def test_two_bad_nodes_in_one_pair_are_both_found(self) -> None:
        first = {(0, 1): 0.1, (2, 3): 10.0}
        second = {(0, 2): 0.1, (1, 3): 0.2}
        assert judge(first, second, 3.0, 0.3).slow_ranks == (0, 1)

    def test_two_nodes_alone_cannot_be_told_apart(self) -> None:
        assert swapped({(0, 1): 1.0}, 5.0) == []
        assert judge({(0, 1): 1.0}, {}, 5.0) == Verdict((), ((0, 1),), 5.0)

    def test_the_threshold_is_what_is_asked_or_a_share_of_the_usual(self) -> None:
        speeds = {(0, 1): 10.0, (2, 3): 8.0, (4, 5): 1.0}
        assert threshold(speeds, 9.0, 0.5) == 9.0
        assert threshold(speeds, 0.0, 0.5) == 4.0
        assert threshold({(0, 1): 10.0, (2, 3): 1.0}, 0.0, 0.3) == 3.0
        assert threshold({}, 0.0, 0.5) == 0.0

    def test_partners(self) -> None:
        assert [partner(rank, [(0, 1), (2, 5)]) for rank in (0, 1, 5, 3)] == [1, 0, 2, None]


class TestCards:
    def card(self, rank: int, **changes: Any) -> Card:
        fields = {"host": f"pod-{rank}", "node": "n", "clock": 100.0} | changes
        return Card(rank=rank, **fields)

    def found(self, *cards: Card) -> Findings:
        return judged(list(cards), {}, Verdict(), None, QUICK)

    def test_one_gpu_for_two_processes_of_a_machine(self) -> None:
        found = self.found(self.card(0, gpu="GPU-a"), self.card(1, gpu="GPU-a"))
        assert found.problems == (
            "GPU GPU-a is used by ranks [0, 1]; give each process one of its own",
        )

    def test_the_same_address_on_two_machines_is_two_gpus(self) -> None:
        one, two = self.card(0, gpu="0000:01:00.0"), self.card(1, gpu="0000:01:00.0", node="m")
        assert self.found(one, two).ok

    def test_clocks_that_differ_are_a_warning(self) -> None:
        found = self.found(self.card(0), self.card(1, clock=160.0, node="m"))
        assert found.ok
        assert "pod-0 and pod-1 differ by 60.0 s" in found.warnings[0]
        assert self.found(self.card(0), self.card(1, clock=160.0)).warnings == ()

    def test_a_doubt_is_said_once_with_all_pods_that_have_it(self) -> None:
        doubt = {"warnings": ("/dev/shm is small",)}
        found = self.found(self.card(0, **doubt), self.card(1), self.card(2, **doubt))
        assert found.warnings == ("pod-0, pod-2: /dev/shm is small",)
        assert found.ok

    def test_a_rank_s_device_is_the_one_of_its_local_rank(self) -> None:
        worker = replace(read_worker(worlds(1)[0]), local_rank=1, local_world_size=2)
        machine = Machine(gpus=(Gpu(0, uuid="a"), Gpu(1, pci="p")))
        assert preflight._card(worker, machine, ()).gpu == "p"

    def test_what_a_pod_knows_against_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preflight.resource, "getrlimit", lambda _: (65536, 65536))
        assert problems_of(Decisions(errors=["x"])) == ("x",)
        (locked,) = problems_of(Decisions(set={"NCCL_IB_HCA": "=mlx5_0"}))
        assert "limited to 64 KiB" in locked


def test_the_table_has_a_line_for_each_pair_and_says_what_is_wrong() -> None:
    found = Findings(
        2, ("pod-a", "pod-b"), {"0-1": 0.5}, 5.0, allreduce_gbps=0.4, problems=("[it] is slow",)
    )
    text = table(found)
    assert "pod-a – pod-b" in text
    assert "0.500  slow" in text
    assert "problem  [it] is slow" in text
    assert text.endswith("NOT good after 0.0 s\n")
    assert json.loads(found.as_json())["ok"] is False


def test_a_pod_alone_has_no_pairs_and_no_empty_table() -> None:
    assert table(Findings(world_size=1, hosts=("a",), seconds=2.4)) == "good after 2.4 s\n"


def test_pods_without_numbers_are_told_what_to_do() -> None:
    with pytest.raises(WorldError, match="-m trainer preflight"):
        pod_as_worker(LaunchWorld("torchrun", "2:4", rdzv_backend="c10d"))
    assert pod_as_worker(LaunchWorld("plain", "2", 1, None, "h", 5), 7).master_port == 7
