"""Our own keys: they name the gang, and they are laid over what every other dialect says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import decode
from scheduler.model import Communication, GroupKey, Options, Pod, Start, Wish
from tests.builders import OURS, in_group, pod, pod_group
from tests.unit.dialects.reading import stated_gang


def read(**changes: Any) -> Pod:
    return decode.pod(pod("t/A-0", **changes))


def options(**keys: str) -> Options:
    found = read(gang="A", options={key.replace("_", "-"): value for key, value in keys.items()})
    assert found.fault == ""
    assert found.declaration is not None
    return found.declaration.options


def fault(key: str, value: Any) -> str:
    """The fault that one bad value makes, which must start with the key."""
    changed = pod("t/A-0", gang="A")
    changed["metadata"]["annotations"][OURS + key] = value
    found = decode.pod(changed)
    prefix = f"{OURS}{key}: "
    assert found.fault.startswith(prefix)
    return found.fault.removeprefix(prefix)


def test_a_pod_without_any_key_declares_nothing() -> None:
    assert read().declaration is None
    assert read(annotations={OURS + "hint": "{}", "other/gang": "A"}).declaration is None


def test_every_key_is_read() -> None:
    assert options(
        min_available="3",
        size="4",
        role="worker",
        role_min='{"worker":2,"chief":1}',
        topology_required="rack",
        topology_preferred="topo.example.com/block",
        topology_relax_after="10m",
        segment_size="2",
        segment_topology="topo/rack",
        communication="light",
        timeout="90s",
        max_runtime="2h",
        start="nominate",
    ) == Options(
        min_available=3,
        size=4,
        role="worker",
        role_min=(("chief", 1), ("worker", 2)),
        required="rack",
        preferred="topo.example.com/block",
        relax_after=600.0,
        segment_size=2,
        segment_level="topo/rack",
        communication=Communication.LIGHT,
        timeout=90.0,
        max_runtime=7200.0,
        start=Start.NOMINATE,
    )


def test_an_nvlink_domain_is_required_or_preferred() -> None:
    assert options(**{"nvlink-domain": "required"}).nvlink is Wish.REQUIRED
    assert "is not one of required, preferred" in fault("nvlink-domain", "yes")


def test_gpu_models_are_a_list_the_best_first() -> None:
    asked = options(**{"gpu-model-required": "H200, H100 ,H200", "gpu-model-preferred": "Tesla T4"})
    assert (asked.gpu_required, asked.gpu_preferred) == (("H200", "H100"), ("Tesla T4",))
    for text in ("", ",", "H100,", "H100;A100", "x" * 64, ",".join(["H100"] * 17)):
        assert "is not a list of GPU models such as H200,H100" in fault("gpu-model-required", text)


def test_exact_gpus_are_wanted_or_not() -> None:
    asked = [options(**{"exact-gpus": text}).exact_gpus for text in ("true", "false")]
    assert asked == [True, False]
    assert "is not one of true, false" in fault("exact-gpus", "yes")


def test_labels_say_the_same_as_annotations_and_annotations_win() -> None:
    labels = {OURS + "gang": "A", OURS + "min-available": "2"}
    assert read(labels=labels) != read()
    both = read(labels=labels, annotations={OURS + "gang": "B"})
    assert both.declaration == stated_gang("B", "muster", Options(min_available=2))


@pytest.mark.parametrize(
    "name", ["A", "a-b.c_d", "x" * 63, "0", "A" + "-" * 61 + "z"], ids=lambda name: name[:9]
)
def test_a_gangs_name_has_the_syntax_of_a_label_value(name: str) -> None:
    found = read(gang=name)
    assert found.declaration == stated_gang(name, "muster")
    assert found.fault == ""


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a/b", "x" * 64, "ä", "a\n", ".", None])
def test_any_other_name_is_a_fault(name: Any) -> None:
    if name is None:
        assert read(annotations={OURS + "gang": 3}).fault.startswith(f"{OURS}gang: 3 is not a name")
        return
    found = read(gang=name)
    assert found.declaration is None
    assert found.fault.startswith(f"{OURS}gang: ")
    assert "is not a name" in found.fault


# ── Numbers ──


@pytest.mark.parametrize("key", ["min-available", "size", "segment-size"])
@pytest.mark.parametrize(
    "value", ["0", "-1", "", "three", "1.5", "007", "+3", " 3", "3 ", "1e3", "1000001", "9" * 50]
)
def test_a_count_is_a_whole_number_from_one(key: str, value: str) -> None:
    assert "is not a whole number from 1 to 1000000" in fault(key, value)


def test_a_count_written_as_a_json_number_is_read() -> None:
    found = pod("t/A-0", gang="A")
    found["metadata"]["annotations"][OURS + "min-available"] = 3
    declaration = decode.pod(found).declaration
    assert declaration is not None
    assert declaration.options.min_available == 3


def test_a_minimum_above_the_size_is_a_fault() -> None:
    found = read(gang="A", min=5, size=4)
    assert found.fault == f"{OURS}min-available: 5 is more than {OURS}size, 4"
    assert read(gang="A", min=4, size=4).fault == ""


@pytest.mark.parametrize(
    ("text", "minimums"),
    [
        ('{"worker": 4}', (("worker", 4),)),
        ('{"w": 0, "m": 1}', (("m", 1), ("w", 0))),
    ],
)
def test_minimum_by_role(text: str, minimums: Any) -> None:
    assert options(role_min=text).role_min == minimums


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "3", "{", "worker=4", '{"w": -1}', '{"w": "4"}', '{"w": 1.5}'),
        *('{"": 1}', '{"a b": 1}', '{"w": null}', '{"w": true}', '{"w": 99999999999999999999}'),
        "[" * 50_000,
    ],
)
def test_a_bad_minimum_by_role_is_a_fault(text: str) -> None:
    assert fault("role-min", text)


# ── Durations ──


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("10m", 600.0),
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        ("1h0m0.5s", 3600.5),
        ("1.5h", 5400.0),
        ("500ms", 0.5),
        ("250us", 250e-6),
        ("250µs", 250e-6),
        ("30", 30.0),
        ("0.5", 0.5),
        ("2000s", 2000.0),
        ("8784h", 366 * 86400.0),
    ],
)
def test_durations_are_go_like_and_a_plain_number_is_seconds(text: str, seconds: float) -> None:
    assert options(timeout=text).timeout == pytest.approx(seconds)


@pytest.mark.parametrize("key", ["timeout", "max-runtime", "topology-relax-after"])
@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "0s", "-1", "-5s", "1e9", "9e99", "8785h", "9" * 13, "10 m", "m", "1d"),
        *("s10", ".5s", "1.2.3s", "inf", "nan", "ten", "٣s", "1S", "1h" * 9, "1h-5m"),
    ],
)
def test_any_other_duration_is_refused_in_words(key: str, text: str) -> None:
    assert "is not a duration" in fault(key, text)


# ── Words ──


@pytest.mark.parametrize(
    ("key", "value", "choices"),
    [
        ("start", "now", "burst, nominate, follow"),
        ("start", "Burst", "burst, nominate, follow"),
        ("start", "", "burst, nominate, follow"),
        ("communication", "heavy", "intensive, light"),
        ("communication", 3, "intensive, light"),
    ],
)
def test_a_word_that_is_no_choice_is_answered_with_the_choices(
    key: str, value: Any, choices: str
) -> None:
    assert fault(key, value).endswith(f"is not one of {choices}")


@pytest.mark.parametrize("key", ["topology-required", "topology-preferred", "segment-topology"])
@pytest.mark.parametrize("value", ["", "/", "a/", "/b", "a b", "a/b/c", "x" * 64, 5])
def test_a_level_is_a_name_or_a_label_key(key: str, value: Any) -> None:
    assert "is not the name of a level" in fault(key, value)


def test_all_bad_keys_are_named_at_once_and_the_gang_stays_known() -> None:
    found = read(gang="A", min="x", options={"timeout": "never", "start": "burst"})
    assert [part.split(":")[0] for part in found.fault.split("; ")] == [
        OURS + "min-available",
        OURS + "timeout",
    ]
    assert found.declaration == stated_gang("A", "muster")


def test_a_bad_name_and_a_bad_option_are_both_named() -> None:
    found = read(gang="", min="x")
    assert f"{OURS}gang: " in found.fault
    assert f"{OURS}min-available: " in found.fault


def test_a_bad_pod_harms_no_other() -> None:
    assert read(gang="A", min="x").fault
    assert read(gang="A", min="3").fault == ""


# ── Over other dialects ──


def test_options_without_a_gang_are_those_of_a_gang_of_one() -> None:
    found = read(gpu=1, options={"max-runtime": "2h"})
    assert found.declaration == stated_gang("", "muster", Options(max_runtime=7200.0))


def test_our_gang_wins_over_a_native_group() -> None:
    found = read(gang="B", **in_group("A"))
    assert found.declaration == stated_gang("B", "muster")


def test_our_options_are_laid_over_the_gang_of_another_dialect() -> None:
    found = read(min=2, options={"start": "follow"}, **in_group("A"))
    assert found.declaration == stated_gang(
        "A",
        "native",
        Options(min_available=2, start=Start.FOLLOW),
        GroupKey("PodGroup.scheduling.k8s.io", "t", "A"),
    )


def test_a_groups_annotations_are_laid_over_what_it_says_itself() -> None:
    keys = {OURS + "timeout": "30s", OURS + "topology-required": "rack"}
    group = decode.group(pod_group("t/A", min=3, topology="topo/block", annotations=keys))
    assert group is not None
    assert group.options == Options(min_available=3, required="rack", timeout=30.0)


def test_a_bad_annotation_of_a_group_is_its_fault() -> None:
    group = decode.group(pod_group("t/A", min=3, annotations={OURS + "timeout": "never"}))
    assert group is not None
    assert group.fault.startswith(f"{OURS}timeout: ")
    assert group.options == Options(min_available=3)


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("gang", "min-available", "size", "role", "role-min", "topology-required"),
                *("timeout", "segment-size", "communication", "start", "index", "unknown"),
            ]
        ),
        st.one_of(
            st.text(max_size=6),
            st.sampled_from(["1", "3", "A", "90s", '{"w":1}', "burst", "light"]),
            st.none(),
            st.integers(),
            st.floats(),
            st.lists(st.integers(), max_size=2),
            st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        ),
    )
)
def test_whatever_the_keys_hold_there_is_a_declaration_or_a_fault(keys: dict[str, Any]) -> None:
    obj = pod("t/A-0")
    obj["metadata"]["annotations"] = {OURS + key: value for key, value in keys.items()}
    found = decode.pod(obj)
    if not found.fault and keys.get("gang") is not None:
        assert found.declaration is not None
        assert found.declaration.name == keys["gang"]
        hash(found.declaration)


def test_a_misspelt_own_key_stops_the_pod_and_a_foreign_one_does_not() -> None:
    wrong = decode.pod(pod("t/a", gpu=1, gang="a", options={"min-avialable": "4"}))
    assert "muster.scheduler/min-available is" in wrong.fault
    other = decode.pod(pod("t/a", gpu=1, gang="a", options={"owner-team": "x", "woken": "3"}))
    assert other.fault == ""
