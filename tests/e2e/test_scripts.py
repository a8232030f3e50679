"""Shell scripts, read by shellcheck."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.debian import MissingProgramError, program

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [*sorted(ROOT.glob("deploy/**/*.sh")), ROOT / ".ci" / "run"]


@pytest.fixture(scope="module")
def shellcheck() -> Path:
    """The checker."""
    try:
        return program("shellcheck", "shellcheck")
    except MissingProgramError as error:
        pytest.skip(f"no shellcheck, so nobody but bash read the scripts: {error}")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_has_no_known_mistake(shellcheck: Path, script: Path) -> None:
    done = subprocess.run([shellcheck, script], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stdout + done.stderr
    assert script.read_text().startswith("#!/usr/bin/env bash\n")


def test_a_mistake_would_be_told(shellcheck: Path, tmp_path: Path) -> None:
    script = tmp_path / "wrong.sh"
    script.write_text("#!/usr/bin/env bash\nrm $1\n")

    done = subprocess.run([shellcheck, script], capture_output=True, text=True, timeout=60)

    assert "SC2086" in done.stdout
