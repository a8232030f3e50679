"""The commands for kubectl and Helm that README and docs show, typed for a real API server.

Around it are the controllers that make pods of a Deployment and of a Job, the stock scheduler, and
kwok in the kubelets' place: what is installed here starts, but has nothing in it. So Muster and its
scheduler also run beside it, by the commands that say how.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.controlplane import build, kwok
from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.e2e.controlplane.objects import create_namespace, create_nodes, fleet
from tests.e2e.controlplane.process import free_port
from tests.e2e.deployed import DEPLOY, apply, moved, objects
from tests.e2e.own_plane import own_plane
from tests.e2e.packagers import HELM, KUBECTL, output, program
from tests.unit.docs.ledger import CLUSTER, PARSED
from tests.unit.docs.shown import block
from tests.unit.docs.terminal import Terminal, Typed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

ROLLING_OUT = ("deployment-controller", "replicaset-controller")
GPU_NODE = {"nvidia.com/gpu.present": "true"}
SERVE = "muster serve --kubeconfig ~/.kube/config --port 8085"
CONFIGURE = "muster kube-config --extender-url http://127.0.0.1:8085"
SCHEDULE = "kube-scheduler --config=scheduler.yaml"


class Reader:
    """Somebody at a terminal, with a cluster that their kubeconfig names."""

    def __init__(self, terminal: Terminal, client: Client) -> None:
        self.terminal = terminal
        self.client = client
        self.typed: set[str] = set()

    def types(self, beginning: str, *, exactly: bool = False, of: str = "") -> Typed:
        """The one command of the docs that begins so, or is that; it must succeed.

        ``of`` names the object where the page leaves it to the reader.
        """
        line = f"{self.line(beginning, exactly=exactly)} {of}".rstrip()
        done = self.terminal.type(line)
        assert done.status == 0, f"{line}\n{done.out}{done.err}"
        return done

    @contextmanager
    def leaves_running(self, beginning: str, until: str) -> Iterator[Path]:
        with self.terminal.left_running(self.line(beginning), until) as log:
            yield log

    def needs(self, program: str, *beginnings: str) -> None:
        """Skip, and count these commands as known, where there is no such program."""
        if shutil.which(program) is None:
            self.typed |= {self.line(beginning) for beginning in beginnings}
            pytest.skip(f"no {program} on this machine")

    def line(self, beginning: str, *, exactly: bool = False) -> str:
        begun = [line for line in CLUSTER if line.startswith(beginning)]
        (found,) = [line for line in begun if line == beginning or not exactly]
        self.typed.add(found)
        return found


@pytest.fixture(scope="module")
def reader(
    request: pytest.FixtureRequest,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Reader]:
    """The cluster, and the programs on the path."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        programs = [program(KUBECTL), program(HELM)]
        build.ensure(["kwok"])
    folder = tmp_path_factory.mktemp("reader")
    with own_plane(request, controllers=(*CONTROLLERS, *ROLLING_OUT)) as plane, ExitStack() as end:
        kwok.start_kwok(plane)
        plane.start_scheduler()
        client = plane.client()
        end.callback(client.close)
        create_namespace(client, "team")
        # Their taint is for what the docs say of a pool of them; the jobs are for the others.
        create_nodes(client, _nodes(6))
        create_nodes(client, _pool())
        yield Reader(_terminal(folder, plane, programs), client)


def _nodes(count: int, prefix: str = "") -> list[Object]:
    found = fleet(1, 1, count)
    for item in found:
        item["metadata"]["name"] = prefix + item["metadata"]["name"]
        item["metadata"]["labels"] |= {"kubernetes.io/os": "linux"}
    return found


def _pool() -> list[Object]:
    found = _nodes(2, "pool-")
    for item in found:
        item["metadata"]["labels"] |= GPU_NODE
        item["spec"]["unschedulable"] = True
    return found


