"""A `muster replay` told step by step, and checked after every step.

Each call writes one line of the replay and returns what that line printed. After every step the
books are checked against the objects of the story (I1 and I3), and I5 on every answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import builders

from scheduler import decode
from scheduler.model import Pod
from scheduler.simulation.replay import replay

GPU = builders.GPU
LEVELS = ("topo/block", "topo/rack")

Json = dict[str, Any]

_QUIET = frozenset({"config", "node", "pod", "object", "delete", "fail", "cold", "synced"})


class Story:
    """One replay; ``lines`` are what `muster replay` would read."""

    def __init__(
        self,
        *,
        levels: Sequence[str] = LEVELS,
        listed: bool = False,
        cold: bool = False,
        **settings: Any,
    ) -> None:
        """With ``listed`` the objects up to the first question are what the first list shows; else
        each comes as a watch event of its own."""
        self.lines: list[str] = []
        self._state: Json = {}
        self.log: list[Json] = []
        """All that was printed, but for the states between."""
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, Json] = {}
        self._reserved: dict[str, str] = {}
        self._waiting: list[str] = []
        self._answers = replay(self._feed())
        self._watched = False
        if levels or settings:
            self._tell("config", levels=list(levels), **settings)
        if cold:
            self._tell("cold")
        elif not listed:
            self._tell("synced")
            self._look()

    # ── the world ──

    def node(self, name: str, **fields: Any) -> list[Json]:
        """A node is added or changed; fields as in `builders.node`."""
        return self.put_node(builders.node(name, **fields))

    def put_node(self, node: Json) -> list[Json]:
        """A node is added or changed, as JSON."""
        self._nodes[node["metadata"]["name"]] = node
        return self._tell("node", object=node)

    def pod(self, key: str, **fields: Any) -> list[Json]:
        """A pod is added or changed; fields as in `builders.pod`."""
        return self.put_pod(builders.pod(key, **fields))

    def put_pod(self, pod: Json) -> list[Json]:
        """A pod is added or changed, as JSON."""
        seen = decode.pod(pod)
        self._pods[seen.key] = seen
        return self._tell("pod", object=pod)

    def gang(self, name: str, size: int, *, of: int = 0, **fields: Any) -> list[str]:
        """Members ``name-0`` to ``name-(size-1)`` with ``of`` GPUs each; min is the size."""
        fields = {"gang": name, "min": size, "gpu": of or None} | fields
        keys = [f"t/{name}-{member}" for member in range(size)]
        for key in keys:
            self.pod(key, **fields)
        return keys

    def object(self, obj: Json) -> list[Json]:
        """Any other object is added or changed."""
        return self._tell("object", object=obj)

    def delete(self, key: str, kind: str = "Pod", uid: str | None = None) -> list[Json]:
        """A watch delete of ``namespace/name`` (or a node's name)."""
        namespace, _, name = key.rpartition("/")
        if kind == "Pod" and key in self._pods and uid in (None, self._pods[key].uid):
            del self._pods[key]
        if kind == "Node":
            self._nodes.pop(key, None)
        return self._tell(
            "delete", kind=kind, namespace=namespace, name=name, **({"uid": uid} if uid else {})
        )

    def advance(self, seconds: float) -> list[Json]:
        """The clock moves."""
        return self._tell("advance", seconds=seconds)

    def synced(self) -> list[Json]:
        """The first full list is in."""
        return self._tell("synced")

    def restart(self) -> list[Json]:
        """Memory is lost; the world is listed again."""
        return self._tell("restart")

    def fail(self, effect: str, result: str, **more: Any) -> None:
        """The next matching effects end so."""
        self._tell("fail", effect=effect, result=result, **({"times": 1} | more))

    def outcome(self, pod: str, result: str = "ok", effect: str = "bind") -> list[Json]:
        """The oldest such effect that is open ends so (with ``auto=False``)."""
        return self._tell("outcome", pod=pod, effect=effect, result=result)

    # ── calls ──

    def filter(self, pod: str, *names: str) -> Json:
        """The answer to a filter call; without names all nodes are offered."""
        offered = list(names) if names else sorted(self._nodes)
        answer = self._answer("filter", pod=pod, nodes=offered)
        assert set(answer["nodes"]) <= set(offered), "I5: returned nodes were not offered"
        assert set(answer["failed"]) <= set(offered), "I5: failed nodes were not offered"
        assert answer["error"] == "", "a hold is never an error"
        return answer

    def places(self, *pods: str) -> list[list[str]]:
        """Which nodes the filter answers give, pod by pod."""
        return [self.filter(pod)["nodes"] for pod in pods]

    def reason(self, pod: str) -> str:
        """The text of a hold; the pod must be held."""
        answer = self.filter(pod)
        assert answer["nodes"] == [], f"{pod} is admitted to {answer['nodes']}"
        texts = {*answer["failed"].values(), *answer["unresolvable"].values()}
        assert texts, "a hold says why"
        return " | ".join(sorted(texts))

    def prioritize(self, pod: str, *names: str) -> dict[str, int]:
        """The scores."""
        scores = self._answer("prioritize", pod=pod, nodes=list(names))["scores"]
        assert list(scores) == sorted(set(names)), "one score for every node that was offered"
        assert all(type(score) is int and 0 <= score <= 10 for score in scores.values())
        return scores

    def bind(self, pod: str, node: str, uid: str | None = None) -> str | None:
        """The error of a bind call; "" is success, None: its answer is still to come."""
        printed = self._tell("bind", pod=pod, node=node, **({"uid": uid} if uid else {}))
        errors = [line["error"] for line in printed if line.get("op") == "bind"]
        assert len(errors) <= 1
        return errors[0] if errors else None

    def preempt(self, pod: str, victims: Mapping[str, Sequence[str]]) -> Json:
        """Which victims may be evicted."""
        return dict(self._answer("preempt", pod=pod, victims=victims)["victims"])

    def call(self, op: str, request: Json) -> Json:
        """A call with a whole extender request."""
        return self._answer(op, request=request)

    def why(self, gang: str) -> Json:
        """Why a gang waits."""
        return self._answer("why", gang=gang)

    # ── what came of it ──

    @property
    def state(self) -> Json:
        """What a `state` op prints now."""
        self._look()
        return self._state

    @property
    def bound(self) -> dict[str, str]:
        """Pod -> node of all pods that take room."""
        return dict(self.state["bound"])

    @property
    def reserved(self) -> dict[str, str]:
        """Pod -> node of all unbound reservations."""
        return {pod: node for node, pods in self.state["reserved"].items() for pod in pods}

    @property
    def placed(self) -> dict[str, str]:
        """Pod -> node, whether bound or reserved."""
        return self.bound | self.reserved

    def free(self, node: str, resource: str = GPU) -> str:
        """What is free on a node, as a canonical quantity."""
        return str(self.state["free"][node][resource])

    def stage(self, gang: str) -> str:
        """The gang's state, "" if it is not known."""
        return str(self.state["gangs"].get(gang, {}).get("state", ""))

    def effects(self, kind: str) -> list[Json]:
        """All effects of a kind up to now, in order."""
        self._look()
        return [line for line in self.log if line.get("effect") == kind]

    def ranks(self, gang: str) -> dict[str, int]:
        """Pod -> rank, from the Bindings of a gang."""
        return {
            line["pod"]: line["hint"]["rank"]
            for line in self.effects("bind")
            if line["hint"].get("gang") == gang
        }

    # ── inner ──

    def _look(self) -> None:
        if not self._watched:
            self._watched = True
            self._exchange()

    def _tell(self, op: str, **fields: Any) -> list[Json]:
        line = json.dumps({"op": op, **fields})
        self.lines.append(line)
        self._waiting.append(line)
        self._watched = self._watched or op not in _QUIET
        return self._exchange() if self._watched else []

    def _answer(self, op: str, **fields: Any) -> Json:
        return next(line for line in self._tell(op, **fields) if line.get("op") == op)

    def _exchange(self) -> list[Json]:
        """Have the lines read that wait, then a `state` op, which ends what is printed for them."""
        self._waiting.append(json.dumps({"op": "state"}))
        printed: list[Json] = []
        while True:
            line = json.loads(next(self._answers))
            if line.get("op") == "state":
                break
            printed.append(line)
        self._state = line
        self.log += printed
        self._check_books()
        return printed

    def _feed(self) -> Iterator[str]:
        while self._waiting:
            yield self._waiting.pop(0)
        raise AssertionError("the replay read on after the last line of the story")

    def _check_books(self) -> None:
        reserved = self.reserved
        assert set(reserved) <= set(self._pods), "I3: a reservation for a pod that is gone"
        for pod in reserved.keys() - self._reserved.keys():
            self._check_node(reserved[pod], reserved)
        self._reserved = reserved

    def _check_node(self, name: str, reserved: Mapping[str, str]) -> None:
        """I1, for a node that has a new reservation."""
        on_node = [pod for pod, at in (self.bound | reserved).items() if at == name]
        used: dict[str, int] = {}
        for pod in on_node:
            for resource, amount in self._pods[pod].requests.items():
                used[resource] = used.get(resource, 0) + amount
        have = decode.node(self._nodes[name]).allocatable
        over = {key: units for key, units in used.items() if units > have.get(key, 0)}
        assert not over, f"I1: {name} is over-booked by {on_node}: {over}"
