"""Where devices hang, from a system below a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_nodes import Root

from scheduler.agent import pci

SWITCH = "pci0000:5d/0000:5d:01.0/0000:5e:00.0"
GPU = f"{SWITCH}/0000:5f:01.0/0000:60:00.0"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


@pytest.mark.parametrize(
    ("other", "numa", "word"),
    [
        (f"{SWITCH}/0000:5f:02.0/0000:61:00.0", 0, "PIX"),
        (f"{SWITCH}/0000:5f:02.0/0000:61:00.0/0000:62:01.0/0000:63:00.0", 0, "PXB"),
        ("pci0000:5d/0000:5d:03.0/0000:70:00.0", 0, "PHB"),
        ("pci0000:7b/0000:7b:01.0/0000:7c:00.0", 0, "NODE"),
        ("pci0000:d7/0000:d7:01.0/0000:d8:00.0", 1, "SYS"),
        ("pci0000:d7/0000:d7:01.0/0000:d8:00.0", -1, "SYS"),
        ("virtual/0000:99:00.0", 0, None),
    ],
    ids=["switch", "switches", "bridge", "node", "system", "no-node", "elsewhere"],
)
def test_how_a_card_is_reached(root: Root, other: str, numa: int, word: str | None) -> None:
    gpu = root.device(GPU)
    root.card("mlx5_0", other, numa=numa)

    (nic,) = pci.nics(root.folder, [gpu])

    assert nic.words == (word,)
    assert nic.numa == (None if numa < 0 else numa)


def test_cards_are_in_the_order_of_their_numbers_without_virtual_ones(root: Root) -> None:
    for number in (10, 2, 1):
        root.card(f"mlx5_{number}", f"pci0000:00/0000:00:{number:02x}.0")
    root.card("mlx5_3", "pci0000:00/0000:00:0f.1", virtual=True)

    assert [nic.name for nic in pci.nics(root.folder, [])] == ["mlx5_1", "mlx5_2", "mlx5_10"]


def test_a_system_without_anything(tmp_path: Path) -> None:
    assert pci.nics(tmp_path, ["0000:60:00.0"]) == ()
    assert pci.numa_nodes(tmp_path, ["0000:60:00.0"]) == (None,)
    assert pci.accelerators(tmp_path) == {}
    assert pci.bound_to(tmp_path, "amdgpu") == []
    assert not pci.has_devices(tmp_path)


def test_accelerators_by_vendor(root: Root) -> None:
    root.device("pci0000:00/0000:00:01.0")
    root.device("pci0000:00/0000:00:02.0", kind="0x030000")
    root.device("pci0000:00/0000:00:03.0", vendor="0x1002", kind="0x120000")
    root.device("pci0000:00/0000:00:04.0", vendor="0x1002", kind="0x030000")  # of the CPU
    root.device("pci0000:00/0000:00:05.0", kind="0x068000")  # an NVSwitch
    root.device("pci0000:00/0000:00:06.0", vendor="0x1a03", kind="0x030000")

    assert pci.accelerators(root.folder) == {pci.NVIDIA: 2, pci.AMD: 1}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:1A:00.0", "0000:1a:00.0"),
        ("0000:1a:00.0", "0000:1a:00.0"),
        ("00010000:00:1E.7", "10000:00:1e.7"),
        ("[N/A]", "[N/A]"),
    ],
)
def test_an_address_as_the_kernel_writes_it(text: str, address: str) -> None:
    assert pci.address(text) == address
