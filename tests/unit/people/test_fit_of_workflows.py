"""What `muster fit` makes of Argo's workflows, and of files that are none."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from asking import EXAMPLES, documents, fit
from people_site import Site, muster

from scheduler.commands.controllers import WorkloadError
from scheduler.commands.workloads import questions

WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: train-}
spec:
  entrypoint: pipeline
  arguments:
    parameters:
      - {name: nodes, value: "4"}
      - {name: epochs}
  templates:
    - name: pipeline
      dag:
        tasks:
          - {name: prepare, template: prepare}
          - name: pretrain
            template: train
            dependencies: [prepare]
            arguments:
              parameters: [{name: nodes, value: "{{workflow.parameters.nodes}}"}]
          - name: tune
            template: train
            dependencies: [pretrain]
            arguments:
              parameters:
                - {name: nodes, value: "{{= 1 + 1 }}"}
                - {name: nodes, value: "9"}
          - {name: clean, template: clean, dependencies: [tune]}
    - name: prepare
      container: {image: example.com/prepare, command: [prepare]}
    - name: train
      inputs:
        parameters:
          - {name: nodes, default: "2"}
      resource:
        action: create
        manifest: |
          apiVersion: batch/v1
          kind: Job
          metadata: {generateName: "step-{{workflow.uid}}-"}
          spec:
            completionMode: Indexed
            completions: {{inputs.parameters.nodes}}
            parallelism: {{inputs.parameters.nodes}}
            template:
              spec:
                schedulerName: muster
                containers:
                  - name: main
                    image: example.com/train
                    args: ["--epochs={{workflow.parameters.epochs}}"]
                    resources: {limits: {nvidia.com/gpu: 8}}
    - name: clean
      resource: {action: delete, manifest: "{kind: Job, metadata: {name: old}}"}
"""


def test_the_projects_own_workflow_is_asked_about_step_by_step(idle: Site) -> None:
    ran = muster("fit", "-f", str(EXAMPLES / "argo-workflow.yaml"), "--server", idle.url)

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[:2] == [
        "Workflow default/digits, step train:",
        "It fits: 4 pods would start now",
    ]


def test_each_step_is_a_question_of_its_own() -> None:
    found = questions(documents(WORKFLOW), "t")

    assert [(question.about, len(question.pods)) for question in found] == [
        ("Workflow t/train-x, step pretrain", 4),
        ("Workflow t/train-x, step tune", 9),
    ]
    names = {pod["metadata"]["labels"]["job-name"] for pod in found[0].pods}
    assert names == {"step-workflow.uid-x"}, "what is not known yet stands there by its name"


def test_a_step_that_would_wait_is_told_apart_from_one_that_starts(idle: Site) -> None:
    ran = fit(idle, *documents(WORKFLOW), arguments=("--json",))

    assert ran.status == 1
    assert ran.json["fits"] is False
    steps = {step["step"].rpartition(" ")[2]: step["fits"] for step in ran.json["steps"]}
    assert steps == {"pretrain": True, "tune": False}


def test_a_number_that_only_the_run_knows_is_named() -> None:
    text = WORKFLOW.replace('{name: nodes, value: "9"}', "{name: other, value: x}")
    with pytest.raises(WorkloadError, match=r"spec\.parallelism is 'expression', not a number"):
        questions(documents(text), "t")


def test_pods_of_argo_itself_count_where_they_name_a_scheduler() -> None:
    text = WORKFLOW.replace(
        "    - name: prepare\n",
        "    - name: prepare\n      schedulerName: muster\n"
        "      nodeSelector: {pool: '{{workflow.name}}'}\n"
        "      metadata: {annotations: {muster.scheduler/max-runtime: 10m}}\n",
    )
    first, *_ = questions(documents(text), "t")

    assert first.about == "Workflow t/train-x, step prepare"
    (pod,) = first.pods
    assert pod["metadata"]["name"] == "train-x-prepare"
    assert pod["metadata"]["annotations"] == {"muster.scheduler/max-runtime": "10m"}
    assert pod["spec"]["nodeSelector"] == {"pool": "train-x"}


def test_steps_come_from_templates_of_others_in_the_same_file() -> None:
    (workflow,) = documents(WORKFLOW)
    shared = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "WorkflowTemplate",
        "metadata": {"name": "shared"},
        "spec": {"templates": workflow["spec"]["templates"]},
    }
    caller = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": "nightly"},
        "spec": {
            "schedule": "0 3 * * *",
            "workflowSpec": {
                "entrypoint": "main",
                "templates": [
                    {
                        "name": "main",
                        "steps": [
                            [{"name": "go", "templateRef": {"name": "shared", "template": "train"}}]
                        ],
                    }
                ],
            },
        },
    }
    referring = {
        **workflow,
        "spec": {
            "workflowTemplateRef": {"name": "shared"},
            "entrypoint": "pipeline",
            "arguments": workflow["spec"]["arguments"],
        },
    }

    (found,) = questions([caller, shared], "t")
    assert (found.about, len(found.pods)) == ("CronWorkflow t/nightly, step go", 2)
    assert len(questions([referring, shared], "t")) == 2
    with pytest.raises(WorkloadError, match="its WorkflowTemplate shared is not in the file"):
        questions([caller], "t")


