"""The training itself, in real process groups: the same result whatever happens on the way."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trainer_worlds import IN_ORDER, INTERLEAVED, Process, environments, run_world

from trainer.checkpoint import complete
from trainer.errors import CheckpointError
from trainer.train_settings import TrainSettings

ROUNDING = 2e-6
SHORT: dict[str, Any] = {"steps": 40, "log_every": 0, "checkpoint_every": 20}


def run(process: Process, changes: dict[str, Any], at_step: Any = None) -> Any:
    """Join the world and train. `at_step` = (rank, step, signal) sends it to one rank."""
    from trainer import loop

    if at_step:
        loop.progress = signalling(process.rank, *at_step)
    ranks = process.join_world()
    report = loop.train(TrainSettings(**(SHORT | changes)), ranks)
    loop.leave()
    return report and json.loads(report.as_json())


def signalling(me: int, rank: int, step: int, number: int) -> Callable[..., Any]:
    """In the place of the progress bar, which every rank calls after each step."""
    from contextlib import nullcontext

    def after(now: int, _loss: float) -> None:
        if (me, now) == (rank, step):
            os.kill(os.getpid(), number)

    return lambda *_args, **_kwargs: nullcontext(after)


def train(folder: Path, world: int, at_step: Any = None, **changes: Any) -> list[Any]:
    return run_world(folder / "store", environments([1] * world), run, changes, at_step)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What 40 steps give, in a world of two."""
    reports = train(tmp_path_factory.mktemp("uninterrupted"), 2)
    assert reports[0] == reports[1]
    return reports[0]


def test_it_learns_in_a_world_of_four_in_topology_order(tmp_path: Path) -> None:
    envs = environments([1] * 4, INTERLEAVED)
    report = run_world(tmp_path, envs, run, {"steps": TrainSettings.steps})[0]
    assert report["accuracy"] >= 0.93
    assert report["rank_order"] == IN_ORDER
    assert (report["world"], report["steps"], report["resumed_from"]) == (4, 150, None)


@pytest.mark.parametrize("world", [1, 4])
def test_the_world_s_size_changes_rounding_only(
    world: int, tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    report = train(tmp_path, world)[0]
    assert report["loss"] == pytest.approx(uninterrupted["loss"], abs=ROUNDING)
    assert report["accuracy"] == uninterrupted["accuracy"]


def test_a_batch_that_the_world_does_not_divide_is_weighted_by_samples(tmp_path: Path) -> None:
    odd = {"global_batch": 50, "steps": 20}
    alone, three = train(tmp_path / "1", 1, **odd)[0], train(tmp_path / "3", 3, **odd)[0]
    assert three["loss"] == pytest.approx(alone["loss"], abs=ROUNDING)


def test_more_ranks_than_samples_in_a_batch_still_train(tmp_path: Path) -> None:
    tiny = {"global_batch": 2, "steps": 5}
    alone, three = train(tmp_path / "1", 1, **tiny)[0], train(tmp_path / "3", 3, **tiny)[0]
    assert three["loss"] == pytest.approx(alone["loss"], abs=ROUNDING)


def test_sigterm_to_one_rank_stops_all_behind_the_same_step(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    saved = tmp_path / "saved"
    stopped = train(tmp_path / "a", 2, (1, 13, signal.SIGTERM), checkpoint_dir=saved)
    assert stopped == [None, None]
    stop = complete(saved)[-1].step
    assert 13 < stop < 40
    resumed = train(tmp_path / "b", 2, checkpoint_dir=saved)[0]
    assert resumed["resumed_from"] == stop
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=1e-9)


def test_an_evicted_rank_whose_peer_is_gone_already_still_counts_as_evicted(
    tmp_path: Path,
) -> None:
    found = run_world(tmp_path, environments([1, 1]), run_until_deserted)
    assert [each.code for each in found] == [-signal.SIGKILL, 143]


def run_until_deserted(process: Process) -> Any:
    return run(process, {}, (process.rank, 7, (signal.SIGKILL, signal.SIGTERM)[process.rank]))


@pytest.mark.parametrize("step", [39, 40])
def test_sigterm_too_late_to_save_a_step_lets_the_run_finish(step: int, tmp_path: Path) -> None:
    reports = train(tmp_path, 2, (0, step, signal.SIGTERM))
    assert [report["steps"] for report in reports] == [40, 40]


@pytest.mark.parametrize("world", [1, 3])
def test_a_run_resumes_in_a_world_of_another_size(
    world: int, tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    train(tmp_path / "a", 2, checkpoint_dir=tmp_path / "saved", steps=20)
    report = train(tmp_path / "b", world, checkpoint_dir=tmp_path / "saved")[0]
    assert (report["resumed_from"], report["steps"]) == (20, 40)
    assert report["loss"] == pytest.approx(uninterrupted["loss"], abs=ROUNDING)


def test_a_damaged_newest_checkpoint_costs_only_itself(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    saved = tmp_path / "saved"
    train(tmp_path / "a", 2, checkpoint_dir=saved)
    newest = complete(saved)[-1]
    assert newest.step == 40
    next(newest.path.glob("*.distcp")).write_bytes(b"")
    report = train(tmp_path / "b", 2, checkpoint_dir=saved)[0]
    assert report["resumed_from"] == 20
    assert report["loss"] == pytest.approx(uninterrupted["loss"], abs=1e-9)
    assert [found.step for found in complete(saved)] == [20, 40]


def test_a_finished_run_that_is_started_again_only_reports(tmp_path: Path) -> None:
    first = train(tmp_path / "a", 1, checkpoint_dir=tmp_path / "saved")[0]
    again = train(tmp_path / "b", 1, checkpoint_dir=tmp_path / "saved")[0]
    assert again == first | {"resumed_from": 40}


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "a", 1, checkpoint_dir=tmp_path / "saved")
    (error,) = train(tmp_path / "b", 1, checkpoint_dir=tmp_path / "saved", seed=1)
    assert isinstance(error, CheckpointError)
    assert "seed=0" in str(error)


def test_a_directory_that_cannot_be_saved_in_is_refused_before_the_first_step(
    tmp_path: Path,
) -> None:
    (tmp_path / "taken").write_text("")
    said = {"checkpoint_dir": tmp_path / "taken", "steps": 5, "checkpoint_every": 0}
    for error in train(tmp_path, 2, **said):
        assert isinstance(error, CheckpointError)
        assert "taken: it is a file; choose a --checkpoint-dir" in str(error)
