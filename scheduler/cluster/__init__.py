"""The shell around a real API server. Only place that imports the Kubernetes client.

The client gives configuration, credentials and transport; lists and watches are decoded by
``scheduler.decode``.
"""

from scheduler.cluster.actuator import ClusterActuator
from scheduler.cluster.connection import Connection
from scheduler.cluster.credentials import IN_CLUSTER, load
from scheduler.cluster.transport import Transport
from scheduler.cluster.view import View

__all__ = ["IN_CLUSTER", "ClusterActuator", "Connection", "Transport", "View", "load"]
