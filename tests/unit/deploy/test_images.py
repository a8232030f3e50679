"""The Dockerfiles: what they copy exists, what they install is locked, who they run as."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deploy_objects import DEPLOY, ROOT, installed, kustomized, values

from scheduler import __version__

DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))
AGENT, SCHEDULER, _ = DOCKERFILES


def _instructions(path: Path) -> list[tuple[str, str]]:
    """Instruction and the rest of its line, continuations joined, comments dropped."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (name, " ".join(rest.split()))
        for line in joined.splitlines()
        if line.strip()
        for name, _, rest in [line.partition(" ")]
    ]


def _copied(path: Path) -> list[str]:
    """Sources of COPY in the repository."""
    words = [rest.split() for name, rest in _instructions(path) if name == "COPY"]
    named = [source for parts in words if "--from=packages" not in parts for source in parts[:-1]]
    return [source.replace("${LOCK}", lock) for source in named for lock in _locks(path, source)]


def _locks(path: Path, source: str) -> list[str]:
    """What the argument LOCK may say; the first is what it says by itself."""
    if "${LOCK}" not in source:
        return [""]
    (stated,) = [rest for name, rest in _instructions(path) if rest.startswith("LOCK=")]
    return [stated.removeprefix("LOCK="), "otel"]


def test_there_are_images_for_the_scheduler_the_agent_and_the_trainer() -> None:
    assert [path.name.partition(".")[0] for path in DOCKERFILES] == [
        "agent",
        "scheduler",
        "trainer",
    ]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_what_is_copied_exists_and_reaches_the_builder(path: Path) -> None:
    ignore = path.with_name(f"{path.name}.dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in ignore if line.startswith("!")}

    assert ignore[0] == "*"
    assert set(_copied(path)) == sent
    for source in sent:
        assert (ROOT / source).exists(), source


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_every_package_comes_from_the_lock_with_its_hash(path: Path) -> None:
    installs = [rest for name, rest in _instructions(path) if "pip install" in rest]
    lock, *others = [source for source in _copied(path) if source.startswith("locks/")]

    assert len(installs) == 1
    assert "--require-hashes" in installs[0]
    assert lock == f"locks/{path.name.partition('.')[0]}.txt"
    for other in others:
        assert _pinned(lock).items() <= _pinned(other).items(), "it only adds"


def _pinned(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE))


def test_traces_are_no_part_of_the_image_unless_asked_for() -> None:
    extra = _pinned("locks/otel.txt").keys() - _pinned("locks/scheduler.txt").keys()

    assert {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= extra
    assert not any("torch" in name or "grpc" in name for name in extra)


def test_what_asks_kubelets_and_drivers_is_in_the_agents_image_alone() -> None:
    extra = _pinned("locks/agent.txt").keys() - _pinned("locks/scheduler.txt").keys()

    assert extra == {"grpcio", "nvidia-ml-py", "protobuf"}


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_it_starts_from_a_stated_python_and_runs_as_nobody_in_particular(path: Path) -> None:
    found = _instructions(path)
    stated = dict(rest.split("=", 1) for name, rest in found if name == "ARG")
    bases = {rest.split()[0] for name, rest in found if name == "FROM"}
    (user,) = [rest for name, rest in found if name == "USER"]

    # An argument before the first FROM counts in all of them.
    assert found[0][0] == "ARG"
    assert bases == {"${PYTHON}"}
    assert re.fullmatch(r"python:3\.\d+-slim", stated["PYTHON"])
    assert int(user.partition(":")[0]) > 0
    # Nothing becomes root again behind it.
    assert [name for name, _ in found[found.index(("USER", user)) :] if name == "RUN"] == []


def test_the_scheduler_image_has_no_torch_and_the_trainer_image_no_web_server() -> None:
    assert not re.search(r"^torch==", (ROOT / "locks/scheduler.txt").read_text(), re.MULTILINE)
    assert not re.search(r"^fastapi==", (ROOT / "locks/trainer.txt").read_text(), re.MULTILINE)


_LEFT_OUT = """
import importlib, pkgutil, sys

class LeftOut:
    def find_spec(self, name, path=None, target=None):
        left_out = "kubernetes.aio", "kubernetes.e2e_test", "grpc", "google.protobuf", "pynvml"
        if name.startswith(left_out) or ".tests" in name:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, LeftOut())
import scheduler
names = [found.name for found in pkgutil.walk_packages(scheduler.__path__, "scheduler.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


def test_the_scheduler_needs_nothing_that_its_image_leaves_out() -> None:
    (install,) = [rest for _, rest in _instructions(SCHEDULER) if "pip install" in rest]
    assert "rm -rf /packages/kubernetes/aio /packages/kubernetes/e2e_test" in install
    assert "-name tests -prune" in install

    command = [sys.executable, "-c", _LEFT_OUT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


_AGENT = """
import sys

class LeftOut:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(tuple(sys.argv[1].split())) or ".tests" in name:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, LeftOut())
from scheduler import cli
from scheduler.cluster import Transport, load
import scheduler.agent.loop, scheduler.agent.nvml, scheduler.agent.pod_resources
sys.argv[1:] = ["agent", "--once", "--print"]
cli.main()
"""


def test_the_agent_needs_nothing_that_its_image_leaves_out() -> None:
    (install,) = [rest for _, rest in _instructions(AGENT) if "pip install" in rest]
    (removed,) = re.findall(r"cd /packages && rm -rf (.*?) &&", install)
    names = removed.replace("/", ".")
    assert {"kubernetes.aio", "fastapi", "networkx", "uvloop"} <= set(names.split())

    command = [sys.executable, "-c", _AGENT, names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert "Traceback" not in done.stderr
    assert isinstance(json.loads(done.stdout), dict)


def test_every_image_that_is_installed_is_one_of_these() -> None:
    parts = [kustomized(DEPLOY / "components" / "agent"), installed()]
    named = {image for image in values(parts, "image") if str(image).startswith("muster-")}

    assert named <= {f"muster-{path.name.partition('.')[0]}:{__version__}" for path in DOCKERFILES}
