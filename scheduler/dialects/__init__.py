"""Gang declarations, one module per ecosystem, in order of precedence.

A dialect has ``NAME``, ``KINDS``, ``OWNERS``, ``read_pod(PodSource) -> Found`` and
``read_group(object) -> GroupTerms``; to add one, write its module and put it into ``DIALECTS``.
Our own keys (:mod:`scheduler.dialects.muster`) come first: they can name the gang, and they are
laid over what any other dialect says. docs/dialects.md is the whole of it for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from scheduler.dialects import (
    charts,
    coscheduling,
    hived,
    job,
    jobset,
    kai,
    koordinator,
    kubeflow,
    kueue,
    lws,
    muster,
    native,
    ray,
    roles,
    volcano,
    yunikorn,
)
from scheduler.dialects.fields import Fault, Json, mapping, text
from scheduler.dialects.laying import lay, states_minimum
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.model import NO_OPTIONS, Chart, Declaration, Group, GroupKey, Options

__all__ = [
    "CHARTS",
    "DIALECTS",
    "KINDS",
    "OWNERS",
    "Dialect",
    "Reading",
    "chart",
    "declaration",
    "group",
    "is_owner",
    "kind_of",
]


class Dialect(Protocol):
    """What the modules of this package offer."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a constant of a module
        """The dialect's name, for people."""

    @property
    def KINDS(self) -> tuple[str, ...]:  # noqa: N802 - a constant of a module
        """``Kind.group`` of the objects that hold a minimum and are watched; may be empty."""

    @property
    def OWNERS(self) -> tuple[str, ...]:  # noqa: N802 - a constant of a module
        """``Kind.group`` of the objects that are read when a pod names one; may be empty."""

    def read_pod(self, source: PodSource) -> Found:
        """What the pod says of its gang in this dialect."""

    def read_group(self, obj: Json) -> GroupTerms:
        """What an object of one of ``KINDS`` or ``OWNERS`` says."""


DIALECTS: Sequence[Dialect] = (
    native,
    koordinator,
    coscheduling,
    volcano,
    kueue,
    kai,
    yunikorn,
    hived,
    lws,
    kubeflow,
    jobset,
    ray,
    job,
)
"""All dialects but our own, the first that finds something wins.

From native to hived someone has declared a gang; from lws on it is inferred from the controller.
Koordinator comes before the labels that it shares, since it says more.
"""

_KNOW_BETTER = (lws, kubeflow, jobset)
"""Controllers whose PodGroup counts pods that are not there at the same time."""

_CLOSE = (kueue, kai, volcano, koordinator)
"""Those whose topology requests sit on the pods of any workload."""

_CLOSENESS = frozenset(key for one in _CLOSE for key in one.TOPOLOGY)
_ON_PODS = tuple(one.read_topology for one in _CLOSE)
_ON_GROUPS = (koordinator.read_annotations, *_ON_PODS)
"""What is read of a group object's annotations."""

KINDS: tuple[str, ...] = tuple(kind for one in DIALECTS for kind in one.KINDS)
"""``Kind.group`` of all objects that are watched."""

OWNERS = frozenset(kind for one in DIALECTS for kind in one.OWNERS)
"""``Kind.group`` of all workloads that are read when a pod names them."""

CHARTS: tuple[str, ...] = tuple(charts.KINDS)
"""``Kind.group`` of all objects that describe the network; they are of no namespace."""

_BY_KIND = {kind: one for one in DIALECTS for kind in (*one.KINDS, *one.OWNERS)}


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
    ours = muster.read_options(source.annotations, source.labels)
    if isinstance(found, Fault):
        return Reading(None, _both(found, ours))
    if found is None and isinstance(ours, Options):
        return Reading(Declaration("", muster.NAME, ours) if ours != NO_OPTIONS else None)
    near = _closeness(source.annotations) if found is not None else NO_OPTIONS
    if isinstance(near, Fault):
        return Reading(found, _both(near, ours))
    if isinstance(ours, Fault) or found is None:
        return Reading(found, ours.reason if isinstance(ours, Fault) else "")
    return Reading(_completed(source, found, near, ours))


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


