"""The extender's wire format: bytes of a request in, bytes of an answer out.

The keys are Go field names without JSON tags, so a scheduler writes ``Pod``, ``Nodes`` and
``NodeNames``; older ones used lower case. A typed decode serves the usual spelling, a slower one
every other. Nodes travel as names or as whole objects, and the answer has the form of the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from scheduler.core.messages import BindReply, FilterReply, PreemptReply, PrioritizeReply
from scheduler.errors import DecodeError
from scheduler.model import PodRef

_RawObject = dict[str, Raw]


class _NodeList(msgspec.Struct):
    items: list[Raw] | None = None


class _Args(msgspec.Struct):
    pod: Raw = msgspec.field(name="Pod", default=Raw(b""))
    nodes: _NodeList | None = msgspec.field(name="Nodes", default=None)
    names: list[str] | None = msgspec.field(name="NodeNames", default=None)

    def complete(self) -> bool:
        """Whether nothing of it may have been spelled in another way."""
        if not self.pod:
            return False
        return self.names is not None if self.nodes is None else self.nodes.items is not None


class _Metadata(msgspec.Struct):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class _Named(msgspec.Struct):
    metadata: _Metadata | None = None


class _Victim(msgspec.Struct):
    """A MetaPod has a UID, a whole pod one in its metadata."""

    uid: str | None = msgspec.field(name="UID", default=None)
    metadata: _Metadata | None = None


class _Victims(msgspec.Struct):
    pods: list[_Victim] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _Filtered(msgspec.Struct):
    nodes: dict[str, list[Raw]] | None = msgspec.field(name="Nodes")
    names: Sequence[str] | None = msgspec.field(name="NodeNames")
    failed: Mapping[str, str] = msgspec.field(name="FailedNodes")
    unresolvable: Mapping[str, str] = msgspec.field(name="FailedAndUnresolvableNodes")
    error: str = msgspec.field(name="Error", default="")


@dataclass(frozen=True, slots=True)
class Offer:
    """ExtenderArgs: a pod and the nodes that the scheduler offers for it."""

    ref: PodRef
    pod: Raw
    """The pod's JSON as it came; empty if there was none."""
    names: Sequence[str]
    objects: Mapping[str, Raw] | None
    """Node name -> its JSON as it came, where the request had whole nodes."""
    by_name: bool
    """Whether the answer has to carry NodeNames."""


@dataclass(frozen=True, slots=True)
class BindArgs:
    """ExtenderBindingArgs."""

    ref: PodRef
    node: str


@dataclass(frozen=True, slots=True)
class PreemptArgs:
    """ExtenderPreemptionArgs in meta form, whichever form they came in."""

    ref: PodRef
    pod: Raw
    victims: Mapping[str, Sequence[str]]
    """Node name -> pod uids."""
    violations: Mapping[str, int] = field(default_factory=dict)
    """Node name -> how many disruption budgets the evictions would break."""


_args = msgspec.json.Decoder(_Args)
_named = msgspec.json.Decoder(_Named)
_victims = msgspec.json.Decoder(_Victims)
_raw_object = msgspec.json.Decoder(_RawObject)
_raw_list = msgspec.json.Decoder(list[Raw])
_text = msgspec.json.Decoder(str)
_anything = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


# ── requests ──────────────────────────────────────────────────────────────────────────────────────


def read_offer(body: bytes) -> Offer:
    """The body of filter and prioritize. Raises DecodeError if it is not a JSON object."""
    try:
        args = _args.decode(body)
    except msgspec.ValidationError:
        return _read_any_offer(body)
    except msgspec.DecodeError as error:
        raise DecodeError(_unparsable(body, error)) from error
    if not args.complete():
        return _read_any_offer(body)
    return _offer(args.pod, args.names, args.nodes.items if args.nodes else None)


def read_bind(body: bytes) -> BindArgs:
    """The body of bind. Raises DecodeError if it is not a JSON object."""
    args = _lowered(body)
    found = {key: _string(args.get(key)) for key in ("podnamespace", "podname", "poduid", "node")}
    ref = PodRef(found["podnamespace"], found["podname"], found["poduid"])
    return BindArgs(ref, found["node"])


def read_preempt(body: bytes) -> PreemptArgs:
    """The body of preempt. Raises DecodeError if it is not a JSON object."""
    args = _lowered(body)
    victims: dict[str, list[str]] = {}
    violations: dict[str, int] = {}
    for key in ("nodenametometavictims", "nodenametovictims"):
        # One node after the other, so that tens of megabytes never keep other threads for long.
        for node, entry in _raw_entries(args.get(key)).items():
            uids, broken = _read_victims(entry)
            victims.setdefault(node, []).extend(uids)
            violations.setdefault(node, broken)
    pod = args.get("pod") or Raw(b"")
    unique = {node: list(dict.fromkeys(uids)) for node, uids in victims.items()}
    return PreemptArgs(_reference(pod), pod, unique, violations)


# ── answers ───────────────────────────────────────────────────────────────────────────────────────


