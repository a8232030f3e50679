"""Writes what follows from deploy/base: one manifest, and a Helm chart.

``python -m deploy.render`` writes them, ``python -m deploy.render --check`` says whether they are
up to date. The manifest is for people without Kustomize or Helm; concatenation is exact because the
base lists resources and does nothing else. In the chart, some texts of the base are values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DEPLOY = Path(__file__).parent
BASE = DEPLOY / "base"
MANIFEST = DEPLOY / "muster.yaml"
TEMPLATES = DEPLOY / "chart" / "templates"

_HEADER = "# Written by `python -m deploy.render` from deploy/{source}; change it there.\n"
_UNDERSTOOD = {"apiVersion", "kind", "resources"}


class RenderError(Exception):
    """A source asks for something that cannot be done, or lacks a text that should be a value."""


class Value(NamedTuple):
    """A text that stands in a source once, and what stands in the chart instead."""

    source: str
    """Path below deploy/."""
    text: str
    template: str


class Part(NamedTuple):
    """A folder of sources."""

    folder: str
    """Path below deploy/."""
    when: str = ""
    """The value that has to be true for it; always if empty."""


PARTS = (
    Part("base"),
    Part("components/monitoring", ".Values.monitoring.enabled"),
    Part("components/agent", ".Values.agent.enabled"),
    Part("components/admission", ".Values.admission.enabled"),
    Part("components/gate", ".Values.gate.enabled"),
)
ONLY_WHEN = {"base/network-policy.yaml": ".Values.networkPolicy.enabled"}
LEFT_OUT = ("base/namespace.yaml",)
"""Helm makes the namespace of a release itself."""

SCHEDULER_IMAGE = """\
image: "{{ .Values.kubeScheduler.image.repository }}:{{ .Values.kubeScheduler.image.tag }}"\
"""
IMAGE = 'image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"'
POLICIES = ("components/admission/scheduler-name.yaml", "components/gate/scheduling-gate.yaml")
POLICY = "apiVersion: {}\nkind: MutatingAdmissionPolicy{}\n"
POLICY_VERSION = "admissionregistration.k8s.io/v1"

RESOURCES = """\
          resources:
            {{- toYaml .Values.%s | nindent 12 }}
"""

VALUES = (
    Value("base/deployment.yaml", "  replicas: 1\n", "  replicas: {{ .Values.replicas }}\n"),
    Value("base/deployment.yaml", "image: muster-scheduler:0.1.0", IMAGE),
    Value("components/agent/daemonset.yaml", "image: muster-scheduler:0.1.0", IMAGE),
    Value(
        "base/deployment.yaml",
        "image: registry.k8s.io/kube-scheduler:v1.37.2",
        SCHEDULER_IMAGE,
    ),
    Value(
        "base/deployment.yaml",
        """\
          resources:
            requests:
              cpu: 500m
              memory: 512Mi
""",
        RESOURCES % "resources",
    ),
    Value(
        "base/deployment.yaml",
        """\
          resources:
            requests:
              cpu: 250m
              memory: 256Mi
""",
        RESOURCES % "kubeScheduler.resources",
    ),
    Value(
        "base/deployment.yaml",
        """\
      nodeSelector:
        kubernetes.io/os: linux
""",
        """\
      nodeSelector:
        {{- toYaml .Values.nodeSelector | nindent 8 }}
""",
    ),
    Value(
        "base/deployment.yaml",
        """\
      tolerations:
        - key: CriticalAddonsOnly
          operator: Exists
        - key: node-role.kubernetes.io/control-plane
          operator: Exists
          effect: NoSchedule
""",
        """\
      tolerations:
        {{- toYaml .Values.tolerations | nindent 8 }}
""",
    ),
    Value(
        "base/configuration.yaml",
        """\
  settings.toml: |
    # levels = ["topology.kubernetes.io/zone", "example.com/block", "example.com/rack"]
""",
        """\
  settings.toml: |
    {{- .Values.settings | nindent 4 }}
