"""What only a machine with an NVIDIA GPU can show: `pytest -m gpu`. A world of one suffices."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_trainer_training import run, train
from trainer_worlds import Process, environments, run_world

from trainer.settings import environment

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU here"),
]

GPU = {"deterministic": False, "steps": 60}


def run_and_tell(process: Process, changes: dict[str, Any]) -> Any:
    """The report, the backend, and the variables that the process group was made with."""
    import torch.distributed as dist

    from trainer import loop

    made: list[str] = []
    leave = loop.leave
    loop.leave = lambda: (made.append(dist.get_backend(dist.group.WORLD)), leave())[1]
    report = run(process, changes)
    return report, made, environment().get("RANK")


def test_a_world_of_one_learns_over_nccl(tmp_path: Path) -> None:
    ((report, made, rank),) = run_world(tmp_path, environments([1]), run_and_tell, GPU)
    assert "nccl" in made[0]
    assert rank == "0"
    assert report["accuracy"] > 0.85


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "bf16"},
        {"precision": "fp16", "max_bad_steps": 30},
        {"cuda_graphs": True},
        {"cuda_graphs": True, "precision": "bf16", "micro_batch": 32},
        {"comm_hook": "bf16"},
        {"compile": True},
        {"data": "test_trainer_feed:images", "model": "test_trainer_feed:convolutions",
         "channels_last": True, "workers": 0},
    ],
    ids=str,
)  # fmt: skip
def test_it_learns_there_with(tmp_path: Path, changes: dict[str, Any]) -> None:
    (report,) = train(tmp_path, 1, **GPU | changes)
    assert not isinstance(report, Exception), report
    assert report["accuracy"] > 0.7


def test_graphs_change_rounding_only(tmp_path: Path) -> None:
    plain, graphed = (
        train(tmp_path / str(on), 1, **GPU | {"cuda_graphs": on})[0] for on in (False, True)
    )
    assert graphed["loss"] == pytest.approx(plain["loss"], abs=1e-3)


def test_a_run_resumes_there_with_graphs(tmp_path: Path) -> None:
    changes = GPU | {"cuda_graphs": True, "checkpoint_dir": tmp_path / "saved"}
    train(tmp_path / "a", 1, **changes | {"steps": 40})
    (report,) = train(tmp_path / "b", 1, **changes)
    assert report["resumed_from"] == 40


def test_the_memory_of_a_run_is_on_record(tmp_path: Path) -> None:
    (report,) = train(tmp_path, 1, **GPU | {"memory_snapshot": tmp_path / "memory"})
    assert report["steps"] == 60
    assert (tmp_path / "memory" / "rank-0.pickle").stat().st_size > 1000


def test_a_trace_has_kernels(tmp_path: Path) -> None:
    train(tmp_path, 1, **GPU | {"profile": tmp_path / "traces"})
    events = json.loads((tmp_path / "traces" / "rank-0.json").read_text())["traceEvents"]
    assert any(event.get("cat") == "kernel" for event in events)