def write_filter(offer: Offer, reply: FilterReply) -> bytes:
    """ExtenderFilterResult in the form that the request asks for."""
    nodes = None
    if offer.objects is not None:
        have = offer.objects
        nodes = {"items": [have[name] for name in reply.nodes if name in have]}
    names = list(reply.nodes) if offer.by_name else None
    return _encoder.encode(_Filtered(nodes, names, reply.failed, reply.unresolvable))


def write_prioritize(reply: PrioritizeReply) -> bytes:
    """A HostPriorityList: one integer score for every offered node."""
    return _encoder.encode([{"Host": name, "Score": score} for name, score in reply.scores.items()])


def write_bind(reply: BindReply) -> bytes:
    """ExtenderBindingResult."""
    return _encoder.encode({"Error": reply.error})


def write_preempt(args: PreemptArgs, reply: PreemptReply) -> bytes:
    """ExtenderPreemptionResult: only nodes and victims of the request, never a node without any."""
    kept = {}
    for node, uids in reply.victims.items():
        allowed = set(args.victims.get(node, ()))
        pods = [{"UID": uid} for uid in uids if uid in allowed]
        if pods:
            kept[node] = {"Pods": pods, "NumPDBViolations": args.violations.get(node, 0)}
    return _encoder.encode({"NodeNameToMetaVictims": kept})


# ── inner ─────────────────────────────────────────────────────────────────────────────────────────


def _read_any_offer(body: bytes) -> Offer:
    args = _lowered(body)
    return _offer(
        args.get("pod", Raw(b"")), _strings(args.get("nodenames")), _items(args.get("nodes"))
    )


def _offer(pod: Raw, names: Sequence[str] | None, items: Iterable[Raw] | None) -> Offer:
    objects = None if items is None else {_reference(item).name: item for item in items}
    if objects is not None:
        objects.pop("", None)
    offered = names or tuple(objects or ())
    by_name = names is not None or objects is None
    return Offer(_reference(pod), pod, offered, objects, by_name)


def _lowered(body: bytes) -> _RawObject:
    try:
        return {key.lower(): value for key, value in _raw_object.decode(body).items()}
    except msgspec.ValidationError as error:
        raise DecodeError("the body must be a JSON object, such as ExtenderArgs") from error
    except msgspec.DecodeError as error:
        raise DecodeError(_unparsable(body, error)) from error


def _unparsable(body: bytes, error: Exception) -> str:
    if not body:
        return "the body is empty; it must be a JSON object, such as ExtenderArgs"
    return f"the body is not JSON: {error}"


def _reference(raw: Raw) -> PodRef:
    try:
        metadata = _named.decode(raw).metadata
    except msgspec.DecodeError:
        metadata = None
    if metadata is None:
        return PodRef("", "", "")
    return PodRef(metadata.namespace or "", metadata.name or "", metadata.uid or "")


def _items(nodes: Raw | None) -> list[Raw] | None:
    if nodes is None or bytes(nodes) == b"null":
        return None
    try:
        return _raw_list.decode(nodes)
    except msgspec.DecodeError:
        pass
    try:
        found = {key.lower(): value for key, value in _raw_object.decode(nodes).items()}
        return _raw_list.decode(found.get("items", Raw(b"[]")))
    except msgspec.DecodeError:
        return []


def _strings(raw: Raw | None) -> list[str] | None:
    found = _value(raw)
    if not isinstance(found, list):
        return None
    return [item for item in found if isinstance(item, str)]


def _string(raw: Raw | None) -> str:
    found = _value(raw)
    return found if isinstance(found, str) else ""


def _value(raw: Raw | None) -> Any:
    try:
        return None if raw is None else _anything.decode(raw)
    except msgspec.DecodeError:
        return None


def _raw_entries(raw: Raw | None) -> _RawObject:
    try:
        return {} if raw is None else _raw_object.decode(raw)
    except msgspec.DecodeError:
        return {}


def _read_victims(raw: Raw) -> tuple[list[str], int]:
    """Uids of one node's victims, and how many disruption budgets their evictions would break."""
    try:
        found = _victims.decode(raw)
    except msgspec.DecodeError:
        found = _Victims()
    uids = [_victim_uid(victim) for victim in found.pods or ()]
    if uids and all(uids):
        return uids, found.violations
    entry = _lower_keys(_value(raw))
    return _uids(entry.get("pods")), _count(entry.get("numpdbviolations"))


def _victim_uid(victim: _Victim) -> str:
    return victim.uid or (victim.metadata.uid if victim.metadata else "") or ""


def _lower_keys(found: Any) -> Mapping[str, Any]:
    return {key.lower(): value for key, value in found.items()} if isinstance(found, dict) else {}


def _uids(pods: Any) -> list[str]:
    """Uids of MetaPods (``UID``) or of whole pods (``metadata.uid``)."""
    found = []
    for pod in pods if isinstance(pods, list) else ():
        entry = _lower_keys(pod)
        uid = entry.get("uid") or _lower_keys(entry.get("metadata")).get("uid")
        if isinstance(uid, str) and uid:
            found.append(uid)
    return found


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
