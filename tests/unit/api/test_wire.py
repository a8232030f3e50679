"""The wire format: any spelling and form of a request is read, and answered in kind."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api import wire
from scheduler.core.messages import BindReply, FilterReply, PreemptReply, PrioritizeReply
from scheduler.errors import DecodeError
from scheduler.model import PodRef

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | st.integers() | FLOATS | st.text(max_size=4)
ARGS = ("Pod", "pod", "Nodes", "nodes", "NodeNames", "nodeNames", "PodName", "PodUID", "Node", "n1")
PARTS = ("items", "Items", "metadata", "name", "uid", "UID", "Pods", "NumPDBViolations")
KEYS = st.sampled_from((*ARGS, *PARTS, "NodeNameToVictims", "NodeNameToMetaVictims"))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
BODIES = st.dictionaries(KEYS, VALUES, max_size=5)

POD = {"metadata": {"namespace": "t", "name": "a-0", "uid": "u0"}, "spec": {"x": [1, 2]}}
N1: dict[str, Any] = {
    "metadata": {"name": "n1", "labels": {"a": "b"}},
    "status": {"images": [1.50]},
}
N2: dict[str, Any] = {"metadata": {"name": "n2"}}
REF = PodRef("t", "a-0", "u0")


def offer(body: Any) -> wire.Offer:
    return wire.read_offer(json.dumps(body).encode())


def answer(body: Any, *nodes: str) -> Any:
    return json.loads(wire.write_filter(offer(body), FilterReply(nodes, {}, {})))


class TestOffer:
    @pytest.mark.parametrize(
        ("body", "names"),
        [
            ({"Pod": POD, "NodeNames": ["n1", "n2"], "Nodes": None}, ["n1", "n2"]),
            ({"Pod": POD, "NodeNames": ["n1", "n2"]}, ["n1", "n2"]),
            ({"pod": POD, "nodenames": ["n1", "n2"]}, ["n1", "n2"]),
            ({"pod": POD, "nodeNames": ["n1", "n2"], "nodes": None}, ["n1", "n2"]),
            ({"Pod": POD, "nodeNames": ["n1", "n2"]}, ["n1", "n2"]),
            ({"Pod": POD, "Nodes": {"items": [N1, N2]}}, ["n1", "n2"]),
            ({"Pod": POD, "Nodes": {"metadata": {}, "items": [N1, N2]}}, ["n1", "n2"]),
            ({"pod": POD, "nodes": {"Items": [N1, N2]}, "nodenames": None}, ["n1", "n2"]),
            ({"Pod": POD, "Nodes": {"Items": [N1, N2]}}, ["n1", "n2"]),
            ({"Pod": POD, "Nodes": [N1, N2]}, ["n1", "n2"]),
            ({"Pod": POD, "Nodes": {"items": [N1, N2]}, "NodeNames": ["n2"]}, ["n2"]),
            ({"Pod": POD, "Nodes": {"items": [N1, N2]}, "NodeNames": []}, ["n1", "n2"]),
            ({"Pod": POD, "Nodes": None, "NodeNames": None}, []),
            ({"Pod": POD}, []),
            ({"Pod": POD, "NodeNames": []}, []),
            ({"Pod": POD, "Nodes": {"items": []}}, []),
            ({"Pod": POD, "Nodes": {"items": None}}, []),
            ({"Pod": POD, "Nodes": {}}, []),
            ({"Pod": POD, "Nodes": 5}, []),
            ({"Pod": POD, "NodeNames": ["n1", 7, None]}, ["n1"]),
            ({"Pod": POD, "NodeNames": {"n1": 1}}, []),
            ({"Pod": POD, "Nodes": {"items": [N1, {"metadata": None}, 7]}}, ["n1"]),
        ],
    )
    def test_any_spelling_and_form_is_read(self, body: Any, names: list[str]) -> None:
        found = offer(body)
        assert list(found.names) == names
        assert found.ref == REF
        assert json.loads(bytes(found.pod)) == POD

    @pytest.mark.parametrize(
        "pod", [None, 5, [], {}, {"metadata": None}, {"metadata": {"uid": None, "name": 7}}]
    )
    def test_a_pod_without_identity_is_no_error_here(self, pod: Any) -> None:
        assert offer({"Pod": pod, "NodeNames": ["n1"]}).ref == PodRef("", "", "")

    def test_a_missing_pod_is_empty(self) -> None:
        found = offer({"NodeNames": ["n1"]})
        assert (found.ref, bytes(found.pod), found.names) == (PodRef("", "", ""), b"", ["n1"])

    def test_an_odd_field_of_the_metadata_does_not_hide_the_identity(self) -> None:
        odd = {"metadata": {**POD["metadata"], "labels": 5, "generation": "x"}}
        assert offer({"Pod": odd, "NodeNames": []}).ref == REF

    @pytest.mark.parametrize(
        ("body", "text"),
        [
            (b"", "empty"),
            (b"{", "not JSON"),
            (b"\xff\xfe", "not JSON"),
            (b'{"Pod": {"metadata": {}}, "NodeNames": [}', "not JSON"),
            (b'{"Pod": {}, "NodeNames": ["n1"]} x', "not JSON"),
            (b"[]", "must be a JSON object"),
            (b"5", "must be a JSON object"),
            (b"null", "must be a JSON object"),
        ],
    )
    def test_what_is_no_json_object_is_refused_with_the_reason(
        self, body: bytes, text: str
    ) -> None:
        for read in (wire.read_offer, wire.read_bind, wire.read_preempt):
            with pytest.raises(DecodeError, match=text):
                read(body)


class TestFilterAnswer:
    def test_names_are_answered_with_names(self) -> None:
        got = answer({"Pod": POD, "NodeNames": ["n1", "n2"]}, "n2")
        assert (got["NodeNames"], got["Nodes"], got["Error"]) == (["n2"], None, "")

    def test_no_node_is_an_empty_list_not_null(self) -> None:
        assert answer({"Pod": POD, "NodeNames": ["n1"]})["NodeNames"] == []

    def test_whole_nodes_are_answered_with_the_very_objects(self) -> None:
        body = b'{"Pod":{"metadata":{}},"Nodes":{"items":[%s,%s]}}' % (
            b'{"metadata":{"name":"n1"}, "status":{"q":1.50,"big":12345678901234567890123}}',
            json.dumps(N2).encode(),
        )
        raw = wire.write_filter(wire.read_offer(body), FilterReply(["n1"], {}, {}))
        assert (
            b'{"metadata":{"name":"n1"}, "status":{"q":1.50,"big":12345678901234567890123}}' in raw
        )
        got = json.loads(raw)
        assert [node["metadata"]["name"] for node in got["Nodes"]["items"]] == ["n1"]
        assert got["NodeNames"] is None

    def test_whole_nodes_and_none_fits(self) -> None:
        got = answer({"Pod": POD, "Nodes": {"items": [N1]}})
        assert (got["Nodes"], got["NodeNames"]) == ({"items": []}, None)

    def test_both_forms_are_answered_in_both(self) -> None:
        got = answer({"Pod": POD, "Nodes": {"items": [N1, N2]}, "NodeNames": ["n1", "n2"]}, "n1")
        assert (got["NodeNames"], got["Nodes"]) == (["n1"], {"items": [N1]})

    def test_neither_form_is_answered_with_no_names(self) -> None:
        assert answer({"Pod": POD})["NodeNames"] == []

    def test_reasons_keep_their_kind(self) -> None:
        reply = FilterReply([], {"n1": "no room"}, {"muster": "1 of 2 pods exist"})
        got = json.loads(wire.write_filter(offer({"Pod": POD, "NodeNames": ["n1"]}), reply))
        assert got["FailedNodes"] == {"n1": "no room"}
        assert got["FailedAndUnresolvableNodes"] == {"muster": "1 of 2 pods exist"}


def test_scores_are_integers_one_for_each_node() -> None:
    raw = wire.write_prioritize(PrioritizeReply({"n1": 10, "n2": 0}))
    assert json.loads(raw) == [{"Host": "n1", "Score": 10}, {"Host": "n2", "Score": 0}]
    assert b"." not in raw


class TestBind:
    @pytest.mark.parametrize("lower", [False, True])
    def test_arguments(self, lower: bool) -> None:
        body = {"PodName": "a-0", "PodNamespace": "t", "PodUID": "u0", "Node": "n1"}
        if lower:
            body = {key[0].lower() + key[1:]: value for key, value in body.items()}
        assert wire.read_bind(json.dumps(body).encode()) == wire.BindArgs(REF, "n1")

    def test_missing_arguments_are_empty(self) -> None:
        assert wire.read_bind(b'{"Node": null}') == wire.BindArgs(PodRef("", "", ""), "")

    def test_answer(self) -> None:
        assert json.loads(wire.write_bind(BindReply(REF, "n1", ""))) == {"Error": ""}
        assert json.loads(wire.write_bind(BindReply(REF, "n1", "x"))) == {"Error": "x"}


def preempt(body: Any, *kept: str) -> Any:
    args = wire.read_preempt(json.dumps(body).encode())
    victims = {node: args.victims.get(node, ()) for node in kept}
    return json.loads(wire.write_preempt(args, PreemptReply(victims)))["NodeNameToMetaVictims"]


META = {"n1": {"Pods": [{"UID": "v1"}, {"UID": "v2"}], "NumPDBViolations": 1}}
FULL = {"n1": {"Pods": [{"metadata": {"uid": "v1", "name": "x"}}], "NumPDBViolations": 2}}


class TestPreempt:
    def test_meta_victims_are_read_and_echoed(self) -> None:
        assert preempt({"Pod": POD, "NodeNameToMetaVictims": META}, "n1") == META

    def test_whole_victims_are_answered_in_meta_form(self) -> None:
        assert preempt({"Pod": POD, "NodeNameToVictims": FULL}, "n1") == {
            "n1": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 2}
        }

    @pytest.mark.parametrize(
        ("pods", "uids"),
        [
            ([{"UID": "v1"}, {"uid": "v2"}], ["v1", "v2"]),
            ([{"UID": "v1"}, {"metadata": {"uid": "v2"}}], ["v1", "v2"]),
            ([{"UID": "v1"}, {"UID": 5}, {}, None, {"UID": ""}], ["v1"]),
            ([{"metadata": {"UID": "v1"}}], ["v1"]),
            (None, []),
            ({"UID": "v1"}, []),
        ],
    )
    def test_victims_in_any_form_are_read_as_far_as_they_can_be(
        self, pods: Any, uids: list[str]
    ) -> None:
        entry = {"Pods": pods, "NumPDBViolations": 2}
        args = wire.read_preempt(
            json.dumps({"Pod": POD, "NodeNameToVictims": {"n": entry}}).encode()
        )
        assert args.victims == {"n": uids}
        assert args.violations == {"n": 2}

    @pytest.mark.parametrize("count", [True, "3", None, 2.5])
    def test_an_odd_number_of_violations_is_none(self, count: Any) -> None:
        entry = {"Pods": [{"UID": "v1"}], "NumPDBViolations": count}
        args = wire.read_preempt(
            json.dumps({"Pod": POD, "NodeNameToVictims": {"n": entry}}).encode()
        )
        assert (args.victims, args.violations) == ({"n": ["v1"]}, {"n": 0})

    def test_lower_case(self) -> None:
        body = {
            "pod": POD,
            "nodeNameToMetaVictims": {"n1": {"pods": [{"uid": "v1"}], "numPDBViolations": 3}},
        }
        assert preempt(body, "n1") == {"n1": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 3}}

    def test_a_victim_in_both_maps_is_one(self) -> None:
        got = preempt({"Pod": POD, "NodeNameToMetaVictims": META, "NodeNameToVictims": FULL}, "n1")
        assert got == META

    @pytest.mark.parametrize("pods", [None, [], [{}], [{"UID": ""}], 5, [7]])
    def test_a_node_without_victims_is_never_answered(self, pods: Any) -> None:
        body = {"Pod": POD, "NodeNameToMetaVictims": {"n1": {"Pods": pods}}}
        assert preempt(body, "n1") == {}

    @pytest.mark.parametrize("victims", [None, {}, 5, [], {"n1": None}, {"n1": 5}])
    def test_odd_maps_mean_no_victims(self, victims: Any) -> None:
        assert preempt({"Pod": POD, "NodeNameToMetaVictims": victims}, "n1") == {}

    def test_the_answer_holds_nothing_that_was_not_asked(self) -> None:
        args = wire.read_preempt(json.dumps({"Pod": POD, "NodeNameToMetaVictims": META}).encode())
        reply = PreemptReply({"n1": ["v2", "stranger"], "n7": ["v1"]})
        assert json.loads(wire.write_preempt(args, reply)) == {
            "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "v2"}], "NumPDBViolations": 1}}
        }

    def test_pod_and_identity(self) -> None:
        args = wire.read_preempt(json.dumps({"Pod": POD}).encode())
        assert args.ref == REF
        assert json.loads(bytes(args.pod)) == POD


class TestAnyBody:
    """Whatever an object holds, it is read, and the answer is what a scheduler can decode."""

    @given(BODIES)
    def test_filter(self, body: dict[str, Any]) -> None:
        found = offer(body)
        assert all(isinstance(name, str) for name in found.names)
        got = json.loads(wire.write_filter(found, FilterReply(found.names, {}, {})))
        assert got["Nodes"] is not None or got["NodeNames"] is not None
        if got["NodeNames"] is not None:
            assert got["NodeNames"] == list(found.names)
        for node in (got["Nodes"] or {"items": []})["items"]:
            assert node["metadata"]["name"]

    @given(BODIES)
    def test_preempt(self, body: dict[str, Any]) -> None:
        args = wire.read_preempt(json.dumps(body).encode())
        raw = wire.write_preempt(args, PreemptReply(args.victims))
        for entry in json.loads(raw)["NodeNameToMetaVictims"].values():
            assert entry["Pods"]
            assert all(isinstance(pod["UID"], str) and pod["UID"] for pod in entry["Pods"])
            assert type(entry["NumPDBViolations"]) is int

    @given(BODIES)
    def test_bind(self, body: dict[str, Any]) -> None:
        args = wire.read_bind(json.dumps(body).encode())
        assert all(isinstance(part, str) for part in (*args.ref, args.node))

    @given(st.binary(max_size=60))
    def test_any_bytes_are_read_or_refused(self, body: bytes) -> None:
        for read in (wire.read_offer, wire.read_bind, wire.read_preempt):
            with suppress(DecodeError):
                read(body)
