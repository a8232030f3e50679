"""What `make test-versions` makes of a report, and what docs/versions.md says of it."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.e2e import deployed, minors
from tests.e2e.controlplane.versions import KUBERNETES_VERSION, KUBERNETES_VERSIONS

ROOT = Path(__file__).resolve().parents[2]

_REPORT = """<testsuites><testsuite>
  <testcase name="test_a"/>
  <testcase name="test_b"><failure message="no"/></testcase>
  <testcase name="test_c"><error message="no"/></testcase>
  <testcase name="test_d"><skipped message="not in this one"/></testcase>
</testsuite></testsuites>"""


def test_each_test_of_a_report_counts_once() -> None:
    found = minors.outcome("v1.36.3", _REPORT)

    assert (found.passed, found.failed) == (1, ("test_b", "test_c"))
    assert found.skipped == ("test_d: not in this one",)
    assert not found.good


def test_a_run_in_which_nothing_ran_is_not_good() -> None:
    assert not minors.outcome("v1.36.3", "<testsuites/>").good
    assert minors.outcome("v1.36.3", '<testsuites><testcase name="a"/></testsuites>').good


def test_the_core_exists() -> None:
    for name in minors.CORE:
        assert (ROOT / "tests" / "e2e" / f"{name}.py").exists()


def test_the_page_names_every_version_that_is_tried() -> None:
    page = (ROOT / "docs" / "versions.md").read_text()

    assert KUBERNETES_VERSIONS[-1] == KUBERNETES_VERSION
    for version in KUBERNETES_VERSIONS:
        assert f"| {version.removeprefix('v')} |" in page


def test_the_page_says_the_flags_with_which_older_minors_are_tried() -> None:
    page = (ROOT / "docs" / "versions.md").read_text()

    for version in KUBERNETES_VERSIONS:
        flags = deployed.policy_flags(int(version.split(".")[1]))
        if flags:
            assert f"`{' '.join(flags)}`" in page
    assert not deployed.policy_flags(36)
    assert deployed.policy_flags(35)


def test_the_chart_refuses_what_the_page_says_it_does() -> None:
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text())

    assert chart["kubeVersion"] == ">=1.33.0-0"
    assert "for **1.33** and newer" in (ROOT / "docs" / "versions.md").read_text()
