"""Pods that have done their work leave without a word: the store at which they say so outlives it.

torchrun's agents meet once more at the end. One of them serves the store for it, and would close it
as soon as it has seen itself that all are done.
"""

import errno
import json
import socket
import subprocess
import sys
from argparse import Namespace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from trainer_worlds import DEADLINE, free_port

from trainer.held_store import held_store

SLOW_TO_LOOK = """
import os, sys, time
from pathlib import Path

from torch.distributed.elastic.utils import store
from trainer.rehearse import rehearse

said = store._barrier_nonblocking

def slowly(*args, **options):
    "The second pod says that it is done, and then is long kept from looking whether all are."
    key = said(*args, **options)
    if key.startswith("torchelastic/agent/terminal_state") and os.environ["PET_NODE_RANK"] == "1":
        time.sleep(3)
    return key

store._barrier_nonblocking = slowly
sys.exit(rehearse(Path("hints.json"), ["worker.py"]))
"""


def options(port: int, **changes: Any) -> Namespace:
    return Namespace(
        **{
            "nnodes": "2",
            "node_rank": 0,
            "rdzv_backend": "static",
            "rdzv_endpoint": "",
            "standalone": False,
            "master_addr": "127.0.0.1",
            "master_port": port,
        }
        | changes
    )


def handle(port: int, *, serves: bool) -> TCPStore:
    """As torchrun's agent opens it, or another pod's."""
    return TCPStore(
        "127.0.0.1",
        port,
        is_master=serves,
        timeout=timedelta(seconds=2),
        wait_for_workers=False,
        multi_tenant=True,
    )


def nobody_serves(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def test_the_store_is_there_when_torchrun_has_let_go_of_it() -> None:
    port = free_port()
    with held_store(options(port)):
        agent = handle(port, serves=True)
        agent.set("done", "yes")
        del agent

        assert handle(port, serves=False).get("done") == b"yes"
    assert nobody_serves(port)


@pytest.mark.parametrize(
    "changes",
    [{"node_rank": 1}, {"nnodes": "1"}, {"rdzv_backend": "c10d"}, {"standalone": True}],
    ids=str,
)
def test_who_serves_no_store_of_that_kind_holds_none(changes: dict[str, Any]) -> None:
    port = free_port()
    with held_store(options(port, **changes)):
        assert nobody_serves(port)


def test_an_endpoint_is_where_it_is_held() -> None:
    port = free_port()
    with held_store(options(1, rdzv_endpoint=f"127.0.0.1:{port}")):
        handle(port, serves=False).set("found", "yes")


def test_a_rehearsal_ends_without_a_traceback_however_late_a_pod_looks(tmp_path: Path) -> None:
    (tmp_path / "hints.json").write_text(json.dumps([None, None]))
    (tmp_path / "run.py").write_text(SLOW_TO_LOOK)
    (tmp_path / "worker.py").write_text("print('done')\n")

    done = subprocess.run(
        [sys.executable, "run.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )

    # Two processes write to one pipe: their lines may be torn.
    assert (done.returncode, done.stdout.count("done")) == (0, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert "exit barrier" not in done.stderr
