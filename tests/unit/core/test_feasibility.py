"""Which nodes may take a pod, checked against tables and an oracle written from the API's text."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.feasibility import anti_affinity_matches, ports_clash, verdict
from scheduler.model import (
    AntiTerm,
    Constraints,
    HostPort,
    Node,
    Requirement,
    SelectorTerm,
    Taint,
    Toleration,
)

EVERYTHING = Toleration("", "Exists", "", "")


def tolerating(*tolerations: Toleration) -> Constraints:
    return Constraints(tolerations=tolerations)


def affine(*terms: SelectorTerm) -> Constraints:
    return Constraints(terms=terms)


def labels(*expressions: Requirement) -> SelectorTerm:
    return SelectorTerm(expressions, ())


def test_a_plain_pod_may_go_to_a_plain_node() -> None:
    assert verdict(Constraints(), Node("n1")) == ""


# ── Taints ──


@pytest.mark.parametrize(
    ("taint", "toleration", "tolerated"),
    [
        (Taint("k", "v", "NoSchedule"), Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Taint("k", "v", "NoSchedule"), Toleration("k", "", "v", ""), True),
        (Taint("k", "v", "NoSchedule"), Toleration("k", "Equal", "w", ""), False),
        (Taint("k", "v", "NoSchedule"), Toleration("k", "Exists", "", ""), True),
        (Taint("k", "v", "NoSchedule"), Toleration("k", "Exists", "", "NoExecute"), False),
        (Taint("k", "v", "NoExecute"), Toleration("k", "Exists", "", "NoExecute"), True),
        (Taint("k", "v", "NoExecute"), Toleration("k", "Exists", "", "NoSchedule"), False),
        (Taint("k", "v", "NoSchedule"), Toleration("j", "Exists", "", ""), False),
        (Taint("k", "v", "NoExecute"), EVERYTHING, True),
        (Taint("k", "v", "NoSchedule"), Toleration("", "Equal", "v", ""), True),
        (Taint("k", "", "NoSchedule"), Toleration("k", "Equal", "", ""), True),
        (Taint("k", "v", "NoSchedule"), Toleration("k", "Sometimes", "v", ""), False),
        (Taint("k", "5", "NoSchedule"), Toleration("k", "Gt", "3", ""), True),
        (Taint("k", "3", "NoSchedule"), Toleration("k", "Gt", "5", ""), False),
        (Taint("k", "3", "NoSchedule"), Toleration("k", "Lt", "5", ""), True),
        (Taint("k", "x", "NoSchedule"), Toleration("k", "Lt", "5", ""), False),
    ],
)
def test_a_taint_keeps_out_whoever_does_not_tolerate_it(
    taint: Taint, toleration: Toleration, tolerated: bool
) -> None:
    node = Node("n1", taints=(taint,))
    assert verdict(tolerating(), node) != ""
    assert (verdict(tolerating(toleration), node) == "") is tolerated


def test_a_preference_not_to_schedule_keeps_nobody_out() -> None:
    assert verdict(Constraints(), Node("n1", taints=(Taint("k", "v", "PreferNoSchedule"),))) == ""


def test_the_reason_names_the_taint_that_is_not_tolerated() -> None:
    node = Node("n1", taints=(Taint("a", "", "NoExecute"), Taint("b", "c", "NoSchedule")))
    assert verdict(Constraints(), node) == "untolerated taint a:NoExecute"
    some = tolerating(Toleration("a", "Exists", "", ""))
    assert verdict(some, node) == "untolerated taint b=c:NoSchedule"


# ── Cordon, readiness ──


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    node = Node("n1", unschedulable=True)
    assert verdict(Constraints(), node) == "node is cordoned"
    key = "node.kubernetes.io/unschedulable"
    assert verdict(tolerating(Toleration(key, "Exists", "", "NoSchedule")), node) == ""
    assert verdict(tolerating(Toleration(key, "Exists", "", "NoExecute")), node) != ""


def test_a_node_that_is_not_ready_stays_closed_in_spite_of_the_default_toleration() -> None:
    node = Node("n1", ready=False)
    key = "node.kubernetes.io/not-ready"
    given_to_every_pod = Toleration(key, "Exists", "", "NoExecute")
    assert verdict(tolerating(given_to_every_pod), node) == "node is not ready"
    assert verdict(tolerating(Toleration(key, "Exists", "", "NoSchedule")), node) == ""
    assert verdict(tolerating(Toleration(key, "Exists", "", "")), node) == ""
    assert verdict(tolerating(EVERYTHING), node) == ""


def test_a_node_that_is_being_deleted_takes_nobody() -> None:
    assert verdict(tolerating(EVERYTHING), Node("n1", deleting=True)) == "node is being deleted"


# ── Selector and affinity ──


def test_every_pair_of_the_node_selector_must_match() -> None:
    both = Constraints(selector=(("a", "1"), ("b", "2")))
    assert verdict(both, Node("n1", labels={"a": "1", "b": "2"})) == ""
    assert verdict(both, Node("n1", labels={"a": "1"})) == "node selector b=2"
    assert verdict(both, Node("n1", labels={"a": "1", "b": "3"})) == "node selector b=2"


@pytest.mark.parametrize(
    ("operator", "values", "label", "matches"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a", "b"), "c", False),
        ("In", ("a",), None, False),
        ("In", (), "a", False),
        ("In", ("",), None, False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("NotIn", (), "a", False),
        ("Exists", (), "a", True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("Exists", ("a",), "a", False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "a", False),
        ("DoesNotExist", ("a",), None, False),
        ("Gt", ("8",), "9", True),
        ("Gt", ("8",), "8", False),
        ("Gt", ("8",), "10", True),
        ("Gt", ("-5",), "-4", True),
        ("Gt", ("8",), "8.5", False),
        ("Gt", ("8",), None, False),
        ("Gt", ("eight",), "9", False),
        ("Gt", ("1", "2"), "9", False),
        ("Gt", (), "9", False),
        ("Gt", ("1",), "1_0", False),
        ("Gt", ("1",), "٣", False),
        ("Gt", ("0",), "9223372036854775808", False),
        ("Gt", ("0",), "9223372036854775807", True),
        ("Lt", ("8",), "7", True),
        ("Lt", ("8",), "8", False),
        ("Lt", ("8",), "", False),
        ("in", ("a",), "a", False),
        ("Like", ("a",), "a", False),
    ],
)
def test_match_expressions(
    operator: str, values: tuple[str, ...], label: str | None, matches: bool
) -> None:
    node = Node("n1", labels={} if label is None else {"k": label})
    wanted = affine(labels(Requirement("k", operator, values)))
    assert verdict(wanted, node) == ("" if matches else "required node affinity")


@pytest.mark.parametrize(
    ("operator", "values", "key", "matches"),
    [
        ("In", ("n1",), "metadata.name", True),
        ("In", ("n2",), "metadata.name", False),
        ("In", ("n1", "n2"), "metadata.name", False),
        ("NotIn", ("n2",), "metadata.name", True),
        ("NotIn", ("n1",), "metadata.name", False),
        ("Exists", (), "metadata.name", False),
        ("Exists", ("n1",), "metadata.name", False),
        ("In", ("n1",), "metadata.uid", False),
    ],
)
def test_match_fields(operator: str, values: tuple[str, ...], key: str, matches: bool) -> None:
    wanted = affine(SelectorTerm((), (Requirement(key, operator, values),)))
    assert (verdict(wanted, Node("n1")) == "") is matches


def test_terms_are_alternatives_and_expressions_are_not() -> None:
    a, b = Requirement("a", "Exists", ()), Requirement("b", "Exists", ())
    node = Node("n1", labels={"a": ""})
    assert verdict(affine(labels(b), labels(a)), node) == ""
    assert verdict(affine(labels(a, b)), node) == "required node affinity"
    named = Requirement("metadata.name", "In", ("n2",))
    assert verdict(affine(SelectorTerm((a,), (named,))), node) == "required node affinity"


def test_no_term_and_an_empty_term_match_no_node() -> None:
    assert verdict(affine(), Node("n1")) == "required node affinity"
    assert verdict(affine(SelectorTerm((), ())), Node("n1")) == "required node affinity"


def test_selector_and_affinity_must_both_match() -> None:
    wanted = Constraints(selector=(("a", "1"),), terms=(labels(Requirement("b", "In", ("2",))),))
    assert verdict(wanted, Node("n1", labels={"a": "1", "b": "2"})) == ""
    assert verdict(wanted, Node("n1", labels={"b": "2"})) == "node selector a=1"
    assert verdict(wanted, Node("n1", labels={"a": "1"})) == "required node affinity"


# ── The oracle ──

KEYS, VALUES = ["a", "b"], ["", "1", "2", "x"]
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Other"]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
NOT_READY, CORDONED = "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable"

requirements = st.builds(
    Requirement,
    st.sampled_from(KEYS),
    st.sampled_from(OPERATORS),
    st.lists(st.sampled_from(VALUES), max_size=2).map(tuple),
)
name_fields = st.builds(
    Requirement,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn", "Exists"]),
    st.lists(st.sampled_from(["n1", "n2"]), max_size=2).map(tuple),
)
terms = st.builds(
    SelectorTerm,
    st.lists(requirements, max_size=2).map(tuple),
    st.lists(name_fields, max_size=1).map(tuple),
)
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", *KEYS, NOT_READY, CORDONED]),
    st.sampled_from(["Equal", "Exists", ""]),
    st.sampled_from(VALUES),
    st.sampled_from(["", "NoSchedule", "NoExecute"]),
)
wishes = st.builds(
    Constraints,
    selector=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1).map(
        lambda pairs: tuple(sorted(pairs.items()))
    ),
    terms=st.none() | st.lists(terms, max_size=2).map(tuple),
    tolerations=st.lists(tolerations, max_size=3).map(tuple),
)
nodes = st.builds(
    Node,
    st.sampled_from(["n1", "n2"]),
    labels=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)),
    taints=st.lists(
        st.builds(Taint, st.sampled_from(KEYS), st.sampled_from(VALUES), st.sampled_from(EFFECTS)),
        max_size=2,
    ).map(tuple),
    unschedulable=st.booleans(),
    ready=st.booleans(),
)


def oracle(wish: Constraints, node: Node) -> bool:
    """The same question answered the long way, one sentence of the API's documentation a line."""
    hard = [(t.key, t.value, t.effect) for t in node.taints if t.effect != "PreferNoSchedule"]
    if node.unschedulable:
        hard.append((CORDONED, "", "NoSchedule"))
    if not node.ready:
        hard.append((NOT_READY, "", "NoSchedule"))
    for taint in hard:
        if not any(oracle_tolerates(one, taint) for one in wish.tolerations):
            return False
    for key, value in wish.selector:
        if key not in node.labels or node.labels[key] != value:
            return False
    return wish.terms is None or any(oracle_term(term, node) for term in wish.terms)


