"""Node selectors, required node affinity, taints and tolerations, cordons."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.e2e.controlplane.client import Object
from tests.e2e.pairs.world import World

ZONE, SIZE, DISK = "muster.test/zone", "muster.test/size", "muster.test/disk"
_NUMBERS = ("4", "5", "007", "12", "0", "", "abc", "1.5", "9223372036854775807")
_ASKED = ("4", "5", "6", "007", "0", "9223372036854775806", "99999999999999999999", "abc")
_COMPARED = (
    ("Lt", "99999999999999999999"),
    ("Gt", "9223372036854775806"),
    ("Gt", "4"),
    ("Lt", "12"),
)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CORDON = "node.kubernetes.io/unschedulable"
_CANDIDATES = 9


def affinity(world: World, random: Random) -> None:
    """Selectors and terms over labels that are there, differ, are empty or missing."""
    for number in _NUMBERS:
        site = world.add_node("affinity", labels=_labels(random, number))
        for _ in range(_CANDIDATES):
            world.add_pair("affinity", site, required(random, site))
        for operator, asked in _COMPARED:
            expression = {"key": SIZE, "operator": operator, "values": [asked]}
            spec = _affine([{"matchExpressions": [expression]}])
            world.add_pair("affinity", site, spec, f"{number!r} {operator} {asked}")
    _by_field_alone(world)


def taints(world: World, random: Random) -> None:
    """Taints of every effect, with and without value, against tolerations of every shape."""
    for effect, value in itertools.product(_EFFECTS, ("red", "")):
        site = world.add_node("taints", taints=[_taint("colour", value, effect)])
        for toleration in _tolerations("colour", value, effect):
            world.add_pair("taints", site, {"tolerations": [toleration] if toleration else []})
    for _ in range(6):
        drawn = _drawn_taints(random)
        site = world.add_node("taints", taints=drawn)
        for _ in range(5):
            world.add_pair("taints", site, {"tolerations": tolerated(random, drawn)})


def cordons(world: World, random: Random) -> None:
    """A cordon alone and with a taint; tolerations that open it and some that only look so."""
    for taints in ((), (_taint(_CORDON, "", "NoSchedule"),), (_taint("colour", "", "NoSchedule"),)):
        site = world.add_node("cordons", taints=taints, unschedulable=True)
        for toleration in _tolerations(_CORDON, "", "NoSchedule"):
            world.add_pair("cordons", site, {"tolerations": [toleration] if toleration else []})


def unready(world: World, random: Random) -> None:
    """A node that lost its kubelet a moment ago, before any controller has tainted it."""
    site = world.add_node("unready", ready=False)
    for toleration in _tolerations("node.kubernetes.io/not-ready", "", "NoSchedule")[3:5]:
        world.add_pair("unready", site, {"tolerations": [toleration]}, "tolerated")
    world.add_pair("unready", site, {}, "not tolerated")


def required(random: Random, site: str) -> dict[str, Any]:
    """Fields of a pod spec: a node selector, required terms, both or neither."""
    spec: dict[str, Any] = {}
    if random.random() < 0.3:
        key = random.choice((ZONE, DISK))
        spec["nodeSelector"] = {key: random.choice(("a", "b", ""))}
    if random.random() < 0.9:
        spec |= _affine([_term(random, site) for _ in range(random.randint(1, 3))])
    return spec


def tolerated(random: Random, taints: Sequence[Object]) -> list[Object]:
    """Tolerations that fit most of the taints."""
    found = []
    for taint in taints:
        fitting = _tolerations(taint["key"], taint["value"], taint["effect"])
        toleration = random.choice([one for one in fitting[:6] if one is not None])
        if random.random() < 0.8:
            found.append(toleration)
    return found


def _drawn_taints(random: Random) -> list[Object]:
    keys = random.sample(("colour", "team", "node.kubernetes.io/memory-pressure"), 2)
    return [_taint(key, random.choice(("", "red")), random.choice(_EFFECTS)) for key in keys]


def _taint(key: str, value: str, effect: str) -> Object:
    return {"key": key, "value": value, "effect": effect}


def _tolerations(key: str, value: str, effect: str) -> list[Object | None]:
    """Six that tolerate the taint, and others that do not or only sometimes do."""
    other = next(one for one in _EFFECTS if one != effect)
    seconds = {"tolerationSeconds": 0} if effect == "NoExecute" else {}
    return [
        {"operator": "Exists"},
        {"operator": "Exists", "effect": effect, **seconds},
        {"key": key, "operator": "Exists"},
        {"key": key, "operator": "Exists", "effect": effect},
        {"key": key, "operator": "Equal", "value": value, "effect": effect},
        {"key": key, "value": value},
        {"key": key, "operator": "Exists", "effect": other},
        {"key": key, "operator": "Equal", "value": "blue"},
        {"key": key, "operator": "Equal"},
        {"key": key + "s", "operator": "Exists"},
        None,
    ]


def _labels(random: Random, number: str) -> dict[str, str]:
    chosen = {SIZE: number}
    if random.random() < 0.8:
        chosen[ZONE] = random.choice(("a", "b"))
    if random.random() < 0.5:
        chosen[DISK] = random.choice(("a", ""))
    return chosen


def _term(random: Random, site: str) -> Object:
    expressions = [_expression(random) for _ in range(random.choice((0, 1, 1, 1, 2, 3)))]
    term: Object = {"matchExpressions": expressions} if expressions else {}
    if random.random() < 0.3:
        name = random.choice((site, site, "elsewhere"))
        operator = random.choice(("In", "In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
    return term


def _expression(random: Random) -> Object:
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": SIZE, "operator": operator, "values": [random.choice(_ASKED)]}
    key = random.choice((ZONE, DISK, SIZE, "muster.test/missing"))
    values = random.sample(("a", "b", "", "5"), random.randint(1, 3))
    one = {"key": key, "operator": operator}
    return {**one, "values": values} if operator in ("In", "NotIn") else one


def _affine(terms: Sequence[Object]) -> Object:
    """Fields of a pod spec with these required terms."""
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": rule}}


def _by_field_alone(world: World) -> None:
    """Held by the node's name in fields alone: in one term, in every term, against itself."""
    site = world.add_node("affinity", labels={ZONE: "a"})
    here = {"key": "metadata.name", "operator": "In", "values": [site]}
    gone = {"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}
    not_here = {"key": "metadata.name", "operator": "NotIn", "values": [site]}
    zone_a = {"key": ZONE, "operator": "In", "values": ["a"]}
    zone_b = {"key": ZONE, "operator": "In", "values": ["b"]}
    for terms in (
        [{"matchFields": [here]}],
        [{"matchFields": [gone]}, {"matchFields": [here]}],
        [{"matchFields": [here], "matchExpressions": [zone_a]}],
        [{"matchFields": [here], "matchExpressions": [zone_b]}],
        [{"matchFields": [here, not_here]}],
        [{"matchFields": [here, gone]}],
        [{"matchFields": [gone]}, {}],
        [{"matchFields": [here], "matchExpressions": [zone_b]}, {"matchFields": [here]}],
    ):
        world.add_pair("affinity", site, _affine(terms), "by field", held=False)
