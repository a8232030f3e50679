"""Real process groups: ranks in topology order, one warning where that cannot be, no hang."""

import logging
import os
from pathlib import Path

import pytest
from trainer_worlds import (
    IN_ORDER,
    INTERLEAVED,
    Process,
    environments,
    free_port,
    hint,
    run_world,
)

from trainer import rendezvous
from trainer.errors import RendezvousError
from trainer.ranks import Card, Order


def meet(process: Process, backend: str | None = None, timeout: float = 60.0) -> dict:
    """Join, and find out by a collective who really sits on each rank."""
    import torch
    import torch.distributed as dist

    logging.getLogger("muster").setLevel(logging.WARNING)
    warnings = Collected()
    logging.getLogger("muster").addHandler(warnings)
    ranks = process.join_world(timeout, backend)
    seats = [torch.zeros(1, dtype=torch.long) for _ in range(ranks.world_size)]
    dist.all_gather(seats, torch.tensor([int(process.env["RANK"])]))
    return {
        "rank": ranks.rank,
        "seats": [int(seat) for seat in seats],
        "places": list(ranks.places),
        "by": ranks.by,
        "env": {name: os.environ.get(name) for name in ("RANK", "GROUP_RANK", "LOCAL_RANK")},
        "warnings": warnings.texts,
    }


class Collected(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.mark.parametrize(("size", "said"), [(1, "1 rank in order"), (4, "4 ranks in order")])
def test_how_many_met_is_said_in_words(
    size: int, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = Collected()
    monkeypatch.setattr(rendezvous.log, "handlers", [told])
    caplog.set_level(logging.INFO, logger=rendezvous.log.name)
    order = Order((0,), ("n0",), (0,), (1,), "launcher")
    rendezvous._announce(order, Card(0, size, 0, 0, "n0", "gloo", None))
    assert told.texts == [f"{said} of launcher: n0"]


def test_ranks_follow_the_hints(tmp_path: Path) -> None:
    found = run_world(tmp_path, environments([1, 1, 1, 1], INTERLEAVED), meet)
    assert [each["rank"] for each in found] == [0, 2, 1, 3]
    assert all(each["seats"] == [0, 2, 1, 3] for each in found)
    assert all(each["places"] == IN_ORDER for each in found)
    assert [each["env"]["RANK"] for each in found] == ["0", "2", "1", "3"]
    assert [each["warnings"] for each in found] == [[], [], [], []]


def test_pods_of_unequal_size_move_as_a_whole(tmp_path: Path) -> None:
    envs = environments([1, 2], [hint(1, "n0"), hint(0, "n1")])
    found = run_world(tmp_path, envs, meet)
    assert [each["rank"] for each in found] == [2, 0, 1]
    assert [each["env"] for each in found] == [
        {"RANK": "2", "GROUP_RANK": "1", "LOCAL_RANK": "0"},
        {"RANK": "0", "GROUP_RANK": "0", "LOCAL_RANK": "0"},
        {"RANK": "1", "GROUP_RANK": "0", "LOCAL_RANK": "1"},
    ]


def test_one_pod_without_a_hint_keeps_all_in_the_launcher_s_order(tmp_path: Path) -> None:
    hints = [hint(2, "n0"), None, hint(0, "n2")]
    found = run_world(tmp_path, environments([1, 1, 1], hints), meet)
    assert [each["rank"] for each in found] == [0, 1, 2]
    assert {each["by"] for each in found} == {"launcher"}
    texts = [text for each in found for text in each["warnings"]]
    assert len(texts) == 1
    assert "1 of 3 pods have no hint" in texts[0]


def test_an_unreadable_hint_does_the_same_and_is_explained(tmp_path: Path) -> None:
    envs = environments([1, 1], [hint(1, "n0"), hint(0, "n1")])
    envs[1]["MUSTER_HINT"] = '{"v": 9}'
    found = run_world(tmp_path, envs, meet)
    assert [each["rank"] for each in found] == [0, 1]
    texts = [text for each in found for text in each["warnings"]]
    assert len(texts) == 1
    assert "version 9" in texts[0]


def test_a_rank_that_does_not_come_is_named_by_all_who_did(tmp_path: Path) -> None:
    envs = environments([1, 1, 1])
    found = run_world(tmp_path, [envs[0], envs[2]], meet, None, 1.0)
    assert all(isinstance(each, RendezvousError) for each in found)
    assert {str(each) for each in found} == {
        "1 of 3 ranks did not come within 1 s: [1]; look at the logs of their pods"
    }


def mixed(process: Process) -> dict:
    return meet(process, "gloo" if process.rank else "cpu:gloo,cuda:nccl")


def test_different_backends_fail_for_all_instead_of_hanging(tmp_path: Path) -> None:
    found = run_world(tmp_path, environments([1, 1]), mixed)
    assert all(isinstance(each, RendezvousError) for each in found)
    assert "rank 1 on" in str(found[0])
    assert str(found[0]) == str(found[1])


def test_a_process_that_nothing_launched_is_a_world_of_its_own(tmp_path: Path) -> None:
    (alone,) = run_world(tmp_path, [{"WORLD_SIZE": "1"}], alone_with_hint)
    assert alone == (0, 1, ("b9/r9/n9",))


def alone_with_hint(process: Process) -> tuple:
    import json

    process.env["MUSTER_HINT"] = json.dumps(hint(5, "n9", "b9", "r9"))
    ranks = process.join_world()
    return ranks.rank, ranks.world_size, ranks.places


def test_a_store_that_nobody_serves_is_an_error_with_the_address(tmp_path: Path) -> None:
    envs = environments([1, 1])[1:]
    (found,) = run_world(tmp_path, envs, join_over_tcp)
    assert isinstance(found, RendezvousError)
    assert "127.0.0.1:1 (MASTER_ADDR, MASTER_PORT)" in str(found)


def test_the_process_that_serves_the_store_stays_until_the_others_know(tmp_path: Path) -> None:
    """Without an agent's store it is rank 0's: its end would cut the others off."""
    port = {"MASTER_PORT": str(free_port())}
    envs = [env | port for env in environments([1, 1, 1, 1]) if env["RANK"] != "2"]
    found = run_world(tmp_path, envs, join_over_tcp)
    assert {str(each).split(";")[0] for each in found} == {
        "1 of 4 ranks did not come within 1 s: [2]"
    }


def test_over_the_launcher_s_address_ranks_follow_the_hints_too(tmp_path: Path) -> None:
    port = {"MASTER_PORT": str(free_port())}
    envs = [env | port for env in environments([1, 1], [hint(1, "n0"), hint(0, "n1")])]
    assert run_world(tmp_path, envs, join_over_tcp, 60.0) == [1, 0]


def join_over_tcp(process: Process, timeout: float = 1.0) -> int:
    from datetime import timedelta

    from trainer.loop import leave
    from trainer.rendezvous import init_process_group

    env = {"MASTER_PORT": "1"} | process.env
    rank = init_process_group(timeout=timedelta(seconds=timeout), env=env).rank
    leave()
    return rank
