"""What a gang's member is annotated with when it is bound, so that no autoscaler moves it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.fake_apiserver import NODES, PODS, FakeApi, Json, node, pod, until
from scheduler import decode
from scheduler.cluster import Connection
from scheduler.cluster.keeping import Keeping
from scheduler.errors import SettingsError
from scheduler.settings import BIND_ANNOTATIONS, Settings, from_mapping

EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DISRUPT = "karpenter.sh/do-not-disrupt"


def member(name: str, gang: str, **annotations: str) -> Json:
    made = pod(name, schedulerName="muster")
    made["spec"]["containers"] = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    stated = {"muster.scheduler/gang": gang, "muster.scheduler/min-available": "2"} if gang else {}
    made["metadata"]["annotations"] = {**stated, **annotations}
    return made


@pytest.fixture
def connected(api: FakeApi, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    api.put(NODES, node("n1"))
    settings = from_mapping(getattr(request, "param", {}))
    with Connection(settings, str(api.kubeconfig(tmp_path))) as service:
        until(lambda: service.ready)
        yield


def bound(api: FakeApi, name: str) -> dict[str, Any]:
    api.wait(lambda: bool(api.pod(name)["spec"].get("nodeName")))
    found: dict[str, Any] = api.pod(name)["metadata"].get("annotations") or {}
    return found


@pytest.mark.usefixtures("connected")
def test_members_get_them_and_what_a_pod_says_itself_stays(api: FakeApi) -> None:
    api.put(PODS, member("a-0", "a"))
    api.put(PODS, member("a-1", "a", **{EVICT: "true"}))

    assert {EVICT: "false", DISRUPT: "true"}.items() <= bound(api, "a-0").items()
    assert {EVICT: "true", DISRUPT: "true"}.items() <= bound(api, "a-1").items()
    assert "muster.scheduler/hint" in bound(api, "a-0")


@pytest.mark.usefixtures("connected")
def test_a_pod_by_itself_gets_none(api: FakeApi) -> None:
    api.put(PODS, member("alone", ""))
    assert not {EVICT, DISRUPT} & bound(api, "alone").keys()


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("connected", [{"bind_annotations": []}], indirect=True)
def test_the_setting_turns_them_off(api: FakeApi) -> None:
    for at in range(2):
        api.put(PODS, member(f"a-{at}", "a"))
    assert not {EVICT, DISRUPT} & bound(api, "a-0").keys()


def test_a_key_within_a_text_is_not_the_pods_own() -> None:
    keeping = Keeping(BIND_ANNOTATIONS)
    told = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({EVICT: "true"})}
    keeping.noting(decode.pod_bytes)(json.dumps(member("a-0", "a", **told)).encode())
    assert set(keeping.lacking("uid-a-0")) == {EVICT, DISRUPT}


@pytest.mark.parametrize("text", ["x", "=y", ""])
def test_a_setting_that_is_no_annotation_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="bind_annotations"):
        from_mapping({"bind_annotations": [text]})


def test_a_key_that_no_annotation_may_have_is_refused() -> None:
    with pytest.raises(SettingsError, match="no key of an annotation"):
        Keeping(["a b=c"])


def test_the_default_is_what_the_autoscalers_read() -> None:
    assert Keeping(Settings().bind_annotations).annotations == {EVICT: "false", DISRUPT: "true"}
