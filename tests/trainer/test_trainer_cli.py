"""muster-train as people and programs call it."""

import io
import json
from pathlib import Path

import pytest
from trainer_worlds import hint

from trainer import cli
from trainer.report import Report, progress, publish


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = cli.run(list(args))
    return code, *capsys.readouterr()


def test_env_prints_decisions_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_HINT", json.dumps(hint(2, "n7", "b1", "r3")))
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "7")
    code, out, _ = call(capsys, "env", "--json", "--socket-ifname", "lo")
    document = json.loads(out)
    assert code == 0
    assert document["set"]["GLOO_SOCKET_IFNAME"] == "lo"
    assert document["kept"] == {"TORCH_FR_BUFFER_SIZE": "7"}
    assert document["why"].keys() == document["set"].keys() | document["kept"].keys()
    assert document["warnings"] == []


def test_env_reports_an_unreadable_hint(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_HINT", "{")
    code, out, _ = call(capsys, "env")
    assert code == 0
    assert "warning   hint ignored: MUSTER_HINT: the hint is not JSON" in out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["env", "--grace", "1"], "--grace"),
        (["train", "--steps", "-1"], "--steps"),
        (["rehearse"], "a JSON list"),
        (["rehearse", "absent.json", "--", "t.py"], "from absent.json: No such file"),
        (["env", "--facts", "absent.json"], "absent.json: cannot be read: No such file"),
        (["launch", "--nnodes", "2", "--node-rank", "0", "--", "t.py"], "MASTER_ADDR"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.launch.leave_on_sigterm_until_workers_run", lambda: None)
    code, out, err = call(capsys, *args)
    assert (code, out) == (2, "")
    assert err.startswith("muster-train: ")
    assert says in err
    assert err.count("\n") == 1


def test_a_list_without_pods_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.json").write_text("{}")
    code, _, err = call(capsys, "rehearse", str(tmp_path / "pods.json"), "--", "t.py")
    assert code == 2
    assert "want a JSON list" in err


def test_a_list_that_is_no_json_is_told_by_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pods.json").write_text("[\n{v: 1}]")
    code, _, err = call(capsys, "rehearse", str(tmp_path / "pods.json"), "--", "t.py")
    assert (code, err.count("\n")) == (2, 1)
    assert "pods.json are no JSON: " in err
    assert "line 2" in err


def test_the_list_of_commands_tells_of_each_in_a_whole_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = call(capsys, "--help")
    told = out.partition("Commands:")[2].splitlines()[1:]
    assert code == 0
    assert [line.split()[0] for line in told if not line.endswith(".")] == []
    assert "..." not in out.partition("Commands:")[2]


def test_help_of_launch_has_torchrun_s_options_and_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.launch.leave_on_sigterm_until_workers_run", lambda: None)
    code, out, _ = call(capsys, "launch", "--help")
    assert code == 0
    for option in ("--rdzv-backend", "--nproc-per-node", "--hint", "--socket-ifname"):
        assert option in out


def test_help_of_train_shows_variables_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "train", "--help")
    assert code == 0
    words = " ".join(out.split())
    assert "[env: MUSTER_STEPS] [default: 150]" in words
    assert "[default: beside the checkpoints" in words


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_rehearse_has_help_of_its_own(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "rehearse", option)
    assert (code, err) == (0, "")
    assert "HINTS.json is a list with the hint of each pod" in " ".join(out.split())


def test_a_rehearsal_without_its_script_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.rehearse._start", None)
    (tmp_path / "pods.json").write_text(json.dumps([hint(0, "n1"), None]))
    code, out, err = call(capsys, "rehearse", str(tmp_path / "pods.json"), "--", "nosuch.py")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no file nosuch.py to run" in err


def test_a_rehearsal_refuses_a_hint_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.rehearse._start", None)
    (tmp_path / "pods.json").write_text(json.dumps([hint(0, "n1"), {"v": 1}]))
    code, _, err = call(capsys, "rehearse", str(tmp_path / "pods.json"), "--", "t.py")
    assert code == 2
    assert "pods.json: pod 1: hint field" in err
    assert err.count("\n") == 1


REPORT = Report(2, ("b0/n0", "b0/n1"), 0.95, 0.125, 150, None)


def test_the_report_is_one_line_of_json_and_the_same_in_the_file(tmp_path: Path) -> None:
    stream = io.StringIO()
    publish(REPORT, tmp_path / "report.json", stream)
    assert stream.getvalue() == (tmp_path / "report.json").read_text()
    assert stream.getvalue().count("\n") == 1
    assert json.loads(stream.getvalue()) == {
        "world": 2,
        "rank_order": ["b0/n0", "b0/n1"],
        "accuracy": 0.95,
        "loss": 0.125,
        "steps": 150,
        "resumed_from": None,
    }


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, *, mine: bool = True, every: int = 2) -> str:
    with progress(5, every, shown=mine, stream=stream) as show:
        for step in range(1, 6):
            show(step, 1 / step)
    return stream.getvalue()


def test_progress_is_plain_lines_where_there_is_no_terminal() -> None:
    lines = shown(io.StringIO()).splitlines()
    assert lines == ["step 2/5 loss 0.5000", "step 4/5 loss 0.2500", "step 5/5 loss 0.2000"]


def test_progress_is_a_bar_on_a_terminal() -> None:
    assert "5/5" in shown(Terminal())


def test_ranks_that_show_nothing_show_nothing() -> None:
    assert shown(Terminal(), mine=False) == ""
    assert shown(Terminal(), every=0) == ""
