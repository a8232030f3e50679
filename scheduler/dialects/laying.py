"""Laying what one source says over what another says."""

from __future__ import annotations

from dataclasses import fields, replace

from scheduler.model import NO_OPTIONS, Options

__all__ = ["lay", "states_minimum"]

_FIELDS = tuple(field.name for field in fields(Options))


def lay(base: Options, top: Options) -> Options:
    """``base`` with everything that ``top`` states laid over it."""
    if top is NO_OPTIONS or top == NO_OPTIONS:
        return base
    if base == NO_OPTIONS:
        return top
    stated = {
        name: value for name in _FIELDS if (value := getattr(top, name)) not in (None, "", ())
    }
    if top.segment_size is not None:
        # Larger segments are made up of those that are stated beside them, and of no others.
        stated["segment_within"] = top.segment_within
    return replace(base, **stated)


def states_minimum(options: Options) -> bool:
    """Whether a minimum follows from these options alone."""
    return bool(options.min_available or options.size or options.role_min)
