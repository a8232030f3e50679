"""Traces: a span for each call of the scheduler, and for each request that follows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from cluster.collector import Collector
from cluster.fake_apiserver import NODES, PODS, FakeApi, Json, node, pod, until
from scheduler import decode
from scheduler.cluster import Connection
from scheduler.commands.traces import DISABLED, ENDPOINTS, EXPORTER, _end, traces
from scheduler.core.messages import BindReply, Evict
from scheduler.model import Pod, PodRef
from scheduler.service import Service
from scheduler.service.tracing import Request, Tracing
from scheduler.settings import from_mapping

VERBS = {"muster.filter", "muster.prioritize", "muster.preempt", "muster.bind"}
PATIENCE_S = 60.0
COLLECTOR = "OTEL_EXPORTER_OTLP_ENDPOINT"
BINDING = r"/api/v1/namespaces/t/pods/\S+/binding"


class Site(NamedTuple):
    """A Muster joined to an API server, and the spans that it made."""

    api: FakeApi
    service: Service
    spans: InMemorySpanExporter

    def gang(self, name: str, pods: int, **keys: str) -> list[PodRef]:
        made = [
            self.api.put(PODS, member(f"{name}-{at}", name, pods, **keys)) for at in range(pods)
        ]
        return [PodRef("t", obj["metadata"]["name"], obj["metadata"]["uid"]) for obj in made]

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]

    def wait(self, name: str, count: int) -> list[ReadableSpan]:
        until(lambda: len(self.named(name)) >= count)
        return self.named(name)


def member(name: str, gang: str, least: int, **keys: str) -> Json:
    made = pod(name, schedulerName="muster")
    made["spec"]["containers"] = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]
    stated = {"gang": gang, "min-available": str(least), **keys}
    made["metadata"]["annotations"] = {f"muster.scheduler/{k}": v for k, v in stated.items()}
    return made


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.fixture
def site(api: FakeApi, tmp_path: Path) -> Iterator[Site]:
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    api.put(NODES, node("n1"))
    settings = from_mapping({"retry_s": 0.1, "retry_max_s": 0.2})
    config = str(api.kubeconfig(tmp_path))
    tracing = Tracing(provider.get_tracer("test"))
    with Connection(settings, config, tracing=tracing) as service:
        until(lambda: service.ready)
        yield Site(api, service, spans)


def seen(site: Site, ref: PodRef) -> Pod:
    return decode.pod(site.api.pod(ref.name))


def test_a_start_is_one_trace_with_a_request_for_each_pod(site: Site) -> None:
    site.gang("a", 2)
    bindings = site.wait("muster.Bind", 2)
    (decision,) = site.wait("muster.decision", 1)

    assert about(decision) == {"muster.gang": "t/a", "muster.requests": 2}
    assert decision.parent is None
    for span in bindings:
        assert span.parent is not None
        assert span.parent.span_id == decision.context.span_id
        assert span.kind is SpanKind.CLIENT
        assert about(span)["muster.gang"] == "t/a"
        assert about(span)["k8s.node.name"] == "n1"
        assert about(span)["muster.outcome"] == "ok"
        assert decision.start_time <= span.start_time
        assert span.end_time <= decision.end_time
    assert {about(span)["k8s.pod.name"] for span in bindings} == {"a-0", "a-1"}
    assert {about(span)["k8s.pod.uid"] for span in bindings} == {"uid-a-0", "uid-a-1"}
    assert {about(span)["k8s.namespace.name"] for span in bindings} == {"t"}


def test_a_request_that_fails_says_why_and_what_follows_is_a_trace_of_its_own(site: Site) -> None:
    site.api.fail("POST", BINDING, 500, times=1)
    site.gang("a", 2)
    found = site.wait("muster.Bind", 3)

    (wrong,) = [span for span in found if span.status.status_code is StatusCode.ERROR]
    assert about(wrong)["muster.outcome"] == "error"
    assert wrong.status.description
    right = [span for span in found if span is not wrong]
    assert [about(span)["muster.outcome"] for span in right] == ["ok", "ok"]


def test_each_verb_has_a_span_with_its_pod_and_gang(site: Site) -> None:
    first, _ = site.gang("a", 2, start="follow")
    until(lambda: site.service.gang_of(first.uid) == "t/a")
    site.service.filter(first, ["n1", "n9"], lambda: seen(site, first))
    site.service.prioritize(first, ["n1"], lambda: seen(site, first))
    site.service.preempt(first, {"n1": ["uid-x"]}, lambda: seen(site, first))
    site.service.bind(first, "n1")

    finished = {span.name: span for span in site.spans.get_finished_spans()}
    assert finished.keys() >= VERBS
    for name in VERBS:
        assert finished[name].kind is SpanKind.SERVER
        assert finished[name].parent is None
        assert about(finished[name])["muster.gang"] == "t/a"
        assert about(finished[name])["k8s.pod.name"] == first.name
    assert about(finished["muster.filter"])["muster.nodes.offered"] == 2
    assert about(finished["muster.filter"])["muster.nodes.left"] == 1
    assert about(finished["muster.preempt"])["muster.nodes.left"] == 0


def test_a_binding_belongs_to_the_call_that_asked_for_it(site: Site) -> None:
    first, _ = site.gang("a", 2, start="follow")
    site.wait("muster.Wake", 1)
    assert site.service.bind(first, "n1") == BindReply(first, "n1", "")

    (call,) = site.wait("muster.bind", 1)
    (binding,) = site.wait("muster.Bind", 1)
    assert binding.parent is not None
    assert binding.parent.span_id == call.context.span_id
    assert about(call)["k8s.node.name"] == "n1"
    assert call.status.status_code is StatusCode.UNSET


def test_a_call_to_bind_that_is_refused_is_an_error(site: Site) -> None:
    nobody = PodRef("t", "nobody", "uid-nobody")
    reply = site.service.bind(nobody, "n1")

    (call,) = site.wait("muster.bind", 1)
    assert call.status.status_code is StatusCode.ERROR
    assert call.status.description == reply.error[:256]


def test_a_call_to_bind_that_nobody_waits_for_ends_its_span(site: Site) -> None:
    first, _ = site.gang("a", 2, start="follow")
    site.wait("muster.Wake", 1)
    site.api.fail("POST", BINDING, 500)
    future: Future[BindReply] = site.service.start_bind(first, "n1")
    future.cancel()

    (call,) = site.wait("muster.bind", 1)
    assert call.status.description == "nobody waits for it any more"


def test_a_gang_that_waits_says_why(site: Site) -> None:
    big = site.gang("big", 3)[0]
    until(lambda: site.service.gang_of(big.uid) == "t/big")
    until(lambda: site.service.gangs()[0]["state"] == "queued")
    reply = site.service.filter(big, ["n1"], lambda: seen(site, big))

    (span,) = site.named("muster.filter")
    assert about(span)["muster.reason"] in reply.unresolvable.values()
    assert about(span)["muster.nodes.left"] == 0
    assert span.status.status_code is StatusCode.UNSET, "an expected no is no error"


def test_another_look_for_the_same_call_has_no_span_of_its_own(site: Site) -> None:
    big = site.gang("big", 3)[0]
    until(lambda: site.service.gang_of(big.uid) == "t/big")
    first = site.service.filter(big, ["n1"], lambda: seen(site, big))
    again = site.service.filter(big, ["n1"], lambda: seen(site, big), again=True)

    assert again == first
    assert len(site.named("muster.filter")) == 1


def test_what_was_never_sent_leaves_nothing_behind() -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracing = Tracing(provider.get_tracer("test"))
    requests = [Evict(at, PodRef("t", f"a-{at}", f"u{at}"), "lost") for at in range(2)]
    tracing.decided(requests, ["t/a", "t/a"])
    for request in requests:
        tracing.ended(request)

    assert [span.name for span in spans.get_finished_spans()] == ["muster.decision"]
    tracing.ended(requests[0])
    assert len(spans.get_finished_spans()) == 1


# ── whether there are any ──


def process(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**kept, **environ}
    )


def test_without_the_variables_nothing_of_it_is_imported() -> None:
    """But for the API, which is FastAPI's own dependency and does nothing."""
    code = (
        "import sys, scheduler.api, scheduler.cluster\n"
        "from scheduler.commands.traces import traces\n"
        "with traces() as tracing: assert tracing is None\n"
        "no = ('opentelemetry.sdk', 'opentelemetry.exporter', 'scheduler.service.trac',\n"
        "      'scheduler.cluster.trac')\n"
        "sys.exit(', '.join(name for name in sys.modules if name.startswith(no)) or None)"
    )
    done = process(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_off_means_the_very_same_service_and_actuator() -> None:
    from scheduler.cluster import ClusterActuator
    from scheduler.cluster.connection import _makers

    assert _makers(None, str) == (ClusterActuator, Service)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, ""),
        ({COLLECTOR: "  "}, ""),
        ({COLLECTOR: "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, ""),
        ({COLLECTOR: "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'"),
        (
            {COLLECTOR: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc', and only http/protobuf is there",
        ),
    ],
)
def test_when_there_are_none(
    environ: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with traces(environ) as tracing:
        assert tracing is None
    assert (said in caplog.text) if said else not caplog.text


def test_where_it_is_not_installed_the_log_says_so_and_all_goes_on() -> None:
    code = (
        "import logging, sys\n"
        "logging.basicConfig()\n"
        "sys.modules['opentelemetry.sdk'] = None\n"
        "from scheduler.commands.traces import traces\n"
        "with traces() as tracing: assert tracing is None"
    )
    done = process(code, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert done.returncode == 0
    assert "install muster-scheduler[otel], or unset its variables" in done.stderr


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.mark.parametrize("name", ["", "gangs"])
def test_a_served_muster_sends_its_spans_before_it_ends(
    api: FakeApi, tmp_path: Path, collector: Collector, name: str
) -> None:
    import httpx

    from cluster.serving import Serving

    api.put(NODES, node("n1"))
    environ = {COLLECTOR: collector.url, **({"OTEL_SERVICE_NAME": name} if name else {})}
    serving = Serving("--kubeconfig", str(api.kubeconfig(tmp_path)), environ=environ)
    try:
        url = serving.url()
        asked = {"Pod": pod("p"), "NodeNames": ["n1"]}
        assert httpx.post(f"{url}/filter", json=asked).json()["NodeNames"] == ["n1"]
        api.put(PODS, member("a-0", "a", 1))
        until(lambda: bool(api.pod("a-0")["spec"].get("nodeName")))
        assert serving.stop() == 0
    finally:
        serving.close()
    assert {"muster.filter", "muster.Bind"} <= set(collector.spans())
    assert collector.resource()["service.name"] == (name or "muster")
    assert collector.resource()["service.version"]


def test_a_collector_that_does_not_answer_keeps_nobody_from_ending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answered = threading.Event()
    _end(lambda: answered.wait(PATIENCE_S) and None, within_s=0.01)
    answered.set()

    assert "the last traces could not be sent within 0.01 s" in caplog.text


def test_the_page_names_every_span_and_variable() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "observability.md").read_text()
    named = set(re.findall(r"`(muster\.[A-Za-z]+)`", page)) - {"muster.gang"}
    requests = {f"muster.{kind.__name__}" for kind in get_args(Request)}

    attributes = {"muster.reason", "muster.outcome", "muster.requests"}
    assert named == VERBS | requests | {"muster.decision"} | attributes
    for variable in (EXPORTER, DISABLED, *ENDPOINTS):
        assert f"`{variable}`" in page
