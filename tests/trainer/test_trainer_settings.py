"""Flags over variables over defaults, and errors that name what is wrong."""

from dataclasses import fields
from pathlib import Path

import pytest

from trainer.errors import SettingsError
from trainer.settings import LaunchSettings, help_of
from trainer.train_settings import TrainSettings


def test_a_flag_wins_over_the_variable_and_the_variable_over_the_default() -> None:
    env = {
        "MUSTER_STEPS": "7",
        "MUSTER_LR": "0.5",
        "MUSTER_CHECKPOINT_DIR": "/data",
        "MUSTER_SEED": "",
    }
    chosen = TrainSettings.load(env, {"steps": 9, "lr": None})
    assert (chosen.steps, chosen.lr, chosen.seed) == (9, 0.5, TrainSettings().seed)
    assert chosen.checkpoint_dir == Path("/data")


@pytest.mark.parametrize(("word", "value"), [("1", True), ("true", True), ("off", False)])
def test_switches_are_words(word: str, value: bool) -> None:
    assert LaunchSettings.load({"MUSTER_FAST_SOCKETS": word}, {}).fast_sockets is value


def test_the_hint_itself_is_not_taken_for_a_file_s_name() -> None:
    assert LaunchSettings.load({"MUSTER_HINT": '{"v": 1}'}, {}).hint is None


@pytest.mark.parametrize(
    ("cls", "env", "given", "names"),
    [
        (TrainSettings, {"MUSTER_STEPS": "many"}, {}, "MUSTER_STEPS='many': want a whole number"),
        (TrainSettings, {"MUSTER_LR": "fast"}, {}, "MUSTER_LR='fast': want a number"),
        (TrainSettings, {}, {"global_batch": 0}, "--global-batch .* is 0; want 1 or more"),
        (TrainSettings, {}, {"lr": float("nan")}, "--lr .* is nan"),
        (TrainSettings, {}, {"keep": 0}, "--keep"),
        (TrainSettings, {}, {"hidden": 10**11}, "--hidden .* is 100000000000; want 65536 or less"),
        (TrainSettings, {}, {"seed": 10**22}, "--seed .*; want 1000000000000 or less"),
        (TrainSettings, {}, {"seed": -(10**22)}, "--seed .*; want -1000000000000 or more"),
        (TrainSettings, {}, {"threads": 10**7}, "--threads .*; want 1024 or less"),
        (TrainSettings, {}, {"workers": 10**7}, "--workers .*; want 256 or less"),
        (TrainSettings, {}, {"timeout": 10**15}, "--timeout .*; want"),
        (TrainSettings, {}, {"bucket_mib": float("inf")}, "--bucket-mib .* is inf"),
        (LaunchSettings, {"MUSTER_FAST_SOCKETS": "maybe"}, {}, "want true or false"),
        (LaunchSettings, {}, {"grace": "x"}, "--grace='x'"),
        (LaunchSettings, {}, {"grace": 1}, "--grace"),
    ],
)
def test_an_unusable_value_is_named(cls: type, env: dict, given: dict, names: str) -> None:
    with pytest.raises(SettingsError, match=names):
        cls.load(env, given)


@pytest.mark.parametrize("cls", [LaunchSettings, TrainSettings])
def test_every_field_is_documented(cls: type) -> None:
    for item in fields(cls):
        assert len(help_of(cls, item.name)) > 15
