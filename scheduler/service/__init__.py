"""The shell that makes the engine a running service: one lock, effects, ticks, no policy.

``Service`` is what the HTTP API, the cluster watch and the embedded cluster talk to.
"""

from scheduler.service.fence import Fence
from scheduler.service.metrics import Metrics
from scheduler.service.ports import Actuator, Engine, Post, Started, Step, Timer, Totals
from scheduler.service.recorder import Recorder
from scheduler.service.runner import BusyError
from scheduler.service.service import (
    BIND_DEADLINE_S,
    LOCK_WAIT_S,
    PodSource,
    Service,
)
from scheduler.service.timer import ThreadTimer
from scheduler.service.views import AskedError

__all__ = [
    "BIND_DEADLINE_S",
    "LOCK_WAIT_S",
    "Actuator",
    "AskedError",
    "BusyError",
    "Engine",
    "Fence",
    "Metrics",
    "PodSource",
    "Post",
    "Recorder",
    "Service",
    "Started",
    "Step",
    "ThreadTimer",
    "Timer",
    "Totals",
]
