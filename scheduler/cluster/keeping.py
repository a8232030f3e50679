"""Annotations that go on gangs' members with their Bindings, so that no autoscaler moves them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ParamSpec

from scheduler.cluster.writes import annotation_fault
from scheduler.core.messages import Bind, Effect
from scheduler.errors import SettingsError
from scheduler.model import Pod
from scheduler.service import Actuator, Post
from scheduler.service.remembering import remember

P = ParamSpec("P")

REMEMBERED = 100_000
"""Pods that have such an annotation of their own; the oldest are forgotten."""


class Keeping:
    """Knows which annotations a pod lacks. Thread-safe.

    A Binding's annotations overwrite those of the pod, so what the pod states itself is left out.
    Raises SettingsError for a key that no annotation may have.
    """

    def __init__(self, stated: Sequence[str]) -> None:
        self.annotations = dict(_pair(text) for text in stated)
        self._marks = {key: f'"{key}":'.encode() for key in self.annotations}
        self._own: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    def noting(self, read: Callable[P, Pod | None]) -> Callable[P, Pod | None]:
        """``read`` for a pod's JSON, its first argument, which also notes what the pod has."""

        def read_and_note(*arguments: P.args, **named: P.kwargs) -> Pod | None:
            pod = read(*arguments, **named)
            if pod is not None and not pod.node:
                self._note(pod.uid, bytes(arguments[0]))  # type: ignore[call-overload]
            return pod

        return read_and_note if self.annotations else read

    def lacking(self, uid: str) -> Mapping[str, str]:
        """What the pod does not have of its own."""
        with self._lock:
            own = self._own.get(uid, frozenset())
        return {key: value for key, value in self.annotations.items() if key not in own}

    def _note(self, uid: str, raw: bytes) -> None:
        # Inside a text the quotes would be escaped.
        own = frozenset(key for key, mark in self._marks.items() if mark in raw)
        if not own:
            return
        with self._lock:
            remember(self._own, uid, own, REMEMBERED)


class KeptActuator:
    """An actuator in front of another one, which adds the annotations to Bindings of members."""

    def __init__(self, actuator: Actuator, keeping: Keeping) -> None:
        self._actuator = actuator
        self._keeping = keeping

    def start(self, post: Post) -> None:
        """Start the actuator behind it."""
        self._actuator.start(post)

    def submit(self, effects: Sequence[Effect]) -> None:
        """Pass effects on, Bindings with what they lack."""
        self._actuator.submit([self._annotated(effect) for effect in effects])

    def stop(self, deadline_s: float) -> None:
        """Stop the actuator behind it."""
        self._actuator.stop(deadline_s)

    def _annotated(self, effect: Effect) -> Effect:
        if not isinstance(effect, Bind) or effect.gang.pod:
            return effect
        lacking = self._keeping.lacking(effect.ref.uid)
        return replace(effect, annotations={**lacking, **effect.annotations})


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if annotation_fault({key: value}):
        raise SettingsError(f"setting 'bind_annotations': {key!r} is no key of an annotation")
    return key, value
