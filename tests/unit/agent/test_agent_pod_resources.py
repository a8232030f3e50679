"""Who has which GPUs, from the kubelet's pod-resources socket."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from agent_kubelet import Kubelet, devices, field, listed, listening, pod
from agent_nodes import CHECKPOINT, Root, held

from scheduler.agent import Agent, Failed, Publisher, Reading, Source, Watcher, read_holders
from scheduler.agent.kubelet import Holders
from scheduler.agent.pod_resources import LONGEST, MOST, read_pod_resources
from scheduler.agent.reading import Held, NotThere
from scheduler.agent.watching import NAMES_S
from scheduler.commands.agent import InUseFrom
from scheduler.core.devices import IN_USE_KEY, InUse, Matrix, NodeDevices, parse_in_use
from scheduler.core.messages import PodGone
from tests.builders import pod as pod_object
from tests.engine.gpu_worlds import UUIDS, World, asking

GPU = "nvidia.com/gpu"
READING = Reading(
    NodeDevices(Matrix(4), tuple(UUIDS)), {uuid: at for at, uuid in enumerate(UUIDS)}, "a test"
)


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path: those of sockets have 107 characters at most."""
    with TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def kubelet(root: Path) -> Iterator[Kubelet]:
    found = Kubelet(root)
    yield found
    found.close()


def says(kubelet: Kubelet, *pods: bytes) -> None:
    kubelet.answer = lambda: listed(*pods)


# ── what it answers ──


def test_a_pod_is_known_by_its_name_with_all_that_its_containers_have(
    kubelet: Kubelet, root: Path
) -> None:
    says(
        kubelet,
        pod("a-0", devices(GPU, "GPU-a", "GPU-b"), devices("rdma/hca", "7")),
        pod("web"),
        pod("a-1", devices(GPU, "GPU-c"), namespace="other"),
    )

    assert read_pod_resources(root) == [
        Held("t/a-0", GPU, ("GPU-a", "GPU-b")),
        Held("t/a-0", "rdma/hca", ("7",)),
        Held("other/a-1", GPU, ("GPU-c",)),
    ]
    assert kubelet.asked == [b""], "once, with a request that has no field"


def test_of_two_pods_of_one_name_nothing_is_told(kubelet: Kubelet, root: Path) -> None:
    """One was deleted by force and still runs, while the next of its StatefulSet starts."""
    says(
        kubelet,
        pod("a-0", devices(GPU, "GPU-a")),
        pod("a-1", devices(GPU, "GPU-c")),
        pod("a-0", devices(GPU, "GPU-b")),
    )

    assert read_pod_resources(root) == [Held("t/a-1", GPU, ("GPU-c",))]


@pytest.mark.parametrize("name", ["", "A", "a/b", "a b", "a\n", "-a", "a" * 254])
def test_what_is_no_name_of_a_pod_is_passed_over(kubelet: Kubelet, root: Path, name: str) -> None:
    given = devices(GPU, "GPU-a")
    says(kubelet, pod(name, given), pod("a", given, namespace=name), pod("b", given))

    assert read_pod_resources(root) == [Held("t/b", GPU, ("GPU-a",))]


ANSWERS = {
    "no protobuf": (b"\xff" * 40, "answers what is no list of pods"),
    "cut off": (listed(pod("a", devices(GPU, "GPU-a")))[:-3], "answers what is no list of pods"),
    "no UTF-8": (listed(field(1, b"\xff\xfe")), "answers what is no list of pods"),
    "too much": (b"\x00" * (LONGEST + 1), "gives no list of pods: "),
}


@pytest.mark.parametrize(("answer", "reason"), ANSWERS.values(), ids=list(ANSWERS))
def test_an_answer_that_cannot_be_used_is_told(
    kubelet: Kubelet, root: Path, answer: bytes, reason: str
) -> None:
    kubelet.answer = lambda: answer

    found = read_pod_resources(root)

    assert isinstance(found, Failed)
    assert reason in found.reason
    assert len(found.reason) < 1000


def test_of_many_pods_all_are_read(kubelet: Kubelet, root: Path) -> None:
    says(kubelet, *[pod(f"a-{at}", devices(GPU, "GPU-a")) for at in range(1000)])

    found = read_pod_resources(root)

    assert isinstance(found, list)
    assert len(found) == 1000


