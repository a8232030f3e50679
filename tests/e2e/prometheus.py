"""A Prometheus that reads one Muster, with the rules of deploy/."""

from __future__ import annotations

import json
import urllib.parse
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.process import free_port, http_get
from tests.e2e.debian import program
from tests.e2e.muster import MusterProcess

READY_SECONDS = 30.0
PACKAGE = "prometheus"


class Prometheus:
    """A server that asks Muster every second, as if it ran in its pod.

    Parameters
    ----------
    rules
        The `spec` of a PrometheusRule.
    """

    def __init__(
        self, cluster: Cluster, muster: MusterProcess, rules: dict[str, Any], folder: Path
    ) -> None:
        address = f"127.0.0.1:{free_port()}"
        self._url = f"http://{address}"
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        configuration = folder / "prometheus.yaml"
        configuration.write_text(yaml.safe_dump(_configuration(muster)))
        child = cluster.spawn(
            "prometheus",
            [
                program("prometheus", PACKAGE),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
                "--log.level=warn",
            ],
        )
        self.stop = child.stop
        child.wait_ready(f"{self._url}/-/ready", READY_SECONDS)

    def query(self, expression: str) -> list[Any]:
        """The series that a PromQL expression has now.

        Raises
        ------
        ValueError
            If it is not understood, with Prometheus' own words.
        """
        query = urllib.parse.urlencode({"query": expression})
        series: list[Any] = self._get(f"query?{query}")["result"]
        return series

    def rules(self) -> dict[str, str]:
        """Each alert with its health: `ok`, `err`, or `unknown` as long as it was not asked."""
        (group,) = self._get("rules")["groups"]
        return {rule["name"]: rule["health"] for rule in group["rules"]}

    def _get(self, path: str) -> dict[str, Any]:
        _, text = http_get(f"{self._url}/api/v1/{path}")
        answer = json.loads(text)
        if answer["status"] != "success":
            raise ValueError(answer["error"])
        data: dict[str, Any] = answer["data"]
        return data


def _configuration(muster: MusterProcess) -> dict[str, Any]:
    # What a PodMonitor adds of the pod that it finds.
    labels = {"namespace": "muster-system", "pod": "muster-0", "container": "muster"}
    target = {"targets": [muster.url.removeprefix("http://")], "labels": labels}
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "muster", "static_configs": [target]}],
    }
