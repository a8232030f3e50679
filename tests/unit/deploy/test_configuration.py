"""The ConfigMap: what `muster kube-config` prints, and settings that Muster reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy_objects import DEPLOY, containers, installed, objects, one, option, values

from scheduler.settings import Settings, from_file, from_mapping


def _installed() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(one("ConfigMap")["data"]["kube-scheduler.yaml"])
    return found


def test_the_schedulers_configuration_is_what_the_command_prints() -> None:
    command = [sys.executable, "-m", "scheduler", "kube-config"]

    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert _installed() == yaml.safe_load(printed), "copy: muster kube-config"


def test_the_scheduler_calls_the_address_at_which_muster_listens() -> None:
    muster = containers()["muster"]
    (extender,) = _installed()["extenders"]

    assert extender["urlPrefix"] == f"http://{option(muster, 'host')}:{option(muster, 'port')}"
    # Skipping Muster when it does not answer would let gangs start in halves.
    assert extender["ignorable"] is False
    assert extender["preemptVerb"] == "preempt"


def test_no_profile_looks_for_pods_to_evict() -> None:
    profiles = _installed()["profiles"]
    disabled = [profile["plugins"]["postFilter"]["disabled"] for profile in profiles]

    # Where a profile still has it, each held pod costs a dry run on all nodes, for nothing.
    assert disabled == [[{"name": "DefaultPreemption"}]] * 2


def test_the_scheduler_may_hold_the_lease_that_it_is_configured_to_hold() -> None:
    election = _installed()["leaderElection"]
    role = one("Role", "muster-kube-scheduler")
    (rule,) = role["rules"]

    assert election["leaderElect"] is True
    assert role["metadata"]["namespace"] == election["resourceNamespace"]
    assert rule["resourceNames"] == [election["resourceName"]]
    assert (rule["apiGroups"], rule["resources"]) == (["coordination.k8s.io"], ["leases"])
    assert set(rule["verbs"]) == {"get", "watch", "update"}


def test_muster_takes_the_pods_of_every_profile() -> None:
    profiles = {profile["schedulerName"] for profile in _installed()["profiles"]}

    assert profiles == set(Settings().scheduler_names)
    named = [
        name
        for path in sorted((DEPLOY / "examples").glob("*.yaml"))
        for name in values(objects(path), "schedulerName")
    ]
    assert named
    assert set(named) <= profiles
    assert list(values(installed(), "schedulerName")) == [], "Muster does not schedule itself"


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(one("ConfigMap")["data"]["settings.toml"])
    return path


def test_the_settings_are_the_defaults_until_somebody_changes_them(settings_file: Path) -> None:
    assert from_file(settings_file) == Settings()


def test_the_setting_that_is_shown_can_be_switched_on(settings_file: Path) -> None:
    settings_file.write_text(settings_file.read_text().replace("# ", ""))

    assert from_file(settings_file).levels[-1] == "example.com/rack"
    assert from_mapping({}) != from_file(settings_file)
