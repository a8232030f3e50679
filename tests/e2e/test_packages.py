"""Kustomize and Helm make of deploy/ what the one-file manifest says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import Client, Object, Objects
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.versions import KUBERNETES_VERSION
from tests.e2e.deployed import DEPLOY, MANIFEST, NAMESPACE, apply, component, moved, served
from tests.e2e.packagers import HELM, KUBECTL, output, program

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

COMPONENTS = ("monitoring", "agent", "admission", "gate", "certificates")
PRODUCTION = ("monitoring", "agent", "admission")
COMPONENT = DEPLOY / "components"
Named = dict[tuple[str, str], Object]


@pytest.fixture(scope="module", autouse=True)
def _built(pytestconfig: pytest.Config) -> None:
    """Both programs; the first time takes minutes, so it is said what is being done."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for binary in (KUBECTL, HELM):
            program(binary)


def _named(objects: Iterable[Object]) -> Named:
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def _kustomized(folder: str) -> Named:
    return _named(yaml.safe_load_all(output(KUBECTL, "kustomize", DEPLOY / folder)))


def _helm(*options: str) -> Named:
    text = output(
        HELM,
        "template",
        "muster",
        DEPLOY / "chart",
        f"--namespace={NAMESPACE}",
        f"--kube-version={KUBERNETES_VERSION}",
        *options,
    )
    return _named(item for item in yaml.safe_load_all(text) if item is not None)


def _components(names: Iterable[str]) -> Named:
    return _named(item for name in names for item in component(name))


def test_the_base_is_the_manifest() -> None:
    assert _kustomized("base") == _named(MANIFEST)


def test_the_chart_is_the_manifest_without_the_namespace() -> None:
    wanted = _named(MANIFEST)
    del wanted["Namespace", NAMESPACE]

    assert _helm() == wanted


def test_the_chart_with_everything_has_the_components_as_they_are() -> None:
    found = _helm(*(f"--set={name}.enabled=true" for name in COMPONENTS))

    wanted = _named(MANIFEST) | _components(COMPONENTS)
    del wanted["Namespace", NAMESPACE]
    assert found == wanted


def test_helm_finds_nothing_to_complain_about() -> None:
    output(HELM, "lint", "--strict", f"--kube-version={KUBERNETES_VERSION}", DEPLOY / "chart")


@pytest.mark.parametrize("separate", [True, False])
def test_the_notes_say_what_is_still_to_be_done(control_plane: Cluster, separate: bool) -> None:
    # Helm shows them only where there is a cluster.
    where = ["--dry-run=server", f"--kubeconfig={control_plane.kubeconfig}"]
    options = ["--namespace=elsewhere", f"--set=separate.enabled={str(separate).lower()}"]

    text = output(HELM, "install", "muster", DEPLOY / "chart", *where, *options)

    notes = text.partition("NOTES:")[2]
    assert "kubectl -n elsewhere rollout status deployment/muster" in notes
    assert ("NAMESPACE=elsewhere deploy/certificates.sh" in notes) is separate


def test_kustomize_adds_each_component_as_helm_does(tmp_path: Path) -> None:
    found = _overlay(tmp_path, f"components: {[str(COMPONENT / name) for name in COMPONENTS]}")

    wanted = _helm(*(f"--set={name}.enabled=true" for name in COMPONENTS))
    del found["Namespace", NAMESPACE]
    assert found == wanted


@pytest.mark.parametrize("others", [(), COMPONENTS], ids=["alone", "with everything"])
def test_pods_of_their_own_are_the_same_in_both(tmp_path: Path, others: tuple[str, ...]) -> None:
    """Components that patch, and the two forms of the chart's templates."""
    names = ("separate", *others)

    found = _overlay(tmp_path, f"components: {[str(COMPONENT / name) for name in names]}")

    del found["Namespace", NAMESPACE]
    assert found == _helm(*(f"--set={name}.enabled=true" for name in names))
    assert ("Deployment", "muster-kube-scheduler") in found
    assert len(_containers(found)) == 1


def test_the_overlay_of_pods_of_their_own_is_the_base_with_that_component() -> None:
    found = _kustomized("overlays/separate")

    del found["Namespace", NAMESPACE]
    assert found == _helm("--set=separate.enabled=true")


