"""The alerts and the dashboard, asked of a Prometheus that reads a Muster at work."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import Client, Objects, wait_until
from tests.e2e.controlplane.cluster import Cluster, ExternalCluster
from tests.e2e.debian import MissingProgramError, program
from tests.e2e.deployed import component
from tests.e2e.gangs import gang_pods, placed
from tests.e2e.muster import MusterProcess, start_muster_scheduler
from tests.e2e.prometheus import PACKAGE, Prometheus

MEMBERS = 4
ELSEWHERE = ("DCGM_", "kube_", "muster_train_")
"""Metrics that others export: NVIDIA's DCGM exporter, kube-state-metrics, and trainings."""
QUIET = {
    "Watches started again": "no watch broke",
    "Answers without the engine": "the engine answered all",
    "Failed steps": "the engine did not fail",
}
"""Panels that show nothing as long as all is well."""
UNCOUNTED = {
    "muster_step_failures_total",
    "muster_watch_restarts_total",
    "muster_fallback_answers_total",
}
"""Counters with labels, which have no series before they count something."""

RULES: dict[str, Any] = next(
    item["spec"] for item in component("monitoring") if item["kind"] == "PrometheusRule"
)
ALERTS = {rule["alert"]: rule for rule in RULES["groups"][0]["rules"]}


def _panels() -> Iterator[tuple[str, str]]:
    """Title and expression of each query of the dashboard."""
    (made,) = [item for item in component("monitoring") if item["kind"] == "ConfigMap"]
    for panel in json.loads(made["data"]["muster.json"])["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


@pytest.fixture(scope="module")
def promtool() -> Path:
    """Prometheus' own checker."""
    try:
        return program("promtool", PACKAGE)
    except MissingProgramError as error:
        pytest.skip(f"no promtool, so only our own parser read the rules: {error}")


def _promtool(program: Path, *arguments: str | Path) -> str:
    command: list[str | Path] = [program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules(promtool: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))

    said = _promtool(promtool, "check", "rules", "--lint-fatal", tmp_path / "rules.yaml")

    assert f"{len(ALERTS)} rules found" in said


# ── each alert with the series that must raise it, and with those of a quiet day ──

MUSTER = 'namespace="muster-system", pod="muster-0", container="muster"'
RAISED_BY: Mapping[str, Mapping[str, str]] = {
    "MusterNotReady": {
        'kube_deployment_status_replicas_ready{namespace="muster-system", deployment="muster"}': (
            "0x60"
        )
    },
    "MusterNotScraped": {f"up{{{MUSTER}}}": "0x60"},
    "MusterNobodyLeads": {f"muster_leads{{{MUSTER}}}": "1x50 0x10"},
    "MusterMembersRefused": {f"muster_rejected_members_total{{{MUSTER}}}": "0+1x60"},
    "MusterStepFailed": {f'muster_step_failures_total{{event="PodSeen", {MUSTER}}}': "0x50 1x10"},
    "MusterGangWaitsLong": {f"muster_longest_wait_seconds{{{MUSTER}}}": "15000+60x60"},
    "MusterReservationsExpire": {f"muster_expired_reservations_total{{{MUSTER}}}": "0+1x60"},
    "MusterEffectsFail": {
        f'muster_effects_total{{kind="Bind", outcome="timeout", {MUSTER}}}': "0+1x60"
    },
    "MusterWatchRestarts": {
        f'muster_watch_restarts_total{{resource="pods", reason="gone", {MUSTER}}}': "0+1x60"
    },
    "MusterAnswersSlowly": {
        f'muster_request_seconds_bucket{{verb="filter", le="{le}", {MUSTER}}}': f"0+{count}x60"
        for le, count in (("1", 5), ("2.5", 10), ("+Inf", 10))
    },
    "MusterAnswersWithoutEngine": {
        f'muster_fallback_answers_total{{verb="filter", reason="busy", {MUSTER}}}': "0+1x60"
    },
}
QUIET_DAY = {
    "MusterNotReady": "2x60",
    "MusterNotScraped": "1x60",
    "MusterNobodyLeads": "1x60",
    "MusterGangWaitsLong": "3000x60",
    "MusterAnswersSlowly": "0x60",
}
"""What the same series say then; counters stand still."""


@pytest.mark.parametrize("alert", ALERTS)
@pytest.mark.parametrize("raised", [True, False], ids=["raised", "quiet"])
def test_an_alert_is_raised_when_it_should_and_only_then(
    promtool: Path, tmp_path: Path, alert: str, raised: bool
) -> None:
    quiet = QUIET_DAY.get(alert, "3x60")
    series = [
        {"series": name, "values": values if raised else quiet}
        for name, values in RAISED_BY[alert].items()
    ]
    # Whether there is an alert with any labels: what they are is the business of the expression.
    counted = {
        "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) > 0',
        "eval_time": "1h",
        "exp_samples": [{"labels": "{}", "value": 1}] if raised else [],
    }
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [counted]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    file = tmp_path / "test.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]})
    )

    _promtool(promtool, "test", "rules", file)


def test_every_alert_has_a_case() -> None:
    assert RAISED_BY.keys() == ALERTS.keys()


# ── the run ──


@pytest.fixture
def prometheus(
    control_plane: Cluster, client: Client, namespace: str, nodes: Objects, tmp_path: Path
) -> Iterator[Prometheus]:
    """One that has read, twice at least, a Muster that placed a gang and has another waiting."""
    if isinstance(control_plane, ExternalCluster):
        pytest.skip("KUBECONFIG names a cluster whose schedulers belong to whoever runs it")
    with ExitStack() as running:
        muster = running.enter_context(MusterProcess(control_plane, name="muster-monitored"))
        running.callback(start_muster_scheduler(muster).stop)
        try:
            server = Prometheus(control_plane, muster, RULES, tmp_path)
        except MissingProgramError as error:
            pytest.skip(f"no Prometheus, so the queries were read by our own parser only: {error}")
        running.callback(server.stop)
        client.create_all(gang_pods("runs", namespace, range(MEMBERS), 8, least=MEMBERS))
        client.create_all(gang_pods("waits", namespace, range(33), 8, least=33))
        wait_until(lambda: len(placed(client, namespace, "runs-")) == MEMBERS, what="it runs")
        wait_until(
            lambda: server.query("sum(increase(muster_bind_seconds_count[30s])) >= 0"),
            60,
            what="the Bindings were read twice",
        )
        yield server


@pytest.mark.e2e
def test_rules_and_panels_ask_for_what_a_run_exports(prometheus: Prometheus) -> None:
    wait_until(
        lambda: "unknown" not in prometheus.rules().values(), what="every rule was asked once"
    )
    assert prometheus.rules() == dict.fromkeys(ALERTS, "ok")

    silent = {
        title
        for title, expression in _panels()
        if not any(prefix in expression for prefix in ELSEWHERE)
        and not prometheus.query(expression.replace("$__rate_interval", "30s"))
    }
    assert silent <= QUIET.keys()

    exported = {item["metric"]["__name__"] for item in prometheus.query('{__name__=~".+"}')}
    expressions = [rule["expr"] for rule in ALERTS.values()] + [text for _, text in _panels()]
    asked = set(re.findall(r"\b(?:muster|process)_[a-z_]+\b", " ".join(expressions)))
    ours = {name for name in asked if not name.startswith(ELSEWHERE)}
    assert ours - exported <= UNCOUNTED
