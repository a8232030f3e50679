"""Asks the service through the API server that a kubeconfig names, with its user's rights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from scheduler.commands.client import (
    NOBODY,
    POD_LABEL,
    PORT,
    PORT_NAME,
    READ_S,
    SERVICE,
    TOKEN_HEADER,
    Reply,
    ServiceError,
    plain,
    who_are_you,
)
from scheduler.errors import ClusterError

if TYPE_CHECKING:
    from scheduler.cluster.transport import Transport


class ThroughApiServer:
    """Through the API server's proxy, with the rights of the kubeconfig's user."""

    def __init__(self, kubeconfig: Path, context: str | None, home: str, token: str = "") -> None:
        # The Kubernetes client takes long to import; with a URL it is not needed.
        from scheduler.cluster import Transport, load

        try:
            self._transport: Transport = Transport(load(str(kubeconfig), context), read_s=READ_S)
        except ClusterError as error:
            raise ServiceError(f"{error}. Or name Muster's URL with --server") from error
        self._home = home
        self._token = token
        self._known = False
        self._base = _namespaced(home, f"services/{SERVICE}:{PORT_NAME}/proxy")
        self._looked = False
        self.namespace: str | None = context_namespace(kubeconfig, context)
        self.where = f"service {home}/{SERVICE} through {self._transport.host}"

    def get(self, path: str) -> Reply:
        """GET."""
        return self._send("GET", path, None)

    def post(self, path: str, body: Any) -> Reply:
        """POST."""
        return self._send("POST", path, body)

    def _send(self, method: str, path: str, body: Any) -> Reply:
        reply = self._once(method, self._base + path, body)
        if _is_status(reply) and reply.status == 404 and not self._looked:
            self._look_for_pod()
            reply = self._once(method, self._base + path, body)
        if _is_status(reply):
            raise ServiceError(self._advice(reply, method))
        if reply.status == NOBODY and not self._known and self._introduce():
            reply = self._once(method, self._base + path, body)
        if reply.status == NOBODY:
            token = self._token or self._transport.token
            raise ServiceError(
                who_are_you(reply, token, "a kubeconfig with a token, --token or MUSTER_TOKEN")
            )
        return reply

    def _introduce(self) -> bool:
        """Say who asks from now on; False if nobody knows.

        The proxy keeps ``Authorization`` to itself, so the token goes in a header of Muster's own.
        """
        self._known = True
        token = self._token or self._transport.token
        if token:
            self._transport.add_header(TOKEN_HEADER, token)
        return bool(token)

    def _once(self, method: str, path: str, body: Any) -> Reply:
        transport = self._transport
        try:
            found = transport.get(path) if method == "GET" else transport.post(path, body)
        except ClusterError as error:
            raise ServiceError(
                f"the API server {transport.host} does not answer: {plain(error)}. Does kubectl "
                "reach the cluster? Or name Muster's URL with --server or MUSTER_SERVER"
            ) from error
        return Reply(found.status, found.body)

    def _look_for_pod(self) -> None:
        """There is no Service: go to a pod by itself, the first that is ready."""
        self._looked = True
        reply = self._once("GET", _namespaced(self._home, f"pods?labelSelector={POD_LABEL}"), None)
        if reply.status != 200:
            raise ServiceError(self._advice(reply, "GET"))
        ready = sorted(name for pod in reply.value.get("items", ()) if (name := _ready_name(pod)))
        if not ready:
            raise ServiceError(
                f"there is neither a Service {SERVICE} nor a ready pod with {POD_LABEL} in "
                f"namespace {self._home}: see `kubectl -n {self._home} get pods`, or name another "
                "namespace with --muster-namespace, or a URL with --server"
            )
        self._base = _namespaced(self._home, f"pods/{quote(ready[0])}:{PORT}/proxy")
        self.where = f"pod {self._home}/{ready[0]} through {self._transport.host}"

    def _advice(self, reply: Reply, method: str) -> str:
        verb = "get" if method == "GET" else "create"
        said = f"the API server at {self._transport.host} says {reply.status}: {_message(reply)}"
        advice = {
            401: "the kubeconfig's credentials are not valid (any more)",
            403: f"have the Role muster-viewer bound to you in namespace {self._home}, which may "
            f"{verb} services/proxy there",
        }
        otherwise = (
            f"see `kubectl -n {self._home} get pods,endpointslices,networkpolicies`: Muster may "
            f"not run, or not let the API server in; `kubectl -n {self._home} port-forward "
            f"deployment/{SERVICE} {PORT}` and --server http://127.0.0.1:{PORT} go around that"
        )
        return f"{said}; {advice.get(reply.status, otherwise)}"


def context_namespace(kubeconfig: Path, context: str | None) -> str:
    """The namespace that a kubeconfig's context names; ``default`` if it names none."""
    import yaml

    try:
        found = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        wanted = context or found.get("current-context")
        chosen = next(item for item in found["contexts"] if item["name"] == wanted)
        return str(chosen["context"].get("namespace") or "default")
    except (OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return "default"
    except StopIteration:
        return "default"


def _namespaced(namespace: str, rest: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/{rest}"


def _is_status(reply: Reply) -> bool:
    """Whether the API server answered in Muster's place; Muster's own errors are no Status."""
    if reply.status < 400:
        return False
    try:
        found = json.loads(reply.body)
    except ValueError:
        # What comes from a proxy in between, or from the API server as plain text.
        return True
    return isinstance(found, dict) and found.get("kind") == "Status"


def _message(reply: Reply) -> str:
    try:
        found = json.loads(reply.body)
    except ValueError:
        return reply.body[:200].decode("utf-8", "replace").strip()
    return str(found.get("message", ""))[:400] if isinstance(found, dict) else ""


def _ready_name(pod: Mapping[str, Any]) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    return str(pod["metadata"]["name"]) if ready else ""
