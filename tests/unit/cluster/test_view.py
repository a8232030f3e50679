"""The view keeps the engine's picture true, whatever happens to its watches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from cluster.fake_apiserver import NODES, PODS, FakeApi, node, pod, pod_group
from cluster.recording import RecordingWorld
from scheduler.cluster import Transport, View, yielding
from scheduler.cluster.pace import Pace
from scheduler.core.messages import GroupGone, NodeGone, PodGone, PodSeen, Synced

QUICK = Pace(first_s=0.01, longest_s=0.05, watch_s=60, idle_s=30.0, discover_s=0.05)


@pytest.fixture
def world() -> RecordingWorld:
    return RecordingWorld()


@pytest.fixture
def view(transport: Transport, world: RecordingWorld) -> Iterator[View]:
    view = View(transport, world, pace=QUICK)
    yield view
    view.stop()


class TestFirstList:
    def test_synced_comes_after_everything_was_listed(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        groups = api.serve("scheduling.x-k8s.io", "v1alpha1", "podgroups")
        api.put(groups, pod_group("a", 2))
        api.put(NODES, node("n1"))
        api.put(PODS, pod("a-0", nodeName="n1"))
        view.start()
        world.wait(lambda: world.synced)
        at = world.events.index(Synced())
        assert {type(event).__name__ for event in world.events[:at]} == {
            "NodeSeen",
            "PodSeen",
            "GroupSeen",
        }
        assert world.pods["uid-a-0"].node == "n1"
        assert world.nodes["n1"].allocatable["nvidia.com/gpu"] == 8
        assert world.events.count(Synced()) == 1

    def test_long_lists_come_in_pages(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        for at in range(1100):
            api.put(PODS, pod(f"p{at:04}"))
        view.start()
        world.wait(lambda: world.synced)
        assert len(world.pods) == 1100
        assert api.count("GET", PODS, "continue=") == 2

    def test_a_list_that_expires_half_way_starts_over(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        for at in range(600):
            api.put(PODS, pod(f"p{at:04}"))
        api.fail("GET", PODS, 410, query="continue=")
        view.start()
        world.wait(lambda: world.synced)
        assert len(world.pods) == 600
        assert not [event for event in world.events if isinstance(event, PodGone)]

    def test_a_list_that_always_expires_is_read_in_one_piece(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        for at in range(600):
            api.put(PODS, pod(f"p{at:04}"))
        api.fail("GET", PODS, 410, times=1000, query="continue=")
        view.start()
        world.wait(lambda: world.synced)
        assert len(world.pods) == 600

    @pytest.mark.parametrize("action", [500, 429, "reset"])
    def test_a_failed_list_is_tried_again(
        self, api: FakeApi, view: View, world: RecordingWorld, action: int | str
    ) -> None:
        api.fail("GET", NODES, action, times=3, headers={"Retry-After": "0"})
        api.put(NODES, node("n1"))
        view.start()
        world.wait(lambda: world.synced)
        assert "n1" in world.nodes

    def test_without_permission_it_says_what_is_missing_and_goes_on_trying(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        api.fail("GET", PODS, 403, times=1000)
        view.start()
        world.wait(lambda: "cannot list pods: 403" in world.reason)
        assert "needs get, list and watch on pods" in world.reason
        assert not world.synced
        api.heal()
        world.wait(lambda: world.synced)
        assert world.reason == ""

    def test_an_object_that_cannot_be_read_is_left_out_with_one_warning(
        self, api: FakeApi, view: View, world: RecordingWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        api.put(PODS, pod("good"))
        for name in ("bad-1", "bad-2"):
            bad = pod(name)
            api.put(PODS, bad)
            bad["metadata"] = {"name": 7, "resourceVersion": "1"}
        view.start()
        world.wait(lambda: world.synced)
        assert list(world.pods) == ["uid-good"]
        warnings = [record for record in caplog.records if "left out" in record.message]
        assert len(warnings) == 1

    def test_requests_carry_the_token(self, api: FakeApi, view: View) -> None:
        view.start()
        api.wait_for_watch(PODS)
        assert {request.headers["Authorization"] for request in api.requests} == {"Bearer a-token"}


class TestWatch:
    @pytest.fixture(autouse=True)
    def _synced(self, api: FakeApi, view: View, world: RecordingWorld) -> None:
        api.put(NODES, node("n1"))
        api.put(PODS, pod("g", nodeName="n1"))
        view.start()
        world.wait(lambda: world.synced)
        api.wait_for_watch(PODS)
        api.wait_for_watch(NODES)

    def test_changes_arrive(self, api: FakeApi, world: RecordingWorld) -> None:
        api.put(PODS, pod("h"))
        world.wait(lambda: "uid-h" in world.pods)
        api.put(PODS, pod("h", nodeName="n1"))
        world.wait(lambda: world.pods["uid-h"].node == "n1")
        api.delete(PODS, "t", "h")
        world.wait(lambda: "uid-h" not in world.pods)

    def test_a_change_that_means_nothing_to_placement_is_not_passed_on(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        same = node("n1")
        same["status"]["images"] = [{"sizeBytes": 1}]
        before = len(world.events)
        api.put(NODES, same)
        api.put(NODES, node("n2"))
        world.wait(lambda: "n2" in world.nodes)
        assert len(world.events) == before + 1

    def test_a_new_pod_of_the_same_name_ends_the_old_one_first(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        api.put(PODS, pod("g", "uid-new"))
        world.wait(lambda: "uid-new" in world.pods)
        assert world.events[-2] == PodGone("uid-g")
        assert "uid-g" not in world.pods

    def test_a_late_word_about_an_old_uid_touches_no_new_pod(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        api.put(PODS, pod("g", "uid-new"))
        late = json.dumps({"type": "DELETED", "object": pod("g")}).encode()
        api.say(PODS, late)
        api.put(PODS, pod("marker"))
        world.wait(lambda: "uid-marker" in world.pods)
        assert set(world.pods) == {"uid-new", "uid-marker"}

    def test_a_delete_notice_may_carry_next_to_nothing(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        bare = {"metadata": {"namespace": "t", "name": "g", "uid": "uid-g"}}
        for _ in range(2):
            api.say(PODS, json.dumps({"type": "DELETED", "object": bare}).encode())
        world.wait(lambda: world.pods == {})
        assert world.events.count(PodGone("uid-g")) == 1

    def test_a_node_of_the_same_name_is_a_new_node(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        api.put(NODES, node("n1", "uid-other"))
        world.wait(lambda: NodeGone("n1") in world.events)
        world.wait(lambda: "n1" in world.nodes)

    def test_a_watch_that_ends_is_resumed_where_it_was(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        version = api.bookmark(PODS)
        api.cut(PODS, in_order=True)
        api.wait_for_watch(PODS, 2)
        api.put(PODS, pod("h"))
        world.wait(lambda: "uid-h" in world.pods)
        assert api.count("GET", PODS, "limit=") == 1
        last = [request for request in api.requests if request.path == PODS][-1]
        assert last.query["resourceVersion"] == str(version)
        assert last.query["allowWatchBookmarks"] == "true"
        assert world.restarts("pods", "ended") == 1

    def test_a_connection_cut_within_a_line_loses_nothing(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        api.cut(PODS)
        api.wait_for_watch(PODS, 2)
        api.put(PODS, pod("h"))
        world.wait(lambda: "uid-h" in world.pods)
        assert api.count("GET", PODS, "limit=") == 1
        assert world.restarts("pods", "lost") == 1

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b'{"type":"ERROR","object":{"kind":"Status","code":410}}', "expired"),
            (b'{"type":"ERROR","object":{"kind":"Status","code":500}}', "error"),
            (b'{"type":"MODIFIED","object":{"metadata":', "malformed"),
            (b"<html>502</html>", "malformed"),
            (b'{"type":"MODIFIED","object":[]}', "malformed"),
        ],
        ids=["410", "500", "half a line", "html", "no object"],
    )
    def test_what_cannot_be_trusted_leads_to_a_new_list(
        self, api: FakeApi, world: RecordingWorld, line: bytes, reason: str
    ) -> None:
        """The pod's deletion is never announced; only the set difference can tell."""
        api.delete(PODS, "t", "g", quietly=True)
        api.put(PODS, pod("h"), quietly=True)
        api.say(PODS, line)
        world.wait(lambda: set(world.pods) == {"uid-h"})
        assert world.restarts("pods", reason) == 1
        api.wait_for_watch(PODS, 2)

    def test_a_version_too_old_leads_to_a_new_list(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        api.delete(PODS, "t", "g", quietly=True)
        api.compact(PODS)
        api.cut(PODS, in_order=True)
        world.wait(lambda: world.pods == {})

    def test_the_same_name_with_a_new_uid_after_a_gap(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        api.put(PODS, pod("g", "uid-new"), quietly=True)
        api.compact(PODS)
        api.cut(PODS)
        world.wait(lambda: set(world.pods) == {"uid-new"})
        at = next(i for i, e in enumerate(world.events) if e == PodGone("uid-g"))
        seen = next(
            i
            for i, e in enumerate(world.events)
            if isinstance(e, PodSeen) and e.pod.uid == "uid-new"
        )
        assert at < seen

    def test_a_vanished_node_is_reported_after_a_gap(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        api.delete(NODES, "", "n1", quietly=True)
        api.say(NODES, b"?")
        world.wait(lambda: world.nodes == {})

    def test_an_api_server_that_is_away_for_a_while(
        self, api: FakeApi, world: RecordingWorld
    ) -> None:
        fault = api.fail("GET", PODS, "reset", times=5)
        api.delete(PODS, "t", "g", quietly=True)
        api.compact(PODS)
        api.cut(PODS)
        world.wait(lambda: world.pods == {})
        assert fault.times == 0
        assert world.synced


class TestSilence:
    def test_a_watch_without_any_word_is_made_anew(
        self, api: FakeApi, transport: Transport, world: RecordingWorld
    ) -> None:
        pace = Pace(first_s=0.01, longest_s=0.05, watch_s=60, idle_s=0.1, discover_s=30)
        view = View(transport, world, pace=pace)
        view.start()
        api.wait_for_watch(PODS, 3)
        view.stop()
        assert world.restarts("pods", "idle") >= 2

    def test_stop_ends_watches_that_wait(
        self, api: FakeApi, transport: Transport, world: RecordingWorld
    ) -> None:
        view = View(transport, world, pace=QUICK)
        view.start()
        api.wait_for_watch(PODS)
        api.wait_for_watch(NODES)
        view.stop()
        assert not [thread.name for thread in threading.enumerate() if "watch" in thread.name]


class TestPodGroups:
    def test_the_preferred_version_that_has_pod_groups_is_read(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        api.serve("scheduling.k8s.io", "v1", "priorityclasses")
        api.serve("scheduling.k8s.io", "v1beta1", "workloads")
        api.serve("scheduling.k8s.io", "v1alpha2", "podgroups", "workloads")
        path = api.serve("scheduling.k8s.io", "v1alpha3", "podgroups", "workloads")
        policy = {"schedulingPolicy": {"gang": {"minCount": 4}}}
        api.put(path, {**pod_group("a", 1), "spec": policy})
        view.start()
        world.wait(lambda: world.synced)
        assert [group.options.min_available for group in world.groups.values()] == [4]

    def test_kinds_that_are_not_there_are_no_error(self, view: View, world: RecordingWorld) -> None:
        view.start()
        world.wait(lambda: world.synced)
        assert world.groups == {}

    def test_a_kind_that_appears_later_is_picked_up(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        view.start()
        world.wait(lambda: world.synced)
        path = api.serve("scheduling.sigs.k8s.io", "v1alpha1", "podgroups")
        api.put(path, pod_group("a", 3))
        world.wait(lambda: len(world.groups) == 1)
        api.put(path, pod_group("a", 5))
        world.wait(lambda: [g.options.min_available for g in world.groups.values()] == [5])

    def test_topology_objects_are_read_and_picked_up_later(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        kueue = api.serve("kueue.x-k8s.io", "v1beta2", "topologies", "workloads")
        api.serve("kueue.x-k8s.io", "v1alpha1", "topologies")
        levels = [{"nodeLabel": "corp/row"}]
        api.put(kueue, {"metadata": {"name": "a"}, "spec": {"levels": levels}})
        view.start()
        world.wait(lambda: world.synced)
        first = world.charts["Topology.kueue.x-k8s.io /a"]
        assert [level.label for level in first.levels] == ["corp/row"]
        volcano = api.serve("topology.volcano.sh", "v1alpha1", "hypernodes")
        api.put(volcano, {"metadata": {"name": "s0"}, "spec": {"tier": 1}})
        world.wait(lambda: len(world.charts) == 2)
        api.delete(kueue, "", "a")
        world.wait(lambda: len(world.charts) == 1)

    def test_what_of_a_topology_object_cannot_be_used_is_said_once(
        self, api: FakeApi, view: View, world: RecordingWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = api.serve("topology.volcano.sh", "v1alpha1", "hypernodes")
        obj = {"metadata": {"name": "s0"}, "spec": {"tier": 1, "members": [{"type": "Rack"}]}}
        api.put(path, obj)
        view.start()
        world.wait(lambda: len(world.charts) == 1)
        api.put(path, {**obj, "spec": {**obj["spec"], "tier": 2}})
        world.wait(lambda: [chart.tier for chart in world.charts.values()] == [2])
        said = [text for text in caplog.messages if "spec.members[0].type" in text]
        assert said == [
            'HyperNode s0: spec.members[0].type: "Rack" is not one of Node, HyperNode;'
            " it is left out"
        ]

    def test_a_kind_that_is_withdrawn_takes_its_groups_along(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        path = api.serve("scheduling.x-k8s.io", "v1alpha1", "podgroups")
        api.put(path, pod_group("a", 3))
        view.start()
        api.wait_for_watch(path)
        key = next(iter(world.groups.values())).key
        api.cut(path)
        api.withdraw("scheduling.x-k8s.io")
        world.wait(lambda: GroupGone(key) in world.events)

    def test_without_permission_they_are_as_good_as_absent(
        self, api: FakeApi, view: View, world: RecordingWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = api.serve("scheduling.x-k8s.io", "v1alpha1", "podgroups")
        api.put(path, pod_group("a", 3))
        api.fail("GET", path, 403, times=3)
        view.start()
        world.wait(lambda: world.synced)
        world.wait(lambda: len(world.groups) == 1)
        said = [record for record in caplog.records if "are not read" in record.message]
        assert len(said) == 1

    def test_a_kind_that_cannot_be_listed_does_not_keep_everything_waiting(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        path = api.serve("scheduling.x-k8s.io", "v1alpha1", "podgroups")
        api.fail("GET", path, 500, times=1000)
        view.start()
        world.wait(lambda: world.synced)

    def test_no_discovery_no_pod_groups(
        self, api: FakeApi, view: View, world: RecordingWorld
    ) -> None:
        api.fail("GET", "/apis", 403, times=1)
        api.put(api.serve("scheduling.x-k8s.io", "v1alpha1", "podgroups"), pod_group("a", 3))
        view.start()
        world.wait(lambda: world.synced)
        world.wait(lambda: len(world.groups) == 1)


class TestCrowd:
    """Many Bindings are under way."""

    def test_pods_wait_nodes_do_not_and_nothing_is_lost(
        self,
        api: FakeApi,
        transport: Transport,
        world: RecordingWorld,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(yielding, "LONGEST_S", 3600.0)
        crowd = threading.Event()
        view = View(transport, world, pace=QUICK, crowded=crowd.is_set)
        view.start()
        world.wait(lambda: world.synced)
        api.wait_for_watch(PODS)
        api.wait_for_watch(NODES)
        crowd.set()
        for at in range(5):
            api.put(PODS, pod(f"p{at}"))
        for at in range(20):
            api.put(NODES, node(f"n{at}"))
            world.wait(lambda at=at: f"n{at}" in world.nodes)  # type: ignore[misc]
        assert not world.pods
        crowd.clear()
        world.wait(lambda: len(world.pods) == 5)
        view.stop()
