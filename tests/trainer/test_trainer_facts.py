"""From a machine's facts to its environment: `muster-train env --facts FILE`, and C37."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from trainer import cli, describe
from trainer.backend import Devices, choose_backend
from trainer.errors import FactsError
from trainer.facts import load
from trainer.harms import profile
from trainer.plan import plan_here
from trainer.probe import machine
from trainer.routes import outgoing
from trainer.settings import LaunchSettings

ETH0 = {"name": "eth0", "up": True, "addrs": ["10.1.2.3/24"]}
STORAGE = {"name": "eth1", "up": True, "addrs": ["10.9.0.3/24"]}
LO = {"name": "lo", "up": True, "addrs": ["127.0.0.1/8"]}
GPUS = [
    {"index": i, "pci": f"0000:0{i}:00.0", "uuid": f"GPU-{i}", "name": "H100", "mig": False}
    for i in range(8)
]
ACTIVE = {"name": "mlx5_0", "state": "ACTIVE", "device": True}
DOWN = {"name": "mlx5_1", "state": "DOWN", "device": True}
FACTS = {
    "hostname": "pod-1",
    "interfaces": [LO, ETH0, STORAGE],
    "route_to_master": "eth0",
    "infiniband": [],
    "shm_bytes": 1 << 30,
    "gpus": GPUS,
    "nccl": "2.30.7",
    "peers": None,
}
WORLD = {
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_NPROC_PER_NODE": "8",
    "PET_MASTER_ADDR": "10.1.2.9",
    "PET_MASTER_PORT": "29400",
}


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`muster-train env --json` in a world of two pods of eight, with changed facts."""

    def run(*args: str, variables: dict[str, str] = WORLD, **changes: Any) -> dict[str, Any]:
        for name in os.environ:
            if name.startswith(("NCCL", "GLOO", "PET_", "FI_")):
                monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        file = tmp_path / "facts.json"
        file.write_text(json.dumps(FACTS | changes))
        code = cli.run(["env", "--json", "--facts", str(file), *args])
        found = json.loads(capsys.readouterr().out)
        assert (code != 0) == bool(found["errors"]), found
        assert found["why"].keys() == found["set"].keys() | found["kept"].keys()
        return found

    return run