def _terminal(folder: Path, plane: ControlPlane, programs: list[Path]) -> Terminal:
    tools = folder / "tools"
    tools.mkdir()
    for path in (*programs, build.ensure(["kube-scheduler"])["kube-scheduler"]):
        (tools / path.name).symlink_to(path)
    home = folder / "home" / ".kube"
    home.mkdir(parents=True)
    shutil.copy(plane.kubeconfig, home / "config")
    terminal = Terminal(
        folder,
        # Other tests may use the ports that these programs take by themselves.
        elsewhere={
            "8085": str(free_port()),
            SCHEDULE: SCHEDULE.replace(" ", f" --secure-port={free_port()} "),
        },
    )
    terminal.environment["PATH"] = f"{tools}:{terminal.environment['PATH']}"
    return terminal


# ── installing ──


def test_helm_installs_the_chart(reader: Reader) -> None:
    assert "STATUS: deployed" in reader.types("helm install muster").out

    # The same comes by kubectl next, and an object belongs to one of the two.
    assert reader.terminal.type("helm -n muster-system uninstall muster").status == 0


def test_the_manifest_is_applied_and_rolled_out(reader: Reader) -> None:
    applied = reader.types("kubectl apply -f deploy/muster.yaml")
    assert len(applied.out.splitlines()) == len(objects(DEPLOY / "muster.yaml"))

    rolled = reader.types("kubectl -n muster-system rollout status")
    assert "successfully rolled out" in rolled.out
    assert "Running" in reader.types("kubectl -n muster-system get pods").out


def test_it_is_restarted_and_told_where_its_traces_go(reader: Reader) -> None:
    before = _pods_of_muster(reader)
    restart = "kubectl -n muster-system rollout restart deployment/muster"
    assert "restarted" in reader.types(restart, exactly=True).out
    wait_until(lambda: not before & _pods_of_muster(reader), what="the pods are new ones")

    assert "env updated" in reader.types("kubectl -n muster-system set env").out
    (muster, scheduler) = reader.client.get("apps/v1/Deployment", "muster", "muster-system")[
        "spec"
    ]["template"]["spec"]["containers"]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in {item["name"] for item in muster.get("env", ())}
    assert not scheduler.get("env")


def _pods_of_muster(reader: Reader) -> set[str]:
    return {pod["metadata"]["uid"] for pod in reader.client.list("Pod", "muster-system")}


def test_somebody_is_let_see_the_page(reader: Reader) -> None:
    assert "created" in reader.types("kubectl -n muster-system create serviceaccount").out
    assert "created" in reader.types("kubectl create clusterrolebinding muster-page").out

    token = reader.types("kubectl -n muster-system create token").out.strip()
    assert token.count(".") == 2


def test_nodes_are_kept_for_gangs_and_a_namespace_is_gated(reader: Reader) -> None:
    tainted = reader.types("kubectl taint nodes").out.splitlines()
    assert len(tainted) == len(_pool())

    assert "labeled" in reader.types("kubectl label namespace team").out
    labels = reader.client.get("Namespace", "team")["metadata"]["labels"]
    assert labels["muster.scheduler/gated"] == "true"


def test_the_two_are_set_apart_with_certificates(reader: Reader) -> None:
    both = "kubectl -n muster-system rollout restart deployment/muster deployment/"
    reader.needs("openssl", "kubectl apply -k", "deploy/certificates.sh", both)
    assert "deployment.apps/muster-kube-scheduler" in reader.types("kubectl apply -k").out

    reader.types("deploy/certificates.sh")
    for name in ("muster-verbs", "muster-kube-scheduler"):
        secret = reader.client.get("Secret", name, "muster-system")
        assert set(secret["data"]) == {"tls.crt", "tls.key", "ca.crt"}
    assert len(reader.types(both).out.splitlines()) == 2


# ── Muster on another address ──


@pytest.fixture(scope="module")
def running(reader: Reader) -> Iterator[Reader]:
    """Muster and the kube-scheduler beside it, started as the page says."""
    with reader.leaves_running(SERVE, until="levels of the network"):
        reader.types(CONFIGURE)
        with reader.leaves_running(SCHEDULE, until="Serving securely"):
            yield reader


