"""What MLflow, TensorBoard and Kubeflow hear of a run, and that none of them can stop it."""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from test_trainer_training import run
from trainer_worlds import environments, run_world

from trainer.errors import SettingsError
from trainer.trackers import Guarded, Kubeflow, open_trackers
from trainer.train_settings import TrainSettings


class Secured(HTTPServer):
    """HTTPS. A client that does not trust it hangs up, which is no error here."""

    def __init__(self, context: ssl.SSLContext, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.context = context

    def finish_request(self, request: Any, client: Any) -> None:
        with suppress(OSError), self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client)


class ControlPlane:
    """Kubeflow Trainer's status server, as far as a pod sees it: HTTPS with a CA of its own."""

    def __init__(self, folder: Path) -> None:
        self.reports: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.code = 200
        self.cert = folder / "ca.crt"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-keyout", folder / "key", "-out", self.cert, "-days", "2",
             "-subj", "/CN=trainer", "-addext", "subjectAltName=IP:127.0.0.1"],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, folder / "key")
        self.server = Secured(context, self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.token = folder / "token"
        self.token.write_text("first\n")
        self.env = {
            "KUBEFLOW_TRAINER_SERVER_URL": f"https://127.0.0.1:{self.server.server_port}/status",
            "KUBEFLOW_TRAINER_SERVER_TOKEN": str(self.token),
            "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(self.cert),
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        plane = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                plane.reports.append(json.loads(body)["trainerStatus"])
                plane.tokens.append(self.headers["Authorization"])
                self.send_response(plane.code)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        return Handler


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    found = ControlPlane(tmp_path)
    yield found
    found.server.shutdown()
    found.server.server_close()


class TestKubeflow:
    def test_hears_of_progress_at_most_every_five_seconds_and_at_the_end(
        self, plane: ControlPlane
    ) -> None:
        clock = [0.0]
        tracker = Kubeflow(plane.env, 200, now=lambda: clock[0])
        for step, now in ((20, 0.0), (40, 2.0), (60, 4.0), (100, 8.0), (200, 9.0)):
            clock[0] = now
            tracker.record(step, {"loss": 1 / step})
            if tracker._under_way:
                tracker._under_way.result()
        tracker.close()
        assert [each["progressPercentage"] for each in plane.reports] == [10, 50, 100]
        assert [each["estimatedRemainingSeconds"] for each in plane.reports] == [None, 10, 0]
        assert plane.reports[1]["metrics"] == [{"name": "loss", "value": "0.01"}]

    def test_is_shown_the_token_of_the_moment(self, plane: ControlPlane) -> None:
        tracker = Kubeflow(plane.env, 10)
        tracker.record(1, {"loss": 1.0})
        tracker._under_way.result()
        plane.token.write_text("second")
        tracker.close()
        assert plane.tokens == ["Bearer first", "Bearer second"]

    @pytest.mark.parametrize("fault", ["refuses", "is not there", "is not who it says"])
    def test_that_does_not_work_costs_one_warning(
        self, plane: ControlPlane, fault: str, monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        warnings: list[str] = []
        monkeypatch.setattr(
            "trainer.trackers.log.warning", lambda *words: warnings.append(words[1])
        )
        env = dict(plane.env)
        if fault == "refuses":
            plane.code = 403
        elif fault == "is not there":
            env["KUBEFLOW_TRAINER_SERVER_URL"] = "https://127.0.0.1:9/status"
        else:
            del env["KUBEFLOW_TRAINER_SERVER_CA_CERT"]
        trackers = Guarded([Kubeflow(env, 10)])
        trackers.record(1, {"loss": 1.0})
        trackers.close()
        assert warnings == ["Kubeflow"]

    def test_a_run_in_a_trainjob_reports_without_being_asked(
        self, plane: ControlPlane, tmp_path: Path
    ) -> None:
        envs = [env | plane.env for env in environments([1, 1])]
        run_world(tmp_path / "store", envs, run, {"steps": 20, "log_every": 10})
        assert plane.reports[-1]["progressPercentage"] == 100
        assert {each["name"] for each in plane.reports[-1]["metrics"]} >= {
            "loss", "samples_per_s", "shared_s", "straggler_score",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "package"),
    [({"tensorboard": Path("x")}, "tensorboard"), ({"mlflow": "sqlite:///x"}, "mlflow")],
)
def test_a_package_that_is_not_there_is_said_at_the_start(
    settings: dict[str, Any], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for module in ("torch.utils.tensorboard", "mlflow"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        SettingsError, match=f"{package} is not installed.*; pip install {package}, or"
    ):
        open_trackers(TrainSettings(**settings), {}, 0)


@pytest.mark.filterwarnings("ignore")  # MLflow uses what its own libraries deprecate
def test_a_run_goes_on_in_mlflow_where_it_resumes(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow, an extra of ours, is not installed")
    uri = f"sqlite:///{tmp_path}/runs.db"
    changes = {"mlflow": uri, "log_every": 10, "checkpoint_dir": tmp_path / "saved"}
    for steps in (20, 40):
        folder = tmp_path / f"store-{steps}"
        run_world(folder, environments([1, 1]), run, {**changes, "steps": steps})
    client = mlflow.MlflowClient(uri)
    (found,) = client.search_runs(["0"])
    loss = client.get_metric_history(found.info.run_id, "loss")
    assert [metric.step for metric in loss] == [10, 20, 30, 40]
    assert loss[-1].value < loss[0].value
    assert found.data.params["global_batch"] == "128"


def test_tensorboard_is_shown_every_reading(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard, an extra of ours, is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    changes = {"tensorboard": tmp_path / "board", "log_every": 10, "steps": 20}
    run_world(tmp_path / "store", environments([1]), run, changes)
    found = EventAccumulator(str(tmp_path / "board"))
    found.Reload()
    assert [event.step for event in found.Scalars("train/loss")] == [10, 20]
