"""Runs the core of the tests on each supported minor of Kubernetes.

    python -m tests.e2e.minors [VERSION ...]

API server, controller manager and scheduler are of one release, built from its module like the
default one: about 8 minutes of two cores each, once. Prints a table, and ends with 1 if a test
failed on any of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.e2e.controlplane.versions import KUBERNETES_VERSIONS

CORE = (
    "test_controlplane",
    "test_gangs",
    "test_repair",
    "test_restarts",
    "test_beside",
    "test_dialects",
    "test_deploy",
    "test_gate",
)
"""The files of tests/e2e in which a scheduler or an API server of another minor could differ."""


@dataclass(frozen=True)
class Outcome:
    """What one release made of the tests."""

    version: str
    built: bool
    passed: int = 0
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether something ran and nothing failed."""
        return self.built and self.passed > 0 and not self.failed


def run(version: str) -> Outcome:
    """Build the release if need be, and run the core on it."""
    environment = {**os.environ, "MUSTER_KUBERNETES": version}
    build = [sys.executable, "-m", "tests.e2e.controlplane.build"]
    if subprocess.run(build, env=environment).returncode != 0:
        return Outcome(version, built=False)
    files = [f"tests/e2e/{name}.py" for name in CORE]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "e2e", f"--junitxml={report}"]
        subprocess.run([*command, *files], env=environment)
        return outcome(version, report.read_text()) if report.exists() else Outcome(version, True)


def outcome(version: str, report: str) -> Outcome:
    """Reads pytest's report in the JUnit format."""
    passed, failed, skipped = 0, [], []
    for case in ElementTree.fromstring(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(case.attrib["name"])
        elif (why := case.find("skipped")) is not None:
            skipped.append(f"{case.attrib['name']}: {why.get('message', '')}")
        else:
            passed += 1
    return Outcome(version, True, passed, tuple(failed), tuple(skipped))


def table(outcomes: Sequence[Outcome]) -> Table:
    """One row per release."""
    made = Table("Kubernetes", "passed", "failed", "not run, and why")
    for found in outcomes:
        failed = "\n".join(found.failed) if found.built else "could not be built"
        made.add_row(found.version, str(found.passed), failed, "\n".join(found.skipped))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.minors")
    parser.add_argument("version", nargs="*", help=f"for example {KUBERNETES_VERSIONS[0]}")
    versions = parser.parse_args(arguments).version or KUBERNETES_VERSIONS
    outcomes = [run(version) for version in versions]
    Console(width=140).print(table(outcomes))
    return 0 if all(found.good for found in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
