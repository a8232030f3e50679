"""Overlays and components: what they refer to is there. An e2e test builds them with kubectl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy_objects import DEPLOY, NAMESPACE, Object, installed, kustomized, objects, option

from scheduler.settings import from_mapping

COMPONENTS = sorted((DEPLOY / "components").iterdir())
OVERLAYS = sorted((DEPLOY / "overlays").iterdir())
PATCHES = [(folder, patch) for folder in OVERLAYS for patch in sorted(folder.glob("[!k]*.yaml"))]


def _kustomization(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return found


def _named(folder: Path) -> str:
    return folder.name


def _patched(patch: Path) -> tuple[Object, Object]:
    """What a patch says, and what it is laid over."""
    (said,) = objects(patch)
    (under,) = [
        item
        for item in installed()
        if (item["kind"], item["metadata"]["name"]) == (said["kind"], said["metadata"]["name"])
    ]
    return said, under


@pytest.mark.parametrize("folder", [*COMPONENTS, *OVERLAYS], ids=_named)
def test_every_file_is_listed_and_every_listed_one_is_there(folder: Path) -> None:
    said = _kustomization(folder)
    files = {path.name for path in folder.iterdir()} - {"kustomization.yaml"}
    listed = {*said["resources"], *(patch["path"] for patch in said.get("patches", ()))}

    for other in (*said["resources"], *said.get("components", ())):
        assert (folder / other).exists(), other
    assert {name for name in listed if "/" not in name} == files


@pytest.mark.parametrize("folder", COMPONENTS, ids=_named)
def test_a_component_states_its_namespaces_and_makes_those_of_its_own(folder: Path) -> None:
    found = kustomized(folder)
    made = {item["metadata"]["name"] for item in found if item["kind"] == "Namespace"}
    used = {item["metadata"].get("namespace") for item in found} - {None}

    assert _kustomization(folder)["kind"] == "Component"
    assert used <= made | {NAMESPACE}


@pytest.mark.parametrize(("folder", "patch"), PATCHES, ids=lambda path: path.name)
def test_a_patch_changes_what_is_there(folder: Path, patch: Path) -> None:
    said, under = _patched(patch)
    targets = [entry["target"] for entry in _kustomization(folder)["patches"]]

    assert said["metadata"]["namespace"] == under["metadata"]["namespace"]
    assert {"kind": said["kind"], "name": said["metadata"]["name"]} in targets
    if said["kind"] == "Deployment":
        names = [{c["name"] for c in _containers(item)} for item in (said, under)]
        assert names[0] <= names[1]


def _containers(deployment: Object) -> list[Object]:
    found: list[Object] = deployment["spec"]["template"]["spec"]["containers"]
    return found


def test_production_changes_nothing_of_who_can_reach_what() -> None:
    said, under = _patched(DEPLOY / "overlays" / "production" / "placement.yaml")
    (new,) = [item for item in _containers(said) if item["name"] == "muster"]
    (old,) = [item for item in _containers(under) if item["name"] == "muster"]

    assert set(new["args"]) - set(old["args"]) == {"--log-format=json"}
    assert set(old["args"]) <= set(new["args"])
    assert option(new, "host") == "127.0.0.1"


def test_the_levels_of_kind_are_the_labels_of_its_nodes() -> None:
    import tomllib

    (said,) = objects(DEPLOY / "overlays" / "kind" / "settings.yaml")
    levels = from_mapping(tomllib.loads(said["data"]["settings.toml"])).levels
    script = (DEPLOY / "kind" / "up.sh").read_text()

    assert len(levels) == 2
    for level in levels:
        assert f"{level}:" in script or f"{level}=" in script
