"""Ways to go faster or in less memory: what they change, and that it is not the result."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_trainer_training import ROUNDING, run, train
from trainer_worlds import Process, environments, run_world

from trainer import data, model
from trainer.errors import SettingsError


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return train(tmp_path_factory.mktemp("plain"), 2)[0]


@pytest.mark.parametrize("micro", [1, 10])
def test_accumulated_gradients_are_those_of_the_whole_batch(
    tmp_path: Path, plain: dict[str, Any], micro: int
) -> None:
    """Steps of 128 samples, in parts that do and do not divide a rank's 64."""
    steps = {"steps": 6} if micro == 1 else {}
    want = train(tmp_path / "whole", 2, **steps)[0] if steps else plain
    report = train(tmp_path / "parts", 2, micro_batch=micro, **steps)[0]
    assert report["loss"] == pytest.approx(want["loss"], abs=ROUNDING)


def test_gradients_are_reduced_once_a_step_whatever_the_parts(tmp_path: Path) -> None:
    found = run_world(tmp_path, environments([1, 1]), count_reductions, {"steps": 5})
    assert found[0] == {8: 5, 0: 5}


def count_reductions(process: Process, changes: dict[str, Any]) -> dict[int, int]:
    from trainer import job as jobs

    found: dict[int, int] = {}
    wrapped = jobs._wrapped

    def counted(*args: Any) -> Any:
        network = wrapped(*args)
        network.register_comm_hook(None, reduce)
        return network

    def reduce(_state, bucket):  # annotated, it would have to be a GradBucket
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        found[micro] = found.get(micro, 0) + 1
        return allreduce_hook(None, bucket)

    jobs._wrapped = counted
    ranks = process.join_world()
    from trainer import loop
    from trainer.train_settings import TrainSettings

    for micro in (8, 0):
        settings = {"log_every": 0, "checkpoint_every": 0, "micro_batch": micro} | changes
        loop.train(TrainSettings(**settings), ranks)
    loop.leave()
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "bf16"},
        {"comm_hook": "bf16"},
        {"comm_hook": "powersgd"},
        {"clip": 1.0},
        {"deterministic": True, "bucket_mib": 0.001},
    ],
    ids=lambda changes: "-".join(map(str, next(iter(changes.items())))),
)
def test_it_still_learns(tmp_path: Path, plain: dict[str, Any], changes: dict[str, Any]) -> None:
    reports = train(tmp_path, 2, **changes)
    assert reports[0] == reports[1]
    assert reports[0]["accuracy"] > plain["accuracy"] - 0.05


def test_clipping_bounds_the_step(tmp_path: Path, plain: dict[str, Any]) -> None:
    """With next to no gradient allowed, nothing is learnt."""
    assert train(tmp_path, 1, clip=1e-9)[0]["loss"] > 2.2 > plain["loss"]


def test_fp16_goes_on_after_its_scale_was_too_large(tmp_path: Path) -> None:
    report = train(tmp_path, 1, precision="fp16", max_bad_steps=30)[0]
    assert report["accuracy"] > 0.8


class TestModels:
    @pytest.mark.parametrize("name", ["vit", "gpt"])
    def test_it_learns_with(self, tmp_path: Path, name: str) -> None:
        short = {"hidden": 32, "global_batch": 32, "steps": 8, "lr": 0.1}
        (report,) = run_world(tmp_path, environments([1]), run, {"model": name, **short})
        chance = {"vit": 2.4, "gpt": 4.5}[name]
        assert report["loss"] < chance

    def test_text_is_labelled_with_the_character_that_follows(self) -> None:
        split = data.load("gpt", 0)
        assert torch.equal(split.train_x[:, 1:], split.train_y[:, :-1])
        assert split.labels_each == model.CONTEXT
        assert int(split.train_x.max()) < split.symbols

    def test_the_gpt_does_not_see_what_it_is_to_say(self) -> None:
        net = model.build("gpt", 16, 0, 128).eval()
        text = torch.randint(0, 128, (1, model.CONTEXT))
        other = text.clone()
        other[0, 40:] = 0
        with torch.no_grad():
            assert torch.allclose(net(text)[0, :40], net(other)[0, :40], atol=1e-5)

    def test_a_user_s_own_by_module_and_function(self) -> None:
        assert isinstance(model.build("test_trainer_speed:own", 0, 0), torch.nn.Linear)

    @pytest.mark.parametrize("name", ["resnet", "nowhere:f", "test_trainer_speed:absent", ":f"])
    def test_a_name_that_means_nothing_is_refused(self, name: str) -> None:
        with pytest.raises(SettingsError, match="--model"):
            model.build(name, 8, 0)

    def test_weights_are_those_of_the_seed(self) -> None:
        one, two = (model.build("vit", 16, 3) for _ in range(2))
        assert all(
            torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True)
        )


def own() -> torch.nn.Module:
    return torch.nn.Linear(64, 10)
