"""Reads what is under deploy/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
NAMESPACE = "muster-system"

Object = dict[str, Any]


def objects(path: Path) -> list[Object]:
    """The objects of one YAML file."""
    return [found for found in yaml.safe_load_all(path.read_text()) if found is not None]


def installed() -> list[Object]:
    """The objects of the one-file manifest."""
    return objects(DEPLOY / "muster.yaml")


def kustomized(folder: Path) -> list[Object]:
    """The objects of a base or a component, as its kustomization.yaml lists them."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [item for name in listed for item in objects(folder / name)]


def one(kind: str, name: str | None = None) -> Object:
    """The only installed object of that kind (and name)."""
    found = [
        item
        for item in installed()
        if item["kind"] == kind and name in (None, item["metadata"]["name"])
    ]
    assert len(found) == 1, f"{kind} {name or ''}: {len(found)} objects"
    return found[0]


def pod_template() -> Object:
    """The pod that the Deployment makes."""
    template: Object = one("Deployment")["spec"]["template"]
    return template


def containers() -> dict[str, Object]:
    """The Deployment's containers by name."""
    return {item["name"]: item for item in pod_template()["spec"]["containers"]}


def option(container: Object, name: str) -> str:
    """The value of ``--name=value`` among a container's arguments."""
    found = [arg.partition("=")[2] for arg in container["args"] if arg.startswith(f"--{name}=")]
    assert len(found) == 1, f"--{name}: {found}"
    return str(found[0])


def values(found: object, key: str) -> Iterator[Any]:
    """Every value under ``key``, anywhere inside."""
    if isinstance(found, dict):
        for name, inner in found.items():
            if name == key:
                yield inner
            yield from values(inner, key)
    elif isinstance(found, list):
        for inner in found:
            yield from values(inner, key)