def oracle_tolerates(one: Toleration, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    same_key = one.key in ("", key)
    same_effect = one.effect in ("", effect)
    same_value = one.operator == "Exists" or one.value == value
    return same_key and same_effect and same_value


def oracle_term(term: SelectorTerm, node: Node) -> bool:
    asked = len(term.expressions) + len(term.fields)
    met = sum(oracle_expression(one, node.labels) for one in term.expressions)
    met += sum(
        (one.operator, one.values)
        in [("In", (node.name,)), ("NotIn", ("n2" if node.name == "n1" else "n1",))]
        for one in term.fields
    )
    return asked > 0 and asked == met


def oracle_expression(one: Requirement, found: Mapping[str, str]) -> bool:
    has, value = one.key in found, found.get(one.key, "")
    if one.operator in ("In", "NotIn"):
        listed = has and value in one.values
        return len(one.values) > 0 and listed == (one.operator == "In")
    if one.operator in ("Exists", "DoesNotExist"):
        return one.values == () and has == (one.operator == "Exists")
    numbers = [value, *one.values]
    if one.operator not in ("Gt", "Lt") or len(numbers) != 2 or not has:
        return False
    if not all(text in ("1", "2") for text in numbers):
        return False
    return numbers[0] > numbers[1] if one.operator == "Gt" else numbers[0] < numbers[1]


@settings(max_examples=1000)
@given(wishes, nodes)
def test_the_verdict_agrees_with_the_oracle(wish: Constraints, node: Node) -> None:
    assert (verdict(wish, node) == "") == oracle(wish, node)


# ── Host ports ──


def port(number: int, ip: str = "", protocol: str = "TCP") -> HostPort:
    return HostPort(ip, protocol, number)


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (port(23456), port(23456), True),
        (port(23456), port(23456 + 256), False),
        (port(80), port(80, protocol="UDP"), False),
        (port(80, protocol=""), port(80), True),
        (port(80, "10.0.0.1"), port(80, "10.0.0.2"), False),
        (port(80, "10.0.0.1"), port(80, "10.0.0.1"), True),
        (port(80, "10.0.0.1"), port(80), True),
        (port(80, "10.0.0.1"), port(80, "0.0.0.0"), True),
        (port(80, "0.0.0.0"), port(80), True),
        (port(80, "10.0.0.1"), port(81), False),
        (port(80, "::1"), port(80, "127.0.0.1"), False),
    ],
)
def test_host_ports_clash_by_ip_protocol_and_number(
    one: HostPort, other: HostPort, clash: bool
) -> None:
    assert ports_clash([one], [other]) is clash
    assert ports_clash([other], [one]) is clash


