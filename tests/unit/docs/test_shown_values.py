"""What pages show of files and outputs is what the code writes, and what it reads."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import yaml

from scheduler import decode
from scheduler.core.devices_annotation import (
    IN_USE_KEY,
    TOPOLOGY_KEY,
    InUse,
    read_in_use,
    read_topology,
    write_in_use,
    write_topology,
)
from scheduler.core.devices_matrix import NodeDevices
from tests import builders
from tests.unit.docs.shown import ROOT, block
from trainer import facts, hints

HINT = "metadata.annotations['muster.scheduler/hint']"


def test_the_annotations_of_the_tour_make_a_gang_of_four_in_one_rack() -> None:
    shown = yaml.safe_load(block("README.md", "yaml"))
    made = builders.pod("team/digits-0", gpu=4)
    made["metadata"]["annotations"] = shown["metadata"]["annotations"]
    made["spec"] |= shown["spec"]

    pod = decode.pod(made)

    assert pod.declaration is not None
    assert (pod.fault, pod.scheduler, pod.declaration.name) == ("", "muster", "digits")
    options = pod.declaration.options
    assert (options.min_available, options.required) == (4, "rack")


def test_what_the_agent_is_shown_to_print_is_what_it_writes_and_muster_reads() -> None:
    shown = json.loads(block("docs/agent.md", "json").replace("…", "0"))
    links, in_use = (json.dumps(shown[key]) for key in (TOPOLOGY_KEY, IN_USE_KEY))

    devices, held = read_topology(links), read_in_use(in_use)

    assert isinstance(devices, NodeDevices)
    assert json.loads(write_topology(devices)) == shown[TOPOLOGY_KEY]
    assert isinstance(held, InUse)
    assert json.loads(write_in_use(held)) == shown[IN_USE_KEY]


def test_the_facts_that_are_shown_are_read_in_full(tmp_path: Path) -> None:
    shown = block("docs/trainer.md", "json", '{"hostname"')
    file = tmp_path / "facts.json"
    file.write_text(shown)

    machine = facts.load(file)

    assert json.loads(shown).keys() <= {field.name for field in fields(facts.Machine)}
    assert machine.hostname == "pod-1"
    assert machine.shm_bytes == 64 << 20
    assert [gpu.name for gpu in machine.gpus or ()] == ["H100"]
    assert [adapter.name for adapter in machine.infiniband or ()] == ["mlx5_0"]


def test_the_hint_is_shown_where_the_trainer_looks_for_it() -> None:
    for page in ("docs/hint.md", "docs/controllers.md"):
        (volume,) = yaml.safe_load(block(page, "yaml"))["volumes"]
        (item,) = volume["downwardAPI"]["items"]
        assert item["fieldRef"]["fieldPath"] == HINT
        assert item["path"] == hints.DEFAULT_FILE.name
    told = (ROOT / "docs/hint.md").read_text()
    assert f"Mounted at `{hints.DEFAULT_FILE.parent}`" in told
