"""Writes what follows from deploy/base: one manifest, and a Helm chart.

``python -m deploy.render`` writes them, ``python -m deploy.render --check`` says whether they are
up to date. The manifest is for people without Kustomize or Helm; concatenation is exact because the
base lists resources and does nothing else. In the chart, some texts of the base are values. What a
component patches is there in both forms, one of which its switch chooses.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from deploy.patches import PatchError, patched, patches_of

DEPLOY = Path(__file__).parent
BASE = DEPLOY / "base"
MANIFEST = DEPLOY / "muster.yaml"
TEMPLATES = DEPLOY / "chart" / "templates"

_HEADER = "# Written by `python -m deploy.render` from deploy/{source}; change it there.\n"
_UNDERSTOOD = {"apiVersion", "kind", "resources"}
_COMPONENT = _UNDERSTOOD | {"patches"}


class RenderError(Exception):
    """A source asks for something that cannot be done, or lacks a text that should be a value."""


class Value(NamedTuple):
    """A text that stands in a source once, and what stands in the chart instead."""

    source: str
    """Path below deploy/."""
    text: str
    template: str
    patched: bool = True
    """Whether it is one as well in what patches of a component make of the source."""


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
    Part("components/separate", ".Values.separate.enabled"),
    Part("components/certificates", ".Values.certificates.enabled"),
)
ONLY_WHEN = {
    "base/network-policy.yaml": ".Values.networkPolicy.enabled",
    "components/agent/network-policy.yaml": (
        "and .Values.agent.enabled .Values.networkPolicy.enabled"
    ),
    "components/separate/network-policy.yaml": (
        "and .Values.separate.enabled .Values.networkPolicy.enabled"
    ),
}
LEFT_OUT = ("base/namespace.yaml",)
"""Helm makes the namespace of a release itself."""

SCHEDULER_IMAGE = (
    "image: registry.k8s.io/kube-scheduler:v1.37.2",
    'image: "{{ .Values.kubeScheduler.image.repository }}:{{ .Values.kubeScheduler.image.tag }}"',
)
IMAGE = 'image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"'
AGENT_IMAGE = 'image: "{{ .Values.agent.image.repository }}:{{ .Values.agent.image.tag }}"'
POLICIES = ("components/admission/scheduler-name.yaml", "components/gate/scheduling-gate.yaml")
POLICY = "apiVersion: {}\nkind: MutatingAdmissionPolicy{}\n"
POLICY_VERSION = "admissionregistration.k8s.io/v1"

RESOURCES = """\
          resources:
            {{- toYaml .Values.%s | nindent 12 }}
"""

BASE_DEPLOYMENT = "base/deployment.yaml"
SEPARATE = "components/separate/kube-scheduler.yaml"
REPLICAS = ("  replicas: 1\n", "  replicas: {{ .Values.replicas }}\n")
NODE_SELECTOR = (
    """\
      nodeSelector:
        kubernetes.io/os: linux
""",
    """\
      nodeSelector:
        {{- toYaml .Values.nodeSelector | nindent 8 }}
""",
)
TOLERATIONS = (
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
)
SCHEDULER_RESOURCES = (
    """\
          resources:
            requests:
              cpu: 250m
              memory: 256Mi
""",
    RESOURCES % "kubeScheduler.resources",
)
PULL_SECRETS = (
    "imagePullSecrets: []\n",
    "imagePullSecrets:\n  {{- toYaml .Values.imagePullSecrets | nindent 2 }}\n",
)

VALUES = (
    # Where the scheduler is elsewhere, there is one Muster.
    Value(BASE_DEPLOYMENT, *REPLICAS, patched=False),
    Value(SEPARATE, *REPLICAS),
    Value(BASE_DEPLOYMENT, "image: muster-scheduler:0.1.0", IMAGE),
    Value("components/agent/daemonset.yaml", "image: muster-agent:0.1.0", AGENT_IMAGE),
    *(
        Value(source, *text)
        for source in (BASE_DEPLOYMENT, SEPARATE)
        for text in (SCHEDULER_IMAGE, SCHEDULER_RESOURCES, NODE_SELECTOR, TOLERATIONS)
    ),
    Value(
        BASE_DEPLOYMENT,
        """\
          resources:
            requests:
              cpu: 500m
              memory: 512Mi
""",
        RESOURCES % "resources",
    ),
    *(
        Value(source, *PULL_SECRETS)
        for source in ("base/service-account.yaml", "components/agent/rbac.yaml", SEPARATE)
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
        for name in _resources(DEPLOY / part.folder, _COMPONENT if part.when else _UNDERSTOOD):
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


def _resources(folder: Path, understood: AbstractSet[str] = _UNDERSTOOD) -> list[str]:
    kustomization: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if beyond := kustomization.keys() - understood:
        raise RenderError(
            f"{folder}/kustomization.yaml uses {', '.join(sorted(beyond))}, which this script does "
            "not do; put such changes into an overlay of your own"
        )
    names: list[str] = kustomization["resources"]
    return names


def _template(source: str, when: str) -> str:
    text = (DEPLOY / source).read_text()
    body = _with_values(source, text)
    for other, changed in _patched(source, text):
        body = f"{{{{- if {other} }}}}\n{changed}{{{{- else }}}}\n{body}{{{{- end }}}}\n"
    header = _HEADER.format(source=source)
    return f"{header}{{{{- if {when} }}}}\n{body}{{{{- end }}}}\n" if when else header + body


def _patched(source: str, text: str) -> list[tuple[str, str]]:
    """When a component patches a source, and what it makes of it."""
    found = []
    for part in PARTS:
        if not (patches := [*patches_of(DEPLOY / part.folder)]):
            continue
        try:
            changed = patched(text, patches)
        except PatchError as error:
            raise RenderError(str(error)) from error
        if changed is not None:
            found.append((part.when, _with_values(source, changed, after_patches=True)))
    if len(found) > 1:
        raise RenderError(f"two components patch deploy/{source}, which no template can say")
    return found


def _with_values(source: str, text: str, *, after_patches: bool = False) -> str:
    """The text as a template. Patches may have taken a value away."""
    # What is a template to others, such as Prometheus, has to leave Helm as it came.
    text = text.replace("{{", '{{ "{{" }}')
    for value in VALUES:
        if value.source != source or (after_patches and not value.patched):
            continue
        if text.count(value.text) != 1 and not (after_patches and value.text not in text):
            raise RenderError(f"deploy/{source} should contain once: {value.text!r}")
        text = text.replace(value.text, value.template)
    return text.replace("muster-system", "{{ .Release.Namespace }}")


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