def test_one_clash_among_many_ports_is_enough() -> None:
    assert ports_clash([port(1), port(2, "10.0.0.1"), port(3)], [port(4), port(2, "10.0.0.1")])
    assert not ports_clash([port(1), port(2)], [port(3), port(4)])
    assert not ports_clash([], [port(1)])
    assert not ports_clash([port(1)], [])


host_ports = st.builds(
    HostPort,
    st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from(["", "TCP", "UDP"]),
    st.sampled_from([80, 80 + 256]),
)


@given(st.lists(host_ports, max_size=4), st.lists(host_ports, max_size=4))
def test_sets_clash_exactly_if_some_pair_does(a: list[HostPort], b: list[HostPort]) -> None:
    def pair(x: HostPort, y: HostPort) -> bool:
        every = ("", "0.0.0.0")
        ips = x.ip == y.ip or x.ip in every or y.ip in every
        return ips and x.port == y.port and (x.protocol or "TCP") == (y.protocol or "TCP")

    assert ports_clash(a, b) == any(pair(x, y) for x in a for y in b)


# ── Required anti-affinity of other pods ──


def keep_away(
    selector: tuple[Requirement, ...] | None, *namespaces: str, everywhere: bool = False
) -> AntiTerm:
    return AntiTerm(selector, namespaces, everywhere, "kubernetes.io/hostname")


