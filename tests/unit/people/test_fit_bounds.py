"""Asking whether pods would fit keeps nothing from being planned for long."""

from __future__ import annotations

import tracemalloc
from typing import Any

import httpx
import msgspec
import pytest
from people_site import PATIENCE_S, Site

from scheduler.api.fit import BODY_LIMIT, MARKS, read
from scheduler.errors import DecodeError
from tests import builders


def ask(here: Site, pods: list[Any]) -> httpx.Response:
    return httpx.post(here.url + "/v1/fit", json=pods, timeout=PATIENCE_S)


def unlike(gangs: int, kinds: int) -> list[Any]:
    """Pods of some gangs, each of which has one pod of every kind."""
    return [
        builders.pod(f"t/g{gang}-{kind}", gpu=1, cpu=f"{kind + 1}m", gang=f"g{gang}", min=kinds)
        for gang in range(gangs)
        for kind in range(kinds)
    ]


def test_only_one_question_is_answered_at_a_time(here: Site) -> None:
    one = [builders.pod("t/a", gpu=1)]
    with here.service.question():
        answer = ask(here, one)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert "busy with another question; try again" in answer.json()["error"]
        assert here.get("/v1/gangs") == {"gangs": []}
    assert ask(here, one).json()["fits"] is True


def test_a_question_that_cannot_be_read_makes_way_for_the_next(here: Site) -> None:
    assert ask(here, []).status_code == 400
    assert ask(here, [builders.pod("t/a", gpu=1)]).status_code == 200


@pytest.mark.parametrize(
    ("gangs", "kinds", "reason"),
    [
        (65, 1, "65 kinds of pods are too many; at most 64"),
        (33, 2, "66 kinds of pods are too many; at most 64"),
    ],
)
def test_too_many_kinds_of_pods_are_refused(
    idle: Site, gangs: int, kinds: int, reason: str
) -> None:
    answer = ask(idle, unlike(gangs, kinds))
    assert answer.status_code == 400
    assert reason in answer.json()["error"]


@pytest.mark.parametrize(("gangs", "kinds"), [(64, 1), (1, 16), (32, 2)])
def test_as_many_kinds_as_are_judged_are_judged(idle: Site, gangs: int, kinds: int) -> None:
    assert ask(idle, unlike(gangs, kinds)).status_code == 200


def affine(name: str, terms: list[Any], **spec: Any) -> dict[str, Any]:
    """A pod of a gang of two that asks much of nodes."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = builders.pod(f"t/{name}", gpu=1, gang="a", min=2)
    found["spec"] |= {"affinity": {"nodeAffinity": required}, **spec}
    return found


def none_of(keys: int) -> list[Any]:
    return [{"key": f"k{at}", "operator": "DoesNotExist"} for at in range(keys)]


@pytest.mark.parametrize(
    ("terms", "spec"),
    [
        ([{"matchExpressions": none_of(1001)}], {}),
        ([{"matchExpressions": [*none_of(500)]}, *[{}] * 501], {}),
        ([{"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"] * 51_000}]}], {}),
        (None, {"nodeSelector": {f"k{at}": "v" for at in range(1001)}}),
        (None, {"tolerations": [{"key": f"k{at}", "operator": "Exists"} for at in range(1001)]}),
    ],
    ids=["expressions", "terms", "values", "selectors", "tolerations"],
)
def test_too_many_conditions_on_nodes_are_refused(
    idle: Site, terms: list[Any] | None, spec: dict[str, Any]
) -> None:
    """Each is compared with every node, before anything is counted that ends a question."""
    asked = terms or [{"matchExpressions": none_of(1)}]
    other = [*asked[1:], {**asked[0], "matchFields": none_of(1)}]
    answer = ask(idle, [affine("a-0", asked, **spec), affine("a-1", other, **spec)])
    assert answer.status_code == 400
    assert "conditions on nodes" in answer.json()["error"]


def test_conditions_that_pods_have_in_common_count_once(idle: Site) -> None:
    terms = [{"matchExpressions": none_of(1500)}]
    assert ask(idle, [affine(f"a-{at}", terms) for at in range(2)]).status_code == 200


def test_too_many_pods_are_refused_with_what_to_do(idle: Site) -> None:
    answer = ask(idle, [{"metadata": {"name": "p"}}] * 4097)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "fit: more than 4096 pods are not judged at once: ask about fewer"
    }


@pytest.mark.parametrize("one", ["{}", '{"":0}', "[]", "0"])
def test_a_body_of_many_small_values_is_refused_before_it_takes_all_memory(one: str) -> None:
    """Read, each takes up to a hundred times its bytes."""
    body = f"[{','.join([one] * 2_500_000)}]".encode()
    assert len(body) < 1.2 * BODY_LIMIT
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="more values in it than pods have"):
            read(body)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_as_many_pods_as_are_judged_are_not_too_many_values() -> None:
    found = builders.pod("t/a", gpu=8, cpu="64", memory="512Gi", gang="a", min=4096)
    found["spec"]["containers"][0] |= {
        "env": [{"name": f"VARIABLE_{at}", "value": f"{at}"} for at in range(60)],
        "volumeMounts": [{"name": f"v{at}", "mountPath": f"/mnt/{at}"} for at in range(8)],
    }
    one = msgspec.json.encode(found)
    body = b"[" + b",".join([one] * (BODY_LIMIT // (len(one) + 1))) + b"]"
    assert sum(map(body.count, (b",", b":", b"[", b"{"))) < MARKS