def chart(obj: Json) -> Chart | None:
    """A topology object as a value; None if it is of no kind that is read or has no name."""
    kind = kind_of(obj)
    name = text(mapping(obj.get("metadata")).get("name"))
    if kind not in charts.KINDS or not name:
        return None
    return charts.read(obj, GroupKey(kind, "", name))


def kind_of(obj: Json) -> str:
    """``Kind.group``, for example ``PodGroup.scheduling.k8s.io``; the version does not count."""
    api_group, slash, _ = text(obj.get("apiVersion")).partition("/")
    return f"{text(obj.get('kind'))}.{api_group}" if slash else text(obj.get("kind"))


def is_owner(key: GroupKey) -> bool:
    """Whether the object is a workload that is read when a pod names it, and not watched."""
    return key.kind in OWNERS


# ── pods ──


def _identity(source: PodSource) -> Found:
    found = muster.read_pod(source)
    if found is not None:
        return found
    found = next((said for one in DIALECTS if (said := one.read_pod(source)) is not None), None)
    if not isinstance(found, Declaration) or found.group is None:
        return found
    named = found.group.name
    better = (one for one in _KNOW_BETTER if one.made_group(source, named))
    return next((said for one in better if (said := one.read_pod(source)) is not None), found)


def _completed(source: PodSource, found: Declaration, near: Options, ours: Options) -> Declaration:
    """The declaration with the pod's role and with what is laid over it."""
    own = found.options
    if not own.role and (role := roles.role_of(source)):
        own = replace(own, role=role)
    options = _with_itself(lay(lay(own, near), ours), source.namespace, found.name)
    # Who states a minimum by our own keys need not have the workload read for another one.
    spared = found.group is not None and is_owner(found.group) and states_minimum(ours)
    return replace(found, options=options, group=None if spared else found.group)


def _closeness(annotations: Json) -> Options | Fault:
    """Most pods ask for nothing, and there are many pods."""
    if _CLOSENESS.isdisjoint(annotations):
        return NO_OPTIONS
    return _requests(_ON_PODS, annotations)


def _requests(readers: Iterable[Callable[[Json], Options | Fault]], keys: Json) -> Options | Fault:
    """What several dialects ask for beside the gang, the first wins."""
    found = NO_OPTIONS
    for read in readers:
        asked = read(keys)
        if isinstance(asked, Fault):
            return asked
        found = lay(asked, found)
    return found


def _both(fault: Fault, options: Any) -> str:
    return f"{fault.reason}; {options.reason}" if isinstance(options, Fault) else fault.reason


# ── groups ──


def _overlaid(key: GroupKey, uid: str, terms: GroupTerms, meta: Json) -> Group:
    annotations = mapping(meta.get("annotations"))
    asked = _requests(_ON_GROUPS, annotations)
    ours = muster.read_options(annotations, {})
    faults = [terms.fault, *(said.reason for said in (asked, ours) if isinstance(said, Fault))]
    options = terms.options
    for said in (asked, ours):
        options = options if isinstance(said, Fault) else lay(options, said)
    # A workload that is no gang by itself is one where its owner says so.
    gang = terms.gang or (is_owner(key) and isinstance(ours, Options) and states_minimum(ours))
    options = _with_itself(options, key.namespace, key.name)
    fault = "; ".join(fault for fault in faults if fault)
    return Group(key, uid, options, gang, fault, terms.warnings)


def _with_itself(options: Options, namespace: str, name: str) -> Options:
    """Partner gangs, the gang's own among them."""
    if not options.partners or (namespace, name) in options.partners:
        return options
    return replace(options, partners=tuple(sorted((*options.partners, (namespace, name)))))