""",
    ),
    Value(
        "base/service-account.yaml",
        "imagePullSecrets: []\n",
        "imagePullSecrets:\n  {{- toYaml .Values.imagePullSecrets | nindent 2 }}\n",
    ),
    Value(
        "components/agent/rbac.yaml",
        "imagePullSecrets: []\n",
        "imagePullSecrets:\n  {{- toYaml .Values.imagePullSecrets | nindent 2 }}\n",
    ),
    Value(
        "base/network-policy.yaml",
        """\
        - podSelector: {}
        - namespaceSelector:
            matchExpressions:
              - key: kubernetes.io/metadata.name
                operator: In
                values: [kube-system, monitoring]
        - namespaceSelector:
            matchLabels:
              muster.scheduler/views: allowed
""",
        """\
        {{- toYaml .Values.networkPolicy.from | nindent 8 }}
""",
    ),
    Value(
        "components/agent/daemonset.yaml",
        "--in-use-from=auto",
        "--in-use-from={{ .Values.agent.inUseFrom }}",
    ),
    Value(
        "components/agent/daemonset.yaml",
        """\
      nodeSelector:
        nvidia.com/gpu.present: "true"
""",
        """\
      nodeSelector:
        {{- toYaml .Values.agent.nodeSelector | nindent 8 }}
""",
    ),
    *(
        Value(
            source,
            POLICY.format(POLICY_VERSION, kind),
            POLICY.format("{{ .Values.policies.apiVersion }}", kind),
        )
        for source in POLICIES
        for kind in ("", "Binding")
    ),
)


def render(base: Path = BASE) -> str:
    """All resources of the base, in its order.

    Raises RenderError if its kustomization.yaml does more than to list files.
    """
    texts = [(base / name).read_text().strip("\n") for name in _resources(base)]
    header = _HEADER.format(source=base.name)
    return header + "".join(f"---\n{text}\n" for text in texts)


def templates() -> dict[str, str]:
    """The chart's templates by file name. Raises RenderError if a value's text has changed."""
    found = {}
    for part in PARTS:
        for name in _resources(DEPLOY / part.folder):
            source = f"{part.folder}/{name}"
            if source not in LEFT_OUT:
                prefix = "" if part.folder == "base" else f"{Path(part.folder).name}-"
                when = ONLY_WHEN.get(source, part.when)
                found[prefix + name] = _template(source, when)
    return found


def outputs() -> dict[Path, str]:
    """Every file that is written, with its text."""
    return {MANIFEST: render(), **{TEMPLATES / name: text for name, text in templates().items()}}


def main(arguments: list[str]) -> int:
    """The exit status: 1 if ``--check`` finds a difference."""
    if "--check" not in arguments:
        _write(outputs())
        return 0
    wrong = sorted(path.name for path in _differing(outputs()))
    if wrong:
        sys.stderr.write(
            f"{', '.join(wrong)}: not what deploy/ says: run python -m deploy.render\n"
        )
    return 1 if wrong else 0


def _resources(folder: Path) -> list[str]:
    kustomization: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if beyond := kustomization.keys() - _UNDERSTOOD:
        raise RenderError(
            f"{folder}/kustomization.yaml uses {', '.join(sorted(beyond))}, which this script does "
            "not do; put such changes into an overlay of your own"
        )
    names: list[str] = kustomization["resources"]
    return names


def _template(source: str, when: str) -> str:
    # What is a template to others, such as Prometheus, has to leave Helm as it came.
    text = (DEPLOY / source).read_text().replace("{{", '{{ "{{" }}')
    for value in VALUES:
        if value.source == source:
            if text.count(value.text) != 1:
                raise RenderError(f"deploy/{source} should contain once: {value.text!r}")
            text = text.replace(value.text, value.template)
    text = text.replace("muster-system", "{{ .Release.Namespace }}")
    header = _HEADER.format(source=source)
    return f"{header}{{{{- if {when} }}}}\n{text}{{{{- end }}}}\n" if when else header + text


def _differing(wanted: Mapping[Path, str]) -> Iterator[Path]:
    yield from (path for path, text in wanted.items() if _read(path) != text)
    yield from set(TEMPLATES.glob("*.yaml")) - wanted.keys()


def _read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def _write(wanted: Mapping[Path, str]) -> None:
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    for path in set(TEMPLATES.glob("*.yaml")) - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
