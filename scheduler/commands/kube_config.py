"""``muster kube-config``: the configuration of the kube-scheduler that calls Muster."""

from __future__ import annotations

import json
from typing import Annotated
from urllib.parse import urlsplit

import typer

from scheduler.core.quoting import quoted
from scheduler.dialects.fields import is_object_name
from scheduler.errors import SettingsError
from scheduler.settings import ACCELERATORS

OFFERED_PERCENT = 1
"""Share of nodes that the scheduler looks at for a gang's pod; never fewer than 100 nodes."""

TEMPLATE = """\
# A second kube-scheduler beside the stock one, for pods with schedulerName {name} or {plain}.
# Run it with
#   kube-scheduler --config=THIS_FILE --feature-gates=SchedulerPopFromBackoffQ=false
# With that gate on, a waiting pod is looked at again on every event of the cluster whatever its
# back-off is, so pods that are held for their gang make the scheduler spin and plain pods wait
# behind them. Where flags cannot be set, put a scheduling gate on gang pods at admission instead.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:{client}
  # The default of 50 requests a second delays the conditions and Events of pods that wait.
  qps: 500
  burst: 1000
leaderElection:
  leaderElect: {elect}{lease}
# A held pod is looked at again at least this often. Burst starts need no wake-up; a nominated pod
# waits for the rest of its back-off, so this is a compromise between that and idle calls.
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: {backoff}
profiles:
  - schedulerName: {name}
    # This plugin works out, on all nodes and whenever a pod is held, whom it could evict. Muster
    # lets it evict nobody, so all it does is to keep other pods waiting.
    plugins:
      postFilter:
        disabled:
          - name: DefaultPreemption
{percent}
  # For pods without accelerators and without a gang: all the stock scheduler does, with its own
  # choice of how many nodes to look at, so that their preferences are honoured. While Muster is
  # down they wait too; what must never wait belongs to the stock scheduler.
  - schedulerName: {plain}
    # Here too: Muster is asked about the pods of every profile.
    plugins:
      postFilter:
        disabled:
          - name: DefaultPreemption
extenders:
  - urlPrefix: {url}
    filterVerb: filter
    prioritizeVerb: prioritize
    # Muster writes each Binding itself, in one transaction with the pod's hint.
    bindVerb: bind
    # Called where DefaultPreemption runs. It would evict pods for gangs that cannot start, and
    # Muster answers that nobody is to be evicted.
    preemptVerb: preempt
    # About as much as all in-tree scores together; only for pods whose place is not planned.
    weight: 10
    # Only node names travel: 158 KB instead of 50 MB a call at 5,000 nodes.
    nodeCacheCapable: true
    # True would let gangs start in halves whenever Muster does not answer.
    ignorable: false
    # Muster answers within 2 s, and a bind call within 4 s.
    httpTimeout: 5s
    enableHTTPS: {https}{tls}
"""

_FEW = """\
    # The plan does not depend on what is offered, and each node offered costs time for every call.
    percentageOfNodesToScore: {percent}
    # Muster counts these itself. Otherwise the scheduler, for each look at a pod that waits, goes
    # through all nodes to find those few that have some left.
    pluginConfig:
      - name: NodeResourcesFit
        args:
          ignoredResources:
{ignored}"""

_ALL = """\
    # The plan is handed out through filter answers alone, so the planned node must be offered.
    percentageOfNodesToScore: 100"""

_TLS = """
    # Muster asks for a certificate before it takes a call.
    tlsConfig:
      caFile: {authority}
      certFile: {certificate}
      keyFile: {key}"""

_LEASE = """
  # A lease of its own: with the default name it would stand by for the stock scheduler.
  resourceName: {resource}
  resourceNamespace: kube-system"""


