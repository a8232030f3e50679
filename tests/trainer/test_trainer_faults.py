"""C40 and its kind: ranks that are killed, stopped or stuck, and checkpoints that cannot be."""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from test_trainer_training import ROUNDING, run, train
from trainer_worlds import Process, environments, run_world

from trainer.checkpoint import complete
from trainer.errors import CheckpointError, DivergedError, PeerError, StorageError
from trainer.flight import in_words, is_of_a_peer

STEPS, EVERY = 72, 5
BUSY = {"steps": STEPS, "checkpoint_every": EVERY}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """72 steps that nothing disturbs, in a world of two."""
    return train(tmp_path_factory.mktemp("whole"), 2, steps=STEPS)[0]


# ── killed while saving ──


def run_to_its_death(process: Process, changes: dict[str, Any], kill: tuple[int, int, int]) -> Any:
    """Train; in the second save, one rank is killed at the given of its operations on files."""
    rank, moment, first = kill
    if process.rank == rank:
        die_in_save(first + 2 * EVERY, moment)
    return run(process, changes)


def die_in_save(step: int, moment: int) -> None:
    """SIGKILL ourselves at an operation (a flush, or whatever Python audits) on a file of a
    checkpoint. Where there are fewer, at the last one: it moves the pointer to the newest.
    """
    operations, flush, name = 0, os.fsync, f"step-{step:08d}"

    def count(event: str, where: str) -> None:
        nonlocal operations
        operations += name in where
        if event == "os.kill":
            return
        if operations > moment or (event == "os.rename" and "LATEST" in where and operations):
            os.kill(os.getpid(), signal.SIGKILL)

    def fsync(descriptor: int) -> None:
        count("os.fsync", name if operations else "")
        flush(descriptor)

    os.fsync = fsync
    sys.addaudithook(lambda event, args: count(event, str(args[0])) if args else None)


KILLS = [(0, 0), (1, 0), (0, 1), (0, 3), (0, 5), (1, 1), (0, 7), (0, 9), (0, 12), (0, 99)]
"""Which rank, and at which of its operations on files."""


def test_killed_in_the_midst_of_saving_ten_times_the_run_ends_as_if_undisturbed(
    tmp_path: Path, whole: dict[str, Any]
) -> None:
    saved = tmp_path / "saved"
    changes = {**BUSY, "checkpoint_dir": saved}
    first = 0
    for attempt, (rank, moment) in enumerate(KILLS):
        folder, kill = tmp_path / f"run-{attempt}", (rank, moment, first)
        outcome = run_world(folder, environments([1, 1]), run_to_its_death, changes, kill)
        assert getattr(outcome[rank], "code", outcome[rank]) == -signal.SIGKILL
        assert isinstance(outcome[1 - rank], Exception | SystemExit)
        assert complete(saved)[-1].step >= first + EVERY, "what was saved before is kept"
        first = complete(saved)[-1].step
    report = train(tmp_path / "last", 2, **changes)[0]
    assert report["resumed_from"] == first
    assert report["loss"] == pytest.approx(whole["loss"], abs=1e-6)
    assert report["accuracy"] == whole["accuracy"]
    assert not list(saved.glob("*.tmp"))


# ── killed, stopped, stuck ──


