"""Patches of components, as Kustomize applies them: JSON Patch (RFC 6902), four of its operations.

What they make of a source is written as YAML in the style of the sources, so that a text of the
source that is a value of the chart is found in it too. Comments are lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Object = dict[str, Any]
Operation = Mapping[str, Any]


class PatchError(Exception):
    """A patch asks for something that cannot be done, or expects something else."""


class Patch(NamedTuple):
    """What is done to whom."""

    kind: str
    """A regular expression for the whole kind."""
    name: str
    """The same for the name."""
    operations: list[Operation]
    where: str
    """Its file, for messages."""

    def meant_for(self, item: Object) -> bool:
        """Whether the object is to be patched."""
        return bool(
            re.fullmatch(self.kind, item["kind"])
            and re.fullmatch(self.name, item["metadata"]["name"])
        )


def patches_of(folder: Path) -> Iterator[Patch]:
    """Those that a component's kustomization.yaml names, in its order."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for entry in kustomization.get("patches", ()):
        operations = yaml.safe_load((folder / entry["path"]).read_text())
        target = entry["target"]
        yield Patch(target["kind"], target["name"], operations, f"{folder.name}/{entry['path']}")


def patched(text: str, patches: Iterable[Patch]) -> str | None:
    """The objects of a source with these patches, as YAML; None if none is meant for them.

    Raises PatchError.
    """
    # Through JSON, as anchors make one list of two.
    items = [json.loads(json.dumps(item)) for item in yaml.safe_load_all(text)]
    meant = [(item, patch) for patch in patches for item in items if patch.meant_for(item)]
    for item, patch in meant:
        for operation in patch.operations:
            try:
                _apply(item, operation)
            except (LookupError, TypeError, ValueError) as error:
                name = f"{item['kind']} {item['metadata']['name']}"
                raise PatchError(f"{patch.where}: {operation} of {name}: {error!r}") from error
    return _written(items) if meant else None


def _apply(item: Object, operation: Operation) -> None:
    """Raises LookupError, TypeError or ValueError where there is no such place."""
    *parents, last = operation["path"].removeprefix("/").split("/")
    inner: Any = item
    for name in parents:
        inner = inner[_key(inner, name)]
    if (asked := operation["op"]) == "add":
        _add(inner, last, operation["value"])
        return
    key = _key(inner, last)
    before = inner[key]
    if asked == "remove":
        del inner[key]
    elif asked == "replace":
        inner[key] = operation["value"]
    elif asked != "test":
        raise ValueError(f"the operation {asked} is not known here")
    elif before != operation["value"]:
        raise ValueError(f"it is {before!r}")


def _add(inner: Any, last: str, value: Any) -> None:
    if isinstance(inner, list):
        inner.insert(len(inner) if last == "-" else int(last), value)
    else:
        inner[last] = value


def _key(inner: Any, name: str) -> Any:
    return int(name) if isinstance(inner, list) else name


# ── in the style of the sources ──


class _Dumper(yaml.SafeDumper):
    """Lists are indented, long texts are blocks, and nothing refers to something above."""

    def increase_indent(self, flow: bool = False, *_: object, **__: object) -> None:
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, _: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _written(items: Iterable[Object]) -> str:
    return yaml.dump_all(items, Dumper=_Dumper, sort_keys=False, width=10**6, allow_unicode=True)
