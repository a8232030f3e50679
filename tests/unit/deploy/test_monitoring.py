"""Alerts and dashboard ask for metrics and labels that /metrics really has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from deploy_objects import DEPLOY, NAMESPACE, Object, kustomized, objects, one, pod_template
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families
from test_listeners import NoEffects

from scheduler import decode
from scheduler.api import create_app
from scheduler.core.messages import NodeSeen, PodSeen, Synced
from scheduler.service import Service
from scheduler.settings import Settings
from tests import builders
from trainer import eyes

FOREIGN = {
    "up": set[str](),
    # kube-state-metrics
    "kube_deployment_status_replicas_ready": {"deployment"},
    # DCGM exporter
    "DCGM_FI_DEV_GPU_UTIL": set(),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": set(),
}
TRAINING = {f"muster_train_{name}": {"rank"} for _, name, *_ in eyes._METRICS} | {
    "muster_train_straggler_score": {"rank"}
}
TARGET = {"namespace", "pod", "container"}
"""Labels that Prometheus itself adds to what it reads from a pod."""
SEPARATE = kustomized(DEPLOY / "components" / "separate")

_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})?(?:\[[^\]]*\])?")
_WORDS = {
    *("sum", "avg", "max", "min", "count", "by", "rate", "increase", "histogram_quantile"),
    *("absent", "max_over_time"),
}


def _component(kind: str, name: str = "") -> Object:
    (found,) = [
        item
        for item in kustomized(DEPLOY / "components" / "monitoring")
        if item["kind"] == kind and name in ("", item["metadata"]["name"])
    ]
    return found


def _rules() -> list[Object]:
    (group,) = _component("PrometheusRule")["spec"]["groups"]
    rules: list[Object] = group["rules"]
    return rules


def _dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_component("ConfigMap")["data"]["muster.json"])
    return found


def _panels() -> list[dict[str, Any]]:
    return [panel for panel in _dashboard()["panels"] if panel["type"] != "row"]


def _queries() -> Iterator[tuple[str, str]]:
    """Name and PromQL of each alert and each panel's target."""
    for rule in _rules():
        yield rule["alert"], rule["expr"]
    for panel in _panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


QUERIES = list(_queries())


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """Every sample's name with its labels, of a service that has seen a gang wait."""
    service = Service(Settings(), NoEffects())
    app = create_app(service)
    service.start()
    service.post(NodeSeen(decode.node(builders.node("n1", gpu=8))))
    service.post(PodSeen(decode.pod(builders.pod("t/a-0", gang="a", min=2, gpu=8))))
    service.post(PodSeen(decode.pod(builders.pod("t/a-1", gang="a", min=2, gpu=8))))
    service.post(Synced())
    for metric in vars(service.metrics).values():
        if isinstance(metric, MetricWrapperBase) and metric._labelnames:
            metric.labels(*("x" for _ in metric._labelnames))
    text = service.metrics.text().decode()
    service.stop()
    assert app is not None
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def _asked(query: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric of a query with the labels that are asked of it."""
    grouped = {
        name.strip() for by in re.findall(r"by \(([^)]*)\)", query) for name in by.split(",")
    }
    plain = re.sub(r"by \([^)]*\)", "", query)
    for name, matchers in _SELECTOR.findall(re.sub(r"\$__rate_interval", "5m", plain)):
        if name in _WORDS or re.fullmatch(r"[smhd]", name):
            continue
        matched = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        yield name, matched | grouped


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
def test_what_a_query_asks_for_is_exported(
    exported: dict[str, set[str]], title: str, query: str
) -> None:
    known = exported | FOREIGN | TRAINING
    asked = dict(_asked(query))

    assert asked, "no metric was found in the query"
    for name, labels in asked.items():
        assert name in known, f"{name} is not exported"
        assert labels <= known[name] | TARGET, f"{name} has no {labels - known[name] - TARGET}"


def test_the_check_would_find_a_metric_or_label_that_is_not_there(
    exported: dict[str, set[str]],
) -> None:
    asked = dict(_asked('sum by (colour) (rate(muster_requests_bucket{verb!="bind"}[5m])) > 1'))

    assert asked == {"muster_requests_bucket": {"colour", "verb"}}
    assert "muster_requests_bucket" not in exported
    assert "colour" not in exported["muster_request_seconds_bucket"]


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
def test_every_bracket_is_closed(title: str, query: str) -> None:
    opened: list[str] = []
    for sign in re.sub(r'"[^"]*"', "", query):
        if sign in "([{":
            opened.append(sign)
        elif sign in ")]}":
            assert opened, query
            assert opened.pop() + sign in ("()", "[]", "{}"), query
    assert opened == []


@pytest.mark.parametrize("rule", _rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_and_what_to_do(rule: Object) -> None:
    notes = rule["annotations"]
    grouped = set(re.findall(r"by \(([^)]*)\)", rule["expr"]))
    used = set(re.findall(r"\$labels\.(\w+)", notes["summary"] + notes["description"]))

    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert len(notes["summary"]) < 120
    assert len(notes["description"]) > 60
    assert used <= {name.strip() for names in grouped for name in names.split(",")} - {"le"}


def test_what_must_be_told_is_told() -> None:
    told = " ".join(rule["expr"] for rule in _rules())

    for metric in (
        "muster_longest_wait_seconds",
        "muster_leads",
        "muster_rejected_members_total",
        "muster_expired_reservations_total",
        "muster_step_failures_total",
        "muster_watch_restarts_total",
        "kube_deployment_status_replicas_ready",
    ):
        assert metric in told


def test_the_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = _dashboard()["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["description"] for panel in _panels())


def test_the_monitor_reads_the_views_of_musters_pod() -> None:
    monitor = _component("PodMonitor", "muster")["spec"]
    ports = {
        port["name"]
        for container in pod_template()["spec"]["containers"]
        for port in container["ports"]
    }
    (endpoint,) = monitor["podMetricsEndpoints"]

    labels = pod_template()["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert endpoint["port"] in ports
    assert endpoint["path"] == "/metrics"
    deployment = one("Deployment")["metadata"]
    assert deployment["namespace"] == NAMESPACE
    (watched,) = re.findall(r'deployment=~"([^"]+)"', " ".join(rule["expr"] for rule in _rules()))
    separate = {item["metadata"]["name"] for item in SEPARATE if item["kind"] == "Deployment"}
    assert set(watched.split("|")) == {deployment["name"], *separate}


def test_the_other_monitor_reads_the_trainings_that_say_so() -> None:
    monitor = _component("PodMonitor", "muster-training")["spec"]
    (job,) = [
        item
        for item in objects(DEPLOY / "examples" / "indexed-job.yaml")
        if "template" in item["spec"]
    ]
    template = job["spec"]["template"]
    (container,) = template["spec"]["containers"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    (port,) = container["ports"]

    assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert monitor["namespaceSelector"] == {"any": True}
    assert endpoint["port"] == port["name"]
    assert f"--metrics-port={port['containerPort']}" in container["args"]


def test_what_every_replica_says_of_the_one_cluster_is_not_added_up() -> None:
    for title, query in QUERIES:
        for name in re.findall(r"sum(?: by \([^)]*\) |)\((muster_[a-z_]+)", query):
            assert name in ("muster_leads", "muster_train_samples_per_second"), title
