"""Which source of GPUs is used, and what is said where none can be."""

from __future__ import annotations

from pathlib import Path

import agent_tables as tables
import pytest
from agent_nodes import Gpu, Nvml, Root, tools
from agent_tables import Shown

from scheduler.agent.reading import Failed, NoDevices, Reading
from scheduler.agent.sources import import_nvml, read_devices
from scheduler.agent.tools import Output, run
from scheduler.core.devices import Link, Nic

TABLE = tables.with_tabs(Shown(2, {(0, 1): "NV4"}, cpus=("0-7", "8-15"), numa=("0", "1")))
QUERY = "0, GPU-a, 00000000:1A:00.0, Disabled\n1, GPU-b, 00000000:3C:00.0, Disabled\n"
HIVE = tables.rocm([["0", "XGMI"], ["XGMI", "0"]], [0, 0])
NOT_LOADED = Output(False, "exit status 9: NVIDIA-SMI has failed")


def look(
    root: Path, printed: dict[str, str | Output], nvml: object = None
) -> Reading | NoDevices | Failed:
    return read_devices(root, tools(printed), lambda: nvml)


def read(root: Path, printed: dict[str, str | Output], nvml: object = None) -> Reading:
    reading = look(root, printed, nvml)
    assert isinstance(reading, Reading), reading
    return reading


def test_nvml_comes_first(tmp_path: Path) -> None:
    nvml = Nvml([Gpu("0000:1a:00.0", "GPU-a")])

    assert read(tmp_path, {"nvidia-smi": TABLE}, nvml).source == "NVML"


def test_nvidia_smi_where_nvml_is_not_there(tmp_path: Path) -> None:
    reading = read(tmp_path, {"nvidia-smi topo": TABLE, "nvidia-smi --query-gpu": QUERY})

    assert reading.source == "nvidia-smi"
    assert reading.devices.uuids == ("GPU-a", "GPU-b")
    assert reading.devices.matrix.links == (Link(0, 1, "NV4"),)
    assert reading.devices.matrix.numa == (0, 1)
    assert reading.ids == {"GPU-a": 0, "0000:1a:00.0": 0, "GPU-b": 1, "0000:3c:00.0": 1}
    assert reading.remarks == ()


def test_nvidia_smi_where_the_driver_of_nvml_is_not_loaded(tmp_path: Path) -> None:
    nvml = Nvml([])
    nvml.loaded = False

    assert read(tmp_path, {"nvidia-smi": TABLE}, nvml).source == "nvidia-smi"


def test_an_old_driver_that_knows_no_mig(tmp_path: Path) -> None:
    old = {
        "nvidia-smi topo": TABLE,
        "nvidia-smi --query-gpu=index,uuid,pci.bus_id,mig": Output(False, "not a valid field"),
        "nvidia-smi --query-gpu=index,uuid,pci.bus_id --": "0, GPU-a, x\n1, GPU-b, y\n",
    }

    assert read(tmp_path, old).devices.uuids == ("GPU-a", "GPU-b")


def test_no_nvlink_joins_a_gpu_that_is_split(tmp_path: Path) -> None:
    split = QUERY.replace("1A:00.0, Disabled", "1A:00.0, Enabled")

    matrix = read(
        tmp_path, {"nvidia-smi topo": TABLE, "nvidia-smi --query-gpu": split}
    ).devices.matrix

    assert (matrix.links, matrix.mig) == ((Link(0, 1, "SYS"),), (0,))


@pytest.mark.parametrize(
    "printed", ["", "0, GPU-a, x\n", "0, GPU-a\n1, GPU-b\n", "x, y, z\n", "Unable to query\n"]
)
def test_uuids_that_are_not_all_known_are_left_out(tmp_path: Path, printed: str) -> None:
    reading = read(tmp_path, {"nvidia-smi topo": TABLE, "nvidia-smi --query-gpu": printed})

    assert (reading.devices.uuids, reading.ids) == ((), {})
    assert "known by index alone" in reading.remarks[0]


