"""Plays the stock kube-scheduler's side of the extender protocol over real HTTP.

One cycle at a time: in-tree plugins first, on a rotating sample of the nodes; then the extender's
filter, unless no node is left; prioritize if more than one node is left; an assumed pod; the bind
verb, beside the next cycles. A nominated pod is tried on its node alone first. What fits nowhere
asks the preempt verb which evictions may go ahead, and waits for a cluster event and the end of
its back-off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from scheduler.errors import ExtenderError
from scheduler.model import Pod
from scheduler.simulation import preemption
from scheduler.simulation.apiserver import ApiServer, pod_key
from scheduler.simulation.bind_calls import BindCalls
from scheduler.simulation.clock import EventLoop, Timer
from scheduler.simulation.extender import ExtenderClient
from scheduler.simulation.node_choice import NodeChoice
from scheduler.simulation.objects import Change, ChangeType, Key, Object, key_of
from scheduler.simulation.readings import Readings
from scheduler.simulation.scheduler_cache import SchedulerCache
from scheduler.simulation.scheduler_options import SchedulerOptions
from scheduler.simulation.scheduling_queue import QueuedPod, SchedulingQueue


class KubeScheduler:
    """A scheduler with one extender, driven by the event loop."""

    def __init__(
        self,
        api: ApiServer,
        loop: EventLoop,
        readings: Readings,
        url: str,
        options: SchedulerOptions,
        *,
        binding: Callable[[str], bool] = lambda _uid: False,
    ) -> None:
        """``url`` is the extender's ``urlPrefix``; for ``binding`` see :class:`BindCalls`."""
        self.calls: Counter[str] = Counter()
        """Extender calls by verb."""
        self._api = api
        self._loop = loop
        self._readings = readings
        self._options = options
        self._extender = ExtenderClient(url)
        self._binds = BindCalls(loop, url, binding, self._end_bind)
        self._cache = SchedulerCache()
        self._choice = NodeChoice(self._cache, self._extender, options, self.calls)
        self._queue = SchedulingQueue(options.initial_backoff_s, options.max_backoff_s)
        self._pods: dict[str, Object] = {}
        """Waiting and assumed pods by uid, as last seen."""
        self._assumed: dict[str, QueuedPod] = {}
        self._busy_until = 0.0
        self._timer: Timer | None = None
        api.store.watch(self._on_change)

    def close(self) -> None:
        """Close the connection and wait for bind calls under way."""
        self._extender.close()
        self._binds.close()

    # ── what happens in the cluster ──

    def _on_change(self, change: Change) -> None:
        if change.key.kind in ("Node", "Pod"):
            see = self._see_node if change.key.kind == "Node" else self._see_pod
            self._loop.call_after(self._options.watch_s, lambda: see(change))

    def _see_node(self, change: Change) -> None:
        if change.type is ChangeType.DELETED:
            self._cache.drop_node(change.key.name)
        else:
            self._cache.set_node(self._readings.node(change.object))
        self._wake_all()

    def _see_pod(self, change: Change) -> None:
        pod = self._readings.pod(change.object)
        if change.type is ChangeType.DELETED or pod.phase.terminal:
            self._see_end(pod)
        elif pod.node:
            self._see_bound(pod)
        elif pod.scheduler in self._options.scheduler_names:
            self._see_waiting(pod, change.object)
        self._plan()

    def _see_end(self, pod: Pod) -> None:
        self._leave_queue(pod.uid)
        self._cache.drop(pod.uid)
        if pod.node:
            self._wake_all()

    def _see_bound(self, pod: Pod) -> None:
        self._leave_queue(pod.uid)
        self._cache.put(pod)
        self._wake_all()

    def _see_waiting(self, pod: Pod, item: Object) -> None:
        if pod.deleting or pod.gates:
            self._leave_queue(pod.uid)
            return
        known = pod.uid in self._pods
        self._pods[pod.uid] = item
        if pod.uid not in self._assumed:
            self._cache.set_nominated(pod)
        if known:
            self._queue.wake(pod.uid)
        else:
            self._queue.add(pod.uid, pod.priority, self._loop.now())

    def _leave_queue(self, uid: str) -> None:
        self._queue.remove(uid)
        self._assumed.pop(uid, None)
        self._pods.pop(uid, None)

    def _wake_all(self) -> None:
        self._queue.wake_all()
        self._plan()

    # ── cycles ──

    def _plan(self) -> None:
        """See to it that the next cycle runs when a pod is active and the last cycle is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._queue.next_time()
        if due is not None:
            self._timer = self._loop.call_at(max(due, self._busy_until), self._run_cycle)

    def _run_cycle(self) -> None:
        self._timer = None
        now = self._loop.now()
        self._busy_until = now + self._options.cycle_s
        entry = None if self._binds.full else self._queue.pop(now)
        if entry is not None:
            self._cycle(entry, self._pods[entry.uid])
        self._plan()

    def _cycle(self, entry: QueuedPod, item: Object) -> None:
        pod = self._readings.pod(item)
        try:
            found = self._choice.find(pod, item)
            if found.nodes:
                self._bind(entry, pod, item, self._choice.best(pod, item, found.nodes))
                return
            self._preempt(pod, item)
            self._refuse(item, "Unschedulable", self._summary(found.refusals))
            self._queue.park(entry, self._loop.now())
        except ExtenderError as error:
            self._refuse(item, "SchedulerError", str(error))
            self._queue.retry(entry, self._loop.now())

    def _summary(self, refusals: Counter[str]) -> str:
        parts = sorted(f"{count} {reason}" for reason, count in refusals.items())
        return f"0/{len(self._cache.nodes)} nodes are available: {', '.join(parts)}."

    def _refuse(self, item: Object, reason: str, message: str) -> None:
        self._api.set_condition(key_of(item), "PodScheduled", "False", reason, message)

    # ── binding ──

    def _bind(self, entry: QueuedPod, pod: Pod, item: Object, node: str) -> None:
        self.calls["bind"] += 1
        self._cache.assume(pod, node)
        self._assumed[entry.uid] = entry
        self._binds.start(entry.uid, item, node)

    def _end_bind(self, uid: str, error: BaseException | None) -> None:
        entry, item = self._assumed.pop(uid, None), self._pods.get(uid)
        if error is None or entry is None or item is None:
            return
        self._cache.drop(uid)
        self._refuse(item, "SchedulerError", str(error))
        self._queue.retry(entry, self._loop.now())
        self._wake_all()

    # ── preemption ──

    def _preempt(self, pod: Pod, item: Object) -> None:
        if preemption.waits_for_victims(self._cache, pod):
            return
        victims = preemption.candidates(self._cache, pod)
        if not victims:
            return
        self.calls["preempt"] += 1
        asked = {node: [victim.uid for victim in pods] for node, pods in victims.items()}
        kept = _granted(victims, self._extender.preempt(item, asked))
        if kept:
            node = preemption.choose(kept)
            self._evict(pod, kept[node])
            self._api.nominate(*pod.ref, node)

    def _evict(self, pod: Pod, victims: Sequence[Pod]) -> None:
        for victim in victims:
            key: Key = pod_key(victim.namespace, victim.name)
            self._api.set_condition(
                key, "DisruptionTarget", "True", "PreemptionByScheduler", f"preempted by {pod.key}"
            )
            self._api.delete(key, victim.uid)


def _granted(
    victims: Mapping[str, Sequence[Pod]], kept: Mapping[str, Sequence[str]]
) -> dict[str, list[Pod]]:
    """The candidate evictions that the extender kept; it cannot add any."""
    granted = {
        node: [victim for victim in victims.get(node, ()) if victim.uid in uids]
        for node, uids in kept.items()
    }
    return {node: pods for node, pods in granted.items() if pods}
