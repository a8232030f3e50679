"""The store at which the pods meet, kept until the pod that serves it leaves.

torchrun's agent drops the store as soon as it has seen itself that all are done. Another agent, the
last one to say that it is, may not have looked yet: it then finds nobody there, and prints a
traceback at the end of a run that went well.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from trainer.world import DEFAULT_PORT, address

TIMEOUT_S = 60
"""For the connection to this pod's own server."""


@contextmanager
def held_store(options: argparse.Namespace) -> Iterator[None]:
    """While inside, the store of a static rendezvous stays served by this pod, if it is the first.

    torchrun's own handle is one more on the same server. Where the store is of another kind, this
    does nothing. Raises DistNetworkError where torchrun itself would: if the port is taken.
    """
    store = _open(options) if _serves(options) else None
    try:
        yield
    finally:
        # The server ends with the last handle on it.
        del store


def _serves(options: argparse.Namespace) -> bool:
    alone = options.nnodes in ("1", "1:1")
    static = options.rdzv_backend == "static" and not options.standalone
    return static and not alone and options.node_rank == 0


def _open(options: argparse.Namespace) -> object:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    host, port = options.master_addr, options.master_port
    if options.rdzv_endpoint:
        host, said = address(options.rdzv_endpoint, "--rdzv-endpoint")
        port = said or port
    return TCPStore(
        host,
        port or DEFAULT_PORT,
        is_master=True,
        timeout=timedelta(seconds=TIMEOUT_S),
        wait_for_workers=False,
        multi_tenant=True,
    )
