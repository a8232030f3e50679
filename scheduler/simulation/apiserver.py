"""What kube-apiserver does with pods: Binding, nomination, eviction, deletion, status.

Like the real one it checks Bindings hardly at all: a missing, cordoned or over-committed node is
accepted. What it refuses is listed at :meth:`ApiServer.bind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.simulation.clock import EventLoop
from scheduler.simulation.objects import Key, Object, Store, key_of, timestamp

DEFAULT_GRACE_S = 30.0
"""``terminationGracePeriodSeconds`` of a pod that states none."""

TERMINAL_PHASES = ("Succeeded", "Failed")

_BINDING_REFUSAL = 'Operation cannot be fulfilled on pods/binding "{0}": {1}'


@dataclass(frozen=True, slots=True)
class Answer:
    """HTTP status code, message, and the object after the call where there is one."""

    code: int
    message: str = ""
    object: Object | None = None

    @property
    def ok(self) -> bool:
        """Whether the call did what was asked."""
        return self.code < 300


def pod_key(namespace: str, name: str) -> Key:
    """The key of a pod."""
    return Key("Pod", namespace, name)


class ApiServer:
    """The calls that the scheduler, the kubelet, Muster and the user's controllers make."""

    def __init__(self, loop: EventLoop) -> None:
        self.store = Store()
        self._loop = loop

    def create(self, item: Object) -> Answer:
        """Create any object; 409 if the name is taken."""
        key = key_of(item)
        if self.store.get(key) is not None:
            return Answer(409, f'{key.kind.lower()} "{key.name}" already exists')
        if key.kind == "Pod":
            item = {**item, "status": {"phase": "Pending", **item.get("status", {})}}
        return Answer(201, object=self.store.add(item, self._loop.now()))

    def update(self, key: Key, edit: Callable[[Object], None], uid: str = "") -> Answer:
        """Change an object; 404 if it is missing, 422 if ``uid`` is given and is not its own."""
        current = self.store.get(key)
        if current is None:
            return _not_found(key)
        if uid and current["metadata"]["uid"] != uid:
            return Answer(422, f'{key.kind} "{key.name}" is invalid: metadata.uid is immutable')
        return Answer(200, object=self.store.change(key, edit))

    def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]
    ) -> Answer:
        """POST a Binding: sets the node, merges the annotations and drops the nomination at once.

        404 for a missing pod; 409 for another uid, a terminating or gated pod, and one that is
        bound already, even to the same node. The node itself is not looked at.
        """
        key = pod_key(namespace, name)
        current = self.store.get(key)
        if current is None:
            return _not_found(key)
        refusal = _binding_refusal(current, uid)
        if refusal:
            return Answer(409, _BINDING_REFUSAL.format(name, refusal))
        edit = _binding(node, annotations, self._loop.now())
        return Answer(201, object=self.store.change(key, edit))

    def nominate(self, namespace: str, name: str, uid: str, node: str) -> Answer:
        """Patch ``status.nominatedNodeName``; "" clears it. The node is not looked at."""

        def edit(pod: Object) -> None:
            pod["status"]["nominatedNodeName"] = node
            if not node:
                del pod["status"]["nominatedNodeName"]

        return self.update(pod_key(namespace, name), edit, uid)

    def lift(self, namespace: str, name: str, uid: str) -> Answer:
        """Patch all scheduling gates away; a pod without any stays as it is."""

        def edit(pod: Object) -> None:
            pod["spec"].pop("schedulingGates", None)

        return self.update(pod_key(namespace, name), edit, uid)

    def annotate(
        self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]
    ) -> Answer:
        """Patch annotations of a pod."""

        def edit(pod: Object) -> None:
            pod["metadata"].setdefault("annotations", {}).update(annotations)

        return self.update(pod_key(namespace, name), edit, uid)

    def set_condition(self, key: Key, type_: str, status: str, reason: str, message: str) -> Answer:
        """Write one condition of ``status.conditions``; the same again is no write."""

        def edit(item: Object) -> None:
            _set_condition(item, type_, status, reason, message, self._loop.now())

        return self.update(key, edit)

    def set_phase(self, key: Key, phase: str, reason: str = "") -> Answer:
        """Write ``status.phase``, as the kubelet does; a terminal phase stays."""

        def edit(pod: Object) -> None:
            if pod["status"]["phase"] in TERMINAL_PHASES:
                return
            pod["status"]["phase"] = phase
            if reason:
                pod["status"]["reason"] = reason

        return self.update(key, edit)

    def evict(self, namespace: str, name: str, uid: str, message: str = "") -> Answer:
        """POST an Eviction; there are no disruption budgets here. 409 for another uid."""
        key = pod_key(namespace, name)
        current = self.store.get(key)
        if current is not None and current["metadata"]["uid"] == uid and message:
            self.set_condition(key, "DisruptionTarget", "True", "EvictionByEvictionAPI", message)
        return self.delete(key, uid)

    def delete(self, key: Key, uid: str = "") -> Answer:
        """Delete an object. A pod on a node only gets its deletion time: the kubelet ends it."""
        current = self.store.get(key)
        if current is None:
            return _not_found(key)
        if uid and current["metadata"]["uid"] != uid:
            return Answer(409, f"the uid in the precondition ({uid}) is not that of {key.name}")
        if key.kind == "Pod" and _on_node(current):
            return Answer(200, object=self.store.change(key, _deletion(self._loop.now())))
        self.store.remove(key)
        return Answer(200)

    def finalize(self, key: Key, uid: str) -> Answer:
        """Take a terminated pod away for good, as the kubelet does when its containers ended."""
        current = self.store.get(key)
        if current is None or current["metadata"]["uid"] != uid:
            return _not_found(key)
        self.store.remove(key)
        return Answer(200)


