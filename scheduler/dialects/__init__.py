"""Gang declarations, one module per ecosystem, in order of precedence.

A dialect has ``NAME``, ``KINDS``, ``read_pod(PodSource) -> Found`` and
``read_group(object) -> GroupTerms``; to add one, write its module and put it into ``DIALECTS``.
Our own keys (:mod:`scheduler.dialects.muster`) come first: they can name the gang, and they are
laid over what any other dialect says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from scheduler.dialects import coscheduling, muster, native
from scheduler.dialects.fields import Fault, Json, mapping, text
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.model import NO_OPTIONS, Declaration, Group, GroupKey

__all__ = ["DIALECTS", "Dialect", "Reading", "declaration", "group", "kind_of"]


class Dialect(Protocol):
    """What the modules of this package offer."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a constant of a module
        """The dialect's name, for people."""

    @property
    def KINDS(self) -> tuple[str, ...]:  # noqa: N802 - a constant of a module
        """``Kind.group`` of the objects that hold a minimum; may be empty."""

    def read_pod(self, source: PodSource) -> Found:
        """What the pod says of its gang in this dialect."""

    def read_group(self, obj: Json) -> GroupTerms:
        """What an object of one of ``KINDS`` says."""


DIALECTS: Sequence[Dialect] = (native, coscheduling)
"""All dialects but our own, the first that finds something wins."""

_BY_KIND = {kind: dialect for dialect in DIALECTS for kind in dialect.KINDS}


class Reading(NamedTuple):
    """What was found on a pod. With a fault the declaration still names the gang, if it can."""

    declaration: Declaration | None
    fault: str = ""


def declaration(source: PodSource) -> Reading:
    """What a pod says of its gang.

    Our own option keys count whichever dialect names the gang. Without any gang they are the
    options of a gang of one, and the declaration's name is "".
    """
    found = _identity(source)
    options = muster.read_options(source.annotations, source.labels)
    if isinstance(found, Fault):
        return Reading(None, _both(found, options))
    if isinstance(options, Fault):
        return Reading(found, options.reason)
    if found is None:
        return Reading(Declaration("", muster.NAME, options) if options != NO_OPTIONS else None)
    laid = muster.overlay(found.options, options)
    return Reading(Declaration(found.name, found.dialect, laid, found.group))


def group(obj: Json) -> Group | None:
    """A group object as a value; None if it is of no kind that is read or has no name.

    A list's items carry neither ``kind`` nor ``apiVersion``: who lists them has to fill these in.
    """
    kind = kind_of(obj)
    dialect = _BY_KIND.get(kind)
    meta = mapping(obj.get("metadata"))
    name = text(meta.get("name"))
    if dialect is None or not name:
        return None
    key = GroupKey(kind, text(meta.get("namespace")) or "default", name)
    uid = text(meta.get("uid")) or f"{key.namespace}/{name}"
    return _overlaid(key, uid, dialect.read_group(obj), meta)


def kind_of(obj: Json) -> str:
    """``Kind.group``, for example ``PodGroup.scheduling.k8s.io``; the version does not count."""
    api_group, slash, _ = text(obj.get("apiVersion")).partition("/")
    return f"{text(obj.get('kind'))}.{api_group}" if slash else text(obj.get("kind"))


def _identity(source: PodSource) -> Found:
    found = muster.read_pod(source)
    if found is not None:
        return found
    return next((said for one in DIALECTS if (said := one.read_pod(source)) is not None), None)


def _both(fault: Fault, options: Any) -> str:
    return f"{fault.reason}; {options.reason}" if isinstance(options, Fault) else fault.reason


def _overlaid(key: GroupKey, uid: str, terms: GroupTerms, meta: Json) -> Group:
    ours = muster.read_options(mapping(meta.get("annotations")), {})
    if isinstance(ours, Fault):
        fault = f"{terms.fault}; {ours.reason}" if terms.fault else ours.reason
        return Group(key, uid, terms.options, terms.gang, fault)
    return Group(key, uid, muster.overlay(terms.options, ours), terms.gang, terms.fault)
