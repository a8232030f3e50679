"""``python -m tests.cases``: run the replay cases and print ``N passed, N failed`` at the end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


class Count:
    """Counts outcomes as pytest reports them."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count each call that passed, and each phase that failed."""
        self.passed += report.when == "call" and report.passed
        self.failed += report.failed


def main() -> int:
    """The exit status: 0 only if some case ran and none failed."""
    count = Count()
    code = pytest.main(["-q", "--no-summary", str(Path(__file__).parent)], plugins=[count])
    print(f"{count.passed} passed, {count.failed} failed")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