def _not_found(key: Key) -> Answer:
    return Answer(404, f'{key.kind.lower()}s "{key.name}" not found')


def _binding_refusal(pod: Object, uid: str) -> str:
    metadata, spec = pod["metadata"], pod["spec"]
    if uid and metadata["uid"] != uid:
        return f"Precondition failed: UID in precondition: {uid}, in object: {metadata['uid']}"
    if metadata.get("deletionTimestamp"):
        return f"pod {metadata['name']} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f"pod {metadata['name']} is already assigned to node {spec['nodeName']!r}"
    if spec.get("schedulingGates"):
        return f"pod {metadata['name']} has non-empty .spec.schedulingGates"
    return ""


def _binding(node: str, annotations: Mapping[str, str], now: float) -> Callable[[Object], None]:
    def edit(pod: Object) -> None:
        pod["spec"]["nodeName"] = node
        pod["metadata"].setdefault("annotations", {}).update(annotations)
        pod["status"].pop("nominatedNodeName", None)
        _set_condition(pod, "PodScheduled", "True", "", "", now)

    return edit


def _deletion(now: float) -> Callable[[Object], None]:
    def edit(pod: Object) -> None:
        metadata = pod["metadata"]
        grace = pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_S)
        metadata.setdefault("deletionTimestamp", timestamp(now + grace))
        metadata.setdefault("deletionGracePeriodSeconds", grace)

    return edit


def _on_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in TERMINAL_PHASES


def _set_condition(
    item: Object, type_: str, status: str, reason: str, message: str, now: float
) -> None:
    conditions = item["status"].setdefault("conditions", [])
    new = {"type": type_, "status": status, "reason": reason, "message": message}
    for place, old in enumerate(conditions):
        if old["type"] == type_:
            if any(old.get(name) != value for name, value in new.items()):
                conditions[place] = {**new, "lastTransitionTime": timestamp(now)}
            return
    conditions.append({**new, "lastTransitionTime": timestamp(now)})
