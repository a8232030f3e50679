"""Ways to go faster or in less memory: what they change, and that it is not the result."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_trainer_training import ROUNDING, run, train
from trainer_worlds import Process, environments, hint, run_world

from trainer import data, model
from trainer.errors import SettingsError
from trainer.hooks import LocalSgd, advice
from trainer.rendezvous import Ranks
from trainer.train_settings import TrainSettings


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
    from trainer import hooks

    found: dict[int, int] = {}

    def counted(network: Any, *_: Any) -> None:
        network.register_comm_hook(None, reduce)

    def reduce(_state, bucket):  # annotated, it would have to be a GradBucket
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        found[micro] = found.get(micro, 0) + 1
        return allreduce_hook(None, bucket)

    hooks.register = counted
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


class TestLocalSgd:
    RACKS = tuple(hint(rank, f"n{rank}", "b0", f"r{rank // 2}") for rank in range(4))
    CHANGES = {"comm_hook": "localsgd", "local_warmup": 10, "local_every": 4}  # noqa: RUF012

    def test_reduces_inside_racks_and_ends_with_one_model(
        self, tmp_path: Path, plain: dict[str, Any]
    ) -> None:
        envs = environments([1] * 4, list(self.RACKS))
        found = run_world(tmp_path, envs, run_and_compare, self.CHANGES)
        assert found[0]["groups"] == found[1]["groups"] == [0, 1]
        assert found[2]["groups"] == found[3]["groups"] == [2, 3]
        apart = [step for step, same in found[0]["same"].items() if not same]
        assert apart == [n for n in range(11, 41) if (n - 10) % 4], "racks differ in between"
        assert found[0]["report"]["accuracy"] > plain["accuracy"] - 0.05
        assert len({json.dumps(each["report"]) for each in found}) == 1

    def test_is_told_of_to_those_whose_ranks_span_racks(self, plain: dict[str, Any]) -> None:
        def ranks(*places: str) -> Ranks:
            return Ranks(0, 4, 0, places, "hint rank", "gloo", (2, 2), 2)

        two = advice(TrainSettings(), ranks("b0/r0/n0", "b0/r1/n1"))
        assert "2 domains (b0/r0, b0/r1)" in two
        assert advice(TrainSettings(), ranks("b0/r0/n0", "b0/r0/n1")) is None
        assert advice(TrainSettings(), ranks("host-a", "host-b")) is None
        assert advice(TrainSettings(comm_hook="bf16"), ranks("r0/n0", "r1/n1")) is None

    def test_a_loss_that_is_not_finite_in_one_rack_skips_the_step_in_all(
        self, tmp_path: Path
    ) -> None:
        envs = environments([1, 1], list(self.RACKS[::2]))
        changes = {**self.CHANGES, "local_warmup": 0, "model": "test_trainer_speed:fragile"}
        found = run_world(tmp_path, envs, run_and_compare, changes)
        assert [each["skipped"] for each in found] == [[8], [8]]
        assert found[0]["report"] == found[1]["report"]
        assert found[0]["report"]["accuracy"] > 0.5

    def test_keeps_its_rhythm_over_a_resume(self, tmp_path: Path) -> None:
        local = LocalSgd.__new__(LocalSgd)
        local.warmup, local.every = 10, 4
        assert [step for step in range(30) if local.due(step)] == [14, 18, 22, 26]


def run_and_compare(process: Process, changes: dict[str, Any]) -> Any:
    """Also the own group's ranks, whether all ranks' weights are equal behind each step, and the
    steps that were skipped.
    """
    import torch.distributed as dist

    from trainer import step as stepping

    same: dict[int, bool] = {}
    groups: list[list[int]] = []
    skipped: list[int] = []
    take = stepping.take

    def taken(job: Any, stop: Any) -> Any:
        outcome = take(job, stop)
        weights = [None] * job.ranks.world_size
        first = next(job.network.parameters())
        dist.all_gather_object(weights, first.detach().clone())
        same[job.step] = all(torch.equal(weights[0], each) for each in weights)
        skipped.extend([job.step] * outcome.skipped)
        groups.append(dist.get_process_group_ranks(job.local.state.subgroup))
        return outcome

    stepping.take = taken
    report = run(process, changes)
    return {"report": report, "same": same, "groups": groups[0], "skipped": skipped}


def fragile() -> torch.nn.Module:
    """Loses its mind at the eighth step of rank 1."""
    import os

    net = torch.nn.Linear(64, 10)
    seen = [0]

    def break_once(_module: torch.nn.Module, x: tuple[torch.Tensor, ...]) -> Any:
        seen[0] += 1
        ill = seen[0] == 8 and os.environ["RANK"] == "1"
        return (x[0] * float("nan"),) if ill else None

    net.register_forward_pre_hook(break_once)
    return net


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

    @pytest.mark.parametrize("name", ["vit", "gpt"])
    def test_a_width_that_heads_cannot_share_is_refused(self, name: str) -> None:
        with pytest.raises(SettingsError, match=r"--hidden 63: .* multiple of 4"):
            model.build(name, 63, 0, 128)

    @pytest.mark.parametrize(
        "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
    )
    def test_a_model_too_large_for_the_memory_is_no_traceback(
        self, error: Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(_width: int) -> torch.nn.Module:
            raise error

        monkeypatch.setattr(model, "_mlp", fails)
        with pytest.raises(SettingsError, match=r"--hidden 64: mlp cannot be made here .*memory"):
            model.build("mlp", 64, 0)

    def test_weights_are_those_of_the_seed(self) -> None:
        one, two = (model.build("vit", 16, 3) for _ in range(2))
        assert all(
            torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True)
        )


def own() -> torch.nn.Module:
    return torch.nn.Linear(64, 10)
