"""Patches of components, as the chart is written from them. An e2e test compares with Kustomize."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy_objects import DEPLOY, kustomized

from deploy import render
from deploy.patches import Operation, Patch, PatchError, patched, patches_of

SOURCE = """\
kind: Thing
metadata:
  name: one
spec:
  list: &shared
    - a: 1
    - b: 2
  again: *shared
---
kind: Thing
metadata:
  name: other
"""


def _patch(*operations: Operation, kind: str = "Thing", name: str = "one") -> Patch:
    return Patch(kind, name, list(operations), "component/patch.yaml")


def _spec(*operations: Operation) -> dict[str, Any]:
    text = patched(SOURCE, [_patch(*operations)])
    assert text is not None
    found, other = yaml.safe_load_all(text)
    assert other == {"kind": "Thing", "metadata": {"name": "other"}}
    spec: dict[str, Any] = found["spec"]
    return spec


def _op(op: str, path: str, value: object = None) -> Operation:
    return {"op": op, "path": path, "value": value}


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        (_op("add", "/spec/list/-", 3), [{"a": 1}, {"b": 2}, 3]),
        (_op("add", "/spec/list/0", 3), [3, {"a": 1}, {"b": 2}]),
        (_op("add", "/spec/list/1/c", 4), [{"a": 1}, {"b": 2, "c": 4}]),
        (_op("replace", "/spec/list/0/a", 5), [{"a": 5}, {"b": 2}]),
        (_op("remove", "/spec/list/0"), [{"b": 2}]),
        (_op("test", "/spec/list/0/a", 1), [{"a": 1}, {"b": 2}]),
    ],
    ids=lambda given: given["op"] if isinstance(given, dict) else "",
)
def test_an_operation_does_what_the_standard_says(operation: Operation, wanted: object) -> None:
    spec = _spec(operation)

    assert spec["list"] == wanted
    assert spec["again"] == [{"a": 1}, {"b": 2}], "an anchor is no tie"


@pytest.mark.parametrize(
    "operation",
    [
        _op("test", "/spec/list/0/a", 2),
        _op("remove", "/spec/list/7"),
        _op("replace", "/spec/none", 1),
        _op("add", "/spec/none/deeper", 1),
        _op("move", "/spec/list"),
    ],
    ids=lambda operation: operation["op"],
)
def test_what_cannot_be_done_is_told_with_its_file_and_object(operation: Operation) -> None:
    with pytest.raises(PatchError, match=r"component/patch\.yaml: .* of Thing one"):
        patched(SOURCE, [_patch(operation)])


def test_a_patch_is_for_whole_names_and_kinds() -> None:
    for name, kind in (("o", "Thing"), ("one", "Thin"), ("none", "Thing")):
        assert patched(SOURCE, [_patch(name=name, kind=kind)]) is None
    assert patched(SOURCE, [_patch(name="o.*", kind="(Some)?Thing")]) is not None


def test_what_is_written_has_the_style_of_the_sources() -> None:
    source = (DEPLOY / "base" / "configuration.yaml").read_text()
    patch = _patch(_op("add", "/data/more", "x"), kind="ConfigMap", name="muster")

    text = patched(source, [patch])

    assert text is not None
    bare = [
        line for line in source.splitlines() if not line.startswith(("#", "  # What", "  # Mus"))
    ]
    assert text.splitlines() == [*bare, "  more: x"]


def test_every_patch_of_a_component_is_for_something_of_the_base() -> None:
    base = kustomized(DEPLOY / "base")
    found = [patch for part in render.PARTS for patch in patches_of(DEPLOY / part.folder)]

    assert found
    for patch in found:
        assert any(patch.meant_for(item) for item in base), patch.where


def test_two_components_that_patch_one_source_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = render.Part("components/separate", ".Values.again.enabled")
    monkeypatch.setattr("deploy.render.PARTS", (*render.PARTS, again))

    with pytest.raises(render.RenderError, match="two components patch deploy/base/"):
        render.templates()


def test_a_patch_that_does_not_fit_the_base_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(folder: Path) -> list[Patch]:
        operation = _op("test", "/spec/replicas", 7)
        return (
            [_patch(operation, kind="Deployment", name="muster")]
            if folder.name == "separate"
            else []
        )

    monkeypatch.setattr("deploy.render.patches_of", other)

    with pytest.raises(render.RenderError, match="it is 1"):
        render.templates()
