"""deploy/kind/up.sh with stand-ins for docker, kind and kubectl: what it would do, in order."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from controllers import made
from deploy_objects import DEPLOY, ROOT, Object, objects

from scheduler import decode

SCRIPT = DEPLOY / "kind" / "up.sh"

_STAND_IN = """#!/bin/sh
echo "{name} $*" >> "$LOG"
case "{name} $*" in
  kind\\ create*) for word; do case $word in *.yaml) cp "$word" "$LOG.cluster";; esac; done;;
  *get\\ nodes*) echo node/muster-worker; echo node/muster-worker2;;
  *get\\ crd*) test -n "$OPERATOR";;
  *get\\ --filename*) grep -q 'kind: Job' && printf 'digits 4\\n' || true;;
  *proxy/metrics) printf 'muster_gang_%s_seconds_sum{{members="9-64"}} 1.5\\n' wait start bind;;
  *get\\ --raw*) echo "{{ \\"major\\": \\"1\\", \\"gitVersion\\": \\"${{SERVER:-v1.36.3}}\\" }}";;
  *kustomize*) cat "$LOG.kustomized";;
  *apply*--server-side*--filename\\ -) cat > "$LOG.applied";;
  *apply*--filename\\ -) cat > "$LOG.burst"
    (echo ---; cat "$LOG.burst") >> "$LOG.all";;
  *delete\\ --filename\\ -*) cat > /dev/null;;
esac
"""

_KUSTOMIZED = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: gate
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: agent
---
apiVersion: apps/v1
kind: Deployment
image: registry.k8s.io/kube-scheduler:v1.37.2
"""


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    for name in ("docker", "kind", "kubectl"):
        program = tmp_path / name
        program.write_text(_STAND_IN.format(name=name))
        program.chmod(0o755)
    (tmp_path / "log.kustomized").write_text(_KUSTOMIZED)
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
        f"docker build --file {ROOT}/deploy/docker/agent.Dockerfile",
        "kind load docker-image muster-agent:0.1.0",
        f"kustomize {ROOT}/deploy/overlays/kind",
        "rollout status deployment/muster",
        "rollout status daemonset/muster-agent",
        "apply --filename -",
        "pod/pair-0 pod/pair-1 pod/alone pod/no-gpu",
        "delete --filename - --wait",
        "wait job/digits --for=jsonpath={.status.active}=4",
        "batch.kubernetes.io/job-name=digits --for=jsonpath={.spec.nodeName}",
        "wait job/burst --for=jsonpath={.status.active}=16",
        "delete job/burst --wait=false",
    ]
    places = [log.find(step) for step in steps]
    assert -1 not in places, log
    assert places == sorted(places)
    assert '"allocatable":{"nvidia.com/gpu":"8",' in log
    assert "components/monitoring" not in log


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


@pytest.mark.parametrize(
    ("server", "policies"),
    [
        ("v1.36.3", "admissionregistration.k8s.io/v1"),
        ("v1.35.4", "admissionregistration.k8s.io/v1beta1"),
    ],
)
def test_what_is_installed_fits_the_api_server(
    tools: dict[str, str], server: str, policies: str
) -> None:
    _run(tools, SERVER=server)

    mutating, validating, deployment = objects(Path(f"{tools['LOG']}.applied"))
    assert deployment["image"] == f"registry.k8s.io/kube-scheduler:{server}"
    assert mutating["apiVersion"] == policies
    assert validating["apiVersion"] == "admissionregistration.k8s.io/v1"


@pytest.mark.parametrize(
    ("image", "told"), [("v1.35.4", True), ("v1.36.3", False), ("v1.37.2@sha256:1f", False)]
)
def test_an_api_server_before_136_is_told_to_serve_the_policies(
    tools: dict[str, str], image: str, told: bool
) -> None:
    _run(tools, KIND_IMAGE=f"kindest/node:{image}")

    made = yaml.safe_load(Path(f"{tools['LOG']}.cluster").read_text())
    assert (made.get("featureGates") == {"MutatingAdmissionPolicy": True}) is told
    served = {"admissionregistration.k8s.io/v1beta1": "true"}
    assert (made.get("runtimeConfig") == served) is told
    assert f"--image kindest/node:{image}" in Path(tools["LOG"]).read_text()


def test_monitoring_is_installed_where_its_operator_is(tools: dict[str, str]) -> None:
    _run(tools, OPERATOR="yes")

    log = Path(tools["LOG"]).read_text()
    listed = yaml.safe_load((DEPLOY / "components/monitoring/kustomization.yaml").read_text())
    for name in listed["resources"]:
        assert f"--filename {DEPLOY}/components/monitoring/{name}" in log


# ── the examples ──


def _applied(tools: dict[str, str]) -> list[Object]:
    return objects(Path(f"{tools['LOG']}.all"))


def test_the_examples_are_run_with_little_memory_and_all_their_accelerators(
    tools: dict[str, str],
) -> None:
    done = _run(tools)

    assert done.returncode == 0, done.stderr
    *applied, burst = _applied(tools)
    assert burst["metadata"]["name"] == "burst"
    named = ("plain-pods", "indexed-job", "mig", "gaudi")
    wanted = [item for name in named for item in objects(DEPLOY / f"examples/{name}.yaml")]
    assert [_name(item) for item in applied] == [_name(item) for item in wanted]
    for item, as_written in zip(made(applied).pods, made(wanted).pods, strict=True):
        mine, theirs = (_limits(pod) for pod in (item, as_written))
        assert mine.pop("memory", "64Mi") == "64Mi"
        assert {key: value for key, value in theirs.items() if "/" in key} == mine
        assert decode.pod(item).fault == ""


def _name(item: Object) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def _limits(pod: Object) -> Object:
    return dict(pod["spec"]["containers"][0]["resources"].get("limits", {}))


def test_their_nodes_have_what_they_ask_for(tools: dict[str, str]) -> None:
    _run(tools)

    (given,) = {*re.findall(r'"allocatable":(\{[^}]*\})', Path(tools["LOG"]).read_text())}
    asked = {key for pod in made(_applied(tools)).pods for key in _limits(pod) if "/" in key}
    assert asked == set(json.loads(given))


def test_with_few_gpus_only_the_pods_without_a_controller_are_run(tools: dict[str, str]) -> None:
    _run(tools, WORKERS="3")

    kinds = {item["kind"] for item in _applied(tools)[:-1]}
    assert kinds == {"Pod"}


def test_other_examples_can_be_named_and_one_that_is_not_there_is_told(
    tools: dict[str, str],
) -> None:
    _run(tools, EXAMPLES="jobset")
    assert [item["kind"] for item in _applied(tools)] == ["JobSet", "Job"]

    done = _run(tools, EXAMPLES="plain-pods nothing")

    assert done.returncode == 1
    assert "there is no deploy/examples/nothing.yaml" in done.stderr


def test_an_example_that_cannot_be_read_back_is_no_success(tools: dict[str, str]) -> None:
    program = Path(tools["LOG"]).parent / "kubectl"
    answer = "grep -q 'kind: Job'"
    assert answer in program.read_text()
    program.write_text(program.read_text().replace(answer, "exit 3; false"))

    assert _run(tools).returncode == 3


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
