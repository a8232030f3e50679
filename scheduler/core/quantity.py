"""Kubernetes quantities: ``500m``, ``1e3``, ``512Gi``, exact and without limits of size.

The grammar is the one of the API, no more: a sign, digits with an optional point, and one suffix
(``n u m k M G T P E``, ``Ki Mi Gi Ti Pi Ei``, or ``e``/``E`` with a whole exponent). Results are
exact, so nothing overflows and nothing too big becomes 0. Length and exponent are bounded, so that
hostile input costs no time.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from scheduler.core.quoting import quoted

__all__ = ["QuantityFault", "allocatable", "amount", "format", "parse"]

LONGEST = 100
"""Characters of a quantity; real ones have fewer than twenty."""
LARGEST_EXPONENT = 100
"""Bound of the exponent in ``1e100``, either way."""

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LARGEST_NUMBER = 10 ** (LONGEST + LARGEST_EXPONENT)


@dataclass(frozen=True, slots=True)
class QuantityFault:
    """Why a text is not the quantity it should be."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def parse(text: object) -> Fraction | QuantityFault:
    """The exact value of a quantity, or a fault. Never raises.

    JSON numbers count as their text, as the API server takes them.
    """
    if isinstance(text, str):
        return _parse_text(text)
    if isinstance(text, bool) or not isinstance(text, int | float):
        return QuantityFault(f"{quoted(text)} is not a quantity")
    if isinstance(text, float):
        return _parse_text(repr(text))
    if abs(text) > _LARGEST_NUMBER:
        return QuantityFault(f"{quoted(text)} is out of bounds")
    return Fraction(text)


def amount(resource: str, text: object) -> int | QuantityFault:
    """What a pod asks for: ``cpu`` in millicores, others in base units, rounded up, never < 0.

    Extended resources such as ``nvidia.com/gpu`` must be whole numbers.
    """
    if type(text) is str and len(text) <= LONGEST:
        return _amount(resource, text)
    return _checked(resource, parse(text), text, whole=_extended(resource), up=True)


def allocatable(resource: str, text: object) -> int | QuantityFault:
    """What a node offers: the same units as :func:`amount`, rounded down, never < 0."""
    if type(text) is str and len(text) <= LONGEST:
        return _allocatable(resource, text)
    return _checked(resource, parse(text), text, whole=False, up=False)


def format(resource: str, value: int) -> str:
    """An amount as Kubernetes prints it: ``500m`` of cpu, ``512Gi`` of memory, counts plainly."""
    if resource == "cpu":
        return f"{value}m" if value % 1000 else str(value // 1000)
    if _in_bytes(resource):
        return _binary(value)
    return str(value)


# Clusters use few different texts over and over; parsing one afresh costs about 3 µs.
@lru_cache(maxsize=8192)
def _amount(resource: str, text: str) -> int | QuantityFault:
    return _checked(resource, _parse_text(text), text, whole=_extended(resource), up=True)


@lru_cache(maxsize=8192)
def _allocatable(resource: str, text: str) -> int | QuantityFault:
    return _checked(resource, _parse_text(text), text, whole=False, up=False)


def _parse_text(text: str) -> Fraction | QuantityFault:
    if len(text) > LONGEST:
        return QuantityFault(f"{quoted(text)} is too long for a quantity")
    match = _GRAMMAR.fullmatch(text)
    digits = (match["whole"] + (match["part"] or "")) if match else ""
    if match is None or not digits:
        return QuantityFault(f"{quoted(text)} is not a quantity")
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > LARGEST_EXPONENT:
        return QuantityFault(f"{quoted(text)} has an exponent beyond {LARGEST_EXPONENT}")
    suffix = match["suffix"] or ""
    tens = exponent + _DECIMAL.get(suffix, 0) - len(match["part"] or "")
    value = int(digits) * Fraction(10) ** tens * (1 << _BINARY.get(suffix, 0))
    return -value if match["sign"] == "-" else value


def _checked(
    resource: str, value: Fraction | QuantityFault, text: object, *, whole: bool, up: bool
) -> int | QuantityFault:
    if isinstance(value, QuantityFault):
        return value
    if value < 0:
        return QuantityFault(f"{quoted(text)} is negative")
    if whole and value.denominator != 1:
        return QuantityFault(f"{quoted(text)} is not a whole number")
    units = value * 1000 if resource == "cpu" else value
    return math.ceil(units) if up else math.floor(units)


def _extended(resource: str) -> bool:
    """Whether a resource is counted in whole devices: it has a domain that is not Kubernetes'."""
    return "/" in resource and "kubernetes.io/" not in resource


def _in_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def _binary(value: int) -> str:
    if not value:
        return "0"
    for suffix, bits in reversed(_BINARY.items()):
        if value % (1 << bits) == 0:
            return f"{value >> bits}{suffix}"
    return str(value)
