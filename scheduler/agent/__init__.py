"""The program that runs on each node and says how its GPUs are linked and who has which.

It needs nothing but the standard library; with ``pynvml`` it asks NVML, else the vendors' tools,
and with ``grpc`` it can ask the kubelet's socket, else its file.
"""

from scheduler.agent.kubelet import Source, read_holders
from scheduler.agent.loop import Agent
from scheduler.agent.publishing import NodeObject, Publisher
from scheduler.agent.reading import Failed, NoDevices, Reading
from scheduler.agent.sources import read_devices
from scheduler.agent.watching import Look, Watcher

__all__ = [
    "Agent",
    "Failed",
    "Look",
    "NoDevices",
    "NodeObject",
    "Publisher",
    "Reading",
    "Source",
    "Watcher",
    "read_devices",
    "read_holders",
]
