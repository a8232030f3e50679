"""No number that somebody writes is a traceback: each is bounded, and refused by its name."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from launch_environments import CASES, HOST

from trainer import cli, command_line, harms, launch, numbers, plan
from trainer.errors import SettingsError, TrainerError, WorldError
from trainer.launchers import read_launch
from trainer.nccl import Devices
from trainer.settings import LaunchSettings, PreflightSettings, Settings, variable
from trainer.train_settings import TrainSettings
from trainer.worker import read_worker

HOSTILE = [
    "9" * 5000, "-" + "9" * 5000, "-1", "4.0", "1e400", "nan", "inf", "0x10", "1_000", "٣", "²",
    "3 4", "3;rm", "\0", "three", "9" * 16,
]  # fmt: skip
"""Long, negative, broken, endless, of another script, of another notation."""

IDS = [f"{len(text)}:{text[:6]!a}" for text in HOSTILE]

PETS = {
    "PET_NNODES": "4", "PET_NODE_RANK": "3", "PET_MASTER_PORT": "29500", "PET_MAX_RESTARTS": "1",
    "PET_MONITOR_INTERVAL": "0.1", "PET_SHUTDOWN_TIMEOUT": "25", "PET_NPROC_PER_NODE": "2",
    "PET_LOCAL_RANKS_FILTER": "0,1", "PET_TEE": "0:3,1:2", "PET_REDIRECTS": "3",
    "PET_STANDALONE": "0", "PET_MODULE": "0", "PET_NO_PYTHON": "0", "PET_RUN_PATH": "1",
    "PET_VIRTUAL_LOCAL_RANK": "0", "PET_MASTER_ADDR": "first",
}  # fmt: skip
WORKER = {
    "RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
    "MASTER_ADDR": "first", "MASTER_PORT": "29500",
}  # fmt: skip
NOT_DECIMAL = {"PET_MONITOR_INTERVAL"}
"""Which may have a fraction."""
EMPTY = {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_LOCAL_RANKS_FILTER"}
"""Which may be empty: then they count as not said."""


def numeric(env: dict[str, str]) -> list[str]:
    return [name for name, value in env.items() if value.replace(":", "").isdecimal()]


def refusal(read: Any, *args: Any) -> str:
    """What is said, in a message for people; "" where nothing is refused."""
    words = ""
    try:
        read(*args)
    except TrainerError as error:
        words = str(error)
    assert len(words) < 1000
    return words


CASE_NUMBERS = [
    pytest.param(case.env, name, id=f"{case.name}-{name}")
    for case in CASES
    for name in numeric(case.env)
]


@pytest.mark.parametrize(("env", "name"), CASE_NUMBERS)
def test_every_number_of_every_launcher_is_refused_by_name(env: dict[str, str], name: str) -> None:
    """One that another variable stands in for is not read, and then none of its values matters."""
    said = {text: refusal(read_launch, {**env, name: text}, HOST) for text in HOSTILE}
    refused = {text for text, words in said.items() if words}
    assert refused in (set(), set(HOSTILE))
    assert all(name in words for words in said.values() if words), said


@pytest.mark.parametrize("text", HOSTILE, ids=IDS)
@pytest.mark.parametrize("name", numeric(WORKER))
def test_so_is_every_number_of_a_worker(name: str, text: str) -> None:
    assert name in refusal(read_worker, {**WORKER, name: text})


@pytest.mark.parametrize("text", HOSTILE, ids=IDS)
@pytest.mark.parametrize("name", [name for name in PETS if name != "PET_MASTER_ADDR"])
def test_so_is_every_number_of_torchrun(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "\0" in text or (name in NOT_DECIMAL and text == "4.0"):
        text = "four"  # no process can have the first in its environment
    for other, value in {**PETS, name: text}.items():
        monkeypatch.setenv(other, value)

    def read() -> None:
        settings, said = command_line.said(["t.py"])
        plan.plan(settings, {**PETS, name: text}, Devices(0), HOST, said)

    assert name in refusal(read)


@pytest.mark.parametrize("text", ["x", "9" * 5000, "-1", "1e9"])
@pytest.mark.parametrize("key", ["timeout", "join_timeout", "keep_alive_interval"])
def test_so_is_every_number_of_the_rendezvous(
    key: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PET_RDZV_CONF", f"join_timeout=60,{key}={text}")
    words = refusal(command_line.parser)
    assert "PET_RDZV_CONF" in words
    assert key in words


@pytest.mark.parametrize("name", [name for name in numeric(PETS) if name not in EMPTY])
def test_a_number_that_is_empty_is_refused_by_name_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a field of a pod that is not there: torch itself ends with a traceback."""
    monkeypatch.setenv(name, "")
    assert name in refusal(command_line.parser)


