"""By which interface packets to an address leave, from the kernel's routing tables.

The tables are read and not asked by a connected socket: to its own address a host always
answers "loopback", where what matters is the interface that the others come in by.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_UP, _REJECT = 0x1, 0x200


def outgoing(host: str, root: Path = Path("/")) -> str | None:
    """Name of the interface; None where the name does not resolve or nothing leads there."""
    address = resolve(host)
    if address is None:
        return None
    if address.is_loopback:
        return "lo"
    return by_longest_prefix(address, routes(root))


def resolve(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return ipaddress.ip_address(str(found[0][4][0]).partition("%")[0])


def by_longest_prefix(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, table: list[tuple[Network, int, str]]
) -> str | None:
    """table: network, metric, interface. Ties go to the lower metric, then by name."""
    fitting = [
        (-network.prefixlen, metric, name)
        for network, metric, name in table
        if network.version == address.version and address in network
    ]
    return min(fitting)[2] if fitting else None


def routes(root: Path) -> list[tuple[Network, int, str]]:
    return [*_ipv4(root / "proc/net/route"), *_ipv6(root / "proc/net/ipv6_route")]


def _ipv4(path: Path) -> Iterator[tuple[Network, int, str]]:
    """Columns: Iface Destination Gateway Flags RefCnt Use Metric Mask …, numbers in hexadecimal
    and in the byte order of the machine (little-endian wherever GPUs are).
    """
    for fields in _rows(path)[1:]:
        if len(fields) < 8 or not _leads(fields[3]):
            continue
        start, mask = (bytes.fromhex(fields[column])[::-1] for column in (1, 7))
        text = f"{ipaddress.IPv4Address(start)}/{ipaddress.IPv4Address(mask)}"
        yield ipaddress.IPv4Network(text, strict=False), int(fields[6]), fields[0]


def _ipv6(path: Path) -> Iterator[tuple[Network, int, str]]:
    """Columns: destination, its length, source, its length, next hop, metric, references, use,
    flags, interface; all in hexadecimal.
    """
    for fields in _rows(path):
        if len(fields) < 10 or not _leads(fields[8]) or fields[9] == "lo":
            continue
        start = ipaddress.IPv6Address(int(fields[0], 16))
        network = ipaddress.IPv6Network((start, int(fields[1], 16)), strict=False)
        yield network, int(fields[5], 16), fields[9]


def _leads(flags: str) -> bool:
    return bool(int(flags, 16) & _UP) and not int(flags, 16) & _REJECT


def _rows(path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
