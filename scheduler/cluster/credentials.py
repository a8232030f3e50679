"""Where the API server is and who we are: from a kubeconfig file or from inside the cluster."""

from __future__ import annotations

from pathlib import Path

import yaml
from kubernetes import config
from kubernetes.client import Configuration

from scheduler.errors import ClusterError, misread

IN_CLUSTER = "in-cluster"
"""Instead of a file: use the service account of the pod that we run in."""

_FAULTS = (config.ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, KeyError)


def _told(error: Exception) -> str:
    if isinstance(error, yaml.YAMLError):
        return f"it is no YAML: {misread(error)}"
    if isinstance(error, TypeError | KeyError):
        return "it does not have the form of a kubeconfig"
    return str(error)


def load(source: str, context: str | None = None) -> Configuration:
    """The client's configuration from ``source``, a kubeconfig file or ``in-cluster``.

    Tokens that expire are renewed by the configuration itself. Raises ClusterError.
    """
    found = Configuration()
    if source == IN_CLUSTER:
        return _load_in_cluster(found)
    path = Path(source).expanduser()
    if not path.is_file():
        raise ClusterError(
            f"kubeconfig {path}: there is no such file; name one with --kubeconfig, or use "
            f"--kubeconfig {IN_CLUSTER} inside a pod"
        )
    try:
        config.load_kube_config(str(path), context, found, persist_config=False)  # type: ignore[no-untyped-call]
    except _FAULTS as error:
        raise ClusterError(f"kubeconfig {path} cannot be used: {_told(error)}") from error
    return found


def _load_in_cluster(found: Configuration) -> Configuration:
    try:
        config.load_incluster_config(found)  # type: ignore[no-untyped-call]
    except _FAULTS as error:
        raise ClusterError(
            f"no service account to be used ({error}); inside a pod, give it one, and outside "
            "name a file with --kubeconfig"
        ) from error
    return found
