"""The script of the tracking example runs as written, with stand-ins for MLflow and TensorBoard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deploy_objects import DEPLOY, ROOT, Object, objects

EXAMPLE = objects(DEPLOY / "examples" / "tracking.yaml")

# What is called is written down, a line each. Python imports this module by itself when it starts.
_STAND_INS = """
import json, os, sys, types

def note(*words, **named):
    with open(os.environ["CALLS"], "a") as file:
        file.write(json.dumps([*words, named]) + "\\n")

class Context:
    def __enter__(self):
        return self
    def __exit__(self, *_):
        note("end", type(self).__name__)

class SummaryWriter(Context):
    def __init__(self, folder):
        note("board", folder)
    def add_scalar(self, *words):
        note("scalar", *words)

class Run(Context):
    pass

def start_run(**named):
    note("run", **named)
    return Run()

mlflow = types.ModuleType("mlflow")
mlflow.set_experiment = lambda name: note("experiment", name)
mlflow.start_run = start_run
mlflow.log_params = lambda values: note("params", values)
mlflow.log_metric = lambda *words, **named: note("metric", *words, **named)
board = types.ModuleType("torch.utils.tensorboard")
board.SummaryWriter = SummaryWriter
sys.modules |= {"mlflow": mlflow, "torch.utils.tensorboard": board}
"""


def _one(kind: str, name: str) -> Object:
    (found,) = [
        item for item in EXAMPLE if (item["kind"], item["metadata"]["name"]) == (kind, name)
    ]
    return found


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[list[object]]:
    """What two ranks reported, run with the variables of the Job."""
    folder = tmp_path_factory.mktemp("tracking")
    (folder / "train.py").write_text(_one("ConfigMap", "digits-tracked")["data"]["train.py"])
    (folder / "sitecustomize.py").write_text(_STAND_INS)
    job = _one("Job", "digits-tracked")["spec"]["template"]["spec"]
    stated = {item["name"]: item["value"] for item in job["containers"][0]["env"]}
    del stated["NNODES"]
    log = folder / "calls"
    environment = {**os.environ, **stated, "PYTHONPATH": f"{folder}:{ROOT}", "CALLS": str(log)}
    command = [sys.executable, "-m", "trainer", "launch", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(folder / "train.py")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_rank_0_alone_reports_to_both_and_closes_them(calls: list[list[object]]) -> None:
    names = [words[0] for words in calls]

    assert names[:4] == ["board", "experiment", "run", "params"]
    assert names[-2:] == ["end", "end"]
    assert [names.count(name) for name in ("board", "run", "scalar", "metric")] == [1, 1, 20, 20]
    assert calls[0][1] == "/tracking/tensorboard/digits-tracked"
    assert calls[3][1] == {"steps": 200, "rate": 0.1, "world_size": 2}


def test_it_learns(calls: list[list[object]]) -> None:
    losses = [float(str(words[2])) for words in calls if words[0] == "scalar"]

    assert losses[-1] < losses[0] / 100


def test_who_writes_and_who_reads_agree_on_places_and_ports() -> None:
    def container(kind: str, name: str) -> Object:
        found: Object = _one(kind, name)["spec"]["template"]["spec"]["containers"][0]
        return found

    job = container("Job", "digits-tracked")
    stated = {item["name"]: item["value"] for item in job["env"]}
    board = container("Deployment", "digits-tensorboard")
    server = container("Deployment", "digits-mlflow")
    address = stated["MLFLOW_TRACKING_URI"].removeprefix("http://")
    (port,) = _one("Service", "digits-mlflow")["spec"]["ports"]

    assert f"--logdir={stated['BOARD_DIR']}" in board["command"]
    assert address == f"digits-mlflow:{port['port']}"
    assert f"--port={port['port']}" in server["command"]
    assert address in server["env"][0]["value"].split(",")
    script = Path(job["args"][-1])
    (mount,) = [item for item in job["volumeMounts"] if item["name"] == "script"]
    assert script.parent == Path(mount["mountPath"])
    assert script.name in _one("ConfigMap", "digits-tracked")["data"]
