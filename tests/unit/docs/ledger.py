"""How a test knows that a command which the docs show works.

Most are typed for real: those of the tutorial and their kin beside a running demo
(``test_commands_typed.py``), those about a gang for a cluster that has it
(``test_commands_about_gangs.py``), those of kubectl and Helm for a real API server
(``tests/e2e/test_commands_on_a_cluster.py``). For the rest it is said why not, and what is checked
instead. A command that is in no list here fails ``test_commands.py``.
"""

from __future__ import annotations

import re
from enum import Enum, auto


class Way(Enum):
    """What is done with a command."""

    DEMO = auto()
    """Typed in a terminal beside ``muster demo --hold``."""
    GANG = auto()
    """Asked of a small cluster with the gang that it names."""
    CLUSTER = auto()
    """Typed for a real API server, in the order of the pages."""
    PARSED = auto()
    """Read by the program's own parser: every option is there, and every value fits."""
    BUILT = auto()
    """A build of an image: its Dockerfile and its arguments are there."""
    TARGET = auto()
    """A target of the Makefile, and what it runs is there."""
    MODULE = auto()
    """A module of the repository with a main program."""
    LEFT = auto()
    """Not looked at, for the reason that is stated."""


FULL_HOURS = "takes minutes to hours; smaller runs of it are in tests/unit/simulation"
NO_FILE = "wants a trace that has to be fetched first; tests/unit/simulation reads extracts of it"
CERTIFICATES = "wants certificates in /tls; tests/e2e/test_tls.py does the same with its own"

DEMO = (
    ". .venv/bin/activate",
    "muster demo --gangs 60 --hold --port 8099",
    "export MUSTER_SERVER=http://127.0.0.1:8099",
    "muster status",
    "muster top",
    "muster gangs -A",
    "muster gangs -o wide",
    "muster fit -f deploy/examples/indexed-job.yaml",
    "muster fit -f job.yaml",
    "muster replay gang.jsonl",
    "muster --install-completion",
    "muster --show-completion",
    "muster agent --once --print",
    "muster simulate --jobs 1000",
    "muster-train env",
    "muster-train env --json",
    "muster-train rehearse hints.json -- -m trainer train --steps 20",
    "muster kube-config --extender-url https://muster-verbs.muster-system.svc:8443 "
    "--tls-ca /tls/ca.crt --tls-cert /tls/tls.crt --tls-key /tls/tls.key",
    "curl -s http://127.0.0.1:8086/v1/snapshot",
)

GANG = ("muster why t/train", "muster why team/digits", "muster why team/train")

CLUSTER = (
    "helm install muster deploy/chart --namespace muster-system --create-namespace",
    "kubectl apply -f deploy/muster.yaml",
    "kubectl apply -f deploy/examples/plain-pods.yaml",
    "kubectl -n muster-system rollout status deployment/muster",
    "kubectl -n muster-system rollout restart deployment/muster",
    "kubectl -n muster-system rollout restart deployment/muster deployment/muster-kube-scheduler",
    "kubectl -n muster-system get pods",
    "kubectl apply -k deploy/overlays/separate",
    "deploy/certificates.sh",
    "kubectl -n muster-system set env deployment/muster --containers muster "
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://COLLECTOR:4318",
    "kubectl taint nodes --selector nvidia.com/gpu.present=true nvidia.com/gpu=present:NoSchedule",
    "kubectl label namespace team muster.scheduler/gated=true",
    "kubectl -n muster-system create serviceaccount viewer",
    "kubectl create clusterrolebinding muster-page --clusterrole=view "
    "--serviceaccount=muster-system:viewer",
    "kubectl -n muster-system create token viewer",
    "kubectl describe pod",
    "kubectl get pod -o jsonpath={.spec.schedulerName}",
    "kubectl get pods -l batch.kubernetes.io/job-name=digits -o json | "
    """jq '[.items[].metadata.annotations["muster.scheduler/hint"] | fromjson]'""",
    "kubectl muster why team/train",
    "muster serve --kubeconfig ~/.kube/config --port 8085",
    "muster kube-config --extender-url http://127.0.0.1:8085 --kubeconfig ~/.kube/config "
    "--no-leader-elect > scheduler.yaml",
    "kube-scheduler --config=scheduler.yaml --feature-gates=SchedulerPopFromBackoffQ=false",
)

PARSED = {
    "muster simulate": FULL_HOURS,
    "muster simulate 2869ce.trace --gpus-per-pod 1": NO_FILE,
    "muster simulate --cluster Philly --shape 4x8x16x8 --load 1.2 --policy muster "
    "--policy spread": FULL_HOURS,
    "muster simulate openb_pod_list_default.csv --nodes openb_node_list_all_node.csv": NO_FILE,
    "muster serve --tls-cert /tls/tls.crt --tls-key /tls/tls.key --tls-client-ca /tls/ca.crt": (
        CERTIFICATES
    ),
    "kubectl -n muster-system port-forward service/muster 8086": (
        "wants a kubelet; the port is one of the Service, which the same test says"
    ),
}

LEFT = {
    "pre-commit install": "writes into the checkout; the hooks are those of make check, which "
    "test_project.py says",
    "apt-get install --no-install-recommends chromium": "wants root, and Debian's archive",
}

_STATED = (
    (Way.DEMO, DEMO),
    (Way.GANG, GANG),
    (Way.CLUSTER, CLUSTER),
    (Way.PARSED, PARSED),
    (Way.LEFT, LEFT),
)
_RULES = (
    (Way.TARGET, re.compile(r"make [a-z0-9-]+")),
    (Way.MODULE, re.compile(r"python3? -m (deploy|docs|benchmarks|scheduler|trainer|tests)\b.*")),
    (Way.BUILT, re.compile(r"docker build .*")),
)


def ways(line: str) -> list[Way]:
    """What is done with a command; exactly one thing, if all is well."""
    stated = [way for way, lines in _STATED if line in lines]
    return stated + [way for way, rule in _RULES if rule.fullmatch(line)]


def stated() -> list[str]:
    """Every command that is in a list."""
    return [line for _, lines in _STATED for line in lines]
