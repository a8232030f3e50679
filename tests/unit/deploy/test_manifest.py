"""What `kubectl apply -f deploy/muster.yaml` installs: whole, locked down, consistent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy_objects import NAMESPACE, containers, installed, one, option, pod_template, values

from deploy.render import MANIFEST, RenderError, main, render
from scheduler import __version__
from tests.e2e.controlplane.versions import KUBERNETES_VERSION

CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass"}


# ── one file ──


def test_the_one_file_is_what_the_base_says() -> None:
    assert MANIFEST.read_text() == render(), "run: python -m deploy.render"


def test_rendering_concatenates_the_resources_in_order(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [b.yaml, a.yaml]\n")
    (tmp_path / "a.yaml").write_text("kind: A\n")
    (tmp_path / "b.yaml").write_text("kind: B\n---\nkind: C\n")

    _, *documents = render(tmp_path).split("---\n")

    assert documents == ["kind: B\n", "kind: C\n", "kind: A\n"]


def test_a_base_that_does_more_than_to_list_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: []\nnamePrefix: my-\n")

    with pytest.raises(RenderError, match="namePrefix"):
        render(tmp_path)


def test_a_manifest_that_is_out_of_date_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "muster.yaml"
    monkeypatch.setattr("deploy.render.MANIFEST", old)
    monkeypatch.setattr("deploy.render.TEMPLATES", tmp_path / "templates")

    assert main(["--check"]) == 1
    assert "python -m deploy.render" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0


# ── names ──


def test_every_object_is_named_once_and_knows_its_namespace() -> None:
    names = [(item["kind"], item["metadata"]["name"]) for item in installed()]
    placed = {
        name: item["metadata"].get("namespace")
        for name, item in zip(names, installed(), strict=True)
    }

    assert len(placed) == len(names)
    assert {where for (kind, _), where in placed.items() if kind in CLUSTER_WIDE} == {None}
    elsewhere = {
        name for name, where in placed.items() if where != NAMESPACE and name[0] not in CLUSTER_WIDE
    }
    # There are the leases of schedulers, and the API server's own certificates.
    assert elsewhere == {
        ("Role", "muster-kube-scheduler"),
        ("RoleBinding", "muster-kube-scheduler"),
        ("RoleBinding", "muster-authentication-reader"),
    }
    assert {placed[name] for name in elsewhere} == {"kube-system"}


def test_everything_that_is_referred_to_exists() -> None:
    account = one("ServiceAccount")["metadata"]
    spec = pod_template()["spec"]

    assert one("Namespace")["metadata"]["name"] == NAMESPACE
    assert spec["serviceAccountName"] == account["name"]
    for subjects in values(installed(), "subjects"):
        assert subjects == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": NAMESPACE}
        ]
    ours = {item["metadata"]["name"] for item in installed() if "rules" in item}
    for role in values(installed(), "roleRef"):
        kept_by_kubernetes = role["name"].startswith(("system:", "extension-apiserver-"))
        assert kept_by_kubernetes or role["name"] in ours, role
    assert [volume["configMap"]["name"] for volume in spec["volumes"]] == [
        one("ConfigMap")["metadata"]["name"]
    ]


def test_the_deployment_owns_the_pods_that_it_makes() -> None:
    labels = pod_template()["metadata"]["labels"]

    assert one("Deployment")["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("name", ["muster", "kube-scheduler"])
def test_each_container_finds_its_volume_and_its_file(name: str) -> None:
    container = containers()[name]
    volumes = {volume["name"] for volume in pod_template()["spec"]["volumes"]}
    (mount,) = container["volumeMounts"]
    folder, _, file = option(container, "config").rpartition("/")

    assert mount["name"] in volumes
    assert folder == mount["mountPath"]
    assert file in one("ConfigMap")["data"]


# ── probes ──


def test_the_schedulers_probes_find_its_port() -> None:
    scheduler = containers()["kube-scheduler"]

    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        asked = scheduler[probe]["httpGet"]
        assert (asked["path"], asked["scheme"]) == (path, "HTTPS")
        assert asked["port"] in _ports(scheduler)


@pytest.mark.parametrize(
    ("probe", "path"), [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
)
def test_musters_probes_ask_the_views(probe: str, path: str) -> None:
    muster = containers()["muster"]

    assert muster[probe]["httpGet"] == {"path": path, "port": "http"}
    assert _ports(muster) == {"http": int(option(muster, "views-port"))}


# ── views ──


def test_the_service_leads_to_the_views_alone() -> None:
    service, labels = one("Service"), pod_template()["metadata"]["labels"]

    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["publishNotReadyAddresses"] is True, "who is not ready says why"
    assert [(port["name"], port["targetPort"]) for port in service["spec"]["ports"]] == [
        ("http", "http")
    ]


def test_the_network_lets_in_whom_it_names_and_to_the_views_alone() -> None:
    policy = one("NetworkPolicy")["spec"]
    (rule,) = policy["ingress"]

    assert policy["podSelector"]["matchLabels"] == one("Service")["spec"]["selector"]
    assert policy["policyTypes"] == ["Ingress"]
    assert rule["ports"] == [{"port": "http"}]
    # An empty selector of namespaces would be everybody.
    assert all(peer == {"podSelector": {}} or any(peer.values()) for peer in rule["from"])


def test_a_drain_can_move_the_only_replica() -> None:
    budget = one("PodDisruptionBudget")["spec"]

    assert budget["selector"] == one("Deployment")["spec"]["selector"]
    assert "minAvailable" not in budget
    assert budget["maxUnavailable"] == 1


# ── safety ──


@pytest.mark.parametrize("name", ["muster", "kube-scheduler"])
def test_each_container_is_locked_down_and_asks_for_its_room(name: str) -> None:
    container = containers()[name]

    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_the_pod_is_unprivileged_and_critical() -> None:
    spec, deployment = pod_template()["spec"], one("Deployment")["spec"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["priorityClassName"] == one("PriorityClass")["metadata"]["name"]
    # More is kept for Kubernetes itself.
    assert one("PriorityClass")["value"] == 1_000_000_000
    # A new pair stands by until the old one has given up its Lease.
    update = {"maxSurge": 1, "maxUnavailable": 0}
    strategy = {"type": "RollingUpdate", "rollingUpdate": update}
    assert (deployment["replicas"], deployment["strategy"]) == (1, strategy)
    labels = one("Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_several_replicas_are_on_several_nodes() -> None:
    affinity = pod_template()["spec"]["affinity"]["podAntiAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]

    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"] == one("Deployment")["spec"]["selector"]
    # Otherwise the only node of its kind could never get a new version.
    assert term["matchLabelKeys"] == ["pod-template-hash"]


def test_of_several_replicas_the_one_acts_whose_scheduler_is_elected() -> None:
    configuration = yaml.safe_load(one("ConfigMap")["data"]["kube-scheduler.yaml"])
    election = configuration["leaderElection"]

    assert election["leaderElect"] is True
    lease = f"{election['resourceNamespace']}/{election['resourceName']}"
    assert option(containers()["muster"], "follow-lease") == lease


def test_only_the_scheduler_beside_it_can_call_musters_verbs() -> None:
    muster = containers()["muster"]
    verbs = int(option(muster, "port"))

    assert option(muster, "host") == "127.0.0.1"
    assert not pod_template()["spec"].get("hostNetwork")
    offered = {port for item in containers().values() for port in _ports(item).values()}
    assert verbs not in offered
    targets = {
        port["targetPort"]
        for service in values(installed(), "ports")
        for port in service
        if "targetPort" in port
    }
    assert targets == {"http"}


# ── versions ──


def test_the_scheduler_is_the_one_that_the_tests_run_with_held_pods_kept_quiet() -> None:
    scheduler = containers()["kube-scheduler"]

    assert scheduler["image"] == f"registry.k8s.io/kube-scheduler:{KUBERNETES_VERSION}"
    assert "SchedulerPopFromBackoffQ=false" in option(scheduler, "feature-gates")


def test_musters_image_is_of_this_version() -> None:
    assert containers()["muster"]["image"] == f"muster-scheduler:{__version__}"


def _ports(container: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container.get("ports", ())}
