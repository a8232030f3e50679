"""What the steps of Argo workflows make: objects of their manifests, and pods of Argo's own."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from scheduler.commands.controllers import Json, WorkloadError, mapping, name_of
from scheduler.errors import misread

WORKFLOWS = ("Workflow", "CronWorkflow")
TEMPLATES = ("WorkflowTemplate", "ClusterWorkflowTemplate")
KINDS = (*WORKFLOWS, *TEMPLATES)

MOST_STEPS = 64
"""Steps of one workflow that make anything."""

_TAG = re.compile(r"\{\{(=?)\s*(.*?)\s*\}\}", re.DOTALL)
_POD_FIELDS = ("schedulerName", "nodeSelector", "tolerations", "affinity", "priorityClassName")
_MAKING = ("create", "apply")

Values = Mapping[str, str]


class Step(NamedTuple):
    """A step that makes something, with its name and what it makes."""

    name: str
    documents: list[Any]


class _Call(NamedTuple):
    """A template as it is called."""

    step: str
    name: str
    templates: Mapping[str, Json]
    given: Values


def steps_of(workflow: Json, objects: Iterable[Json]) -> list[Step]:
    """Each step that makes objects, or pods of Argo's own that name a scheduler; once each.

    Loops count once, and a value that is only known when the workflow runs stands there by its
    name. Templates of others are looked for in ``objects``. Raises WorkloadError.
    """
    return _Reading(workflow, list(objects)).steps()


class _Reading:
    def __init__(self, workflow: Json, objects: list[Json]) -> None:
        self._workflow = workflow
        self._objects = objects
        spec = mapping(workflow, workflow, "spec")
        if workflow["kind"] == "CronWorkflow":
            spec = mapping(workflow, spec, "workflowSpec")
        reference = spec.get("workflowTemplateRef")
        under = mapping(workflow, self._referred(reference), "spec") if reference else {}
        self._spec = {**under, **spec}
        self._found: list[Step] = []

    def steps(self) -> list[Step]:
        """From the entrypoint on, in the order in which they are written."""
        meta = self._workflow["metadata"]
        values = {"workflow.name": meta["name"], "workflow.namespace": meta["namespace"]}
        parameters = (self._spec.get("arguments") or {}).get("parameters") or ()
        for name, value in _stated(parameters):
            values[f"workflow.parameters.{name}"] = _fill(value, values)
        self._values = values
        entry = self._spec.get("entrypoint")
        if not isinstance(entry, str):
            raise WorkloadError(f"{name_of(self._workflow)}: spec.entrypoint is missing")
        self._call(_Call(entry, entry, _named(self._spec), {}), ())
        return self._found

    def _call(self, call: _Call, above: tuple[str, ...]) -> None:
        template = call.templates.get(call.name)
        if template is None:
            raise WorkloadError(f"{name_of(self._workflow)}: there is no template {call.name!r}")
        if call.name in above or len(self._found) >= MOST_STEPS:
            return
        values = {**self._values, **_inputs(template, call.given, self._values)}
        documents = self._made(call.step, template, values)
        if documents and not any(step == Step(call.step, documents) for step in self._found):
            self._found.append(Step(call.step, documents))
        for inner in _inner(template):
            self._follow(inner, call, values, (*above, call.name))

    def _follow(self, inner: Json, call: _Call, values: Values, above: tuple[str, ...]) -> None:
        step = str(inner.get("name") or call.step)
        stated = (inner.get("arguments") or {}).get("parameters") or ()
        given = {name: _fill(value, values) for name, value in _stated(stated)}
        if isinstance(inner.get("inline"), dict):
            self._call(_Call(step, step, {**call.templates, step: inner["inline"]}, given), above)
        elif isinstance(reference := inner.get("templateRef"), dict):
            other = _named(mapping(self._workflow, self._referred(reference), "spec"))
            self._call(_Call(step, str(reference.get("template")), other, given), above)
        elif inner.get("template"):
            self._call(_Call(step, str(inner["template"]), call.templates, given), above)

    def _referred(self, reference: Json) -> Json:
        kind = TEMPLATES[1] if reference.get("clusterScope") else TEMPLATES[0]
        for obj in self._objects:
            if (obj["kind"], obj["metadata"]["name"]) == (kind, reference.get("name")):
                return obj
        raise WorkloadError(
            f"{name_of(self._workflow)}: its {kind} {reference.get('name')} is not in the file: "
            "put it there too"
        )

    # ── what a template makes ──

    def _made(self, step: str, template: Json, values: Values) -> list[Any]:
        resource = template.get("resource")
        if isinstance(resource, dict):
            if resource.get("action") not in _MAKING:
                return []
            return self._manifest(step, _fill(str(resource.get("manifest") or ""), values))
        containers = _containers(template)
        pod = self._pod(step, template, containers) if containers else None
        if pod is None or pod["spec"].get("schedulerName") in (None, "", "default-scheduler"):
            return []
        return [_deep(pod, values)]

    def _manifest(self, step: str, text: str) -> list[Any]:
        import yaml

        try:
            return [found for found in yaml.safe_load_all(text) if found is not None]
        except yaml.YAMLError as error:
            text = f"the manifest of step {step!r} is no YAML: {misread(error)}"
            raise WorkloadError(f"{name_of(self._workflow)}: {text}") from error

    def _pod(self, step: str, template: Json, containers: list[Json]) -> Json:
        spec: Json = {"containers": copy.deepcopy(containers)}
        for field in _POD_FIELDS:
            stated = template.get(field, self._spec.get(field))
            if stated is not None:
                spec[field] = copy.deepcopy(stated)
        meta = self._workflow["metadata"]
        every, own = self._spec.get("podMetadata") or {}, template.get("metadata") or {}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{meta['name']}-{step}",
                "namespace": meta["namespace"],
                **{
                    key: {**(every.get(key) or {}), **(own.get(key) or {})}
                    for key in ("labels", "annotations")
                },
            },
            "spec": spec,
        }


# ── templates ──


def _named(spec: Json) -> dict[str, Json]:
    found = [item for item in spec.get("templates") or () if isinstance(item, dict)]
    return {str(item.get("name")): item for item in found}


def _inner(template: Json) -> Iterator[Json]:
    """The steps or tasks of a template, groups laid out."""
    for group in template.get("steps") or ():
        yield from group if isinstance(group, list) else [group]
    yield from (template.get("dag") or {}).get("tasks") or ()


def _containers(template: Json) -> list[Json]:
    one = template.get("container") or template.get("script")
    several = (template.get("containerSet") or {}).get("containers") or ()
    beside = template.get("sidecars") or ()
    return [item for item in (one, *several, *beside) if isinstance(item, dict)]


# ── values ──


def _stated(parameters: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for item in parameters:
        value = item.get("value", item.get("default")) if isinstance(item, dict) else None
        if value is not None:
            yield str(item.get("name")), str(value)


def _inputs(template: Json, given: Values, values: Values) -> dict[str, str]:
    declared = (template.get("inputs") or {}).get("parameters") or ()
    own = {name: _fill(value, values) for name, value in _stated(declared)}
    return {f"inputs.parameters.{name}": value for name, value in {**own, **given}.items()}


def _fill(text: str, values: Values) -> str:
    """The text with what is known; what is not stands there by its name, which fits in names."""

    def known(tag: re.Match[str]) -> str:
        name = "expression" if tag[1] else tag[2]
        return values.get(name, re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.") or "unknown")

    return _TAG.sub(known, text)


def _deep(value: Any, values: Values) -> Any:
    if isinstance(value, str):
        return _fill(value, values)
    if isinstance(value, list):
        return [_deep(item, values) for item in value]
    if isinstance(value, dict):
        return {key: _deep(item, values) for key, item in value.items()}
    return value
