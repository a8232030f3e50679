"""Metrics in Prometheus's text format, from values to a file that is never half there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one metric."""

    name: str
    help: str
    value: float
    kind: str = "gauge"
    labels: tuple[tuple[str, str], ...] = ()


def render(samples: Iterable[Sample]) -> str:
    """Text of the exposition format, version 0.0.4. Samples of one metric stand together."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    lines = []
    for name, group in by_name.items():
        lines += [f"# HELP {name} {group[0].help}", f"# TYPE {name} {group[0].kind}"]
        lines += [f"{name}{_labels(sample.labels)} {sample.value:.10g}" for sample in group]
    return "\n".join(lines) + "\n" if lines else ""


def write(path: Path, samples: Iterable[Sample]) -> None:
    """Replace the file at once. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(render(samples), encoding="utf-8")
    temporary.replace(path)


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
