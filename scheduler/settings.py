"""Settings: one frozen value, read from a TOML file, the environment or a mapping."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from scheduler.errors import SettingsError, unreadable
from scheduler.model import Start

ACCELERATORS: tuple[str, ...] = (
    "nvidia.com/gpu",
    "nvidia.com/mig-*",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
)

AVOID_CONDITIONS: tuple[str, ...] = (
    "XidCriticalError",
    "GPUXIDErrors",
    "GPUMissing",
    "Gpu*Watch",
    "SysLogsXIDError",
    "SysLogsSXIDError",
    "SysLogsGPUFallenOff",
    "KernelDeadlock",
    "ReadonlyFilesystem",
)
"""Set by GPU health tools of clouds, NVSentinel and node-problem-detector."""

BIND_ANNOTATIONS: tuple[str, ...] = (
    "cluster-autoscaler.kubernetes.io/safe-to-evict=false",
    "karpenter.sh/do-not-disrupt=true",
)
"""What cluster-autoscaler and Karpenter read before they empty a node."""

ENVIRONMENT_PREFIX = "MUSTER_SET_"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, with its unit and the reason for its default."""

    levels: tuple[str, ...] = ()
    """Node label keys, broadest first. Empty: from topology objects, else from nodes' labels."""
    scheduler_names: tuple[str, ...] = ("muster", "muster-plain")
    """Pods with one of these ``schedulerName`` are ours; an absent name in a hand-made file too."""
    start: Start = Start.BURST
    """How gangs start unless they say otherwise."""
    timeout_s: float = 60.0
    """Seconds that a reservation may stay unbound before the whole gang gives it back."""
    grace_s: float = 60.0
    """Seconds that a broken gang's lost seats are kept from equal and lower priority."""
    backoff_s: float = 10.0
    """Seconds that a gang waits after a reservation ran out; doubles each time."""
    backoff_max_s: float = 300.0
    """Longest back-off in seconds."""
    retry_s: float = 1.0
    """Seconds before a failed Binding is sent again; doubles each time."""
    retry_max_s: float = 16.0
    """Longest wait in seconds between two tries of one Binding."""
    nominate_again_s: float = 5.0
    """Seconds before a nomination that no one-node filter call followed is sent again; doubles."""
    node_lost_s: float = 10.0
    """Seconds that a node may be gone before members bound to it are evicted to be replaced."""
    phase_s: float = 600.0
    """Seconds that room is kept for members which their controller makes in a later phase."""
    backfill_wait_s: float = 600.0
    """Seconds after which capacity is kept for a gang that does not fit."""
    backfill_share: float = 0.1
    """Share of the cluster, over time, that may be idled by what is kept for a gang; up to 1."""
    settle_s: float = 1.0
    """Seconds that the ends of a gang's other pods are waited for before its room is given away."""
    discover_s: float = 60.0
    """Seconds between two looks for kinds of PodGroup that were not served before."""
    avoid_conditions: tuple[str, ...] = AVOID_CONDITIONS
    """Node conditions that, when True, keep new members away; ``*`` and ``?`` as in file names."""
    avoid_s: float = 600.0
    """Seconds for which a node that keeps rejecting pods is avoided, and remembered for."""
    accelerators: tuple[str, ...] = ACCELERATORS
    """Resource names that count as accelerators; one trailing ``*`` allowed. What is stated is
    added to these, which the scheduler leaves to Muster."""
    bind_annotations: tuple[str, ...] = BIND_ANNOTATIONS
    """KEY=VALUE, put on a gang's member with its Binding unless the pod has that key: no autoscaler
    shall take a node away under a gang."""


def from_mapping(values: Mapping[str, Any], base: Settings | None = None) -> Settings:
    """Settings with ``values`` laid over ``base``.

    Raises SettingsError naming the setting for an unknown name or a value of the wrong kind.
    """
    hints = get_type_hints(Settings)
    changes: dict[str, Any] = {}
    for name, value in values.items():
        if name not in hints:
            known = ", ".join(sorted(hints))
            raise SettingsError(f"setting {name!r} is not known; known settings are: {known}")
        changes[name] = _convert(name, hints[name], value)
    return replace(base or Settings(), **changes)


def from_file(path: Path, base: Settings | None = None) -> Settings:
    """Settings from a TOML file. Raises SettingsError if it cannot be read."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the settings file {path}: {unreadable(error)}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"settings file {path} is no TOML: {error}") from error
    try:
        return from_mapping(values, base)
    except SettingsError as error:
        raise SettingsError(f"settings file {path}: {error}") from error


def from_environment(
    base: Settings | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Settings from variables such as ``MUSTER_SET_TIMEOUT_S=30``; lists are comma-separated."""
    found = {
        key.removeprefix(ENVIRONMENT_PREFIX).lower(): value
        for key, value in sorted((os.environ if environ is None else environ).items())
        if key.startswith(ENVIRONMENT_PREFIX)
    }
    return from_mapping(found, base)


def names() -> tuple[str, ...]:
    """The names of all settings."""
    return tuple(item.name for item in fields(Settings))


def _convert(name: str, kind: Any, value: Any) -> Any:
    if kind is float:
        return _share(name, value) if name.endswith("_share") else _seconds(name, value)
    if kind is Start:
        return _start(name, value)
    return _checked(name, _texts(name, value))


def _checked(name: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Lists that could never work are refused, not obeyed."""
    if not texts and name in ("accelerators", "scheduler_names"):
        raise SettingsError(f"setting {name!r}: it must name at least one")
    if name == "levels" and len(set(texts)) < len(texts):
        raise SettingsError(f"setting {name!r}: {list(texts)} names a level twice")
    for text in texts if name == "accelerators" else ():
        if text == "*" or "*" in text[:-1]:
            raise SettingsError(f"setting {name!r}: {text!r} may end in one *, after a name")
    for text in texts if name == "bind_annotations" else ():
        if not text.partition("=")[0] or "=" not in text:
            raise SettingsError(f"setting {name!r}: {text!r} is not KEY=VALUE")
    # kube-config has the scheduler ignore the known ones: pods that ask for them are never plain.
    return tuple(dict.fromkeys((*ACCELERATORS, *texts))) if name == "accelerators" else texts


_PAUSES = frozenset(
    {
        "retry_s",
        "retry_max_s",
        "nominate_again_s",
        "backoff_s",
        "backoff_max_s",
        "timeout_s",
        "discover_s",
    }
)
"""Settings of which 0 would mean to try again without any pause, for ever."""


def _seconds(name: str, value: Any) -> float:
    least = 0.1 if name in _PAUSES else 0.0
    seconds = _number(value)
    if not least <= seconds < 1e9:
        raise SettingsError(
            f"setting {name!r}: {value!r} is not a number of seconds from {least:g} to 1e9"
        )
    return seconds


def _share(name: str, value: Any) -> float:
    share = _number(value)
    if not 0.001 <= share <= 1:
        raise SettingsError(f"setting {name!r}: {value!r} is not a share from 0.001 to 1")
    return share


def _number(value: Any) -> float:
    """NaN, which lies in no range, for what is no number."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _start(name: str, value: Any) -> Start:
    try:
        return Start(value)
    except ValueError as error:
        choices = ", ".join(Start)
        raise SettingsError(f"setting {name!r}: {value!r} is not one of {choices}") from error


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple) and all(isinstance(part, str) and part for part in value):
        return tuple(value)
    raise SettingsError(f"setting {name!r}: {value!r} is not a list of names")