def test_cards_that_the_table_does_not_show_come_from_the_system(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.device("pci0000:18/0000:18:01.0/0000:1a:00.0")
    root.card("mlx5_0", "pci0000:18/0000:18:02.0/0000:1d:00.0")

    reading = read(tmp_path, {"nvidia-smi topo": TABLE, "nvidia-smi --query-gpu": QUERY})

    assert reading.devices.matrix.nics == (Nic("mlx5_0", 0, (0,)),)


def test_the_system_knows_the_numa_node_of_a_card_that_is_far_by_its_word(tmp_path: Path) -> None:
    """On boards with GPUs on the CPU's own link every word between GPU and card is SYS."""
    words = {(0, 1): "NV18", (0, 2): "SYS", (1, 2): "SYS"}
    table = tables.with_tabs(Shown(2, words, ("mlx5_0",), numa=("0", "1")))
    Root(tmp_path).card("mlx5_0", "pci0002:00/0002:01:00.0", numa=1)

    assert read(tmp_path, {"nvidia-smi": table}).devices.matrix.nics == (Nic("mlx5_0", 1, (1,)),)


def test_amd(tmp_path: Path) -> None:
    root = Root(tmp_path)
    for address in ("0000:c1:00.0", "0000:03:00.0"):
        root.device(f"pci0000:00/{address}", vendor="0x1002", kind="0x120000")
        root.bind("amdgpu", address)

    reading = read(tmp_path, {"rocm-smi --showtopo": HIVE})

    assert reading.source == "rocm-smi"
    assert reading.devices.matrix.links == (Link(0, 1, "XGMI"),)
    assert reading.ids == {"0000:03:00.0": 0, "0000:c1:00.0": 1}
    assert reading.remarks == ()


def test_amd_with_another_number_of_devices(tmp_path: Path) -> None:
    reading = read(tmp_path, {"rocm-smi --showtopo": HIVE})

    assert reading.ids == {}
    assert reading.remarks[0].startswith("2 GPUs, but 0 devices of the driver amdgpu")


def test_a_node_without_gpus(tmp_path: Path) -> None:
    Root(tmp_path).card("mlx5_0", "pci0000:00/0000:00:01.0")

    assert isinstance(look(tmp_path, {}), NoDevices)
    assert isinstance(look(tmp_path, {"nvidia-smi": NOT_LOADED}), NoDevices)


def test_a_tool_that_fails_where_the_pci_bus_cannot_be_seen(tmp_path: Path) -> None:
    found = look(tmp_path, {"nvidia-smi": NOT_LOADED})

    assert isinstance(found, Failed)


@pytest.mark.parametrize(
    ("vendor", "kind", "reason"),
    [
        ("0x10de", "0x030200", "1 NVIDIA GPUs on the PCI bus, but neither NVML"),
        ("0x1002", "0x038000", "1 AMD GPUs on the PCI bus, but rocm-smi is not"),
    ],
)
def test_gpus_that_nothing_can_read(tmp_path: Path, vendor: str, kind: str, reason: str) -> None:
    Root(tmp_path).device("pci0000:00/0000:00:01.0", vendor=vendor, kind=kind)

    found = look(tmp_path, {})

    assert isinstance(found, Failed)
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ({"nvidia-smi": NOT_LOADED}, "nvidia-smi topo -m: exit status 9: NVIDIA-SMI has failed"),
        ({"nvidia-smi": "nothing"}, "nvidia-smi topo -m printed no table: no line names"),
        ({"rocm-smi": NOT_LOADED}, "rocm-smi --showtopo: exit status 9"),
        ({"rocm-smi": "nothing"}, "rocm-smi --showtopo printed no table"),
    ],
)
def test_a_tool_that_fails(tmp_path: Path, printed: dict[str, str | Output], reason: str) -> None:
    Root(tmp_path).device("pci0000:00/0000:00:01.0")

    found = look(tmp_path, printed)

    assert isinstance(found, Failed)
    assert found.reason.startswith(reason)


def test_a_failure_of_one_source_does_not_hide_another(tmp_path: Path) -> None:
    assert read(tmp_path, {"nvidia-smi": NOT_LOADED, "rocm-smi": HIVE}).source == "rocm-smi"


def test_commands_are_really_run() -> None:
    printed, failed = run(("sh", "-c", "echo hello")), run(("sh", "-c", "echo why >&2; exit 3"))

    assert printed == Output(True, "hello\n")
    assert failed == Output(False, "exit status 3: why")
    assert run(("no-such-program-anywhere",)) is None


def test_pynvml_is_optional() -> None:
    module = import_nvml()

    assert module is None or hasattr(module, "nvmlInit")
