"""Which pods Muster may bind by itself: an allow-list of the pod spec's fields.

Binding a pod from outside is right only where no plugin of the scheduler would have looked at more
than Muster does. A field that is not listed here sends the pod through the scheduler, so a field
of a future Kubernetes is safe by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.dialects.fields import mapping

__all__ = ["outside_allow_list"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_SPEC = frozenset(
    """
    activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks
    ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostname hostnameOverride
    imagePullSecrets nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName
    readinessGates restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup
    securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace
    subdomain terminationGracePeriodSeconds workloadRef
    """.split()  # noqa: SIM905 - a list of 33 literals would hide the names
)
"""Fields that no plugin looks at, or only at what Muster checks too."""

_CONTAINER = frozenset(
    """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe
    resizePolicy restartPolicy securityContext startupProbe stdin stdinOnce terminationMessagePath
    terminationMessagePolicy tty volumeMounts workingDir
    """.split()  # noqa: SIM905
)

_RESOURCES = frozenset(("requests", "limits"))

_VOLUME = frozenset(
    ("name", "emptyDir", "configMap", "secret", "projected", "downwardAPI", "hostPath")
)
"""Volumes without a disk that a plugin counts, binds or finds in one zone only."""

_OPERATORS = (None, "", "Equal", "Exists")

_Check = Callable[[object, str], str]
_NO_CHECKS: Mapping[str, _Check] = {}


def outside_allow_list(spec: object) -> str:
    """Path of the first field that the scheduler's own plugins must see, or ""."""
    return _walk(spec, "spec", _SPEC, _SPEC_CHECKS)


def _walk(value: object, path: str, allowed: frozenset[str], checks: Mapping[str, _Check]) -> str:
    """The first field of an object that is neither allowed nor passes its own check."""
    fields = mapping(value)
    others = fields.keys() - allowed
    for key in sorted(others, key=str) if len(others) > 1 else others:
        if _unset(item := fields[key]):
            continue
        where = f"{path}.{str(key)[:63]}"
        check = checks.get(key)
        if check is None:
            return where
        if found := check(item, where):
            return found
    return ""


def _unset(value: object) -> bool:
    return value is None or value == "" or value == []


def _each(value: object, path: str, check: _Check) -> str:
    """The first finding in a list; anything that is no list is a finding itself."""
    if not isinstance(value, list):
        return path
    for at, item in enumerate(value):
        if check(item, path):
            return check(item, f"{path}[{at}]")  # most pods need no paths
    return ""


def _containers(value: object, path: str) -> str:
    return _each(value, path, _container)


def _container(value: object, path: str) -> str:
    return _walk(value, path, _CONTAINER, _CONTAINER_CHECKS)


def _resources(value: object, path: str) -> str:
    return _walk(value, path, _RESOURCES, _NO_CHECKS)


def _volumes(value: object, path: str) -> str:
    return _each(value, path, _volume)


def _volume(value: object, path: str) -> str:
    return _walk(value, path, _VOLUME, _NO_CHECKS)


def _spread(value: object, path: str) -> str:
    return _each(value, path, _spread_constraint)


def _spread_constraint(value: object, path: str) -> str:
    # Absent, it means DoNotSchedule.
    return "" if mapping(value).get("whenUnsatisfiable") == "ScheduleAnyway" else path


def _tolerations(value: object, path: str) -> str:
    return _each(value, path, _toleration)


def _toleration(value: object, path: str) -> str:
    # Comparing tolerations (Gt, Lt) count only where the cluster switches them on.
    return "" if mapping(value).get("operator") in _OPERATORS else f"{path}.operator"


def _affinity(value: object, path: str) -> str:
    checks = {"nodeAffinity": _node_affinity, "podAffinity": _near, "podAntiAffinity": _near}
    return _walk(value, path, frozenset(), checks)


def _node_affinity(value: object, path: str) -> str:
    return _walk(value, path, frozenset((_REQUIRED, _PREFERRED)), _NO_CHECKS)


def _near(value: object, path: str) -> str:
    return _walk(value, path, frozenset((_PREFERRED,)), _NO_CHECKS)


def _user_namespace(value: object, path: str) -> str:
    # With a user namespace, a plugin asks what the node's kubelet has declared.
    return "" if value is True else path


_CONTAINER_CHECKS: Mapping[str, _Check] = {"resources": _resources}
_SPEC_CHECKS: dict[str, _Check] = {
    "affinity": _affinity,
    "containers": _containers,
    "hostUsers": _user_namespace,
    "initContainers": _containers,
    "resources": _resources,
    "tolerations": _tolerations,
    "topologySpreadConstraints": _spread,
    "volumes": _volumes,
}