def test_what_torchrun_understands_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PET_RDZV_CONF", "timeout=60, is_host=true")
    found = command_line.parser().parse_args(["t.py"])
    assert (found.nnodes, found.node_rank, found.master_port) == ("4", 3, 29500)
    assert (found.max_restarts, found.monitor_interval, found.tee) == (1, 0.1, "0:3,1:2")
    assert found.run_path is True
    assert found.rdzv_conf == "timeout=60, is_host=true"


@pytest.mark.parametrize("text", ["9" * 5000, "nan", "1e400", "-1", "x"])
@pytest.mark.parametrize(
    "option", ["--max-restarts", "--monitor-interval", "--node-rank", "--master-port", "--tee"]
)
def test_on_the_command_line_the_option_is_named(
    option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.parser().parse_args([f"{option}={text}", "t.py"])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert option in last
    assert len(last) < 1000


def settings_numbers() -> list[Any]:
    return [
        pytest.param(kind, item.name, id=f"{kind.__name__}-{item.name}")
        for kind in (LaunchSettings, PreflightSettings, TrainSettings)
        for item in fields(kind)
        if str(item.type) in ("int", "float") and item.metadata["has_variable"]
    ]


@pytest.mark.parametrize(("kind", "name"), settings_numbers())
def test_so_is_every_number_among_the_settings(kind: type[Settings], name: str) -> None:
    for text in HOSTILE:
        words = refusal(kind.load, {variable(name): text}, {})
        allowed = text in ("-1", "4.0") or text == "1_000"
        assert variable(name) in words or allowed, (text, words)


def test_times_fit_what_the_system_can_wait_for() -> None:
    for kind in (LaunchSettings, PreflightSettings, TrainSettings):
        for name in {"timeout", "deadline", "grace", "reach_timeout", "init_timeout"} & {
            item.name for item in fields(kind)
        }:
            with pytest.raises(SettingsError, match=variable(name)):
                kind.load({variable(name): "100000000000"}, {})


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\0" not in text])
def test_a_preset_of_nccl_is_never_a_traceback(text: str) -> None:
    for harm in harms.HARMS:
        assert all(len(words) < 1000 for words in harms.found({harm.variable: text}))


@pytest.mark.parametrize("command", [["env"], ["env", "--json"], ["train"], ["launch", "t.py"]])
def test_the_commands_end_with_the_code_of_a_mistake(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch, "_run", lambda _options: pytest.fail("torchrun was started"))
    monkeypatch.setattr(launch, "leave_on_sigterm_until_workers_run", lambda: None)
    monkeypatch.setenv("PET_NNODES", "9" * 5000)
    assert cli.run(command) == 2
    said = capfd.readouterr()
    assert "PET_NNODES" in said.out + said.err
    assert "Traceback" not in said.err


class TestANumber:
    @pytest.mark.parametrize("text", ["0", "7", " 7 ", "+7", "1000000"])
    def test_is_read(self, text: str) -> None:
        assert numbers.whole(text) == int(text)

    def test_says_its_bounds(self) -> None:
        with pytest.raises(ValueError, match="a whole number of 1 to 65535"):
            numbers.whole("0", 1, 65535)
        with pytest.raises(ValueError, match="a number of 0 to 10"):
            numbers.decimal("nan", most=10)

    def test_is_shown_short(self) -> None:
        assert numbers.shown("ab") == "'ab'"
        assert len(numbers.shown("9" * 5000)) < 100
        assert len(numbers.shown(10**4000)) < 100


def test_a_world_error_is_what_a_launcher_s_number_raises() -> None:
    with pytest.raises(WorldError, match="LWS_GROUP_SIZE='0'"):
        read_launch(
            {"LWS_GROUP_SIZE": "0", "LWS_WORKER_INDEX": "0", "LWS_LEADER_ADDRESS": "a"}, HOST
        )


@pytest.mark.parametrize(
    ("name", "text"),
    [("PET_NNODES", "1000001"), ("PET_NODE_RANK", "1000001"), ("PET_NPROC_PER_NODE", "4097")],
)
def test_counts_that_a_machine_would_break_on_are_refused(name: str, text: str) -> None:
    assert name in refusal(read_launch, {**PETS, name: text}, HOST)