def test_the_first_example_starts(running: Reader) -> None:
    applied = running.types("kubectl apply -f deploy/examples/plain-pods.yaml")
    assert len(applied.out.splitlines()) == 4

    wait_until(lambda: _bound(running, "default") >= 4, what="all of its pods have a node")
    pair = [running.client.get("Pod", f"pair-{at}", "default") for at in range(2)]
    assert all("muster.scheduler/hint" in pod["metadata"]["annotations"] for pod in pair)
    wait_until(lambda: _told(running, "pair-0"), what="its Event is there")
    described = running.types("kubectl describe pod", of="pair-0").out
    assert "Successfully assigned default/pair-0" in described
    assert "gang default/pair, rank 0 of 2" in described
    assert running.types("kubectl get pod -o jsonpath", of="pair-0").out == "muster"


def _told(reader: Reader, pod: str) -> bool:
    events = reader.client.events("default", pod)
    return any("Successfully assigned" in event["message"] for event in events)


def _bound(reader: Reader, namespace: str) -> int:
    return sum("nodeName" in pod["spec"] for pod in reader.client.list("Pod", namespace))


def test_the_hints_of_a_gang_are_read_off_its_pods(running: Reader) -> None:
    running.needs("jq", "kubectl get pods -l")
    for item in objects(DEPLOY / "examples" / "indexed-job.yaml"):
        apply(running.client, moved(item, "default"))
    wait_until(lambda: _bound(running, "default") >= 8, what="the job has its nodes")

    hints = json.loads(running.types("kubectl get pods -l").out)

    assert sorted(hint["rank"] for hint in hints) == [0, 1, 2, 3]


def test_the_plugin_says_why_a_gang_waits(running: Reader) -> None:
    first = next(objects_of_pair())
    first["metadata"] |= {"name": "train-0", "namespace": "team"}
    first["metadata"]["annotations"]["muster.scheduler/gang"] = "train"
    apply(running.client, first)
    url = f"http://127.0.0.1:{running.terminal.elsewhere['8085']}"
    running.terminal.environment["MUSTER_SERVER"] = url

    wait_until(lambda: _knows(running), what="Muster knows the gang")

    assert "1 of 2 pods exist" in running.types("kubectl muster why").out


def _knows(reader: Reader) -> bool:
    return reader.terminal.type("muster why team/train").status == 0


def objects_of_pair() -> Iterator[Object]:
    yield from (
        item
        for item in objects(DEPLOY / "examples" / "plain-pods.yaml")
        if item["metadata"]["name"].startswith("pair")
    )


# ── the rest ──


def test_an_overlay_of_ones_own_changes_what_it_says(tmp_path: Path) -> None:
    folder = tmp_path / "deploy" / "overlays" / "own"
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(block("docs/install.md", "yaml"))

    made = output(KUBECTL, "kustomize", folder)

    assert "image: YOUR-REGISTRY/muster-scheduler:" in made
    assert "image: registry.k8s.io/kube-scheduler:v1.36.0" in made
    assert "kind: PodMonitor" in made


def test_what_cannot_be_typed_here_is_understood_by_its_program(reader: Reader) -> None:
    for line in (line for line in PARSED if line.startswith("kubectl ")):
        # The parser comes first, so that an option that is none is told in spite of --help.
        assert output(KUBECTL, *shlex.split(line)[1:], "--help")
        with pytest.raises(RuntimeError, match="unknown flag"):
            output(KUBECTL, *shlex.split(line)[1:], "--nothing", "--help")
    service = reader.client.get("Service", "muster", "muster-system")
    assert [item["port"] for item in service["spec"]["ports"]] == [8086]


def test_nothing_was_left_out(running: Reader) -> None:
    """Last: all that the ledger says is typed here was."""
    assert running.typed == set(CLUSTER)
