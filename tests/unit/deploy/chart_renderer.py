"""Renders the chart's templates, which use little of Helm. An e2e test compares it with Helm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from deploy_objects import DEPLOY, Object

CHART = DEPLOY / "chart"

_ACTION = re.compile(r"(?P<trim>\s*)\{\{(?P<dash>-?) (?P<words>.*?) \}\}")
_WHEN = re.compile(
    r"\{\{- if (?P<asked>[^}]+) \}\}\n(?P<then>.*?)"
    r"(?:\{\{- else \}\}\n(?P<otherwise>.*))?\{\{- end \}\}\n\Z",
    re.DOTALL,
)


def default_values() -> dict[str, Any]:
    """What values.yaml says."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return values


def chart_objects(values: Mapping[str, Any], namespace: str) -> list[Object]:
    """Every object of the chart with these values."""
    context = {"Values": values, "Release": {"Namespace": namespace}}
    texts = [_rendered(path.read_text(), context) for path in sorted(_templates())]
    return [item for text in texts for item in yaml.safe_load_all(text) if item is not None]


def _templates() -> list[Any]:
    return list((CHART / "templates").glob("*.yaml"))


def _rendered(text: str, context: Mapping[str, Any]) -> str:
    if (when := _WHEN.search(text)) is not None:
        paths = when["asked"].removeprefix("and ").split()
        asked = all(_looked_up(path, context) for path in paths)
        text = when["then"] if asked else when["otherwise"] or ""
    return _ACTION.sub(lambda action: _value(action, context), text)


def _value(action: re.Match[str], context: Mapping[str, Any]) -> str:
    found: Any = None
    for step in action["words"].split(" | "):
        name, _, argument = step.partition(" ")
        if name == '"{{"':
            found = "{{"
        elif name == "toYaml":
            found = yaml.safe_dump(_looked_up(argument, context)).rstrip("\n")
        elif name == "nindent":
            found = "\n" + "\n".join(" " * int(argument) + line for line in found.splitlines())
        else:
            found = _looked_up(step, context)
    return str(found) if action["dash"] else action["trim"] + str(found)


def _looked_up(path: str, context: Mapping[str, Any]) -> Any:
    found: Any = context
    assert path.startswith("."), path
    for name in path.removeprefix(".").split("."):
        found = found[name]
    return found
