"""For all tests: at the end, say what did not run and why."""

from __future__ import annotations

import hypothesis
import pytest

# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("muster", deadline=None)
hypothesis.settings.load_profile("muster")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each test that did not run; "everything ran" if there is none."""
    reporter = terminalreporter
    reporter.section("what did not run")
    skipped = reporter.stats.get("skipped", [])
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        reporter.write_line(f"{report.nodeid}: {reason}")
    deselected = len(reporter.stats.get("deselected", []))
    if deselected:
        reporter.write_line(f"{deselected} tests were deselected on the command line")
    if not skipped and not deselected:
        reporter.write_line("nothing: every test ran")