class TestTheDocument:
    def test_has_exactly_its_keys(self, env: Any) -> None:
        found = env()
        assert list(found) == [
            "launcher", "backend", "world", "set", "kept", "why", "warnings", "errors",
        ]  # fmt: skip
        assert found["launcher"] == "torchrun"
        assert found["backend"] == "nccl"
        assert found["world"] == {
            "nodes": 2,
            "node_rank": 1,
            "nproc_per_node": 8,
            "world_size": 16,
            "rank_offset": 8,
            "master_addr": "10.1.2.9",
            "master_port": 29400,
            "elastic": None,
        }
        assert (found["warnings"], found["errors"]) == ([], [])

    def test_every_fact_is_optional(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "facts.json").write_text("{}")
        assert cli.run(["env", "--json", "--facts", str(tmp_path / "facts.json")]) == 0
        assert json.loads(capsys.readouterr().out)["backend"] == "gloo"

    def test_an_elastic_world_has_its_bounds_and_no_rank(self, env: Any) -> None:
        elastic = {
            "PET_NNODES": "2:4",
            "PET_NPROC_PER_NODE": "8",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": "10.1.2.9:29400",
            "PET_NODE_RANK": "",
            "PET_MASTER_ADDR": "",
            "PET_MASTER_PORT": "",
        }
        world = env(variables=elastic)["world"]
        assert world["elastic"] == [2, 4]
        assert (world["node_rank"], world["rank_offset"], world["world_size"]) == (None, None, 32)

    def test_pods_with_different_numbers_of_gpus(self, env: Any) -> None:
        peers = [{"index": 0, "gpus": 4}, {"index": 1, "gpus": 8}, {"index": 2, "gpus": 2}]
        found = env(variables=WORLD | {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "gpu"}, peers=peers)
        assert found["world"]["world_size"] == 14
        assert found["world"]["rank_offset"] == 4
        assert "different numbers of GPUs (2, 4, 8)" in found["warnings"][0]

    def test_peers_that_cannot_be_are_errors(self, env: Any) -> None:
        assert "pod 5 of only 2" in env(peers=[{"index": 5, "gpus": 8}])["errors"][0]
        twice = [{"index": 0, "gpus": 8}] * 2
        assert "pod 0 comes twice" in env(peers=twice)["errors"][0]

    @pytest.mark.parametrize("json_too", [True, False])
    def test_a_broken_environment_is_an_error_with_a_code(
        self, json_too: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("PET_NNODES", "2")
        monkeypatch.setenv("PET_NODE_RANK", "2")
        assert cli.run(["env", *(["--json"] if json_too else [])]) == 2
        out, err = capsys.readouterr()
        said = json.loads(out)["errors"][0] if json_too else err
        assert "rank 2" in said

    def test_people_get_a_line_for_each_decision(
        self, env: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        env()
        assert cli.run(["env", "--facts", str(tmp_path / "facts.json")]) == 0
        out = capsys.readouterr().out
        assert "world     pod 1 of 2, 8 processes each, 16 in all" in out
        assert "backend   nccl: 8 NVIDIA GPUs are visible" in out
        assert "set       NCCL_SOCKET_IFNAME==eth0  (exact name" in out

    def test_one_of_each_is_said_so(self) -> None:
        assert describe._processes(1) == "1 process"
        assert choose_backend(Devices(cuda=1), 1).why == "1 NVIDIA GPU is visible"


class TestInterfaces:
    def test_the_route_decides_exactly_for_nccl_and_by_one_name_for_gloo(self, env: Any) -> None:
        chosen = env()["set"]
        assert chosen["NCCL_SOCKET_IFNAME"] == "=eth0"
        assert chosen["GLOO_SOCKET_IFNAME"] == "eth0"
        assert "NCCL_SOCKET_FAMILY" not in chosen

    def test_without_a_route_the_subnet_does(self, env: Any) -> None:
        world = WORLD | {"PET_MASTER_ADDR": "10.9.0.4"}
        chosen = env(variables=world, route_to_master=None)["set"]
        assert chosen["GLOO_SOCKET_IFNAME"] == "eth1"

    def test_or_there_is_only_one(self, env: Any) -> None:
        docker = {"name": "docker0", "up": True, "addrs": ["172.17.0.1/16"]}
        down = STORAGE | {"up": False}
        chosen = env(
            variables=WORLD | {"PET_MASTER_ADDR": "head"},
            route_to_master=None,
            interfaces=[LO, ETH0, docker, down],
        )["set"]
        assert chosen["GLOO_SOCKET_IFNAME"] == "eth0"

    def test_a_gang_on_one_machine_is_left_to_find_its_own_way(self, env: Any) -> None:
        world = WORLD | {"PET_MASTER_ADDR": "127.0.0.1", "PET_NODE_RANK": "0"}
        found = env(variables=world, route_to_master="lo")
        assert not {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"} & found["set"].keys()
        assert found["warnings"] == []

    def test_a_route_by_an_interface_that_is_down_is_not_believed(self, env: Any) -> None:
        found = env(interfaces=[LO, ETH0 | {"up": False}, STORAGE])
        assert found["set"]["GLOO_SOCKET_IFNAME"] == "eth1"

    def test_several_are_not_guessed_from(self, env: Any) -> None:
        found = env(variables=WORLD | {"PET_MASTER_ADDR": "head"}, route_to_master=None)
        assert "GLOO_SOCKET_IFNAME" not in found["set"]
        assert "eth0, eth1 could all lead there" in found["warnings"][0]

    def test_ipv6(self, env: Any) -> None:
        six = {"name": "net1", "up": True, "addrs": ["fd00::3/64", "fe80::1/64"]}
        found = env(
            variables=WORLD | {"PET_MASTER_ADDR": "[fd00::9]"},
            interfaces=[LO, six],
            route_to_master="net1",
        )
        assert found["set"]["NCCL_SOCKET_IFNAME"] == "=net1"
        assert found["set"]["NCCL_SOCKET_FAMILY"] == "AF_INET6"
        assert found["world"]["master_addr"] == "fd00::9"

    def test_a_name_that_is_not_up_is_refused(self, env: Any) -> None:
        found = env("--socket-ifname", "eth7")
        assert found["errors"] == [
            "--socket-ifname names eth7, which is not an interface that is up here"
        ]

    def test_a_preset_is_kept_and_doubted(self, env: Any) -> None:
        found = env(variables=WORLD | {"GLOO_SOCKET_IFNAME": "eth7", "NCCL_SOCKET_IFNAME": "eth"})
        assert found["kept"] == {"GLOO_SOCKET_IFNAME": "eth7", "NCCL_SOCKET_IFNAME": "eth"}
        assert "eth7 is not an interface" in found["warnings"][0]

    def test_one_pod_alone_needs_none(self, env: Any) -> None:
        alone = dict.fromkeys(WORLD, "") | {"PET_NPROC_PER_NODE": "8"}
        found = env(variables=alone, route_to_master=None)["set"]
        assert not {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"} & found.keys()

    def test_gaudi_has_a_variable_of_its_own_and_none_of_nccl(self, env: Any) -> None:
        found = env(gpus=[{"index": i, "name": "Gaudi3"} for i in range(8)])
        assert found["backend"] == "hccl"
        assert found["set"]["HCCL_SOCKET_IFNAME"] == "eth0"
        assert not [name for name in found["set"] if "NCCL" in name]


class TestVendors:
    @pytest.mark.parametrize(
        ("variables", "adapters", "name"),
        [
            ({"FI_PROVIDER": "efa"}, [], "AWS EFA"),
            ({"FI_EFA_USE_HUGE_PAGE": "0"}, [], "AWS EFA"),
            ({}, ["rdmap0s31"], "AWS EFA"),
            ({"NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "eth1"}, [], "GCP TCPX"),
            ({"NCCL_FASTRAK_CTRL_DEV": "eth0"}, [], "GCP TCPXO"),
            ({}, ["mlx5_0"], None),
            ({"FI_PROVIDER": ""}, [], None),
        ],
    )
    def test_profiles_are_recognised(
        self, variables: dict[str, str], adapters: list[str], name: str | None
    ) -> None:
        assert profile(variables, [], adapters) == name

    @pytest.mark.parametrize("file", ["/usr/local/gib/scripts/set_nccl_env.sh",
                                      "/opt/microsoft/ndv5-topo.xml"])  # fmt: skip
    def test_the_network_s_variables_are_left_to_them(self, env: Any, file: str) -> None:
        found = env("--single-switch", vendor_files=[file], infiniband=[ACTIVE, DOWN])
        network = ("NCCL_SOCKET", "NCCL_IB", "NCCL_CROSS", "NCCL_NSOCKS")
        assert not [name for name in found["set"] if name.startswith(network)]
        assert found["set"]["NCCL_DEBUG"] == "WARN"
        assert found["set"]["GLOO_SOCKET_IFNAME"] == "eth0"


SLICES = [{"index": i, "pci": "0000:01:00.0", "uuid": f"MIG-{i}", "mig": True} for i in (0, 1)]


class TestSlices:
    def test_slices_get_gloo(self, env: Any) -> None:
        found = env(gpus=SLICES, variables=WORLD | {"PET_NPROC_PER_NODE": "2"})
        assert found["backend"] == "gloo"
        assert not [name for name in found["set"] if name.startswith("NCCL")]

    def test_nccl_across_slices_of_one_gpu_is_refused(self, env: Any) -> None:
        two = WORLD | {"PET_NPROC_PER_NODE": "2"}
        found = env("--backend", "nccl", gpus=SLICES, variables=two)
        assert "MIG slices of one GPU cannot reach each other" in found["errors"][0]

    def test_a_slice_of_a_gpu_of_its_own_for_each_process_is_not(self, env: Any) -> None:
        apart = [SLICES[0], SLICES[1] | {"pci": "0000:02:00.0"}]
        two = WORLD | {"PET_NPROC_PER_NODE": "2"}
        assert env("--backend", "nccl", gpus=apart, variables=two)["backend"] == "nccl"

    def test_a_gpu_that_is_listed_twice_is_an_error(self, env: Any) -> None:
        assert "GPU GPU-0 is listed twice" in env(gpus=[GPUS[0], *GPUS])["errors"][0]


class TestFiles:
    @pytest.mark.parametrize(
        ("change", "names"),
        [
            ({"hostname": 3}, "hostname"),
            ({"interfaces": {}}, "interfaces"),
            ({"interfaces": [{"up": True}]}, r"interfaces\[0\].name"),
            ({"interfaces": [{"name": "e", "up": 1}]}, r"interfaces\[0\].up"),
            ({"interfaces": [{"name": "e", "addrs": ["x"]}]}, r"interfaces\[0\].addrs\[0\]"),
            ({"infiniband": [{"name": "m", "device": "yes"}]}, r"infiniband\[0\].device"),
            ({"gpus": [3]}, r"gpus\[0\]"),
            ({"gpus": [{"index": -1}]}, r"gpus\[0\].index"),
            ({"shm_bytes": 1.5}, "shm_bytes"),
            ({"peers": [{"index": 0}]}, r"peers\[0\].gpus"),
        ],
    )
    def test_a_fact_that_cannot_be_is_named(
        self, tmp_path: Path, change: dict[str, Any], names: str
    ) -> None:
        (tmp_path / "f.json").write_text(json.dumps(change))
        with pytest.raises(FactsError, match=f"fact {names}: want"):
            load(tmp_path / "f.json")

    @pytest.mark.parametrize("text", ["", "[]", "{", "[" * 99999])
    def test_a_file_without_facts_is_an_error(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "f.json").write_text(text)
        with pytest.raises(FactsError, match=r"f\.json"):
            load(tmp_path / "f.json")


class TestC37TheFastPathIsNotInThePod:
    """A root directory of our own stands for the machine."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        for number in range(8):
            put(tmp_path / f"dev/nvidia{number}")
        return tmp_path

    def adapter(self, root: Path, number: int, state: str, device: bool = True) -> None:
        put(root / f"sys/class/infiniband/mlx5_{number}/ports/1/state", state)
        put(root / f"sys/class/infiniband_verbs/uverbs{number}/ibdev", f"mlx5_{number}")
        if device:
            put(root / f"dev/infiniband/uverbs{number}")

    def decided(self, root: Path, env: dict[str, str] | None = None, **settings: Any) -> Any:
        chosen, _ = plan_here(
            LaunchSettings(**settings), WORLD | (env or {}), machine=machine({}, root=root)
        )
        return chosen.decisions

    def test_a_without_adapters_sockets_are_chosen_openly_or_nothing_starts(
        self, root: Path
    ) -> None:
        found = self.decided(root, rdma="expected")
        assert found.set["NCCL_IB_DISABLE"] == "1"
        assert len(found.warnings) == 1
        assert "the pod has none" in found.warnings[0]
        assert found.errors == []
        strict = self.decided(root, rdma="required")
        assert "no InfiniBand or RoCE adapter can be used" in strict.errors[0]

    def test_a_nobody_expected_any(self, root: Path) -> None:
        found = self.decided(root)
        assert "NCCL_IB_DISABLE" not in found.set
        assert (found.warnings, found.errors) == ([], [])

    def test_b_only_active_adapters_are_named(self, root: Path) -> None:
        self.adapter(root, 0, "4: ACTIVE")
        self.adapter(root, 1, "1: DOWN")
        found = self.decided(root)
        assert found.set["NCCL_IB_HCA"] == "=mlx5_0"
        assert "NCCL_IB_DISABLE" not in found.set
        assert found.warnings == []

    def test_b_an_adapter_without_its_device_file_is_not(self, root: Path) -> None:
        self.adapter(root, 0, "4: ACTIVE", device=False)
        self.adapter(root, 1, "4: ACTIVE")
        self.adapter(root, 10, "4: ACTIVE")
        assert self.decided(root).set["NCCL_IB_HCA"] == "=mlx5_1,mlx5_10"

    def test_c_adapters_without_any_device_file(self, root: Path) -> None:
        self.adapter(root, 0, "4: ACTIVE", device=False)
        found = self.decided(root)
        assert found.set["NCCL_IB_DISABLE"] == "1"
        assert "NCCL_IB_HCA" not in found.set
        assert len(found.warnings) == 1
        assert "mlx5_0 (no device file)" in found.warnings[0]

    @pytest.mark.parametrize(
        ("mib", "processes", "says"),
        [
            (64, 8, "6 segments of 9637888 bytes fit"),
            (64, 6, None),
            (1024, 8, None),
            (64, 1, None),
        ],
    )
    def test_d_little_shared_memory(self, env: Any, mib: int, processes: int, says: str) -> None:
        found = env(variables=WORLD | {"PET_NPROC_PER_NODE": str(processes)}, shm_bytes=mib << 20)[
            "warnings"
        ]
        assert found == [] if says is None else says in found[0]

    def test_e_a_preset_is_respected_and_doubted(self, root: Path) -> None:
        found = self.decided(root, {"NCCL_IB_DISABLE": "0"}, rdma="expected")
        assert found.kept["NCCL_IB_DISABLE"] == "0"
        assert "NCCL_IB_DISABLE" not in found.set
        assert len(found.warnings) == 1
        assert "NCCL_IB_DISABLE=0 is left as it is" in found.warnings[0]

    def test_cards_are_known_by_what_the_driver_says(self, root: Path) -> None:
        put(
            root / "proc/driver/nvidia/gpus/0000:1b:00.0/information",
            "Model: \t NVIDIA H100\nGPU UUID: \t GPU-abc\nDevice Minor: \t 3\n",
        )
        (card,) = [gpu for gpu in machine({}, root=root).gpus if gpu.uuid]
        assert (card.index, card.pci, card.name) == (3, "0000:1b:00.0", "NVIDIA H100")


class TestRoutes:
    TABLE = (
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
        "eth0 00000000 0102010A 0003 0 0 0 00000000 0 0 0\n"
        "eth1 0000090A 00000000 0001 0 0 100 0000FFFF 0 0 0\n"
        "net1 0000090A 00000000 0001 0 0 50 0000FFFF 0 0 0\n"
        "off0 0001090A 00000000 0000 0 0 0 00FFFFFF 0 0 0\n"
    )
    SIX = (
        f"{'fd00'.ljust(32, '0')} 40 {'0' * 32} 00 {'0' * 32} 00000100 1 0 00000001 net6\n"
        f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} 00000400 1 0 00000003 eth0\n"
        f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 1 0 00200200 lo\n"
    )

    @pytest.mark.parametrize(
        ("host", "name"),
        [
            ("192.0.2.7", "eth0"),
            ("10.9.7.7", "net1"),
            ("10.9.1.1", "net1"),
            ("127.0.0.3", "lo"),
            ("fd00::5", "net6"),
            ("2001:db8::1", "eth0"),
            ("does-not-resolve.invalid", None),
        ],
    )
    def test_the_longest_prefix_that_is_up_wins(
        self, tmp_path: Path, host: str, name: str | None
    ) -> None:
        put(tmp_path / "proc/net/route", self.TABLE)
        put(tmp_path / "proc/net/ipv6_route", self.SIX)
        assert outgoing(host, tmp_path) == name

    def test_without_tables_nothing_is_known(self, tmp_path: Path) -> None:
        assert outgoing("192.0.2.7", tmp_path) is None

    def test_this_machine_s_facts_can_be_read(self) -> None:
        found = machine({})
        assert "lo" in [interface.name for interface in found.interfaces]
        assert found.shm_bytes is None or found.shm_bytes > 0


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
