"""Which variables are set: few, never over a preset value, each for a reason."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainer_worlds import hint

from trainer.backend import choose_backend, devices_of
from trainer.facts import Hca, Machine
from trainer.harms import HARMS
from trainer.hints import parse
from trainer.nccl import RULES, Devices, Facts, decide
from trainer.probe import machine
from trainer.settings import LaunchSettings

GPUS = Devices(cuda=8)
EVERYTHING = LaunchSettings(
    socket_ifname="eth0",
    ib_hca="mlx5_0,mlx5_1",
    single_switch=True,
    fast_sockets=True,
    topo_file=Path(__file__),
)


def facts(settings: LaunchSettings | None = None, devices: Devices = GPUS, **more: object) -> Facts:
    return Facts(settings or LaunchSettings(), devices, nccl=devices.cuda > 0, **more)


class TestWhatIsSet:
    def test_by_default_only_what_helps_to_find_faults(self) -> None:
        assert decide({}, facts()).set == {
            "NCCL_DEBUG": "WARN",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
            "TORCH_FR_BUFFER_SIZE": "2000",
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        }

    def test_what_the_settings_say_about_the_fabric(self) -> None:
        chosen = decide({}, facts(EVERYTHING)).set
        assert chosen["NCCL_SOCKET_IFNAME"] == "=eth0"
        assert chosen["GLOO_SOCKET_IFNAME"] == "eth0"
        assert chosen["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
        assert chosen["NCCL_CROSS_NIC"] == "1"
        assert chosen["NCCL_TOPO_FILE"] == __file__
        assert int(chosen["NCCL_SOCKET_NTHREADS"]) * int(chosen["NCCL_NSOCKS_PERTHREAD"]) <= 64

    def test_without_nccl_nothing_of_nccl(self) -> None:
        chosen = decide({}, facts(EVERYTHING, Devices(cuda=0)))
        assert chosen.set == {"TORCH_FR_BUFFER_SIZE": "2000", "GLOO_SOCKET_IFNAME": "eth0"}

    def test_socket_threads_are_left_alone_beside_rdma(self) -> None:
        chosen = decide({}, facts(EVERYTHING, Devices(cuda=8, rdma=True)))
        assert "NCCL_SOCKET_NTHREADS" not in chosen.set
        assert any("--fast-sockets left out" in warning for warning in chosen.warnings)

    def test_a_topology_file_that_is_not_there_is_left_out_with_a_warning(self) -> None:
        chosen = decide({}, facts(LaunchSettings(topo_file=Path("absent.xml"))))
        assert "NCCL_TOPO_FILE" not in chosen.set
        assert chosen.warnings == ["--topo-file absent.xml does not exist; left out"]

    def test_the_flight_recorder_can_be_turned_off(self) -> None:
        chosen = decide({}, facts(LaunchSettings(flight_recorder=0))).set
        assert not {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT"} & chosen.keys()

    @given(st.sets(st.sampled_from([rule.variable for rule in RULES])), st.booleans())
    def test_a_preset_variable_is_never_touched(self, preset: set[str], gaudi: bool) -> None:
        env = dict.fromkeys(preset, "theirs")
        found = facts(EVERYTHING, hccl=gaudi, machine=Machine(infiniband=(Hca("a", "DOWN"),)))
        wanted = decide({}, found)
        chosen = decide(env, found)
        assert not chosen.set.keys() & preset
        assert chosen.kept == {name: "theirs" for name in wanted.set if name in preset}
        assert chosen.set.keys() | chosen.kept.keys() == wanted.set.keys() == chosen.why.keys()

    def test_no_rule_sets_what_the_guide_keeps_for_debugging(self) -> None:
        only_so = {"NCCL_IB_HCA", "NCCL_IB_DISABLE"}  # exact names; and where there is nothing
        always_harmful = {harm.variable for harm in HARMS} - only_so
        assert not always_harmful & {rule.variable for rule in RULES}


class TestWarnings:
    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("NCCL_P2P_DISABLE", "1"),
            ("NCCL_P2P_LEVEL", "SYS"),
            ("NCCL_SHM_DISABLE", "1"),
            ("NCCL_IB_DISABLE", "1"),
            ("NCCL_NET_GDR_LEVEL", "5"),
            ("NCCL_ALGO", "Tree"),
            ("NCCL_PROTO", "LL128"),
            ("NCCL_NVLS_ENABLE", "0"),
            ("NCCL_MNNVL_ENABLE", "1"),
            ("NCCL_CUMEM_ENABLE", "0"),
            ("NCCL_IB_TIMEOUT", "0"),
            ("NCCL_IB_GID_INDEX", "3"),
            ("NCCL_IB_HCA", "mlx5_1"),
            ("NCCL_HOSTID", "a"),
            ("NCCL_BLOCKING_WAIT", "1"),
        ],
    )
    def test_a_harmful_preset_is_reported_once_and_left(self, variable: str, value: str) -> None:
        chosen = decide({variable: value}, facts())
        assert [
            w for w in chosen.warnings if w.startswith(f"{variable}={value} ")
        ] == chosen.warnings
        assert len(chosen.warnings) == 1
        assert variable not in chosen.set

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("NCCL_P2P_DISABLE", "0"),
            ("NCCL_IB_DISABLE", "0"),
            ("NCCL_NVLS_ENABLE", "2"),
            ("NCCL_IB_TIMEOUT", "22"),
            ("NCCL_IB_HCA", "=mlx5_0"),
            ("NCCL_IB_HCA", "^=mlx5_0"),
            ("NCCL_ALGO", ""),
        ],
    )
    def test_a_harmless_one_is_not(self, variable: str, value: str) -> None:
        assert decide({variable: value}, facts()).warnings == []

    def test_a_level_that_nccl_would_ignore_is_called_that(self) -> None:
        (warning,) = decide({"NCCL_P2P_LEVEL": "NODE"}, facts()).warnings
        assert "ignores silently" in warning

    def test_without_nccl_presets_do_not_matter(self) -> None:
        assert decide({"NCCL_P2P_DISABLE": "1"}, facts(devices=Devices(0))).warnings == []

    def test_an_nvlink_domain_without_a_channel_is_reported(self) -> None:
        inside = parse(json.dumps(hint(0, "n", clique="uuid.1")))
        assert "IMEX" in decide({}, facts(hint=inside)).warnings[0]
        assert not decide({}, facts(devices=Devices(8, imex=True), hint=inside)).warnings


class TestBackend:
    @pytest.mark.parametrize(
        ("devices", "processes", "name", "why"),
        [
            (Devices(0), 1, "gloo", "no NVIDIA GPU"),
            (Devices(8), 8, "nccl", "8 NVIDIA GPUs"),
            (Devices(0, gaudi=8), 8, "hccl", "8 Intel Gaudi"),
            (Devices(2), 4, "gloo", "4 processes share 2 GPUs"),
            (Devices(7, mig=True), 7, "gloo", "MIG"),
        ],
    )
    def test_is_chosen_by_the_devices(
        self, devices: Devices, processes: int, name: str, why: str
    ) -> None:
        chosen = choose_backend(devices, processes)
        assert chosen.name == name
        assert why in chosen.why

    def test_devices_are_seen_by_their_files(self, tmp_path: Path) -> None:
        for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
            (tmp_path / "dev").mkdir(exist_ok=True)
            (tmp_path / "dev" / name).touch()
        assert seen({}, tmp_path) == Devices(2)
        assert seen({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == Devices(0)
        mig = {"NVIDIA_VISIBLE_DEVICES": "MIG-1-2-3,MIG-4-5-6"}
        assert seen(mig, tmp_path) == Devices(2, mig=True, apart=False)
        for file in ("nvidia-caps-imex-channels/channel0", "infiniband/uverbs0"):
            (tmp_path / "dev" / file).parent.mkdir()
            (tmp_path / "dev" / file).touch()
        (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
        assert seen({}, tmp_path) == Devices(2, imex=True, rdma=True)

    @pytest.mark.parametrize(
        ("devices", "processes", "asked", "error"),
        [
            (Devices(8), 8, "nccl", None),
            (Devices(0), 4, "gloo", None),
            (Devices(8), 8, "gloo", None),
            (Devices(0), 1, "nccl", "no NVIDIA GPU"),
            (Devices(2), 4, "nccl", "4 processes for 2 GPUs"),
            (Devices(2, mig=True, apart=False), 2, "nccl", "MIG slices of one GPU"),
            (Devices(2, mig=True, apart=True), 2, "nccl", None),
            (Devices(1, mig=True), 1, "nccl", None),
            (Devices(1, mig=True), 2, "nccl", "2 processes for 1 MIG slices"),
            (Devices(0), 1, "hccl", "no Intel Gaudi"),
            (Devices(0), 1, "mpi", "built without MPI"),
        ],
    )
    def test_what_is_asked_for_is_taken_or_refused_with_the_reason(
        self, devices: Devices, processes: int, asked: str, error: str | None
    ) -> None:
        chosen = choose_backend(devices, processes, asked)
        assert chosen.name == asked
        assert chosen.error is None if error is None else error in chosen.error


def seen(env: dict[str, str], root: Path) -> Devices:
    return devices_of(machine(env, root=root))
