"""The users' side: gangs of pods that are created, run, and are cleaned up when they are done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from scheduler.simulation.apiserver import ApiServer
from scheduler.simulation.clock import EventLoop
from scheduler.simulation.fleet import RACK
from scheduler.simulation.kubelet import RUN_SECONDS
from scheduler.simulation.objects import Change, ChangeType, Key, Object, key_of
from scheduler.simulation.traces import TraceJob, pods_of

NAMESPACE = "philly"
GANG = "muster.scheduler/gang"
MIN_AVAILABLE = "muster.scheduler/min-available"
GPUS_PER_POD = 8

CREATE_S = 0.005
"""Virtual seconds between two pods that a controller creates."""

CLEAN_UP_S = 10.0
"""Virtual seconds that a finished gang's pods stay, as with ``ttlSecondsAfterFinished``."""


@dataclass(frozen=True, slots=True)
class GangJob:
    """A gang as its user wants it."""

    name: str
    pods: tuple[int, ...]
    """GPUs of each pod."""
    arrival_s: float
    run_s: float | None
    """Virtual seconds that each pod runs; None: until it is deleted."""
    namespace: str = NAMESPACE
    start: str = ""
    """``burst``, ``nominate`` or ``follow``; "" leaves it to Muster's settings."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def from_trace(jobs: Iterable[TraceJob]) -> list[GangJob]:
    """One gang a trace job, named ``g000`` and up in order of arrival."""
    return [
        GangJob(
            name=f"g{number:03d}",
            pods=tuple(pods_of(job.gpus, GPUS_PER_POD)),
            arrival_s=job.arrival_s,
            run_s=job.duration_s,
        )
        for number, job in enumerate(jobs)
    ]


def pods(job: GangJob) -> list[Object]:
    """The pod objects of a gang; every member is mandatory."""
    return [_pod(job, index, gpus) for index, gpus in enumerate(job.pods)]


class JobController:
    """Creates each gang's pods when it arrives and deletes them some time after all succeeded."""

    def __init__(self, api: ApiServer, loop: EventLoop) -> None:
        self._api = api
        self._loop = loop
        self._gangs: dict[Key, GangJob] = {}
        """The gang of every pod that was created here and is not cleaned up yet."""
        self._succeeded: dict[str, set[Key]] = {}
        self.submitted: list[GangJob] = []
        """Gangs whose pods are being created or were, in order of arrival."""
        api.store.watch(self._on_change)

    def submit(self, job: GangJob) -> None:
        """Plan the gang's arrival."""
        self._loop.call_at(job.arrival_s, lambda: self._arrive(job))

    def delete(self, job: GangJob) -> None:
        """Delete the gang's pods, as its user would."""
        for key in [key for key, owner in self._gangs.items() if owner is job]:
            del self._gangs[key]
            self._api.delete(key)

    def _arrive(self, job: GangJob) -> None:
        self.submitted.append(job)
        for place, item in enumerate(pods(job)):
            self._gangs[key_of(item)] = job
            self._loop.call_after(place * CREATE_S, partial(self._api.create, item))

    def _on_change(self, change: Change) -> None:
        job = self._gangs.get(change.key)
        if job is None or change.type is not ChangeType.MODIFIED:
            return
        if change.object["status"]["phase"] == "Succeeded":
            done = self._succeeded.setdefault(job.key, set())
            done.add(change.key)
            if len(done) == len(job.pods):
                del self._succeeded[job.key]
                self._loop.call_after(CLEAN_UP_S, lambda: self.delete(job))


def _pod(job: GangJob, index: int, gpus: int) -> Object:
    annotations = {
        GANG: job.name,
        MIN_AVAILABLE: str(len(job.pods)),
        "muster.scheduler/index": str(index),
        "muster.scheduler/topology-preferred": RACK,
    }
    if job.start:
        annotations["muster.scheduler/start"] = job.start
    if job.run_s is not None:
        annotations[RUN_SECONDS] = str(job.run_s)
    # With less beside each GPU `muster why` warns, and jobs that are shown to people are in order.
    amounts = {"cpu": str(4 * gpus), "memory": f"{16 * gpus}Gi", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job.name}-{index}",
            "namespace": job.namespace,
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": "muster",
            "containers": [
                {"name": "train", "resources": {"requests": amounts, "limits": amounts}}
            ],
        },
    }