APP = Requirement("app", "In", ("train",))


@pytest.mark.parametrize(
    ("term", "namespace", "pod_labels", "matches"),
    [
        (keep_away((APP,)), "own", {"app": "train"}, True),
        (keep_away((APP,)), "own", {"app": "serve"}, False),
        (keep_away((APP,)), "own", {}, False),
        (keep_away((APP,)), "other", {"app": "train"}, False),
        (keep_away((APP,), "other"), "other", {"app": "train"}, True),
        (keep_away((APP,), "other"), "own", {"app": "train"}, False),
        (keep_away((APP,), everywhere=True), "third", {"app": "train"}, True),
        (keep_away(()), "own", {}, True),
        (keep_away(None), "own", {"app": "train"}, False),
        (keep_away((Requirement("app", "NotIn", ("x",)),)), "own", {}, True),
        (keep_away((Requirement("app", "DoesNotExist", ()),)), "own", {}, True),
        (keep_away((Requirement("app", "Gt", ("1",)),)), "own", {"app": "2"}, False),
        (keep_away((APP, Requirement("b", "Exists", ()))), "own", {"app": "train"}, False),
    ],
)
def test_which_pods_an_anti_affinity_term_means(
    term: AntiTerm, namespace: str, pod_labels: dict[str, str], matches: bool
) -> None:
    assert anti_affinity_matches(term, "own", namespace, pod_labels) is matches
