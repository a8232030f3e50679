"""Muster and its scheduler in two pods: who calls whom, with which certificate and which rights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from chart_renderer import chart_objects, default_values
from deploy_objects import (
    DEPLOY,
    NAMESPACE,
    Object,
    containers,
    kustomized,
    option,
    pod_template,
    values,
)

MUSTER, SCHEDULER, VERBS = "muster", "muster-kube-scheduler", "muster-verbs"
PODS = (("Deployment", MUSTER), ("Deployment", SCHEDULER))
ACCOUNTS = (("ServiceAccount", MUSTER), ("ServiceAccount", SCHEDULER))
FOLDER = "/etc/muster-tls"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _objects(**values: Any) -> list[Object]:
    return chart_objects(default_values() | {"separate": {"enabled": True}} | values, NAMESPACE)


def _one(kind: str, name: str, **values: Any) -> Object:
    (found,) = [
        item
        for item in _objects(**values)
        if (item["kind"], item["metadata"]["name"]) == (kind, name)
    ]
    return found


def _pod(name: str) -> Object:
    template: Object = _one("Deployment", name)["spec"]["template"]
    return template


def _container(name: str) -> Object:
    (found,) = _pod(name)["spec"]["containers"]
    return dict(found)


def _configuration() -> dict[str, Any]:
    text = _one("ConfigMap", SCHEDULER)["data"]["kube-scheduler.yaml"]
    found: dict[str, Any] = yaml.safe_load(text)
    return found


# ── the two pods ──


def test_the_scheduler_is_the_one_of_the_base_with_a_certificate() -> None:
    mine, theirs = _container(SCHEDULER), containers()["kube-scheduler"]
    mounted = {"name": "tls", "mountPath": FOLDER, "readOnly": True}

    assert mine == theirs | {"volumeMounts": [*theirs["volumeMounts"], mounted]}
    mine, theirs = _pod(SCHEDULER)["spec"], pod_template()["spec"]
    changed = {key for key in mine | theirs if mine.get(key) != theirs.get(key)}
    assert changed == {"affinity", "containers", "serviceAccountName", "volumes"}


def test_muster_is_the_one_of_the_base_with_a_certificate() -> None:
    mine, theirs = _container(MUSTER), containers()["muster"]
    mounted = {"name": "tls", "mountPath": FOLDER, "readOnly": True}

    assert mine["volumeMounts"] == [*theirs["volumeMounts"], mounted]
    assert set(theirs["args"]) - set(mine["args"]) == {
        "--follow-lease=kube-system/muster-kube-scheduler"
    }
    added = [arg for arg in mine["args"] if arg not in theirs["args"]]
    assert all(arg.startswith("--tls-") for arg in added)
    assert option(mine, "host") == "127.0.0.1", "the verbs themselves stay on loopback"
    changed = {key for key in mine | theirs if mine.get(key) != theirs.get(key)}
    assert changed == {"args", "ports", "volumeMounts"}


def test_there_is_one_muster_however_many_schedulers_there_are() -> None:
    muster, scheduler = (_one("Deployment", name, replicas=3) for name in (MUSTER, SCHEDULER))

    assert (muster["spec"]["replicas"], scheduler["spec"]["replicas"]) == (1, 3)
    # A new one beside the old one would be two that act.
    assert muster["spec"]["strategy"] == {"type": "Recreate"}
    assert _configuration()["leaderElection"]["leaderElect"] is True


def test_two_schedulers_are_on_two_nodes() -> None:
    ((term,),) = values(_pod(SCHEDULER)["spec"]["affinity"]["podAntiAffinity"], REQUIRED)
    ((same,),) = values(pod_template()["spec"]["affinity"]["podAntiAffinity"], REQUIRED)

    assert term["labelSelector"] == _one("Deployment", SCHEDULER)["spec"]["selector"]
    assert term | {"labelSelector": same["labelSelector"]} == same


@pytest.mark.parametrize("name", [MUSTER, SCHEDULER])
def test_each_has_its_own_pods_budget_and_policy(name: str) -> None:
    labels = _pod(name)["metadata"]["labels"]
    other = _pod(SCHEDULER if name == MUSTER else MUSTER)["metadata"]["labels"]

    for selector in (
        _one("Deployment", name)["spec"]["selector"],
        _one("PodDisruptionBudget", name)["spec"]["selector"],
        _one("NetworkPolicy", name)["spec"]["podSelector"],
    ):
        assert selector["matchLabels"].items() <= labels.items()
        assert not selector["matchLabels"].items() <= other.items()


@pytest.mark.parametrize(
    ("value", "changed"),
    [
        ({"image": {"repository": "example.com/m", "tag": "9"}}, {("Deployment", MUSTER)}),
        ({"resources": {"limits": {"cpu": "7"}}}, {("Deployment", MUSTER)}),
        ({"kubeScheduler": {"image": {"repository": "k", "tag": "9"}, "resources": {}}}, PODS[1:]),
        ({"nodeSelector": {"example.com/pool": "system"}}, PODS),
        ({"tolerations": [{"operator": "Exists"}]}, PODS),
        ({"imagePullSecrets": [{"name": "pull"}]}, ACCOUNTS),
        ({"settings": 'start = "nominate"\n'}, {("ConfigMap", MUSTER)}),
        ({"replicas": 2}, PODS[1:]),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_each_value_of_the_chart_is_one_of_this_form_too(
    value: dict[str, Any], changed: Iterable[tuple[str, str]]
) -> None:
    before, after = (
        {(item["kind"], item["metadata"]["name"]): item for item in _objects(**values)}
        for values in ({}, value)
    )

    assert {key for key in after if after[key] != before[key]} == set(changed)


# ── the call ──


def test_the_schedulers_configuration_is_what_the_command_prints() -> None:
    (extender,) = _configuration()["extenders"]
    files = extender["tlsConfig"]
    command = [sys.executable, "-m", "scheduler", "kube-config"]
    command += [f"--extender-url={extender['urlPrefix']}", f"--tls-ca={files['caFile']}"]
    command += [f"--tls-cert={files['certFile']}", f"--tls-key={files['keyFile']}"]

    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert _configuration() == yaml.safe_load(printed)


@pytest.mark.parametrize("namespace", [NAMESPACE, "elsewhere"])
def test_the_scheduler_calls_the_service_which_leads_to_musters_tls(namespace: str) -> None:
    objects = chart_objects(default_values() | {"separate": {"enabled": True}}, namespace)
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    text = found["ConfigMap", SCHEDULER]["data"]["kube-scheduler.yaml"]
    (extender,) = yaml.safe_load(text)["extenders"]
    service, muster = found["Service", VERBS], _container(MUSTER)
    (offered,) = service["spec"]["ports"]
    ports = {port["name"]: port["containerPort"] for port in muster["ports"]}

    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert service["metadata"]["namespace"] == namespace
    assert extender["urlPrefix"] == f"https://{host}:{offered['port']}"
    assert service["spec"]["selector"].items() <= _pod(MUSTER)["metadata"]["labels"].items()
    assert ports[offered["targetPort"]] == int(option(muster, "tls-port"))
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_each_finds_its_files_in_its_own_secret() -> None:
    muster, files = _container(MUSTER), _configuration()["extenders"][0]["tlsConfig"]
    keys = {f"{FOLDER}/tls.crt", f"{FOLDER}/tls.key", f"{FOLDER}/ca.crt"}

    assert {option(muster, f"tls-{name}") for name in ("cert", "key", "client-ca")} == keys
    assert set(files.values()) == keys
    for name, secret in ((MUSTER, VERBS), (SCHEDULER, SCHEDULER)):
        volumes = {volume["name"]: volume for volume in _pod(name)["spec"]["volumes"]}
        assert volumes["tls"]["secret"] == {"secretName": secret}
        assert volumes["configuration"]["configMap"] == {"name": name}


def test_the_network_lets_the_schedulers_pods_alone_in_to_the_verbs() -> None:
    to_verbs = [
        (rule, peer)
        for item in _objects()
        if item["kind"] == "NetworkPolicy"
        for rule in item["spec"]["ingress"]
        for peer in rule["from"]
        if {"port": "verbs"} in rule["ports"]
    ]

    ((rule, peer),) = to_verbs
    assert rule["ports"] == [{"port": "verbs"}]
    assert peer == {"podSelector": {"matchLabels": _pod(SCHEDULER)["metadata"]["labels"]}}
    assert _one("NetworkPolicy", SCHEDULER)["spec"]["ingress"] == [], "nobody calls the scheduler"


# ── the rights ──


def test_each_has_the_rights_that_it_uses_and_not_those_of_the_other() -> None:
    bound: dict[str, set[str]] = {}
    for item in _objects():
        for subject in item.get("subjects", ()):
            assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", NAMESPACE)
            bound.setdefault(subject["name"], set()).add(item["roleRef"]["name"])

    assert bound == {
        MUSTER: {"muster"},
        SCHEDULER: {
            "system:kube-scheduler",
            "system:volume-scheduler",
            "muster-kube-scheduler",
            "extension-apiserver-authentication-reader",
        },
    }
    for name in bound:
        assert _pod(name)["spec"]["serviceAccountName"] == name
        assert _one("ServiceAccount", name)
    (rule,) = _one("Role", SCHEDULER)["rules"]
    assert rule["verbs"] == ["get", "update"]


# ── cert-manager ──


def _certificates() -> dict[str, Object]:
    items = kustomized(DEPLOY / "components" / "certificates")
    return {item["metadata"]["name"]: item for item in items if item["kind"] == "Certificate"}


def test_cert_manager_writes_the_secrets_each_for_one_use() -> None:
    made = _certificates()
    usages = {name: set(item["spec"].get("usages", ())) for name, item in made.items()}

    assert {item["spec"]["secretName"] for item in made.values()} >= {VERBS, SCHEDULER}
    assert usages[VERBS] == {"digital signature", "server auth"}
    assert usages[SCHEDULER] == {"digital signature", "client auth"}
    assert made[VERBS]["spec"]["dnsNames"] == [f"{VERBS}.{NAMESPACE}.svc"]


def test_one_authority_signs_both_and_nothing_else_is_asked_of_it() -> None:
    items = kustomized(DEPLOY / "components" / "certificates")
    issuers = {item["metadata"]["name"]: item["spec"] for item in items if item["kind"] == "Issuer"}
    made = _certificates()

    authority = made["muster-authority"]["spec"]
    assert authority["isCA"] is True
    assert issuers[authority["issuerRef"]["name"]] == {"selfSigned": {}}
    # Which ends with its namespace: an Issuer of all namespaces would sign for everybody.
    assert {made[name]["spec"]["issuerRef"]["kind"] for name in (VERBS, SCHEDULER)} == {"Issuer"}
    signing = {made[name]["spec"]["issuerRef"]["name"] for name in (VERBS, SCHEDULER)}
    assert [issuers[name] for name in signing] == [{"ca": {"secretName": authority["secretName"]}}]
