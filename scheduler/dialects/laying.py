"""Laying what one source says over what another says."""

from __future__ import annotations

from dataclasses import fields, replace

from scheduler.model import NO_OPTIONS, Options

__all__ = ["lay", "only_hard_segments", "states_minimum"]

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


def only_hard_segments(options: Options) -> Options:
    """Without a size of segments beside which no level is stated.

    Where others state none, their segments need not share anything, or would only rather. Our own
    key means the finest level then, and a gang could wait for ever for what nobody asked for.
    """
    if options.segment_size is None or options.segment_level:
        return options
    return replace(options, segment_size=None)


def states_minimum(options: Options) -> bool:
    """Whether a minimum follows from these options alone."""
    return bool(options.min_available or options.size or options.role_min)
