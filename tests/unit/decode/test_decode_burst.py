"""Which pods Muster may bind itself: everything outside the allow-list goes to the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import decode
from tests import builders

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def because(**spec: Any) -> str:
    return decode.pod(builders.pod("t/p", gpu=1, spec=spec)).nominate_because


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "ok", "emptyDir": {}}, {"name": "v", **source}]}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


ORDINARY: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {"a": "b"}, "priority": 5, "priorityClassName": "high"},
    {"schedulingGates": [{"name": "g"}], "schedulingGroup": {"podGroupName": "A"}},
    {"workloadRef": {"name": "w"}, "hostNetwork": True, "runtimeClassName": "kata"},
    {"overhead": {"cpu": "1"}, "os": {"name": "linux"}, "preemptionPolicy": "Never"},
    {"serviceAccountName": "x", "serviceAccount": "x", "automountServiceAccountToken": False},
    {"securityContext": {"fsGroup": 1}, "hostname": "h", "subdomain": "s", "hostAliases": []},
    {"dnsPolicy": "None", "dnsConfig": {}, "imagePullSecrets": [{"name": "x"}]},
    {"terminationGracePeriodSeconds": 30, "activeDeadlineSeconds": 9, "restartPolicy": "Never"},
    {"enableServiceLinks": True, "shareProcessNamespace": True, "setHostnameAsFQDN": True},
    {"hostUsers": True, "hostPID": True, "hostIPC": True, "readinessGates": [{}]},
    {"ephemeralContainers": [{"name": "debug", "anything": True}]},
    {"resources": {"requests": {"cpu": "1"}, "limits": {}}},
    {"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}, {"key": "k"}]},
    volume(),
    volume(emptyDir={"medium": "Memory", "sizeLimit": "1Gi"}),
    volume(configMap={"name": "c"}),
    volume(secret={"secretName": "s"}),
    volume(projected={"sources": []}),
    volume(downwardAPI={"items": []}),
    volume(hostPath={"path": "/data"}),
    container(env=[{"name": "A", "value": "b"}], envFrom=[{}], command=["a"], args=["b"]),
    container(ports=[{"hostPort": 5}], volumeMounts=[{}], workingDir="/", securityContext={}),
    container(livenessProbe={}, readinessProbe={}, startupProbe={}, lifecycle={}),
    container(imagePullPolicy="Always", stdin=True, stdinOnce=True, tty=True, resizePolicy=[]),
    container(terminationMessagePath="/x", terminationMessagePolicy="File"),
    container(resources={"requests": {}, "limits": {}, "claims": []}),
    {"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
    {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}, PREFERRED: []}}},
    {"affinity": {"podAffinity": {PREFERRED: [{}]}, "podAntiAffinity": {PREFERRED: [{}]}}},
    {"affinity": {"podAffinity": {REQUIRED: []}, "podAntiAffinity": None}},
    {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
    {"topologySpreadConstraints": [], "resourceClaims": None, "fieldOfTheFuture": None},
]


@pytest.mark.parametrize("spec", ORDINARY, ids=str)
def test_ordinary_pods_can_be_bound_by_us(spec: dict[str, Any]) -> None:
    assert because(**spec) == ""


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        ({"fieldOfTheFuture": {}}, "spec.fieldOfTheFuture"),
        ({"fieldOfTheFuture": False}, "spec.fieldOfTheFuture"),
        ({"topologySpreadConstraints": [{}]}, "spec.topologySpreadConstraints[0]"),
        (
            {
                "topologySpreadConstraints": [
                    {"whenUnsatisfiable": "ScheduleAnyway"},
                    {"whenUnsatisfiable": "DoNotSchedule"},
                ]
            },
            "spec.topologySpreadConstraints[1]",
        ),
        (
            {"affinity": {"podAffinity": {REQUIRED: [{}]}}},
            f"spec.affinity.podAffinity.{REQUIRED}",
        ),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}},
            f"spec.affinity.podAntiAffinity.{REQUIRED}",
        ),
        ({"affinity": {"rackAffinity": {}}}, "spec.affinity.rackAffinity"),
        (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": {}}}},
            "spec.affinity.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution",
        ),
        ({"tolerations": [{"key": "k", "operator": "Gt"}]}, "spec.tolerations[0].operator"),
        ({"hostUsers": False}, "spec.hostUsers"),
        ({"resources": {"requests": {}, "claims": [{}]}}, "spec.resources.claims"),
        (container(resources={"claims": [{"name": "g"}]}), "spec.containers[0].resources.claims"),
        (container(volumeDevices=[{}]), "spec.containers[0].volumeDevices"),
        (container(restartPolicyRules=[{}]), "spec.containers[0].restartPolicyRules"),
        ({"initContainers": [{"new": 1}]}, "spec.initContainers[0].new"),
        ({"containers": "none"}, "spec.containers"),
        ({"volumes": {}}, "spec.volumes"),
    ],
)
def test_what_the_schedulers_plugins_must_see_is_nominated(spec: dict[str, Any], path: str) -> None:
    assert because(**spec) == path


@pytest.mark.parametrize(
    "source",
    [
        "persistentVolumeClaim",
        "ephemeral",
        "csi",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "azureDisk",
        "iscsi",
        "rbd",
        "nfs",
        "image",
        "sourceOfTheFuture",
    ],
)
def test_volumes_that_are_disks_or_unknown_are_nominated(source: str) -> None:
    assert because(**volume(**{source: {}})) == f"spec.volumes[1].{source}"


def test_the_first_finding_does_not_depend_on_the_order_of_fields() -> None:
    assert because(zzz=1, aaa=1) == because(aaa=1, zzz=1) == "spec.aaa"


def test_a_path_stays_short() -> None:
    assert len(because(**{"x" * 1_000_000: 1})) < 100
