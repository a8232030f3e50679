"""A kubelet's pod-resources socket: a real gRPC server, whose answers are bytes made by hand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

METHOD = "/v1.PodResourcesLister/List"
SOCKET = "var/lib/kubelet/pod-resources/kubelet.sock"

Answer = Callable[[], bytes]


def field(number: int, value: bytes | str) -> bytes:
    """A field of protobuf's wire format that holds a text or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def devices(resource: str, *ids: str) -> bytes:
    """What a container has of a resource, with the NUMA node that kubelets name."""
    node = field(3, field(1, b"\x08\x01"))
    return field(1, resource) + b"".join(field(2, one) for one in ids) + node


def pod(name: str, *given: bytes, namespace: str = "t") -> bytes:
    """A pod of one container, with cores and memory of its own as newer kubelets tell them."""
    cores = field(3, b"\x01\x02")
    memory = field(4, field(1, "memory"))
    container = field(1, "main") + b"".join(field(2, one) for one in given) + cores + memory
    return field(1, name) + field(2, namespace) + field(3, container) + field(4, b"\x01\x02")


def listed(*pods: bytes) -> bytes:
    """The answer of ``List``."""
    return b"".join(field(1, one) for one in pods)


class Kubelet:
    """Serves a socket below a root; ``answer`` gives what it says next, and may be changed."""

    def __init__(
        self, root: Path, answer: Answer = bytes, *, method: str = METHOD, packed: bool = False
    ) -> None:
        self.answer = answer
        self.asked: list[bytes] = []
        self._method = method
        path = root / SOCKET
        path.parent.mkdir(parents=True, exist_ok=True)
        self._threads = ThreadPoolExecutor(2)
        self._server = grpc.server(
            self._threads,
            handlers=[self],
            compression=grpc.Compression.Gzip if packed else None,
            options=[("grpc.max_send_message_length", -1)],
        )
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """The one method there is."""
        known = details.method == self._method
        return grpc.unary_unary_rpc_method_handler(self._list) if known else None

    def close(self) -> None:
        self._server.stop(None).wait()
        self._threads.shutdown()

    def _list(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.asked.append(request)
        return self.answer()


@contextmanager
def listening(root: Path, says: Sequence[bytes]) -> Iterator[None]:
    """A socket that takes one caller after the other, says this and hangs up; or says nothing."""
    path = root / SOCKET
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=_talk, args=(server, says))
        thread.start()
        yield
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _talk(server: socket.socket, says: Sequence[bytes]) -> None:
    callers = []
    while True:
        try:
            caller, _ = server.accept()
        except OSError:
            break
        callers.append(caller)
        for text in says:
            caller.sendall(text)
        if says:
            caller.close()
    for caller in callers:
        caller.close()
