"""What NVML says of GPUs, against a driver that is played."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

from agent_nodes import Gpu, Nvml, Root

from scheduler.agent import nvml as reader
from scheduler.agent.nvml import read_nvml
from scheduler.agent.reading import Failed, Reading
from scheduler.core.devices import Link, Nic

GPU, CPU, SWITCH, UNKNOWN = 0, 1, 2, 255
NVIDIA, IBM = 0x10DE, 0x1014
A, B, C, D = (f"0000:{bus}:00.0" for bus in ("1a", "1b", "3c", "3d"))


def read(nvml: Nvml, root: Path) -> Reading:
    reading = read_nvml(nvml, root)
    assert isinstance(reading, Reading), reading
    assert nvml.open == 0, "what is opened is closed"
    return reading


def words(reading: Reading) -> dict[str, str]:
    return {f"{a}-{b}": word for a, b, word in reading.devices.matrix.links}


def test_straight_links_are_counted_by_pair(tmp_path: Path) -> None:
    gpus = [
        Gpu(A, "GPU-a", [(GPU, B, NVIDIA), (GPU, B, NVIDIA), (GPU, C, NVIDIA)]),
        Gpu(B, "GPU-b", [(GPU, A, NVIDIA), (GPU, A, NVIDIA)]),
        Gpu(C, "GPU-c", [(GPU, A, NVIDIA)]),
    ]

    reading = read(Nvml(gpus), tmp_path)

    assert words(reading) == {"0-1": "NV2", "0-2": "NV1", "1-2": "SYS"}
    assert reading.devices.uuids == ("GPU-a", "GPU-b", "GPU-c")
    assert reading.ids == {A: 0, B: 1, C: 2, "GPU-a": 0, "GPU-b": 1, "GPU-c": 2}


def test_through_switches_a_pair_has_as_many_links_as_the_lesser(tmp_path: Path) -> None:
    switch = (SWITCH, "0000:c4:00.0", NVIDIA)
    gpus = [Gpu(A, "GPU-a", [switch] * 12), Gpu(B, "GPU-b", [switch] * 12)]
    gpus.append(Gpu(C, "GPU-c", [switch] * 11))

    assert words(read(Nvml(gpus), tmp_path)) == {"0-1": "NV12", "0-2": "NV11", "1-2": "NV11"}


def test_a_switch_that_a_virtual_machine_hides(tmp_path: Path) -> None:
    gpus = [Gpu(A, "GPU-a", [(UNKNOWN, "", 0)] * 6), Gpu(B, "GPU-b", [(None, "", 0)] * 6)]

    assert words(read(Nvml(gpus), tmp_path)) == {"0-1": "NV6"}


def test_links_to_the_processor_join_no_gpus(tmp_path: Path) -> None:
    """On POWER9; old drivers do not know the kind of the far end, only its vendor."""
    npu = "0004:00:01.0"
    gpus = [
        Gpu(A, "GPU-a", [(CPU, npu, IBM)] * 3 + [(GPU, B, NVIDIA)] * 3),
        Gpu(B, "GPU-b", [(None, npu, IBM)] * 3 + [(None, A, NVIDIA)] * 3),
        Gpu(C, "GPU-c", [(CPU, "", 0)] * 3),
        Gpu(D, "GPU-d", [(CPU, "", 0)] * 3),
        Gpu("0000:5e:00.0", "GPU-e", [(None, npu, IBM)] * 3),
        Gpu("0000:5f:00.0", "GPU-f", [(None, npu, IBM)] * 3),
    ]

    found = words(read(Nvml(gpus), tmp_path))

    assert {pair: word for pair, word in found.items() if word != "SYS"} == {"0-1": "NV3"}


def test_without_nvlink_pcie_counts(tmp_path: Path) -> None:
    levels = {(0, 1): 0, (0, 2): 10, (0, 3): 20, (1, 2): 30, (1, 3): 40, (2, 3): None}
    gpus = [Gpu(at, f"GPU-{at}") for at in (A, B, C, D)]

    reading = read(Nvml(gpus, lambda a, b: levels[a, b]), tmp_path)

    assert reading.devices.matrix.links == (
        Link(0, 1, "PSB"),
        Link(0, 2, "PIX"),
        Link(0, 3, "PXB"),
        Link(1, 2, "PHB"),
        Link(1, 3, "NODE"),
        Link(2, 3, "SYS"),
    )


def test_no_nvlink_joins_a_gpu_that_is_split(tmp_path: Path) -> None:
    switch = (SWITCH, "0000:c4:00.0", NVIDIA)
    gpus = [Gpu(at, f"GPU-{at}", [switch] * 18) for at in (A, B, C)]
    gpus[1].mig, gpus[2].mig = True, None

    reading = read(Nvml(gpus, lambda a, b: 40), tmp_path)

    assert words(reading) == {"0-1": "NODE", "0-2": "NV18", "1-2": "NODE"}
    assert reading.devices.matrix.mig == (1,)


def test_numa_nodes_and_cards_come_from_the_system(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.device(f"pci0000:18/0000:18:01.0/0000:19:00.0/0000:1a:01.0/{A}", numa=0)
    root.device(f"pci0000:3a/0000:3a:01.0/{C}", numa=1)
    root.card("mlx5_0", "pci0000:18/0000:18:01.0/0000:19:00.0/0000:1a:02.0/0000:1d:00.0")

    reading = read(Nvml([Gpu(A, "GPU-a"), Gpu(C, "GPU-c")]), tmp_path)

    assert reading.devices.matrix.numa == (0, 1)
    assert reading.devices.matrix.nics == (Nic("mlx5_0", 0, (0,)),)


def test_a_lost_gpu_is_a_failure_and_no_smaller_node(tmp_path: Path) -> None:
    nvml = Nvml([Gpu(A, "GPU-a"), Gpu(B, "GPU-b")])
    nvml.lost = 1

    reading = read_nvml(nvml, tmp_path)

    assert reading == Failed("NVML cannot read the GPUs: GPU is lost; look at nvidia-smi and dmesg")
    assert nvml.open == 0


def test_no_driver_and_no_gpu(tmp_path: Path) -> None:
    unloaded = Nvml([Gpu(A, "GPU-a")])
    unloaded.loaded = False

    assert read_nvml(unloaded, tmp_path) is None
    assert read_nvml(Nvml([]), tmp_path) is None


def test_more_gpus_than_any_node_has(tmp_path: Path) -> None:
    reading = read_nvml(Nvml([Gpu(A, "GPU-a")] * 65), tmp_path)

    assert isinstance(reading, Failed)
    assert "65 GPUs" in reading.reason


def test_the_driver_that_is_played_is_as_the_real_module_shows_it() -> None:
    """Every name that is used is there, with the same values and for as many arguments."""
    real = import_module("pynvml")
    used = set(re.findall(r"\bnvml\.(nvml\w+|NVML\w+)", inspect.getsource(reader)))
    driver = Nvml([Gpu(A, "GPU-a")])

    assert used <= set(dir(driver))
    for name in used:
        mine, theirs = getattr(driver, name), getattr(real, name)
        if isinstance(mine, int):
            assert mine == theirs, name
        elif inspect.ismethod(mine):
            inspect.signature(theirs).bind(*inspect.signature(mine).parameters)
