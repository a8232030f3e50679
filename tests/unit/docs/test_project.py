"""The files around the code: workflows, changelog, locks, hooks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import scheduler
from tests.e2e.controlplane.versions import KUBERNETES_VERSION, KUBERNETES_VERSIONS

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))

EVERY_WORKFLOW = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)


def _steps(workflow: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        yield from job["steps"]


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_workflows_are_what_the_forge_reads() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    checked = [[*command, "vendor.github-workflows", *map(str, WORKFLOWS)]]
    checked.append([*command, "vendor.dependabot", str(ROOT / ".github/dependabot.yml")])

    for line in checked:
        result = subprocess.run(line, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout


@EVERY_WORKFLOW
def test_a_workflow_runs_only_what_there_is(workflow: Path) -> None:
    commands = "\n".join(step.get("run", "") for step in _steps(workflow))

    assert set(re.findall(r"\bmake ([a-z0-9-]+)", commands)) <= _targets()
    for file in re.findall(r"(?<![\w./])deploy/[\w./-]+", commands):
        assert (ROOT / file).exists(), file


@EVERY_WORKFLOW
def test_a_workflow_starts_with_the_right_to_read_alone(workflow: Path) -> None:
    text = workflow.read_text()
    checkouts = [step for step in _steps(workflow) if "checkout" in step.get("uses", "")]

    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    # A title or a branch name in a script is a script of whoever chose it.
    assert not re.findall(r"run:.*\$\{\{ *github\.(?:event|head_ref|ref_name)", text)


def test_every_job_ends_by_itself() -> None:
    for workflow in WORKFLOWS:
        for name, job in yaml.safe_load(workflow.read_text())["jobs"].items():
            assert job["timeout-minutes"] <= 60, f"{workflow.name}: {name}"


def _matrix(workflow: str, key: str) -> list[str]:
    jobs = yaml.safe_load((ROOT / f".github/workflows/{workflow}.yml").read_text())["jobs"]
    (found,) = [job["strategy"]["matrix"][key] for job in jobs.values()]
    return [str(item) for item in found]


def test_the_newest_minors_are_tried_on_kind_and_the_others_from_their_modules() -> None:
    assert _matrix("kind", "kubernetes") == list(KUBERNETES_VERSIONS[-3:])
    # On the newest one, every test runs with every change.
    assert _matrix("versions", "kubernetes") == list(KUBERNETES_VERSIONS[:-1])
    assert KUBERNETES_VERSIONS[-1] == KUBERNETES_VERSION


def test_every_image_is_built_where_it_changes_and_released() -> None:
    images = {file.name.partition(".")[0] for file in (ROOT / "deploy/docker").glob("*.Dockerfile")}
    jobs = yaml.safe_load((ROOT / ".github/workflows/images.yml").read_text())["jobs"]
    built = {entry["image"] for entry in jobs["build"]["strategy"]["matrix"]["include"]}
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]

    assert built == images
    assert set(release["images"]["strategy"]["matrix"]["image"]) == images


def test_what_is_released_names_the_images_that_were_pushed(tmp_path: Path) -> None:
    release = ROOT / ".github/workflows/release.yml"
    (step,) = [step for step in _steps(release) if "name the images" in step.get("name", "")]
    (push,) = [step for step in _steps(release) if step.get("id") == "push"]
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    variables = {"IMAGES": "ghcr.io/someone/muster", "GITHUB_REF_NAME": "v9.8.7"}

    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env=os.environ | variables,
        check=True,
    )

    manifest = (tmp_path / "deploy/muster.yaml").read_text()
    values = yaml.safe_load((tmp_path / "deploy/chart/values.yaml").read_text())
    pushed = "ghcr.io/someone/muster-{}:v9.8.7"
    assert re.findall(r"image: (\S*muster\S*)", manifest) == [pushed.format("scheduler")]
    for name, image in (("scheduler", values["image"]), ("agent", values["agent"]["image"])):
        assert "{repository}:{tag}".format(**image) == pushed.format(name)
    assert values["kubeScheduler"]["image"]["tag"] == KUBERNETES_VERSION
    stated = push["with"]["tags"].replace("${{ github.repository }}", "someone/muster")
    assert stated.startswith("ghcr.io/someone/muster-${{ matrix.image }}:")


def test_the_changelog_begins_with_what_is_not_released_and_goes_back_from_this_version() -> None:
    heads = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    versions = [tuple(map(int, head.split("."))) for head in heads[1:]]

    assert heads[0] == "Unreleased"
    assert heads[1] == scheduler.__version__
    assert versions == sorted(versions, reverse=True)


@pytest.mark.parametrize("lock", sorted((ROOT / "locks").glob("*.txt")), ids=lambda file: file.stem)
def test_a_lock_has_hashes_and_names_no_index(lock: Path) -> None:
    text = lock.read_text()
    packages = re.split(r"\n(?=[a-z0-9])", text)[1:]

    assert packages
    assert all("==" in package and "--hash=sha256:" in package for package in packages)
    assert not re.findall(r"index-url|https?://", text)


def test_each_image_has_only_what_it_runs() -> None:
    assert not re.search(r"^torch==", (ROOT / "locks/scheduler.txt").read_text(), re.MULTILINE)
    assert not re.search(r"^fastapi==", (ROOT / "locks/trainer.txt").read_text(), re.MULTILINE)


def test_the_hooks_use_the_tools_that_make_check_uses() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    check = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    tools = {line.split()[0] for line in check.splitlines() if line.startswith("\t$(BIN)/")}

    entries = " ".join(hook["entry"] for repo in hooks for hook in repo["hooks"])
    assert {tool.removeprefix("$(BIN)/") for tool in tools} <= set(
        re.findall(r"\.venv/bin/([\w-]+)", entries)
    )