CROWDS = {
    "pods": b"".join([field(1, b"")] * (MOST + 1)),
    "containers": listed(field(3, b"") * (MOST + 1)),
    "resources": listed(field(3, field(2, b"") * (MOST + 1))),
    "devices": listed(field(3, field(2, field(2, b"") * (MOST + 1)))),
}


@pytest.mark.parametrize("answer", CROWDS.values(), ids=list(CROWDS))
def test_an_answer_of_more_than_any_node_has_is_refused(
    kubelet: Kubelet, root: Path, answer: bytes
) -> None:
    kubelet.answer = lambda: answer

    found = read_pod_resources(root)

    assert isinstance(found, Failed)
    assert f"lists more than {MOST} pods or devices" in found.reason


def test_an_answer_that_is_packed_is_not_unpacked(root: Path) -> None:
    """16 MiB fit into 16 KiB."""
    kubelet = Kubelet(root, lambda: b"\x00" * 4 * LONGEST, packed=True)
    found = read_pod_resources(root)
    kubelet.close()

    assert isinstance(found, Failed)
    assert "gives no list of pods: INTERNAL" in found.reason
    assert "gzip" in found.reason


def test_a_kubelet_that_does_not_answer_is_not_waited_for(kubelet: Kubelet, root: Path) -> None:
    over = threading.Event()

    def late() -> bytes:
        over.wait()
        return b""

    kubelet.answer = late
    found = read_pod_resources(root, limit_s=0.2)
    over.set()

    assert isinstance(found, Failed)
    assert "gives no list of pods: DEADLINE_EXCEEDED" in found.reason


def test_a_kubelet_of_another_version_of_the_api_is_told(root: Path) -> None:
    kubelet = Kubelet(root, method="/v1alpha1.PodResourcesLister/List")
    found = read_pod_resources(root)
    kubelet.close()

    assert isinstance(found, Failed)
    assert "UNIMPLEMENTED" in found.reason


@pytest.mark.parametrize("words", [[], [b"HTTP/1.1 400 Bad Request\r\n\r\n"]], ids=["mute", "http"])
def test_somebody_else_at_the_socket_is_told(root: Path, words: list[bytes]) -> None:
    with listening(root, words):
        found = read_pod_resources(root, limit_s=1.0)

    assert isinstance(found, Failed)
    assert "gives no list of pods" in found.reason


def test_a_socket_that_nobody_listens_at_is_told(root: Path) -> None:
    """The kubelet has ended, and left it behind."""
    Root(root).write("var/lib/kubelet/pod-resources/kubelet.sock", "")
    found = read_pod_resources(root)

    assert isinstance(found, Failed)
    assert "UNAVAILABLE" in found.reason


# ── which of the two is asked ──


def test_by_itself_the_agent_asks_the_socket_only_where_there_is_no_file(
    kubelet: Kubelet, root: Path
) -> None:
    says(kubelet, pod("a-0", devices(GPU, "GPU-a")))
    by_name = Holders([Held("t/a-0", GPU, ("GPU-a",))], named=True)

    assert read_holders(root, Source.AUTO) == by_name

    Root(root).write(CHECKPOINT, "{")
    assert read_holders(root, Source.AUTO) == by_name, "a file of a shape that nobody knows"

    Root(root).checkpoint([held("uid-a", GPU, ["GPU-a"])])
    by_uid = Holders([Held("uid-a", GPU, ("GPU-a",))], named=False)
    assert read_holders(root, Source.AUTO) == by_uid
    assert read_holders(root, Source.POD_RESOURCES) == by_name


@pytest.mark.parametrize(
    ("source", "names", "wanted"),
    [
        (Source.CHECKPOINT, ["device-plugins"], True),
        (Source.POD_RESOURCES, ["pod-resources"], True),
        (Source.AUTO, ["device-plugins", "pod-resources"], False),
    ],
)
def test_where_neither_is_mounted_it_says_what_to_mount(
    root: Path, source: Source, names: list[str], wanted: bool
) -> None:
    found = read_holders(root, source)

    assert isinstance(found, NotThere)
    assert found.wanted is wanted
    assert all(f"mount the node's /var/lib/kubelet/{name} below" in found.reason for name in names)


def test_without_its_packages_it_says_how_to_get_them(kubelet: Kubelet, root: Path) -> None:
    found = read_holders(root, Source.POD_RESOURCES, lambda: None)

    assert isinstance(found, NotThere)
    assert "install muster-scheduler[agent], or take the agent's own image" in found.reason


