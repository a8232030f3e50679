"""Variables that are likely a mistake, and vendors' profiles that know better than we do.

NCCL's guide says of its "Debugging" variables that they "should not be used in production nor
retained in scripts". A preset one is reported and left as it is: its owner decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trainer.numbers import SHOWN, is_whole

GUIDE = "NCCL user guide, Environment variables"
SYSTEM = f"{GUIDE}, System configuration"
DEBUGGING = f"{GUIDE}, Debugging"
TORCH = "PyTorch, ProcessGroupNCCL environment variables"


@dataclass(frozen=True, slots=True)
class Harm:
    """A preset that is likely a mistake: `when` it has such a value, say `what` it does."""

    variable: str
    what: str
    source: str = DEBUGGING
    when: Callable[[str], bool] = lambda value: value != ""


@dataclass(frozen=True, slots=True)
class Profile:
    """A cloud's own set of variables for its network, which is tested as a whole."""

    name: str
    variables: tuple[str, ...] = ()
    """Any of them set means that the profile is in use. A trailing `*` stands for any rest."""
    files: tuple[str, ...] = ()
    adapters: str = r"(?!)"
    """Names of its network adapters."""


PROFILES: tuple[Profile, ...] = (
    Profile("AWS EFA", ("FI_PROVIDER", "FI_EFA_*"), adapters=r"(rdmap\d|efa_)"),
    Profile("GCP TCPX", ("NCCL_GPUDIRECTTCPX_*",)),
    Profile("GCP TCPXO", ("NCCL_FASTRAK_*",), ("/usr/local/nvidia/lib64/nccl-env-profile.sh",)),
    Profile("GCP gIB", (), ("/usr/local/gib/scripts/set_nccl_env.sh",)),
    Profile(
        "Azure topology file", (), ("/opt/microsoft/ndv5-topo.xml", "/opt/microsoft/ndv4-topo.xml")
    ),
)

VENDOR_FILES = tuple(file for profile in PROFILES for file in profile.files)


def profile(env: Mapping[str, str], files: Sequence[str], adapters: Sequence[str]) -> str | None:
    """Name of the vendor's profile that is in use here. Pure."""
    for known in PROFILES:
        by_variable = any(_matches(name, known.variables) for name, value in env.items() if value)
        by_adapter = any(re.match(known.adapters, name) for name in adapters)
        if by_variable or by_adapter or set(known.files) & set(files):
            return known.name
    return None


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )


def _on(value: str) -> bool:
    return value not in ("", "0")


def _off(value: str) -> bool:
    return value == "0"


_LEVELS = {"LOC", "NVL", "PIX", "PXB", "PHB", "SYS"}


def _no_level(value: str) -> bool:
    return value not in _LEVELS and not is_whole(value)


HARMS: tuple[Harm, ...] = (
    Harm("NCCL_P2P_DISABLE", "turns NVLink off along with PCIe peer access", when=_on),
    Harm("NCCL_P2P_LEVEL", "is a word NCCL ignores silently", when=_no_level),
    Harm("NCCL_P2P_LEVEL", "overrides a choice that NCCL makes from the hardware"),
    Harm(
        "NCCL_SHM_DISABLE",
        "sends traffic inside a node over the network; a larger /dev/shm is the real remedy",
        when=_on,
    ),
    Harm("NCCL_IB_DISABLE", "sends everything over TCP sockets", when=_on),
    Harm("NCCL_NET_GDR_LEVEL", "overrides a choice that NCCL makes from the hardware"),
    Harm(
        "NCCL_ALGO",
        "since NCCL 2.24 fails for collectives that the listed algorithms cannot do",
    ),
    Harm("NCCL_PROTO", "can corrupt data where it forces LL128 on hardware without it"),
    Harm("NCCL_NVLS_ENABLE", "costs all-reduce speed on Hopper and later", when=_off),
    Harm("NCCL_MNNVL_ENABLE", "loses NVLink between nodes", when=_off),
    Harm("NCCL_MNNVL_ENABLE", "fails where NVLink between nodes is not there", when=_on),
    Harm("NCCL_CUMEM_ENABLE", "also turns NVLink between nodes off", when=_off),
    Harm("NCCL_MIN_NCHANNELS", "takes GPU time and network queues from others"),
    Harm("NCCL_MAX_NCHANNELS", "can starve a fast network"),
    Harm(
        "NCCL_IB_TIMEOUT",
        "waits forever, so a lost peer becomes a hang instead of an error",
        when=lambda value: is_whole(value) and not 0 < int(value) < 32,
    ),
    Harm(
        "NCCL_IB_GID_INDEX",
        "stops NCCL (2.21 and later) from finding the right index on each node",
        source="NCCL user guide, Troubleshooting, Networking",
    ),
    Harm(
        "NCCL_IB_HCA",
        "has no leading =, so mlx5_1 also matches mlx5_10",
        source=SYSTEM,
        when=lambda value: not re.match(r"\^?=", value) and value != "",
    ),
    Harm("NCCL_GRAPH_FILE", "forces rings and trees that fit one machine only"),
    Harm("NCCL_HOSTID", "makes two machines look like one where it is wrong"),
    Harm(
        "NCCL_ASYNC_ERROR_HANDLING",
        "is the old name of TORCH_NCCL_ASYNC_ERROR_HANDLING",
        source=TORCH,
    ),
    Harm("NCCL_BLOCKING_WAIT", "is the old name of TORCH_NCCL_BLOCKING_WAIT", source=TORCH),
)


def found(env: Mapping[str, str]) -> list[str]:
    """A sentence for each harmful preset, the first that applies to each variable. Pure."""
    said: dict[str, str] = {}
    for harm in HARMS:
        value = env.get(harm.variable, "")
        if value and harm.when(value) and harm.variable not in said:
            said[harm.variable] = (
                f"{harm.variable}={value[:SHOWN]} {harm.what}; left as it is, but remove it unless "
                f"your platform's own profile sets it [{harm.source}]"
            )
    return list(said.values())
