"""deploy/kind/up.sh with stand-ins for docker, kind and kubectl: what it would do, in order."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from controllers import made
from deploy_objects import DEPLOY, ROOT, objects

from scheduler import decode

SCRIPT = DEPLOY / "kind" / "up.sh"

_STAND_IN = """#!/bin/sh
echo "{name} $*" >> "$LOG"
case "{name} $*" in
  kind\\ create*) for word; do case $word in *.yaml) cp "$word" "$LOG.cluster";; esac; done;;
  *get\\ nodes*) echo node/muster-worker; echo node/muster-worker2;;
  *proxy/metrics) printf 'muster_gang_%s_seconds_sum{{members="9-64"}} 1.5\\n' wait start bind;;
  *get\\ --raw*) echo '{{ "major": "1", "gitVersion": "v1.36.3" }}';;
  *kustomize*) echo 'image: registry.k8s.io/kube-scheduler:v1.37.2';;
  *apply*--server-side*) cat > "$LOG.applied";;
  *apply*--filename\\ -) cat > "$LOG.burst";;
esac
"""


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    for name in ("docker", "kind", "kubectl"):
        program = tmp_path / name
        program.write_text(_STAND_IN.format(name=name))
        program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": f"{tmp_path}/log"}


def _run(tools: dict[str, str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT], env=tools | variables, capture_output=True, text=True, timeout=60, check=False
    )


def test_it_makes_a_cluster_brings_the_image_installs_and_tries_it(tools: dict[str, str]) -> None:
    done = _run(tools)

    assert done.returncode == 0, done.stderr
    log = Path(tools["LOG"]).read_text()
    steps = [
        "kind create cluster --name muster",
        "patch node/muster-worker --subresource=status",
        "patch node/muster-worker2 --subresource=status",
        f"docker build --file {ROOT}/deploy/docker/scheduler.Dockerfile",
        "kind load docker-image muster-scheduler:0.1.0",
        f"kustomize {ROOT}/deploy/overlays/kind",
        "rollout status deployment/muster",
        f"apply --filename {ROOT}/deploy/examples/plain-pods.yaml",
        "wait job/burst --for=jsonpath={.status.active}=16",
        "delete job/burst --wait=false",
    ]
    places = [log.find(step) for step in steps]
    assert -1 not in places, log
    assert places == sorted(places)
    assert '{"nvidia.com/gpu":"8"}' in log


def test_half_of_the_gpus_are_asked_for_by_one_gang_and_its_times_are_shown(
    tools: dict[str, str],
) -> None:
    done = _run(tools, WORKERS="3")

    (job,) = objects(Path(f"{tools['LOG']}.burst"))
    (pod,) = made([job]).pods[:1]
    assert job["spec"]["parallelism"] == job["spec"]["completions"] == 3 * 8 // 2
    assert decode.pod(pod).fault == ""
    assert decode.pod(pod).scheduler == "muster"
    shown = re.findall("^muster_.*", done.stdout, re.MULTILINE)
    assert shown == [
        f'muster_gang_{name}_seconds_sum{{members="9-64"}} 1.5' for name in ("wait", "start")
    ]


def test_where_there_is_no_room_for_a_gang_it_is_said(tools: dict[str, str]) -> None:
    done = _run(tools, WORKERS="1", GPUS="1")

    assert done.returncode == 0
    assert "no room for a gang" in done.stdout
    assert "burst" not in Path(tools["LOG"]).read_text()


def test_the_scheduler_is_as_old_as_the_api_server(tools: dict[str, str]) -> None:
    _run(tools)

    assert "kube-scheduler:v1.36.3" in Path(f"{tools['LOG']}.applied").read_text()


def test_the_workers_are_two_to_a_rack_and_four_to_a_block(tools: dict[str, str]) -> None:
    _run(tools, WORKERS="6")

    control, *workers = yaml.safe_load(Path(f"{tools['LOG']}.cluster").read_text())["nodes"]
    blocks = [node["labels"]["example.com/block"] for node in workers]
    racks = [node["labels"]["example.com/rack"] for node in workers]
    assert control["role"] == "control-plane"
    assert blocks == ["b0", "b0", "b0", "b0", "b1", "b1"]
    assert racks == ["r0", "r0", "r1", "r1", "r2", "r2"]


@pytest.mark.parametrize("variable", ["WORKERS", "GPUS"])
def test_what_is_no_number_is_named(tools: dict[str, str], variable: str) -> None:
    done = _run(tools, **{variable: "many"})

    assert done.returncode == 1
    assert f"{variable}=many is not a number" in done.stderr
    assert "create" not in Path(tools["LOG"]).read_text()


def test_a_missing_tool_is_named(tools: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "kind").unlink()

    done = _run(tools, PATH=f"{tmp_path}:/usr/bin:/bin")

    assert done.returncode == 1
    assert "kind is not in the search path" in done.stderr
