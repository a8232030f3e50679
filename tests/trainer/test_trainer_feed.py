"""Data of one's own, through a DataLoader, and the ways a model may be laid out and watched."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_trainer_training import ROUNDING, run, train
from torch import nn
from trainer_worlds import Process, environments, run_world

from trainer import data
from trainer.errors import SettingsError
from trainer.feed import available_cpus, loading
from trainer.rendezvous import Ranks


class Pairs:
    """A map-style dataset."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[number], self.y[number]


def digits() -> tuple[Pairs, Pairs]:
    """The built-in data as if they were somebody's own."""
    split = data.digits(0)
    return Pairs(split.train_x, split.train_y), Pairs(split.held_out_x, split.held_out_y)


def images() -> tuple[Pairs, Pairs]:
    found = digits()
    for each in found:
        each.x = each.x.view(-1, 1, 8, 8)
    return found


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))


def forgetful() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 10), nn.Dropout(0.5))


def nothing() -> tuple[Pairs, Pairs]:
    return Pairs(torch.zeros(0, 64), torch.zeros(0)), Pairs(torch.zeros(0, 64), torch.zeros(0))


OWN = {"data": "test_trainer_feed:digits", "workers": 0}


@pytest.fixture(scope="module")
def built_in(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    report: dict[str, Any] = train(tmp_path_factory.mktemp("built-in"), 2)[0]
    return report


@pytest.mark.parametrize("workers", [0, 2])
def test_data_of_one_s_own_are_learnt_like_the_built_in_ones(
    tmp_path: Path, built_in: dict[str, Any], workers: int
) -> None:
    changes = OWN | {"workers": workers}
    report = run_world(tmp_path / "store", environments([1, 1]), run_as_torchrun_does, changes)[0]
    assert report["loss"] == pytest.approx(built_in["loss"], abs=ROUNDING)
    assert report["accuracy"] == built_in["accuracy"]


def run_as_torchrun_does(process: Process, changes: dict[str, Any]) -> Any:
    """A process of a fork server would have that start the loader's."""
    multiprocessing.set_start_method("fork", force=True)
    return run(process, changes)


def test_a_loader_that_worked_ahead_is_not_where_a_run_resumes(
    tmp_path: Path, built_in: dict[str, Any]
) -> None:
    saved = tmp_path / "saved"
    train(tmp_path / "a", 2, **OWN, checkpoint_dir=saved, steps=20)
    report = train(tmp_path / "b", 3, **OWN, checkpoint_dir=saved)[0]
    assert report["resumed_from"] == 20
    assert report["loss"] == pytest.approx(built_in["loss"], abs=ROUNDING)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"data": "test_trainer_feed:absent"}, "--data test_trainer_feed:absent"),
        ({"data": "test_trainer_feed:convolutions"}, "want two datasets"),
        ({"data": "test_trainer_feed:nothing"}, "the first dataset is empty"),
        ({"data": "test_trainer_feed:digits", "global_batch": 1}, "less than the 2 ranks"),
        (
            {"data": "test_trainer_feed:digits", "global_batch": 10**11},
            "more than the 1438 samples",
        ),
        ({"global_batch": 10**11}, "more than the 1438 samples to train on"),
        ({"cuda_graphs": True}, "--cuda-graphs wants an NVIDIA GPU"),
        ({"memory_snapshot": Path("x")}, "--memory-snapshot wants an NVIDIA GPU"),
    ],
)
def test_what_cannot_be_is_said_by_all(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    found = train(tmp_path, 2, **changes)
    assert {type(each) for each in found} == {SettingsError}
    assert all(says in str(each) for each in found)


def test_images_in_either_layout_are_learnt_alike(tmp_path: Path) -> None:
    own = {
        "data": "test_trainer_feed:images", "workers": 0, "model": "test_trainer_feed:convolutions",
        "micro_batch": 50,
    }  # fmt: skip
    plain, last = (train(tmp_path / str(on), 1, **own, channels_last=on)[0] for on in (False, True))
    assert last["loss"] == pytest.approx(plain["loss"], abs=1e-4)
    assert last["accuracy"] > 0.5


def test_nothing_is_dropped_where_the_held_out_samples_are_judged(tmp_path: Path) -> None:
    changes = {"model": "test_trainer_feed:forgetful", "checkpoint_dir": tmp_path / "saved"}
    first = train(tmp_path / "a", 1, **changes)[0]
    assert train(tmp_path / "b", 1, **changes)[0] == first | {"resumed_from": 40}


class TestLoading:
    @pytest.mark.parametrize(
        ("asked", "cpus", "ranks", "workers"),
        [
            (-1, 64, 8, 7),
            (-1, 256, 8, 8),
            (-1, 8, 8, 0),
            (-1, 4, 1, 3),
            (5, 2, 8, 5),
            (0, 64, 1, 0),
        ],
    )
    def test_takes_a_rank_s_share_of_the_cpus(
        self, asked: int, cpus: int, ranks: int, workers: int
    ) -> None:
        here = Ranks(0, ranks, 0, ("n",), "launcher", "gloo", (ranks,), ranks)
        found = loading(asked, here, gpu=True, cpus=cpus)
        assert found.workers == workers
        assert found.options["pin_memory"] is True
        assert ("prefetch_factor" in found.options) is (workers > 0)

    @given(st.integers(1, 10**7), st.integers(1000, 10**6))
    def test_a_container_s_limit_counts(self, most: int, period: int) -> None:
        import tempfile

        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"{most} {period}\n")
            file.flush()
            assert 1 <= available_cpus(Path(file.name)) <= max(1, most // period)

    def test_without_a_limit_the_affinity_does(self, tmp_path: Path) -> None:
        (tmp_path / "cpu.max").write_text("max 100000\n")
        assert available_cpus(tmp_path / "cpu.max") == available_cpus(tmp_path / "absent") >= 1


def test_a_trace_of_each_rank_has_five_steps(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    run_world(tmp_path / "store", environments([1, 1]), run, {"steps": 25, "profile": folder})
    for rank in (0, 1):
        events = json.loads((folder / f"rank-{rank}.json").read_text())["traceEvents"]
        steps = {event["name"] for event in events if "ProfilerStep" in event.get("name", "")}
        assert len(steps) == 5
        assert any("gloo:all_reduce" in event.get("name", "") for event in events)