def test_a_template_that_can_be_run_is_asked_about_without_a_workflow() -> None:
    (workflow,) = documents(WORKFLOW)
    assert len(questions([{**workflow, "kind": "WorkflowTemplate"}], "t")) == 2


def test_a_workflow_that_calls_itself_comes_to_an_end() -> None:
    (workflow,) = documents(WORKFLOW)
    again = {"name": "again", "template": "pipeline"}
    workflow["spec"]["templates"][0]["dag"]["tasks"].append(again)
    assert len(questions([workflow], "t")) == 2


def test_what_stands_beside_a_workflow_is_asked_about_first() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    found = questions([*documents(WORKFLOW), pod], "t")
    assert [question.about.rpartition(" ")[2] for question in found] == ["", "pretrain", "tune"]


def test_replicas_are_not_clear_for_a_workflow(idle: Site) -> None:
    ran = fit(idle, *documents(WORKFLOW), arguments=("--replicas", "2"))
    assert (ran.status, ran.out) == (2, "")
    assert "--replicas is not clear for a Workflow; edit the file" in ran.err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"entrypoint": None}, "spec.entrypoint is missing"),
        ({"entrypoint": "other"}, "there is no template 'other'"),
        ({"templates": ["x"]}, "there is no template 'pipeline'"),
        ({"templates": [{"name": "pipeline", "steps": "abc"}]}, "does not have the form"),
        (
            {
                "templates": [
                    {"name": "pipeline", "resource": {"action": "create", "manifest": "{"}}
                ]
            },
            "the manifest of step 'pipeline' is no YAML",
        ),
    ],
)
def test_a_workflow_that_cannot_be_read_is_told_by_name(
    change: dict[str, Any], reason: str
) -> None:
    (workflow,) = documents(WORKFLOW)
    workflow["spec"] |= change
    with pytest.raises(WorkloadError) as refusal:
        questions([workflow], "t")
    assert "Workflow t/train-x: " in str(refusal.value)
    assert reason in str(refusal.value)


def test_what_is_not_read_beside_a_workflow_is_named_and_secrets_stay_here(idle: Site) -> None:
    others = [
        {"kind": "Deployment", "metadata": {"name": "web"}},
        {"kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "c2VjcmV0"}},
    ]
    parts = questions([*documents(WORKFLOW), *others], "t")

    assert "Secret" not in {obj["kind"] for part in parts for obj in part.objects}
    assert "Deployment default/web is not read" in fit(idle, *documents(WORKFLOW), *others).err


# ── whatever is in the file ──

_WRONG: tuple[Any, ...] = (None, 3, "text", ["text"], [3], {"name": 3}, [[]])


def _spoilt(value: Any) -> list[Any]:
    """The value with each of its parts replaced by something of another kind."""
    if isinstance(value, dict):
        parts = [(key, {**value}) for key in value]
        return [
            *_WRONG,
            *(({**copy, key: new}) for key, copy in parts for new in _spoilt(value[key])),
        ]
    if isinstance(value, list):
        return [
            *_WRONG,
            *(
                [*value[:at], new, *value[at + 1 :]]
                for at in range(len(value))
                for new in _spoilt(value[at])
            ),
        ]
    return list(_WRONG)


@pytest.mark.parametrize(
    "name",
    [
        "trainjob",
        "argo-workflow",
        "jobset",
        "volcano-job",
        "raycluster",
        "leaderworkerset",
        "pytorchjob",
        "indexed-job",
    ],
)
def test_no_form_of_a_file_brings_it_down(name: str) -> None:
    """Either it is read, or the fault is told with the object's name."""
    whole = list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))
    for at, document in enumerate(whole):
        for spec in _spoilt(document.get("spec")):
            changed = [*whole[:at], {**document, "spec": spec}, *whole[at + 1 :]]
            assert _told(changed) == "" or "t/" in _told(changed)


def _told(documents: list[Any]) -> str:
    try:
        questions(documents, "t")
    except WorkloadError as error:
        return str(error)
    return ""


def test_no_refusal_is_longer_than_people_read(idle: Site) -> None:
    (workflow,) = documents(WORKFLOW)
    workflow["spec"]["entrypoint"] = "x" * 5_000
    ran = fit(idle, workflow)
    assert (ran.status, "there is no template 'xxx" in ran.err) == (2, True)
    assert len(ran.err) <= 1_001