def test_of_a_file_that_is_there_it_is_told_why_it_cannot_be_read(root: Path) -> None:
    Root(root).write(CHECKPOINT, "{")

    found = read_holders(root, Source.AUTO)

    assert isinstance(found, Failed)
    assert "is no JSON" in found.reason


def test_the_command_knows_the_same_sources() -> None:
    assert [one.value for one in InUseFrom] == [one.value for one in Source]


# ── what is published of it ──


class Watch:
    """An agent's look at a socket, with both clocks set by hand."""

    def __init__(self, root: Path) -> None:
        self.now, self.wall = 1000.0, 1_700_000_000.9
        self.watcher = Watcher(
            lambda: READING,
            lambda: read_holders(root, Source.POD_RESOURCES),
            30.0,
            wall=lambda: self.wall,
        )

    def after(self, seconds: float) -> InUse | None:
        self.now += seconds
        self.wall += seconds
        return parse_in_use(self.watcher.look(self.now).wanted[IN_USE_KEY] or "")


def test_names_are_published_with_the_time_at_which_they_were_read(
    kubelet: Kubelet, root: Path
) -> None:
    watch = Watch(root)
    says(kubelet, pod("a-0", devices(GPU, "GPU-a")))

    assert watch.after(0) == InUse({}, {"t/a-0": (0,)}, 1_700_000_000)

    says(kubelet, pod("a-0", devices(GPU, "GPU-b")))
    assert watch.after(30) == InUse({}, {"t/a-0": (1,)}, 1_700_000_030)


def test_names_that_stay_are_dated_anew_now_and_then(kubelet: Kubelet, root: Path) -> None:
    watch = Watch(root)
    says(kubelet, pod("a-0", devices(GPU, "GPU-a")))
    first = watch.after(0)

    assert [watch.after(NAMES_S / 10) for _ in range(9)] == [first] * 9
    assert watch.after(NAMES_S / 10) == InUse({}, {"t/a-0": (0,)}, 1_700_000_000 + int(NAMES_S))


def test_where_nobody_has_any_nothing_is_ever_written_again(kubelet: Kubelet, root: Path) -> None:
    watch = Watch(root)

    assert {watch.after(at * NAMES_S).at for at in range(3)} == {1_700_000_000}  # type: ignore[union-attr]


def test_more_pods_than_an_annotation_has_room_for_are_not_published(
    kubelet: Kubelet, root: Path
) -> None:
    says(kubelet, *[pod(f"a-{at:0200}", devices(GPU, "GPU-a::1")) for at in range(400)])

    look = Watch(root).watcher.look(0.0)

    assert IN_USE_KEY not in look.wanted
    assert look.failed
    assert "400 pods with GPUs are more than an annotation has room for" in look.remarks[-1].text


# ── up to the engine ──


def running(name: str, uid: str, since: float) -> dict[str, object]:
    start = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"phase": "Running", "startTime": start}
    return pod_object(name, gpu=2, node="n1", uid=uid, status=status)


class Node:
    """This node in the API, seen by an engine."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._there: dict[str, str] = {}

    def annotations(self) -> Mapping[str, str]:
        return self._there

    def annotate(self, changes: Mapping[str, str | None]) -> None:
        merged = {**self._there, **changes}
        self._there = {key: text for key, text in merged.items() if text is not None}
        self._world.node(self._there)


def test_what_the_kubelet_says_decides_who_is_given_which(kubelet: Kubelet, root: Path) -> None:
    """A pod of a StatefulSet is made anew, and its kubelet gives it other GPUs."""
    world, watch = World(), Watch(root)
    agent = Agent(watch.watcher, Publisher(Node(world)), 30.0, clock=lambda: watch.now)

    def later(seconds: float) -> None:
        watch.after(seconds)
        agent.once()

    says(kubelet, pod("set-0", devices(GPU, "GPU-a", "GPU-b")))
    later(0)
    world.pods(running("t/set-0", "u-1", watch.wall - 100), asking("t/b", gpu=1))
    assert world.given == {"b": "GPU-c"}

    says(kubelet, pod("set-0", devices(GPU, "GPU-a", "GPU-d")))
    world.step(PodGone("u-1"))
    world.pods(running("t/set-0", "u-2", watch.wall + 10), asking("t/c", gpu=1))
    assert world.given == {"b": "GPU-c"}, "which two it has this time is not known yet"

    later(30)
    assert world.given == {"b": "GPU-c", "c": "GPU-b"}