def test_four_stop_behind_one_step_when_one_is_asked_to(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    changes = {"checkpoint_dir": saved, "checkpoint_every": 0}
    assert train(tmp_path, 4, (2, 11, signal.SIGTERM), **changes) == [None] * 4
    (stopped,) = complete(saved)
    assert 11 < stopped.step < 40


def test_the_others_end_when_one_is_killed_and_say_where_they_were(tmp_path: Path) -> None:
    changes = {"flight_dir": tmp_path / "flight"}
    found = run_world(
        tmp_path, environments([1] * 3), run_recorded, changes, (1, 9, signal.SIGKILL)
    )
    assert found[1].code == -signal.SIGKILL
    for rank in (0, 2):
        assert isinstance(found[rank], PeerError)
        assert f"rank {rank}: step 10 could not end" in str(found[rank])
        dump = json.loads((tmp_path / f"flight/muster-flight-rank-{rank}.json").read_text())
        assert dump["rank"] == rank
        assert len(dump["entries"]) > 1


def run_recorded(process: Process, changes: dict[str, Any], at_step: Any = None) -> Any:
    os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
    return run(process, changes, at_step)


def test_a_rank_that_hangs_is_an_error_after_the_timeout(tmp_path: Path) -> None:
    """The first step may take the longer time in which all start."""
    changes = {"timeout": 2, "init_timeout": 60, "flight_dir": tmp_path / "flight"}
    found = run_world(tmp_path, environments([1, 1]), run_and_hang, changes)
    assert isinstance(found[0], PeerError)
    assert "last collective: gloo:" in str(found[0])


def run_and_hang(process: Process, changes: dict[str, Any]) -> Any:
    """Rank 1 stops taking part after step 5, and is let go when the other has given up."""
    if process.rank == 0:
        try:
            return run_recorded(process, changes)
        finally:
            (process.folder / "gave-up").touch()
    from trainer import loop

    loop.progress = after_step(5, lambda: wait_for(process.folder / "gave-up"))
    return run(process, changes)


def after_step(step: int, act: Callable[[], None]) -> Callable[..., Any]:
    def after(now: int, _loss: float) -> None:
        if now == step:
            act()

    return lambda *_args, **_kwargs: nullcontext(after)


def wait_for(path: Path) -> None:
    from trainer_worlds import wait_until

    wait_until(path.exists, str(path))


@pytest.mark.parametrize(
    ("error", "peer"),
    [
        ("[/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.3]:9", True),
        ("Application timeout caused pair closure", True),
        ("Timed out waiting 2000ms for recv operation to complete", True),
        ("mat1 and mat2 shapes cannot be multiplied (64x64 and 32x10)", False),
        ("element 0 of tensors does not require grad", False),
    ],
)
def test_what_the_model_does_wrong_is_not_blamed_on_another_rank(error: str, peer: bool) -> None:
    assert is_of_a_peer(RuntimeError(error)) is peer


def test_a_model_that_does_not_fit_the_data_says_so(tmp_path: Path) -> None:
    found = train(tmp_path, 2, model="test_trainer_faults:narrow")
    assert {type(each) for each in found} == {RuntimeError}
    assert all("shapes cannot be multiplied" in str(each) for each in found)


def narrow() -> Any:
    from torch import nn

    return nn.Linear(32, 10)


def test_a_collective_is_named_in_words() -> None:
    entry = {"profiling_name": "gloo:all_reduce", "collective_seq_id": 7, "state": "started"}
    assert in_words(entry) == "gloo:all_reduce number 7, started"
    assert in_words({}) == "a collective number ?, state unknown"


# ── other worlds ──


def test_worlds_of_four_then_two_then_three_end_as_one_that_never_changed(
    tmp_path: Path, whole: dict[str, Any]
) -> None:
    """1437 samples and a batch of 128: the changes fall into the midst of an epoch."""
    saved = tmp_path / "saved"
    for number, (world, steps) in enumerate([(4, 17), (2, 35), (3, STEPS)]):
        report = train(tmp_path / str(number), world, steps=steps, checkpoint_dir=saved)[0]
        assert report["world"] == world
    assert report["resumed_from"] == 35
    assert report["loss"] == pytest.approx(whole["loss"], abs=ROUNDING)
    assert report["accuracy"] == whole["accuracy"]


# ── checkpoints that cannot be written ──


def test_a_leftover_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    for name in ("step-00000020.tmp", "step-00000020"):
        (saved / name).mkdir(parents=True)
        (saved / name / "__0_0.distcp").write_bytes(b"half")
    train(tmp_path, 2, checkpoint_dir=saved)
    assert [found.step for found in complete(saved)] == [20, 40]
    assert not list(saved.glob("*.tmp"))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_disk_without_room_is_the_same_error_on_all_ranks(tmp_path: Path, rank: int) -> None:
    changes = {"checkpoint_dir": tmp_path / "saved"}
    found = run_world(tmp_path, environments([1, 1]), run_without_room, changes, rank)
    assert {type(each) for each in found} == {StorageError}
    assert str(found[0]) == str(found[1])
    assert "File too large" in str(found[0])
    assert complete(tmp_path / "saved") == []


def run_without_room(process: Process, changes: dict[str, Any], rank: int) -> Any:
    """One rank may write no file of more than a kilobyte."""
    ranks_limit = 1024 if process.rank == rank else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_FSIZE, (ranks_limit, resource.RLIM_INFINITY))
    return run(process, changes)


def test_a_directory_that_cannot_be_written_is_the_same_error_on_all_ranks(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    found = train(tmp_path, 3, checkpoint_dir=tmp_path / "file" / "saved")
    assert {type(each) for each in found} == {CheckpointError}
    assert len({str(each) for each in found}) == 1
    assert "Not a directory" in str(found[0])


def test_saving_in_the_background_keeps_the_same_checkpoints(
    tmp_path: Path, whole: dict[str, Any]
) -> None:
    saved = tmp_path / "saved"
    changes = {**BUSY, "checkpoint_dir": saved, "async_save": True}
    train(tmp_path / "a", 2, **{**changes, "steps": 30})
    assert [found.step for found in complete(saved)] == [20, 25, 30]
    report = train(tmp_path / "b", 3, **changes)[0]
    assert report["resumed_from"] == 30
    assert report["loss"] == pytest.approx(whole["loss"], abs=ROUNDING)


def test_saving_in_the_background_without_room_is_the_same_error_on_all_ranks(
    tmp_path: Path,
) -> None:
    changes = {"checkpoint_dir": tmp_path / "saved", "async_save": True}
    found = run_world(tmp_path, environments([1, 1]), run_out_of_room, changes, 1)
    assert {type(each) for each in found} == {StorageError}
    assert str(found[0]) == str(found[1])
    assert [each.step for each in complete(tmp_path / "saved")] == [20]


def run_out_of_room(process: Process, changes: dict[str, Any], rank: int) -> Any:
    """The disk is full from step 30 on."""
    from trainer import loop

    if process.rank == rank:
        limit = (1024, resource.RLIM_INFINITY)
        loop.progress = after_step(30, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    return run(process, changes)


# ── losses that are not finite ──


def run_poisoned(process: Process, changes: dict[str, Any], samples: int) -> Any:
    """The first samples of the data are not numbers; every rank has the same data."""
    from trainer import data

    clean = data.digits

    def poisoned(seed: int) -> data.Split:
        split = clean(seed)
        split.train_x[:samples] = float("nan")
        return split

    data.digits = poisoned
    return run(process, changes)


def test_a_poisoned_sample_costs_the_steps_that_meet_it_and_not_the_model(tmp_path: Path) -> None:
    found = run_world(tmp_path, environments([1, 1]), run_poisoned, {"steps": 60}, 1)
    assert found[0] == found[1]
    assert found[0]["accuracy"] > 0.9
    assert found[0]["steps"] == 60


def test_nothing_but_poison_ends_the_run_for_all(tmp_path: Path) -> None:
    changes = {"max_bad_steps": 3}
    found = run_world(tmp_path, environments([1, 1]), run_poisoned, changes, 1437)
    assert {type(each) for each in found} == {DivergedError}
    assert "4 steps in a row, up to step 4" in str(found[0])
