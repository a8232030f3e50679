"""The Helm chart means what the base and the components mean."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from chart_renderer import CHART, chart_objects, default_values
from deploy_objects import DEPLOY, NAMESPACE, Object, installed, kustomized, values

from deploy.render import RenderError, Value, main, templates
from scheduler import __version__
from tests.e2e.controlplane.versions import KUBERNETES_VERSION

OPTIONAL = ("monitoring", "agent", "admission", "gate", "certificates")
EVERYTHING = (*OPTIONAL, "separate")


def _by_name(objects: Iterable[Object]) -> dict[tuple[str, str], Object]:
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def _with(**switches: bool) -> dict[str, Any]:
    changed = deepcopy(default_values())
    for name, on in switches.items():
        changed[name]["enabled"] = on
    return changed


def test_the_templates_are_what_the_sources_say() -> None:
    assert main(["--check"]) == 0, "run: python -m deploy.render"


def test_with_its_defaults_the_chart_is_the_base_without_the_namespace() -> None:
    wanted = _by_name(installed())
    del wanted["Namespace", NAMESPACE]

    assert _by_name(chart_objects(default_values(), NAMESPACE)) == wanted


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_switch_adds_the_component_and_nothing_else(name: str) -> None:
    without = _by_name(chart_objects(default_values(), NAMESPACE))

    found = _by_name(chart_objects(_with(**{name: True}), NAMESPACE))

    added = {key: item for key, item in found.items() if key not in without}
    assert added == _by_name(kustomized(DEPLOY / "components" / name))
    assert {key: found[key] for key in without} == without


@pytest.mark.parametrize("others", [False, True])
def test_the_network_policies_can_be_left_out(others: bool) -> None:
    values = _with(networkPolicy=False, separate=others, agent=others)
    kinds = {item["kind"] for item in chart_objects(values, NAMESPACE)}

    assert "NetworkPolicy" not in kinds


def test_another_namespace_is_meant_everywhere() -> None:
    found = chart_objects(_with(**dict.fromkeys(EVERYTHING, True)), "elsewhere")

    assert NAMESPACE not in str(found)
    places = {item["metadata"].get("namespace") for item in found}
    assert places == {None, "elsewhere", "kube-system", "muster-agent"}


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("replicas", 2, "Deployment"),
        ("image.repository", "example.com/m", "Deployment"),
        ("image.tag", "9.9.9", "Deployment"),
        ("kubeScheduler.image.tag", "v1.36.3", "Deployment"),
        ("resources", {"requests": {"cpu": "7"}}, "Deployment"),
        ("kubeScheduler.resources", {"limits": {"cpu": "8"}}, "Deployment"),
        ("nodeSelector", {"example.com/pool": "system"}, "Deployment"),
        ("tolerations", [{"key": "example.com/odd", "operator": "Exists"}], "Deployment"),
        ("imagePullSecrets", [{"name": "pull"}], "ServiceAccount"),
        ("settings", 'start = "nominate"\n', "ConfigMap"),
        ("networkPolicy.from", [{"podSelector": {}}], "NetworkPolicy"),
        ("agent.nodeSelector", {"example.com/gpu": "yes"}, "DaemonSet"),
        ("agent.image.repository", "example.com/a", "DaemonSet"),
        ("agent.image.tag", "8.8.8", "DaemonSet"),
        ("policies.apiVersion", "example.com/v0", "MutatingAdmissionPolicy"),
        ("policies.apiVersion", "example.com/v0", "MutatingAdmissionPolicyBinding"),
    ],
)
def test_each_value_changes_what_it_names(path: str, value: Any, where: str) -> None:
    changed = _with(agent=True, admission=True, gate=True)
    *parents, last = path.split(".")
    inner = changed
    for name in parents:
        inner = inner[name]
    inner[last] = value

    found = [item for item in chart_objects(changed, NAMESPACE) if item["kind"] == where]
    before = _by_name(chart_objects(_with(agent=True, admission=True, gate=True), NAMESPACE))

    assert any(before[where, item["metadata"]["name"]] != item for item in found)
    if path == "policies.apiVersion":
        assert {item["apiVersion"] for item in found} == {value}
    text = value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True)
    shown = yaml.safe_dump(found, default_flow_style=True, width=10**6)
    wanted = text.removesuffix("...\n").strip().strip("[]{}")
    assert wanted in shown.replace("\\n", "\n").replace('\\"', '"')


def test_every_value_is_used() -> None:
    used = " ".join(templates().values())
    notes = (CHART / "templates" / "NOTES.txt").read_text()

    assert "{{ .Release.Namespace }}" in notes
    for path in _leaves(default_values()):
        assert any(f".Values.{part} " in used for part in _prefixes(path)), path


def _leaves(found: Any, path: str = "") -> list[str]:
    if not isinstance(found, dict) or not found:
        return [path]
    return [leaf for key, inner in found.items() for leaf in _leaves(inner, f"{path}.{key}")]


def _prefixes(path: str) -> list[str]:
    words = path.removeprefix(".").split(".")
    return [".".join(words[:count]) for count in range(1, len(words) + 1)]


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    said = default_values()

    assert chart["version"] == chart["appVersion"] == said["image"]["tag"] == __version__
    assert said["agent"]["image"]["tag"] == __version__
    assert said["kubeScheduler"]["image"]["tag"] == KUBERNETES_VERSION
    images = {image for image in values(installed(), "image") if isinstance(image, str)}
    assert f"{said['image']['repository']}:{said['image']['tag']}" in images


def test_a_value_whose_text_has_changed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Value("base/deployment.yaml", "image: of-yesterday", "image: x")
    monkeypatch.setattr("deploy.render.VALUES", (gone,))

    with pytest.raises(RenderError, match="of-yesterday"):
        templates()


def test_a_template_that_nobody_writes_any_more_is_told_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("deploy.render.TEMPLATES", tmp_path)
    monkeypatch.setattr("deploy.render.MANIFEST", tmp_path / "out" / "muster.yaml")
    (tmp_path / "out").mkdir()
    assert main([]) == 0
    (tmp_path / "old.yaml").write_text("kind: Old\n")

    assert main(["--check"]) == 1
    assert "old.yaml" in capsys.readouterr().err
    assert main([]) == 0
    assert not (tmp_path / "old.yaml").exists()
    assert (tmp_path / "deployment.yaml").exists()
