"""Of several replicas, only the one that leads tells the cluster's figures as metrics."""

from __future__ import annotations

import subprocess
import sys

import pytest
from people_site import Site, muster


def test_who_stands_by_leaves_the_figures_to_who_leads(here: Site) -> None:
    here.gang("train", 2, 8)
    leading = here.text("/metrics")
    assert "muster_leads 1.0" in leading
    assert 'muster_gangs{state="running"} 1.0' in leading

    here.service.stand_by()
    standing_by = here.text("/metrics")
    assert "muster_leads 0.0" in standing_by
    assert "muster_gangs" not in standing_by
    assert "muster_gpus" not in standing_by


def test_the_status_says_who_leads(here: Site) -> None:
    assert here.get("/v1/status")["leads"] is True
    here.service.stand_by()
    assert here.get("/v1/status")["leads"] is False
    ran = muster("status", "--server", here.url)
    assert ran.status == 0
    assert "is ready and stands by; nobody leads" in ran.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--authenticate-views"], "--views-host, which is empty"),
        (["--follow-lease", "x"], "'x' is no NAMESPACE/NAME of a Lease"),
    ],
)
def test_options_that_cannot_be_obeyed_stop_it_at_once(options: list[str], said: str) -> None:
    command = [sys.executable, "-m", "scheduler", "serve", "--kubeconfig", "none", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
