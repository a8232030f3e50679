"""The Dockerfiles: what they copy exists, what they install is locked, who they run as."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from deploy_objects import DEPLOY, ROOT

DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))


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
    return [source for parts in words if "--from=packages" not in parts for source in parts[:-1]]


def test_there_is_an_image_for_the_scheduler_and_one_for_the_trainer() -> None:
    assert [path.name for path in DOCKERFILES] == ["scheduler.Dockerfile", "trainer.Dockerfile"]


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
    (lock,) = [source for source in _copied(path) if source.startswith("locks/")]

    assert len(installs) == 1
    assert "--require-hashes" in installs[0]
    assert lock == f"locks/{path.name.partition('.')[0]}.txt"


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_it_starts_from_a_stated_python_and_runs_as_nobody_in_particular(path: Path) -> None:
    found = _instructions(path)
    bases = {rest.split()[0] for name, rest in found if name == "FROM"}
    (user,) = [rest for name, rest in found if name == "USER"]

    assert all(re.fullmatch(r"python:3\.\d+-slim", base) for base in bases)
    assert int(user.partition(":")[0]) > 0
    # Nothing becomes root again behind it.
    assert [name for name, _ in found[found.index(("USER", user)) :] if name == "RUN"] == []


def test_the_scheduler_image_has_no_torch_and_the_trainer_image_no_web_server() -> None:
    assert not re.search(r"^torch==", (ROOT / "locks/scheduler.txt").read_text(), re.MULTILINE)
    assert not re.search(r"^fastapi==", (ROOT / "locks/trainer.txt").read_text(), re.MULTILINE)