def test_a_text_of_the_base_that_a_patch_expects_is_looked_at(tmp_path: Path) -> None:
    """By Kustomize, too: a patch that would hit something else makes nothing."""
    inside = tmp_path / "deploy"
    shutil.copytree(DEPLOY, inside)
    deployment = inside / "base" / "deployment.yaml"
    text = deployment.read_text()
    deployment.write_text(text.replace("            - --authenticate-views\n", ""))

    with pytest.raises(RuntimeError, match=r"follow-lease|out of bounds|args/8"):
        output(KUBECTL, "kustomize", inside / "overlays" / "separate")


def test_policies_of_an_older_version_are_the_same_but_for_it(tmp_path: Path) -> None:
    """The page's patch for Kustomize, and the value of the chart."""
    page = (DEPLOY.parent / "docs" / "versions.md").read_text()
    (patch,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = ("admission", "gate")
    components = f"components: {[str(COMPONENT / name) for name in names]}"
    older = "admissionregistration.k8s.io/v1beta1"

    found = _overlay(tmp_path, components, patch)
    switches = [f"--set={name}.enabled=true" for name in names]
    del found["Namespace", NAMESPACE]
    assert found == _helm(*switches, f"--set=policies.apiVersion={older}")
    newer = _helm(*switches)
    changed = {key: item for key, item in found.items() if item != newer[key]}
    assert len(changed) == 4
    assert {item["apiVersion"] for item in changed.values()} == {older}


def _overlay(folder: Path, *texts: str) -> Named:
    """What Kustomize makes of the base with these parts of a kustomization."""
    # Kustomize takes relative paths only.
    inside = folder / "deploy"
    shutil.copytree(DEPLOY, inside)
    text = "\n".join(("resources: [deploy/base]", *texts)).replace(str(DEPLOY), "deploy")
    (folder / "kustomization.yaml").write_text(text)
    return _named(yaml.safe_load_all(output(KUBECTL, "kustomize", folder)))


def test_production_is_the_base_and_the_components_with_more_room() -> None:
    wanted = _named(MANIFEST) | _components(PRODUCTION)
    found = _kustomized("overlays/production")

    assert found.keys() == wanted.keys()
    changed = {key for key, item in found.items() if item != wanted[key]}
    assert changed == {("Deployment", "muster")}
    affinity = found["Deployment", "muster"]["spec"]["template"]["spec"]["affinity"]
    assert affinity.keys() == {"podAntiAffinity", "nodeAffinity"}
    muster, scheduler = _containers(found)
    assert muster["args"][-1] == "--log-format=json"
    assert muster["resources"]["limits"] == {"memory": "4Gi"}
    assert muster["readinessProbe"]["httpGet"]["port"] == "http"
    assert scheduler["args"] == _containers(wanted)[1]["args"]


def test_kind_is_the_base_with_less_and_all_components_that_can_be_there() -> None:
    found = _kustomized("overlays/kind")
    wanted = _named(MANIFEST) | _components(("agent", "admission", "gate"))

    changed = {key for key, item in found.items() if item != wanted[key]}
    assert found.keys() == wanted.keys()
    assert changed == {("Deployment", "muster"), ("ConfigMap", "muster")}
    configuration = found["ConfigMap", "muster"]["data"]
    assert "example.com/rack" in configuration["settings.toml"]
    assert configuration["kube-scheduler.yaml"].startswith("apiVersion:")
    assert _containers(found)[0]["imagePullPolicy"] == "Never"


def _containers(found: Named) -> list[Any]:
    containers: list[Any] = found["Deployment", "muster"]["spec"]["template"]["spec"]["containers"]
    return containers


@pytest.mark.parametrize("overlay", ["kind", "production", "separate"])
def test_the_api_server_accepts_what_an_overlay_makes(
    client: Client, namespace: str, overlay: str
) -> None:
    unknown: Objects = []
    for item in _kustomized(f"overlays/{overlay}").values():
        wanted = moved(item, namespace)
        if served(client, wanted):
            apply(client, wanted, dryRun="All")
        else:
            unknown.append(item)
    groups = {item["apiVersion"].partition("/")[0] for item in unknown}
    assert groups <= {"monitoring.coreos.com"}
