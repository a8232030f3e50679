"""What a gang is judged by: its members' and its group's word, taken together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scheduler.core.gang import Gang, Status, lacking
from scheduler.model import Group, GroupKey, Options


def merged(gang: Gang, group: Group | None) -> Options:
    """What the members and the group say together.

    The pods' word wins over the group's; where members differ, the largest numbers win, and the
    first in a fixed order for the rest. A minimum that pods state replaces all of the group's.
    """
    if len(gang.declared) == 1 and group is None:
        return next(iter(gang.declared))
    pods = sorted(gang.declared, key=repr)
    stated = [*pods, group.options] if group is not None else pods
    cut = next((item for item in stated if item.segment_size is not None), None)
    return Options(
        min_available=_most(pods, group, "min_available"),
        size=_most(pods, group, "size"),
        role_min=_first(pods if any(item.min_available for item in pods) else stated, "role_min")
        or (),
        required=_first(stated, "required") or "",
        preferred=_first(stated, "preferred") or "",
        relax_after=_first(stated, "relax_after"),
        segment_size=_first(stated, "segment_size"),
        segment_level=_first(stated, "segment_level") or "",
        segment_within=cut.segment_within if cut is not None else (),
        communication=_first(stated, "communication"),
        nvlink=_first(stated, "nvlink"),
        gpu_required=_first(stated, "gpu_required") or (),
        gpu_preferred=_first(stated, "gpu_preferred") or (),
        timeout=_first(stated, "timeout"),
        max_runtime=_first(stated, "max_runtime"),
        first=_most(pods, group, "first"),
        partners=_first(stated, "partners") or (),
        start=_first(stated, "start"),
        exact_gpus=_first(stated, "exact_gpus"),
    )


def _first(stated: list[Options], name: str) -> Any:
    values = (getattr(options, name) for options in stated)
    return next((value for value in values if value not in (None, "", ())), None)


def _most(pods: list[Options], group: Group | None, name: str) -> int | None:
    values: list[int] = [value for item in pods if (value := getattr(item, name)) is not None]
    if not values and group is not None:
        values = [value for value in (getattr(group.options, name),) if value is not None]
    return max(values, default=None)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a gang is judged by, beside its members."""

    group_missing: GroupKey | None
    options: Options
    group_fault: str = ""

    min: int = field(init=False)
    """Members that must be there in all."""
    least: int = field(init=False)
    """Members that must be there at once for the first phase."""

    def __post_init__(self) -> None:
        by_role = sum(number for _, number in self.options.role_min)
        least = max(self.options.min_available or self.options.size or 1, by_role)
        object.__setattr__(self, "min", least)
        object.__setattr__(self, "least", min(self.options.first or least, least))

    def lacking(self, gang: Gang, *wanted: Status) -> int:
        """Members missing to the first phase, with only these."""
        role_min = self.options.role_min if self.least == self.min else ()
        return lacking(gang, self.least, role_min, *wanted)
