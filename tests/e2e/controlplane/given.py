"""GPUs as the fake kubelets count them."""

from __future__ import annotations

import threading

from .client import Object
from .objects import GPU


class Given:
    """Who has the GPUs of each node, counted by the one who runs the pods.

    Parameters
    ----------
    gpus
        How many each node has.
    """

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._lock = threading.Lock()
        self._taken: dict[str, dict[str, int]] = {}

    def take(self, pod: Object) -> bool:
        """Whether there are enough left on its node, which are its own then."""
        with self._lock:
            holders = self._taken.setdefault(pod["spec"]["nodeName"], {})
            wanted = _gpus(pod)
            if sum(holders.values()) + wanted > self._gpus:
                return False
            holders[pod["metadata"]["uid"]] = wanted
            return True

    def give_back(self, pod: Object) -> None:
        """What it had, if it had some."""
        with self._lock:
            self._taken.get(pod["spec"]["nodeName"], {}).pop(pod["metadata"]["uid"], None)


def _gpus(pod: Object) -> int:
    limits = (one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"])
    return sum(int(limit.get(GPU, 0)) for limit in limits)
