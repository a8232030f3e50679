"""Who has which devices, from the kubelet's pod-resources socket, by gRPC.

``PodResourcesLister/List`` of version ``v1`` is an API for others, stable since Kubernetes 1.28. It
names pods by namespace and name. The packages grpcio and protobuf are optional, so nothing here
imports them before they are needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from scheduler.agent.reading import Failed, Held, NotThere

SOCKET = "var/lib/kubelet/pod-resources/kubelet.sock"
LONGEST = 1 << 22
"""Bytes of an answer; a pod takes a few hundred."""
MOST = 1 << 14
"""Pods, containers, resources or devices in an answer, each; a node runs some hundred pods."""
LIMIT_S = 10.0
"""Within which the answer has to be there."""

_METHOD = "/v1.PodResourcesLister/List"
_OPTIONS = (
    ("grpc.max_receive_message_length", LONGEST),
    # Nothing packed: a small message could become a huge one.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Names of pods and of namespaces."""


class Packages(NamedTuple):
    """The modules of grpcio and protobuf."""

    grpc: Any
    descriptor_pb2: Any
    descriptor_pool: Any
    message: Any
    message_factory: Any


Import = Callable[[], Packages | None]


def import_packages() -> Packages | None:
    """The modules, or None where one of the packages is not installed."""
    with suppress(ImportError):
        protobuf = (import_module(f"google.protobuf.{name}") for name in Packages._fields[1:])
        return Packages(import_module("grpc"), *protobuf)
    return None


def read_pod_resources(
    root: Path, packages: Import = import_packages, limit_s: float = LIMIT_S
) -> list[Held] | NotThere | Failed:
    """All that running pods have, by ``namespace/name``; `root` is where ``/var/lib/kubelet`` is.

    Of pods that the answer has twice nothing is told: a pod that was deleted by force may still
    run when another of its name starts.
    """
    socket = root / SOCKET
    try:
        socket.stat()
    except FileNotFoundError:
        return NotThere(
            f"there is no {socket}; mount the node's /var/lib/kubelet/pod-resources below --root"
        )
    except OSError as error:
        return Failed(f"{socket} cannot be seen: {error}")
    found = packages()
    if found is None:
        return NotThere(
            f"{socket} cannot be asked without the packages grpcio and protobuf; install "
            "muster-scheduler[agent], or take the agent's own image"
        )
    answer = _answer(found, socket, limit_s)
    if isinstance(answer, Failed):
        return answer
    if _is_too_much(answer):
        return Failed(f"{socket} lists more than {MOST} pods or devices, which no node has")
    return list(_held(answer))


def _answer(packages: Packages, socket: Path, limit_s: float) -> Any:
    """The message, or `Failed`."""
    grpc = packages.grpc
    answers = _answers(packages)
    try:
        with grpc.insecure_channel(f"unix:{socket.absolute()}", options=_OPTIONS) as channel:
            # Requests have no field, so their bytes are none. gRPC itself would log bad answers.
            text = channel.unary_unary(_METHOD)(b"", timeout=limit_s)
        return answers.FromString(text)
    except grpc.RpcError as error:
        said = f"{error.code().name}, {str(error.details())[:200]}"
        return Failed(f"{socket} gives no list of pods: {said}; does the kubelet run?")
    except packages.message.DecodeError as error:
        return Failed(f"{socket} answers what is no list of pods: {str(error)[:200]}")


def _is_too_much(answer: Any) -> bool:
    """Whether the answer is no kubelet's: empty messages take two bytes of it each."""
    level = [answer]
    for name in ("pod_resources", "containers", "devices"):
        if sum(len(getattr(one, name)) for one in level) > MOST:
            return True
        level = [part for one in level for part in getattr(one, name)]
    return sum(len(one.device_ids) for one in level) > MOST


def _held(answer: Any) -> Iterator[Held]:
    count = Counter((pod.namespace, pod.name) for pod in answer.pod_resources)
    for pod in answer.pod_resources:
        names = pod.namespace, pod.name
        if count[names] == 1 and all(map(_NAME.fullmatch, names)):
            for container in pod.containers:
                for given in container.devices:
                    yield Held("/".join(names), given.resource_name, tuple(given.device_ids))


class _Field(NamedTuple):
    """A field of a message, as the kubelet numbers it."""

    name: str
    number: int
    of: str = ""
    """The message that it holds any number of; "" for a text."""
    many: bool = False
    """Whether it holds any number of texts."""


_MESSAGES = {
    "ListPodResourcesResponse": (_Field("pod_resources", 1, "PodResources"),),
    "PodResources": (
        _Field("name", 1),
        _Field("namespace", 2),
        _Field("containers", 3, "ContainerResources"),
    ),
    "ContainerResources": (_Field("devices", 2, "ContainerDevices"),),
    "ContainerDevices": (_Field("resource_name", 1), _Field("device_ids", 2, many=True)),
}
"""What is read of them; others of their fields are passed over."""


@lru_cache(maxsize=1)
def _answers(packages: Packages) -> Any:
    """The class of answers."""
    file = packages.descriptor_pb2.FileDescriptorProto(
        name="podresources.proto", package="v1", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add(message, field)
    pool = packages.descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("v1.ListPodResourcesResponse")
    return packages.message_factory.GetMessageClass(found)


def _add(message: Any, field: _Field) -> None:
    kind = message.field.add(name=field.name, number=field.number)
    kind.label = kind.LABEL_REPEATED if field.of or field.many else kind.LABEL_OPTIONAL
    kind.type = kind.TYPE_MESSAGE if field.of else kind.TYPE_STRING
    if field.of:
        kind.type_name = f".v1.{field.of}"
