"""Which GPU indexes each pod has, from the names that device plugins give to GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from scheduler.agent.reading import Held, Reading

_NUMBERED = re.compile(r"(?:nvidia)?([0-9]{1,3})")
_BY_NUMBER = ("nvidia.com/", "amd.com/")


def gpus_in_use(held: Iterable[Held], reading: Reading) -> dict[str, tuple[int, ...]]:
    """Pod -> indexes, ascending; pods without a whole GPU are left out.

    A GPU that several pods share (``GPU-…::3``) counts for each. MIG instances are no GPUs.
    """
    found: dict[str, set[int]] = {}
    for pod, resource, ids in held:
        indexes = {_index(resource, one, reading) for one in ids} - {None}
        if indexes:
            found.setdefault(pod, set()).update(index for index in indexes if index is not None)
    return {pod: tuple(sorted(indexes)) for pod, indexes in sorted(found.items())}


def _index(resource: str, device: str, reading: Reading) -> int | None:
    """The GPU that a device id names, by UUID, PCI address or number (``3``, ``nvidia3``)."""
    name = device.partition("::")[0]
    index = reading.ids.get(name)
    if index is None and resource.startswith(_BY_NUMBER):
        match = _NUMBERED.fullmatch(name)
        index = int(match[1]) if match else None
    known = index is not None and index < reading.devices.matrix.gpus
    return index if known and index not in reading.devices.matrix.mig else None
