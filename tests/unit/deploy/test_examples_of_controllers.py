"""Every example starts whole: its pods, as its controller makes them, go through a replay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest
from controllers import Made, made
from deploy_objects import DEPLOY, ROOT, Object, objects, values

from scheduler import __version__, decode
from scheduler.settings import Settings
from scheduler.simulation.replay import replay
from tests import builders
from trainer import nccl
from trainer.plan import plan
from trainer.settings import LaunchSettings

EXAMPLES = DEPLOY / "examples"
CLIQUE = "nvidia.com/gpu.clique"
CAPACITY = "karpenter.sh/capacity-type"


class Room(NamedTuple):
    """Nodes that an example needs, no one of which it can do without."""

    nodes: list[Object]
    levels: tuple[str, ...] = ()


def _nodes(count: int, gpu: int = 8, prefix: str = "n", **fields: Any) -> list[Object]:
    return [builders.node(f"{prefix}{at}", gpu=gpu, **fields) for at in range(count)]


def _other(count: int, resource: str, amount: int) -> list[Object]:
    room = {resource: str(amount), "hugepages-2Mi": "200Gi"}
    return [builders.node(f"n{at}", allocatable=room) for at in range(count)]


def _spot() -> list[Object]:
    taint = f"{CAPACITY}=spot:NoSchedule"
    stays = _nodes(1, prefix="stays", labels={CAPACITY: "on-demand"})
    return stays + _nodes(3, prefix="spot", labels={CAPACITY: "spot"}, taints=[taint])


def _racks() -> list[Object]:
    """Two domains of sixteen nodes and a third of fifteen, which no segment fits into."""
    return [
        node
        for rack, count in (("a", 16), ("b", 16), ("c", 15))
        for node in _nodes(count, gpu=4, prefix=f"{rack}-", labels={CLIQUE: f"{rack}.1"})
    ]


ROOMS: Mapping[str, Room] = {
    "indexed-job": Room(_nodes(4)),
    "jobset": Room(_nodes(4)),
    "pytorchjob": Room(_nodes(4)),
    "pytorchjob-elastic": Room(_nodes(2)),
    "trainjob": Room(_nodes(4)),
    "volcano-job": Room(_nodes(4)),
    "leaderworkerset": Room(_nodes(4)),
    "raycluster": Room(_nodes(4)),
    "kueue-job": Room(_nodes(4)),
    "mig": Room(_other(1, "nvidia.com/mig-3g.40gb", 4)),
    "gaudi": Room(_other(2, "habana.ai/gaudi", 8)),
    "spot": Room(_spot()),
    "nvl72": Room(_racks(), ("nvidia.com/gpu.clique",)),
    "checkpoints": Room(_nodes(4)),
    "argo-workflow": Room(_nodes(4)),
    "tracking": Room(_nodes(4)),
}
WITH_VOLUME = {"checkpoints", "tracking"}
MINIMUM = {"pytorchjob-elastic": 2, "leaderworkerset": 4}
"""Members that start together, where that is not all pods."""

DIALECTS = {
    "jobset": "jobset",
    "pytorchjob": "kubeflow",
    "pytorchjob-elastic": "kubeflow",
    "trainjob": "jobset",
    "volcano-job": "volcano",
    "leaderworkerset": "leaderworkerset",
    "raycluster": "kuberay",
    "kueue-job": "job",
    "mig": "job",
    "gaudi": "job",
    "spot": "kubeflow",
    "nvl72": "muster",
    "checkpoints": "job",
    "argo-workflow": "job",
    "tracking": "job",
}

EVERY = pytest.mark.parametrize("name", ROOMS)


def _made(name: str) -> Made:
    return made(objects(EXAMPLES / f"{name}.yaml"))


def _replayed(
    nodes: Iterable[Object], found: Made, levels: Iterable[str] = ()
) -> list[dict[str, Any]]:
    ops: list[Object] = [{"op": "config", "levels": list(levels)}] if levels else []
    ops += [{"op": "node", "object": node} for node in nodes]
    ops += [{"op": "object", "object": item} for item in found.objects]
    ops += [{"op": "pod", "object": pod} for pod in found.pods]
    ops.append({"op": "state"})
    return [json.loads(line) for line in replay(json.dumps(op) for op in ops)]


def _started(lines: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Pods that were bound or nominated, with the effect."""
    found = [line for line in lines if line.get("effect") in ("bind", "nominate")]
    return {line["pod"].partition("/")[2]: line for line in found if line["node"]}


