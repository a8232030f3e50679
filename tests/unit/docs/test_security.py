"""docs/security.md: every write that the manifest allows is told there."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
READS = {"get", "list", "watch"}


def _documents(name: str) -> list[dict]:
    return list(yaml.safe_load_all((ROOT / "deploy/base" / name).read_text(encoding="utf-8")))


WRITES = [
    (verb, resource)
    for role in _documents("rbac-muster.yaml")
    for rule in role.get("rules", [])
    for verb in sorted(set(rule["verbs"]) - READS)
    for resource in rule["resources"]
]


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs/security.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("verb", "resource"), WRITES)
def test_every_write_has_a_row(page: str, verb: str, resource: str) -> None:
    rights = [line.split("|")[1] for line in page.splitlines() if line.startswith("|")]
    assert any(verb in right and f"`{resource}`" in right for right in rights)


def test_the_roles_that_the_service_account_shares_are_named(page: str) -> None:
    bindings = _documents("rbac-kube-scheduler.yaml")
    shared = {
        binding["roleRef"]["name"]
        for binding in bindings
        if binding["kind"] == "ClusterRoleBinding"
        and any(subject["name"] == "muster" for subject in binding["subjects"])
    }
    assert shared
    assert all(f"`{name}`" in page for name in shared)
