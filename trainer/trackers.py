"""Where rank 0's readings go beside the log: TensorBoard, MLflow, Kubeflow's TrainJob.

None of them may stop or slow a run: what fails costs one warning, and slow ones work in threads.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError

from trainer.errors import SettingsError
from trainer.train_settings import TrainSettings

log = logging.getLogger("muster.trackers")

Reading = Mapping[str, float]

KUBEFLOW_URL = "KUBEFLOW_TRAINER_SERVER_URL"
KUBEFLOW_TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 (a file's name)
KUBEFLOW_CA = "KUBEFLOW_TRAINER_SERVER_CA_CERT"

KUBEFLOW_SECONDS = 5.0
"""Between two reports, as Kubeflow asks for; and for one of them to be answered."""

RUN_FILE = "mlflow-run"
"""In the directory of checkpoints: the run to go on with."""


class Tracker(Protocol):
    def record(self, step: int, reading: Reading) -> None:
        """Values by name, of one step."""
        ...

    def close(self) -> None: ...


def open_trackers(settings: TrainSettings, env: Mapping[str, str], first: int) -> list[Tracker]:
    """Those that are asked for, and Kubeflow's where its variables are there.

    first: step that the run begins behind.

    Raises SettingsError where a package is not installed.
    """
    found: list[Tracker] = []
    if settings.tensorboard is not None:
        found.append(TensorBoard(settings.tensorboard, first))
    if settings.mlflow is not None:
        found.append(Mlflow(settings))
    if env.get(KUBEFLOW_URL):
        found.append(Kubeflow(env, settings.steps))
    return found


class TensorBoard:
    def __init__(self, folder: Path, first: int) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _absent(f"--tensorboard {folder}", "tensorboard", error) from error
        # Steps that are done again after a crash replace what was shown of them.
        self._writer: Any = SummaryWriter(str(folder), purge_step=first + 1)

    def record(self, step: int, reading: Reading) -> None:
        for name, value in reading.items():
            self._writer.add_scalar(f"train/{name}", value, step)

    def close(self) -> None:
        self._writer.close()


class Mlflow:
    def __init__(self, settings: TrainSettings) -> None:
        try:
            mlflow: Any = importlib.import_module("mlflow")
        except ImportError as error:
            raise _absent(f"--mlflow {settings.mlflow}", "mlflow", error) from error
        self._mlflow = mlflow
        mlflow.set_tracking_uri(settings.mlflow)
        file = settings.checkpoint_dir / RUN_FILE if settings.checkpoint_dir else None
        known = _text(file)
        run = mlflow.start_run(run_id=known)
        if known is None:
            mlflow.log_params({name: str(value) for name, value in asdict(settings).items()})
        if file is not None and known is None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(run.info.run_id, encoding="utf-8")

    def record(self, step: int, reading: Reading) -> None:
        self._mlflow.log_metrics(dict(reading), step=step, synchronous=False)

    def close(self) -> None:
        self._mlflow.flush_async_logging()
        self._mlflow.end_run()


class Kubeflow:
    """Kubeflow Trainer shows progress and metrics in the TrainJob's status (KEP-2779)."""

    def __init__(
        self, env: Mapping[str, str], steps: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.url, self.steps, self.now = env[KUBEFLOW_URL], steps, now
        self.token = Path(env.get(KUBEFLOW_TOKEN, ""))
        self.ca = env.get(KUBEFLOW_CA) or None
        self._started: tuple[float, int] | None = None
        self._sent = float("-inf")
        self._last: tuple[int, Reading] | None = None
        self._thread = ThreadPoolExecutor(1, "kubeflow")
        self._under_way: Future[None] | None = None

    def record(self, step: int, reading: Reading) -> None:
        self._started = self._started or (self.now(), step)
        self._last = (step, reading)
        if self._busy() or self.now() - self._sent < KUBEFLOW_SECONDS:
            return
        self._send()

    def close(self) -> None:
        """The last reading, whenever the one before was."""
        if self._last is not None:
            self._send()
        self._thread.shutdown(wait=True)
        self._raise()

    def _busy(self) -> bool:
        if self._under_way is None or not self._under_way.done():
            return self._under_way is not None
        self._raise()
        return False

    def _raise(self) -> None:
        finished, self._under_way = self._under_way, None
        if finished is not None:
            finished.result()

    def _send(self) -> None:
        assert self._last is not None
        self._sent = self.now()
        self._under_way = self._thread.submit(self._post, self.status(*self._last))

    def status(self, step: int, reading: Reading) -> dict[str, Any]:
        """The body of a report."""
        return {
            "trainerStatus": {
                "progressPercentage": 100 * step // max(1, self.steps),
                "estimatedRemainingSeconds": self._remaining(step),
                "metrics": [{"name": name, "value": f"{v:g}"} for name, v in reading.items()],
                "lastUpdatedTime": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        }

    def _remaining(self, step: int) -> int | None:
        if step >= self.steps:
            return 0
        if self._started is None or step <= self._started[1]:
            return None
        each = (self.now() - self._started[0]) / (step - self._started[1])
        return round(each * (self.steps - step))

    def _post(self, body: dict[str, Any]) -> None:
        """The token is read anew each time, as it is replaced while it is valid."""
        headers = {
            "Authorization": f"Bearer {self.token.read_text(encoding='utf-8').strip()}",
            "Content-Type": "application/json",
        }
        request = urllib.request.Request(  # noqa: S310 (the control plane says the address)
            self.url, json.dumps(body).encode(), headers, method="POST"
        )
        context = ssl.create_default_context(cafile=self.ca) if self.ca else None
        try:
            urllib.request.urlopen(request, timeout=KUBEFLOW_SECONDS, context=context).close()  # noqa: S310
        except HTTPError as error:
            # It holds the connection until it is closed.
            with error:
                raise OSError(f"{self.url} answers {error.code} {error.reason}") from None


class Guarded:
    """Trackers that cost a warning each when they fail, and are left alone afterwards."""

    def __init__(self, trackers: list[Tracker]) -> None:
        self.trackers = trackers

    def record(self, step: int, reading: Reading) -> None:
        for tracker in list(self.trackers):
            self._try(tracker, lambda tracker=tracker: tracker.record(step, reading))  # type: ignore[misc]

    def close(self) -> None:
        for tracker in list(self.trackers):
            self._try(tracker, tracker.close)

    def _try(self, tracker: Tracker, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # whatever a client library raises
            self.trackers.remove(tracker)
            log.warning(
                "%s is told nothing more, and the run goes on: %s: %s",
                type(tracker).__name__, type(error).__name__, error,
            )  # fmt: skip


def _absent(option: str, package: str, error: ImportError) -> SettingsError:
    return SettingsError(
        f"{option}: {package} is not installed here ({error}); "
        f"pip install {package}, or leave the option out"
    )


def _text(file: Path | None) -> str | None:
    try:
        return (file.read_text(encoding="utf-8").strip() or None) if file else None
    except OSError:
        return None