def _names(pods: Iterable[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def test_every_example_is_tried_here_or_in_the_other_test() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == {*ROOMS, "plain-pods"}


@EVERY
def test_it_starts_where_there_is_room(name: str) -> None:
    room, found = ROOMS[name], _made(name)

    started = _started(_replayed(room.nodes, found, room.levels))

    assert len(started) == MINIMUM.get(name, len(found.pods))
    assert set(started) <= _names(found.pods)


@EVERY
def test_with_less_room_nobody_starts(name: str) -> None:
    room, found = ROOMS[name], _made(name)
    small = {"nvl72": "b-0", "spot": "stays0"}.get(name, room.nodes[-1]["metadata"]["name"])
    nodes = [node for node in room.nodes if node["metadata"]["name"] != small]

    assert _started(_replayed(nodes, found, room.levels)) == {}


@EVERY
def test_while_one_of_those_that_must_be_there_is_not_nobody_starts(name: str) -> None:
    room, found = ROOMS[name], _made(name)
    there = found.pods[: MINIMUM.get(name, len(found.pods)) - 1]

    assert _started(_replayed(room.nodes, Made(there, found.objects), room.levels)) == {}


def test_a_minimum_that_is_not_all_is_that_of_the_elastic_job_and_of_one_group() -> None:
    elastic, groups = _made("pytorchjob-elastic"), _made("leaderworkerset")

    assert len(_started(_replayed(_nodes(4), elastic))) == len(elastic.pods) == 4
    assert len(_started(_replayed(_nodes(3), elastic))) == 3
    assert len(_started(_replayed(_nodes(8), groups))) == len(groups.pods) == 8
    assert len(_started(_replayed(_nodes(7), groups))) == 4, "groups start one by one"


@pytest.mark.parametrize("name", sorted(ROOMS.keys() - {"pytorchjob-elastic", "leaderworkerset"}))
def test_ranks_are_in_the_controllers_order(name: str) -> None:
    room, found = ROOMS[name], _made(name)
    started = _started(_replayed(room.nodes, found, room.levels))
    if name in WITH_VOLUME:
        assert {line["effect"] for line in started.values()} == {"nominate"}
        return

    ranks = {pod: line["hint"]["rank"] for pod, line in started.items()}

    assert [ranks[pod["metadata"]["name"]] for pod in found.pods] == list(range(len(found.pods)))


@pytest.mark.parametrize("name", DIALECTS)
def test_its_declaration_is_read_as_its_own_dialect(name: str) -> None:
    for pod in _made(name).pods:
        read = decode.pod(pod)
        assert read.fault == ""
        assert read.declaration is not None
        assert read.declaration.dialect == DIALECTS[name]
        assert read.scheduler in Settings().scheduler_names


@EVERY
def test_muster_binds_it_itself_unless_it_has_a_volume(name: str) -> None:
    reasons = {decode.pod(pod).nominate_because for pod in _made(name).pods}

    wanted = {"spec.volumes[2].persistentVolumeClaim"} if name in WITH_VOLUME else {""}
    assert reasons == wanted


def test_rank_0_is_on_the_node_that_stays_and_all_others_are_on_spot() -> None:
    started = _started(_replayed(ROOMS["spot"].nodes, _made("spot")))

    by_rank = {line["hint"]["rank"]: line for line in started.values()}
    assert by_rank[0]["node"] == "stays0"
    assert [by_rank[rank]["hint"]["spot"] for rank in range(4)] == [False, True, True, True]


def test_each_segment_is_in_one_nvlink_domain() -> None:
    room = ROOMS["nvl72"]
    started = _started(_replayed(room.nodes, _made("nvl72"), room.levels))

    domains = {line["hint"]["rank"]: line["hint"]["clique"] for line in started.values()}
    segments = [{domains[rank] for rank in range(start, start + 16)} for start in (0, 16)]
    assert [len(domain) for domain in segments] == [1, 1]
    assert segments[0] | segments[1] == {"a.1", "b.1"}


def test_the_comment_of_the_racks_names_the_setting() -> None:
    text = (EXAMPLES / "nvl72.yaml").read_text()

    assert f'"{ROOMS["nvl72"].levels[0]}"]' in text


def test_the_head_needs_no_gpu_and_goes_where_there_is_none() -> None:
    spare = builders.node("cpu")
    started = _started(_replayed([*_nodes(4), spare], _made("raycluster")))

    assert started["digits-head-abcde"]["node"] == "cpu"
    assert len(started) == 5


# ── what they say ──


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_says_first_what_it_shows(path: Any) -> None:
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ")
    for image in values(objects(path), "image"):
        assert re.fullmatch(r"[\w./-]+:[\w.-]+", image)
        if image.startswith("muster-"):
            assert image.endswith(f":{__version__}")


def test_names_do_not_clash_when_all_are_applied() -> None:
    names = [
        (item["apiVersion"], item["kind"], item["metadata"]["name"])
        for path in EXAMPLES.glob("*.yaml")
        for item in objects(path)
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["pytorchjob", "spot", "leaderworkerset", "kueue-job", "gaudi"])
def test_the_launcher_understands_where_it_is(name: str) -> None:
    pods = _made(name).pods[:4]
    for rank, pod in enumerate(pods):
        (container,) = pod["spec"]["containers"]
        env = {item["name"]: item["value"] for item in container.get("env", ())}
        if pod["metadata"]["ownerReferences"][0]["kind"] == "Job":
            env["JOB_COMPLETION_INDEX"] = str(rank)
        host = f"{pod['spec'].get('hostname', pod['metadata']['name'])}.digits.default.svc"

        world = plan(LaunchSettings(), env, nccl.Devices(cuda=8), host).world

        assert (world.nnodes, world.node_rank) == (str(len(pods)), rank)


def test_every_dialect_that_is_shown_is_documented() -> None:
    page = (ROOT / "docs" / "dialects.md").read_text()

    for dialect in set(DIALECTS.values()) - {"muster"}:
        assert f"| {dialect} |" in page
