"""A small API client for tests: JSON objects in, JSON objects out.

Configuration, credentials and connections are the `kubernetes` package's; its models are not
used, so that tests see what the API server says and nothing else.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import urllib3
from kubernetes import config

Object = dict[str, Any]
Objects = list[Object]
T = TypeVar("T")

CONNECTIONS = 16
"""How many requests one client sends at once."""

_PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}

_API_VERSIONS = {
    "ClusterRole": "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "Lease": "coordination.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "StorageClass": "storage.k8s.io/v1",
}
"""Where a kind lives when only its name is given; all others in v1."""


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Client:
    """Speaks to one API server with one identity.

    A `kind` is `Pod`, or `GROUP/VERSION/Kind` where that is not enough. Without a namespace a
    namespaced kind is listed in all of them.
    """

    def __init__(self, kubeconfig: Path) -> None:
        api = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._host = api.configuration.host.rstrip("/")
        self._pool: urllib3.PoolManager = api.rest_client.pool_manager
        self._pool.connection_pool_kw.update(maxsize=CONNECTIONS, retries=False)
        settings = api.configuration.auth_settings().values()
        self._headers = {entry["key"]: entry["value"] for entry in settings}
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> Object:
        """One request, answered by the parsed JSON.

        Raises
        ------
        ApiError
            If the status is 400 or more.
        """
        with self._open(method, path, query, body, content_type) as answer:
            text: Object = json.loads(answer.data)
        return text

    def stream(self, path: str, query: Mapping[str, Any]) -> urllib3.BaseHTTPResponse:
        """An open answer to read from, for watches; the caller closes it.

        Reading fails after a minute of silence, so that a lost API server is noticed.
        """
        return self._open("GET", path, query, None, "application/json", wait=60.0)

    def path(
        self, kind: str, name: str = "", namespace: str | None = None, subresource: str = ""
    ) -> str:
        """The path of a collection, an object or its subresource."""
        version, plain = _split(kind)
        plural, namespaced = self._resource(version, plain)
        place = ["namespaces", namespace] if namespaced and namespace else []
        words = [_root(version), *place, plural, name, subresource]
        return "/".join(word for word in words if word)

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """One object; `ApiError` with status 404 if there is none."""
        return self.request("GET", self.path(kind, name, namespace))

    def find(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(
        self, kind: str, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Objects:
        """All objects that match the label and field selectors."""
        answer = self.request(
            "GET", self.path(kind, "", namespace), query=selectors(labels, fields)
        )
        items: Objects = answer["items"]
        return items

    def create(self, body: Object) -> Object:
        """Create an object in the namespace of its metadata."""
        metadata = body["metadata"]
        kind = f"{body['apiVersion']}/{body['kind']}"
        return self.request("POST", self.path(kind, "", metadata.get("namespace")), body=body)

    def create_all(self, bodies: Iterable[Object]) -> Sequence[Object]:
        """Create objects over several connections at once; answers in the order given."""
        return self.at_once(self.create, bodies)

    def at_once(self, call: Callable[[Any], T], arguments: Iterable[Any]) -> Sequence[T]:
        """Calls over several connections at once; the first error is raised."""
        with ThreadPoolExecutor(CONNECTIONS) as workers:
            return list(workers.map(call, arguments))

    def patch(
        self,
        kind: str,
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        subresource: str = "",
        how: str = "merge",
    ) -> Object:
        """Patch an object or its subresource; `how` is merge, strategic or json."""
        path = self.path(kind, name, namespace, subresource)
        return self.request("PATCH", path, body=body, content_type=_PATCHES[how])

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        uid: str | None = None,
    ) -> None:
        """Delete an object and, in the background, what it owns; no error if it is gone.

        Parameters
        ----------
        grace
            Seconds a pod is given to end; 0 removes it at once.
        uid
            Only the object with this uid.
        """
        options: Object = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            self.request("DELETE", self.path(kind, name, namespace), body=options)
        except ApiError as error:
            if error.status != 404:
                raise

    def delete_all(
        self, kind: str, namespace: str | None = None, *, labels: str = "", grace: int | None = None
    ) -> None:
        """Delete a whole collection."""
        options: Object = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        path = self.path(kind, "", namespace)
        self.request("DELETE", path, query=selectors(labels, ""), body=options)

    def events(self, namespace: str, about: str | None = None) -> Objects:
        """Events of a namespace, or those about the object of that name, oldest first."""
        fields = f"involvedObject.name={about}" if about else ""
        found = self.list("Event", namespace, fields=fields)
        return sorted(found, key=lambda event: event["metadata"]["creationTimestamp"])

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: object,
        content_type: str,
        wait: float | None = 30.0,
    ) -> urllib3.BaseHTTPResponse:
        url = f"{self._host}/{path}"
        answer = self._pool.request(
            method,
            f"{url}?{urllib.parse.urlencode(query)}" if query else url,
            body=None if body is None else json.dumps(body),
            headers={**self._headers, "Content-Type": content_type},
            timeout=urllib3.Timeout(connect=10.0, read=wait),
            preload_content=False,
        )
        if answer.status >= 400:
            with answer:
                raise ApiError(answer.status, _message(answer.data))
        return answer

    def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        """Plural name and whether it is namespaced, as the API server tells."""
        with self._lock:
            if (version, kind) not in self._resources:
                told = self.request("GET", _root(version))["resources"]
                self._resources.update(_resources_of(version, told))
        try:
            return self._resources[version, kind]
        except KeyError:
            raise ApiError(404, f"the API server has no kind {kind} in {version}") from None


def selectors(labels: str, fields: str) -> dict[str, str]:
    """The query of a list or watch."""
    both = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in both.items() if value}


def wait_until(predicate: Callable[[], T], deadline: float = 30.0, what: str = "") -> T:
    """The first true value of `predicate`, asked again and again for `deadline` seconds.

    Raises
    ------
    TimeoutError
        With `what` was awaited and the last value seen.
    """
    end = time.monotonic() + deadline
    while not (value := predicate()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline:g} s: {what or predicate}; last: {value!r}")
        time.sleep(0.05)
    return value


def _split(kind: str) -> tuple[str, str]:
    version, _, plain = kind.rpartition("/")
    return version or _API_VERSIONS.get(plain, "v1"), plain


def _root(version: str) -> str:
    return f"apis/{version}" if "/" in version else f"api/{version}"


def _resources_of(
    version: str, told: Iterable[Object]
) -> Iterable[tuple[tuple[str, str], tuple[str, bool]]]:
    for resource in told:
        if "/" not in resource["name"]:
            yield (version, resource["kind"]), (resource["name"], resource["namespaced"])


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace")[:500]