def kube_config(
    extender_url: Annotated[
        str, typer.Option(help="Where kube-scheduler reaches Muster.")
    ] = "http://127.0.0.1:8085",
    scheduler_name: Annotated[
        str, typer.Option(help="schedulerName of gang and accelerator pods.")
    ] = "muster",
    plain_scheduler_name: Annotated[
        str, typer.Option(help="schedulerName of other pods.")
    ] = "muster-plain",
    kubeconfig: Annotated[
        str, typer.Option(help="Kubeconfig for kube-scheduler; empty inside a cluster.")
    ] = "",
    leader_elect: Annotated[
        bool, typer.Option(help="Whether several copies elect a leader.")
    ] = True,
    max_backoff: Annotated[
        int,
        typer.Option(
            min=1, max=3600, help="Longest pause in seconds between two looks at a held pod."
        ),
    ] = 60,
    tls_ca: Annotated[
        str,
        typer.Option(help="With https: who signs Muster's certificate, as kube-scheduler sees it."),
    ] = "",
    tls_cert: Annotated[str, typer.Option(help="The certificate that kube-scheduler shows.")] = "",
    tls_key: Annotated[str, typer.Option(help="Its key.")] = "",
    follow: Annotated[
        bool, typer.Option("--follow", help="For gangs that start with follow: offer all nodes.")
    ] = False,
) -> None:
    """Print a KubeSchedulerConfiguration for the kube-scheduler that calls Muster."""
    text = render(
        url=extender_url,
        names=(scheduler_name, plain_scheduler_name),
        kubeconfig=kubeconfig,
        leader_elect=leader_elect,
        max_backoff_s=max_backoff,
        follow=follow,
        tls=(tls_ca, tls_cert, tls_key),
    )
    typer.echo(text, nl=False)


def render(
    *,
    url: str,
    names: tuple[str, str] = ("muster", "muster-plain"),
    kubeconfig: str = "",
    leader_elect: bool = True,
    max_backoff_s: int = 60,
    follow: bool = False,
    tls: tuple[str, str, str] = ("", "", ""),
) -> str:
    """The configuration as YAML with its reasons. Raises SettingsError."""
    name, plain = names
    if name == plain:
        raise SettingsError(f"both profiles have the schedulerName {name!r}; give one another name")
    for given in names:
        if not is_object_name(given):
            raise SettingsError(
                f"schedulerName {given!r}: small letters, digits, - and . are expected, such as "
                "muster; it names a Lease, too"
            )
    address = _checked(url)
    client = f"\n  kubeconfig: {_quoted(kubeconfig)}" if kubeconfig else ""
    resource = _quoted(f"{name}-kube-scheduler")
    return TEMPLATE.format(
        name=_quoted(name),
        plain=_quoted(plain),
        client=client,
        elect=_boolean(leader_elect),
        lease=_LEASE.format(resource=resource) if leader_elect else "",
        backoff=max_backoff_s,
        percent=_ALL if follow else _FEW.format(percent=OFFERED_PERCENT, ignored=_ignored()),
        url=_quoted(address),
        https=_boolean(urlsplit(url).scheme == "https"),
        tls=_tls(url, *tls),
    )


def _ignored() -> str:
    """A line for each accelerator; those that stand for many names are left to the scheduler."""
    names = [name for name in ACCELERATORS if not name.endswith("*")]
    return "\n".join(f"            - {name}" for name in names)


def _tls(url: str, authority: str, certificate: str, key: str) -> str:
    """Raises SettingsError for files without a use, or of which some are missing."""
    stated = {"--tls-ca": authority, "--tls-cert": certificate, "--tls-key": key}
    missing = [name for name, file in stated.items() if not file]
    if len(missing) == len(stated):
        return ""
    if missing or urlsplit(url).scheme != "https":
        needed = " and ".join(missing) or "an --extender-url that begins with https://"
        raise SettingsError(f"for calls over TLS there has to be {needed}, too")
    files = {"authority": authority, "certificate": certificate, "key": key}
    return _TLS.format(**{name: _quoted(file) for name, file in files.items()})


def _checked(url: str) -> str:
    """The URL as verbs are appended to it. Raises SettingsError for what is no such URL."""
    expected = "must look like http://127.0.0.1:8085"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise SettingsError(f"--extender-url {quoted(url)} {expected}: {error}") from error
    if not usable or parts.query or parts.fragment or len(url.split()) != 1:
        raise SettingsError(f"--extender-url {quoted(url)} {expected}")
    return url.rstrip("/")


def _quoted(text: str) -> str:
    """A YAML scalar; every JSON string is one."""
    return json.dumps(text)


def _boolean(value: bool) -> str:
    return "true" if value else "false"
