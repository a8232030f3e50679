"""What launch makes of the environment and the command line, without starting anything."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from trainer_worlds import hint

from trainer import command_line, launch, plan
from trainer.errors import WorldError
from trainer.nccl import Devices
from trainer.settings import LaunchSettings
from trainer.world import LaunchWorld

INDEXED = {"JOB_COMPLETION_INDEX": "1", "MASTER_ADDR": "first"}


def planned(env: dict[str, str], said: LaunchWorld | None = None, **settings: object) -> plan.Plan:
    return plan.plan(LaunchSettings(**settings), env, Devices(0), "host", said)


class TestThePlan:
    def test_torchrun_is_told_what_only_the_launcher_knew(self) -> None:
        env = INDEXED | {"MUSTER_HINT": json.dumps(hint(0, "n0"))}
        chosen = planned(env).variables
        assert chosen["PET_NNODES"] == "4"
        assert chosen["PET_NODE_RANK"] == "1"
        assert chosen["PET_MASTER_ADDR"] == "first"

    def test_what_torchrun_was_told_already_is_left(self) -> None:
        chosen = planned(INDEXED | {"PET_NNODES": "9", "PET_SHUTDOWN_TIMEOUT": "3"}).variables
        assert not {"PET_NNODES", "PET_SHUTDOWN_TIMEOUT"} & chosen.keys()

    def test_workers_get_less_than_the_grace_period(self) -> None:
        assert planned({}).variables["PET_SHUTDOWN_TIMEOUT"] == "25"
        assert planned({}, grace=120).variables["PET_SHUTDOWN_TIMEOUT"] == "115"
        assert planned({}, grace=2).variables["PET_SHUTDOWN_TIMEOUT"] == "1"

    def test_a_hint_file_is_handed_on_and_hides_an_older_variable(self, tmp_path: Path) -> None:
        (tmp_path / "hint").write_text(json.dumps(hint(2, "n")))
        chosen = planned({"MUSTER_HINT": "{}"}, hint=tmp_path / "hint")
        assert chosen.found.hint.rank == 2
        assert chosen.variables["MUSTER_HINT_FILE"] == str(tmp_path / "hint")
        assert chosen.variables["MUSTER_HINT"] is None

    def test_a_bad_hint_stops_nothing(self) -> None:
        chosen = planned({"MUSTER_HINT": "nonsense"})
        assert "not JSON" in chosen.found.problem
        assert chosen.world == LaunchWorld("none")

    def test_the_backend_counts_the_processes_the_command_line_asks_for(self) -> None:
        said = LaunchWorld("command line", nproc_per_node="4")
        found = plan.plan(LaunchSettings(), {}, Devices(2), "host", said)
        assert found.backend.name == "gloo"


class TestTheCommandLine:
    @pytest.mark.parametrize(
        ("args", "script", "rest", "module"),
        [
            (["--nnodes", "1", "--", "t.py", "--lr", "1"], "t.py", ["--lr", "1"], False),
            (["--nnodes", "1", "t.py", "--grace", "9"], "t.py", ["--grace", "9"], False),
            (["--", "-m", "pkg.mod", "--hint", "x"], "pkg.mod", ["--hint", "x"], True),
            (["-m", "pkg.mod", "a", "--", "b"], "pkg.mod", ["a", "--", "b"], True),
            (["--", "t.py", "a", "--", "b"], "t.py", ["a", "--", "b"], False),
        ],
    )
    def test_the_script_and_its_arguments_are_left_alone(
        self, args: list[str], script: str, rest: list[str], module: bool
    ) -> None:
        options = command_line.parser().parse_args(command_line.without_separator(args))
        assert (options.training_script, options.training_script_args) == (script, rest)
        assert options.module is module

    def test_our_options_and_torchrun_s_are_told_apart(self) -> None:
        args = ["--grace", "60", "--node-rank", "2", "--fast-sockets", "t.py"]
        settings, said = command_line.said(args)
        assert (settings.grace, settings.fast_sockets, settings.socket_ifname) == (60, True, None)
        assert said == LaunchWorld("command line", node_rank=2)

    def test_torchrun_s_variables_are_not_taken_for_the_command_line(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PET_NNODES", "3")
        assert command_line.said(["t.py"])[1].nnodes is None
        assert command_line.parser().parse_args(["t.py"]).nnodes == "3"


class TestBeforeTorchrunStarts:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(command_line.UNSHARED_STORE, "")
        del os.environ[command_line.UNSHARED_STORE]

    def prepared(self, *args: str) -> SimpleNamespace:
        options = command_line.parser().parse_args([*args, "t.py"])
        command_line.prepare(options, command_line.said([*args, "t.py"])[1])
        return options

    @pytest.mark.parametrize(
        ("args", "unshared"),
        [
            (["--nnodes", "2", "--rdzv-backend", "c10d"], None),
            (["--nnodes", "2", "--rdzv-backend", "c10d", "--max-restarts", "1"], "1"),
            (["--nnodes", "1:2", "--rdzv-backend", "c10d"], "1"),
            (["--nproc-per-node", "2", "--max-restarts", "1"], "1"),
        ],
    )
    def test_attempts_share_no_store(self, args: list[str], unshared: str | None) -> None:
        self.prepared(*args)
        assert os.environ.get(command_line.UNSHARED_STORE) == unshared

    def test_unless_someone_decided_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(command_line.UNSHARED_STORE, "0")
        self.prepared("--max-restarts", "1")
        assert os.environ[command_line.UNSHARED_STORE] == "0"

    def test_restarts_that_cannot_work_are_warned_of(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(command_line.log.parent, "propagate", True)
        self.prepared("--nnodes", "2", "--master-addr", "a", "--max-restarts", "1")
        assert "use --rdzv-backend c10d" in caplog.text

    def test_a_module_run_in_the_same_interpreter_is_found_as_a_file(self) -> None:
        assert command_line.module_file("trainer") == str(
            Path(launch.__file__).with_name("__main__.py")
        )
        assert command_line.module_file("trainer.cli").endswith("cli.py")
        with pytest.raises(WorldError, match="no module named nowhere"):
            command_line.module_file("nowhere")


class TestTheExitCode:
    @pytest.mark.parametrize(
        ("worker", "launcher"), [(143, 143), (-15, 143), (-9, 137), (1, 1), (77, 77), (0, 1)]
    )
    def test_is_that_of_the_worker_that_failed_first(self, worker: int, launcher: int) -> None:
        failure = SimpleNamespace(exitcode=worker)
        error = SimpleNamespace(get_first_failure=lambda: (0, failure))
        assert launch._failed(error) == launcher
