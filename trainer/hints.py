"""The hint: where the scheduler placed this pod, and its place in topology order.

The scheduler puts it on the pod as the annotation `muster.scheduler/hint` together with the
binding; the downward API shows it to the container as a variable or as a file. A pod that
another scheduler placed has none, which is no error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from trainer import pod_annotations
from trainer.errors import HintError
from trainer.numbers import MOST_COUNT
from trainer.settings import HintSource

VERSION = 1
DEFAULT_FILE = Path("/etc/muster/hint")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hint:
    """One pod's hint. Ranks count pods, not processes; the order is topology order."""

    v: int
    gang: str
    """`namespace/name`."""
    id: str
    """Uid of the gang's generation; ranks compare only between equal ids."""
    rank: int
    size: int
    min: int
    role: str | None
    node: str
    levels: tuple[str, ...]
    """Label keys of the topology, broadest first; none where the hint had no room for them."""
    path: tuple[str | None, ...]
    """The node's value for each level; None where the node has no such label. May be empty too."""
    clique: str | None
    """NVLink domain."""
    gpus: tuple[int, ...] | None
    """Indexes on the node, where they are known."""
    spot: bool

    @property
    def place(self) -> str:
        """The node with the domains it lies in, as people write it: `b1/r3/n12`."""
        return "/".join([*(value for value in self.path if value), self.node])

    def as_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class FoundHint:
    """What was found, and where. `problem` is set when there was something, but unreadable."""

    hint: Hint | None
    origin: str
    problem: str | None = None
    variables: tuple[tuple[str, str | None], ...] = ()
    """Environment (None: unset) that makes child processes find the same hint."""


def parse(text: str) -> Hint:
    """Read one hint. Unknown fields are ignored.

    Raises HintError, naming the field, for anything that is not a hint of this version.
    """
    raw = _object(text)
    _check_version(raw)
    levels = _strings(raw, "levels")
    size = _integer(raw, "size", least=1)
    return Hint(
        v=VERSION,
        gang=_text(raw, "gang"),
        id=_text(raw, "id"),
        rank=_integer(raw, "rank", least=0),
        size=size,
        min=_optional(raw, "min", lambda r, k: _integer(r, k, least=1)) or size,
        role=_optional(raw, "role", _text),
        node=_text(raw, "node"),
        levels=levels,
        path=_path(raw, levels),
        clique=_optional(raw, "clique", _text),
        gpus=_optional(raw, "gpus", _indexes),
        spot=_flag(raw, "spot"),
    )


def find(source: HintSource, default_file: Path = DEFAULT_FILE) -> FoundHint:
    """The first of: the file given, the variable with JSON, the variable with a file's name,
    the default file, the pod's annotations. A hint that cannot be read is a `problem`, never an
    exception.
    """
    if source.file is not None:
        return _from_file(source.file, "--hint")
    if source.text is not None:
        return _from_text(source.text, "MUSTER_HINT", (("MUSTER_HINT", source.text),))
    if source.variable_file is not None:
        return _from_file(source.variable_file, "MUSTER_HINT_FILE")
    if default_file.exists():
        return _from_file(default_file, str(default_file))
    return _annotated(source.annotations or default_file.with_name("annotations"))


def _annotated(path: Path) -> FoundHint:
    text = pod_annotations.read(path).get(pod_annotations.HINT)
    if text is None:
        return FoundHint(None, "none")
    return _from_text(text, str(path), (("MUSTER_HINT", text),))


def _from_file(path: Path, origin: str) -> FoundHint:
    exported = (("MUSTER_HINT", None), ("MUSTER_HINT_FILE", str(path.absolute())))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return FoundHint(None, origin, f"{origin}: cannot read {path}: {error}", exported)
    return _from_text(text, origin, exported)


def _from_text(text: str, origin: str, exported: tuple[tuple[str, str | None], ...]) -> FoundHint:
    # The downward API shows a missing annotation as an empty value: no hint, and no mistake.
    if not text.strip():
        return FoundHint(None, f"{origin} (empty)", None, exported)
    try:
        return FoundHint(parse(text), origin, None, exported)
    except HintError as error:
        return FoundHint(None, origin, f"{origin}: {error}", exported)


def _object(text: str) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HintError(f"the hint is not JSON ({error}); it starts with {text[:40]!r}") from error
    if not isinstance(raw, dict):
        raise HintError(f"the hint is a JSON {type(raw).__name__}, not an object")
    return raw


def _check_version(raw: dict[str, Any]) -> None:
    version = _integer(raw, "v", least=1)
    if version > VERSION:
        raise HintError(
            f"the hint has version {version} and this trainer reads up to {VERSION}; "
            "upgrade muster-train in the image"
        )


def _wrong(field: str, wanted: str, value: object) -> HintError:
    return HintError(f"hint field {field!r}: want {wanted}, got {json.dumps(value)[:80]}")


def _required(raw: dict[str, Any], field: str) -> Any:
    if field not in raw:
        raise HintError(f"hint field {field!r} is missing")
    return raw[field]


def _optional(
    raw: dict[str, Any], field: str, read: Callable[[dict[str, Any], str], T]
) -> T | None:
    return None if raw.get(field) in (None, "") else read(raw, field)


def _integer(raw: dict[str, Any], field: str, *, least: int) -> int:
    value = _required(raw, field)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise _wrong(field, f"a whole number >= {least}", value)
    if value > MOST_COUNT:
        raise _wrong(field, f"a whole number <= {MOST_COUNT}", value)
    return value


def _text(raw: dict[str, Any], field: str) -> str:
    value = _required(raw, field)
    if not isinstance(value, str) or not value:
        raise _wrong(field, "a non-empty string", value)
    return value


def _flag(raw: dict[str, Any], field: str) -> bool:
    value = raw.get(field, False)
    if not isinstance(value, bool):
        raise _wrong(field, "true or false", value)
    return value


def _strings(raw: dict[str, Any], field: str) -> tuple[str, ...]:
    value = _required(raw, field)
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise _wrong(field, "a list of non-empty strings", value)
    return tuple(value)


def _path(raw: dict[str, Any], levels: tuple[str, ...]) -> tuple[str | None, ...]:
    value = _required(raw, "path")
    if not isinstance(value, list) or not all(v is None or isinstance(v, str) for v in value):
        raise _wrong("path", "a list of strings and nulls", value)
    if levels and len(value) != len(levels):
        raise _wrong("path", f"one entry for each of the {len(levels)} levels", value)
    # An empty label value puts a node in no domain, just as a missing label does.
    return tuple(entry or None for entry in value)


def _indexes(raw: dict[str, Any], field: str) -> tuple[int, ...]:
    value = _required(raw, field)
    if not isinstance(value, list) or not all(
        isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value
    ):
        raise _wrong(field, "a list of whole numbers >= 0", value)
    return tuple(value)
