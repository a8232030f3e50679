"""Quantities are read as Kubernetes writes them, exactly, and nothing hostile gets through."""

from __future__ import annotations

import string
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core import quantity
from scheduler.core.quantity import QuantityFault

GPU = "nvidia.com/gpu"

GOOD = [
    ("0", 0),
    ("1", 1),
    ("+1", 1),
    ("-1", -1),
    ("007", 7),
    ("1.", 1),
    (".5", Fraction(1, 2)),
    ("0.5", Fraction(1, 2)),
    ("-0.5", Fraction(-1, 2)),
    ("1.50", Fraction(3, 2)),
    ("500m", Fraction(1, 2)),
    ("0.1m", Fraction(1, 10_000)),
    ("2000m", 2),
    ("7u", Fraction(7, 10**6)),
    ("7n", Fraction(7, 10**9)),
    ("1k", 1000),
    ("1M", 10**6),
    ("1G", 10**9),
    ("1T", 10**12),
    ("10P", 10**16),
    ("1E", 10**18),
    ("50E", 50 * 10**18),
    ("1Ki", 1024),
    ("1Mi", 2**20),
    ("16Gi", 2**34),
    ("1Ti", 2**40),
    ("1Pi", 2**50),
    ("1Ei", 2**60),
    ("1.5Gi", 3 * 2**29),
    ("0.1Ki", Fraction(1024, 10)),
    ("1e3", 1000),
    ("1E3", 1000),
    ("1e+3", 1000),
    ("1e-3", Fraction(1, 1000)),
    ("1.5e3", 1500),
    ("1e0", 1),
    ("12e100", 12 * 10**100),
    ("9223372036854775808", 2**63),
    ("123456789012345678901234567890", 123456789012345678901234567890),
    (4, 4),
    (0.5, Fraction(1, 2)),
    (1e16, 10**16),
]

BAD: list[object] = [
    "",
    " ",
    " 4",
    "4 ",
    "4\n",
    "NaN",
    "Infinity",
    "-inf",
    "1_000",
    "1K",
    "1gi",
    "1Gib",
    "1GI",
    "1e3Gi",
    "1e",
    "1e+",
    "1e3.5",
    "1e3m",
    "1mm",
    "e3",
    "m",
    "Ki",
    ".",
    "+",
    "-",
    "--1",
    "1.2.3",
    "1,5",
    "0x10",
    "٣",
    "４",
    "½",
    "1i",
    "ten",
    "1 Gi",
    "\x00",
    None,
    True,
    False,
    [],
    {},
    b"1",
    float("nan"),
    float("inf"),
]

HOSTILE = [
    "1e999999999",
    "1e-999999999",
    "1e99999999999999999999999999",
    "1e101",
    "9" * 1_000_000,
    "0." + "0" * 1_000_000 + "1",
    "." * 1_000_000,
    10**5000,
    -(10**5000),
]


@pytest.mark.parametrize(("text", "value"), GOOD)
def test_a_good_quantity_has_its_exact_value(text: object, value: Fraction | int) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize("text", BAD, ids=repr)
def test_anything_else_is_a_fault_that_shows_the_text(text: object) -> None:
    fault = quantity.parse(text)
    assert isinstance(fault, QuantityFault)
    assert str(fault).endswith("is not a quantity")
    assert fault.reason.isprintable()


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{type(text).__name__}")
def test_hostile_input_is_refused_without_being_computed(text: object) -> None:
    fault = quantity.parse(text)
    assert isinstance(fault, QuantityFault)
    assert len(fault.reason) < 200
    assert isinstance(quantity.amount(GPU, text), QuantityFault)
    assert isinstance(quantity.allocatable("memory", text), QuantityFault)


def test_the_smallest_and_largest_exponents_that_count() -> None:
    assert quantity.parse("1e100") == 10**100
    assert quantity.parse("1e-100") == Fraction(1, 10**100)


@pytest.mark.parametrize(
    ("resource", "text", "asked", "offered"),
    [
        ("cpu", "1", 1000, 1000),
        ("cpu", "0.1m", 1, 0),
        ("cpu", "1.0001", 1001, 1000),
        ("cpu", "1n", 1, 0),
        ("memory", "1.5", 2, 1),
        ("memory", "50E", 50 * 10**18, 50 * 10**18),
        ("memory", "500m", 1, 0),
        ("pods", "110", 110, 110),
        (GPU, "8", 8, 8),
        (GPU, "0", 0, 0),
        (GPU, "1e0", 1, 1),
        (GPU, "2000m", 2, 2),
        (GPU, 4, 4, 4),
    ],
)
def test_a_request_is_rounded_up_and_an_offer_down(
    resource: str, text: object, asked: int, offered: int
) -> None:
    assert quantity.amount(resource, text) == asked
    assert quantity.allocatable(resource, text) == offered


@pytest.mark.parametrize("text", ["0.5", "1500m", 0.5])
def test_devices_are_asked_for_whole(text: object) -> None:
    fault = quantity.amount(GPU, text)
    assert isinstance(fault, QuantityFault)
    assert fault.reason.endswith("is not a whole number")
    assert quantity.amount("cpu", text) in (500, 1500)


def test_only_devices_are_counted_whole() -> None:
    assert quantity.amount("batteries.kubernetes.io/cells", "0.5") == 1
    assert quantity.amount("pods", "0.5") == 1


def test_a_bad_device_count_is_quoted() -> None:
    assert quantity.amount(GPU, "0.5") == QuantityFault('"0.5" is not a whole number')


@pytest.mark.parametrize("resource", ["cpu", "memory", GPU, "pods"])
@pytest.mark.parametrize("text", ["-1", "-1m", "-0.5", -1])
def test_nothing_is_negative(resource: str, text: object) -> None:
    for read in (quantity.amount, quantity.allocatable):
        fault = read(resource, text)
        assert isinstance(fault, QuantityFault)
        assert fault.reason.endswith("is negative")


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 124_000, "124"),
        ("cpu", 500, "500m"),
        ("cpu", 1_500, "1500m"),
        ("cpu", 0, "0"),
        ("memory", 512 * 2**30, "512Gi"),
        ("memory", 3 * 2**29, "1536Mi"),
        ("memory", 2**60, "1Ei"),
        ("memory", 1023, "1023"),
        ("memory", 0, "0"),
        ("memory", 10**9, "1000000000"),
        ("ephemeral-storage", 2**41, "2Ti"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        (GPU, 1024, "1024"),
        (GPU, 0, "0"),
        ("pods", 107, "107"),
    ],
)
def test_amounts_are_printed_as_kubernetes_prints_them(
    resource: str, value: int, text: str
) -> None:
    assert quantity.format(resource, value) == text


resources = st.sampled_from(["cpu", "memory", "ephemeral-storage", "hugepages-1Gi", GPU, "pods"])


@given(resources, st.integers(0, 2**80))
def test_a_printed_amount_reads_back_as_itself(resource: str, value: int) -> None:
    text = quantity.format(resource, value)
    assert quantity.amount(resource, text) == value
    assert quantity.allocatable(resource, text) == value


SUFFIXES = {
    **dict(zip("numkMGTPE", [10.0**p for p in (-9, -6, -3, 3, 6, 9, 12, 15, 18)], strict=True)),
    **{f"{unit}i": 1024.0 ** (at + 1) for at, unit in enumerate("KMGTPE")},
    "": 1.0,
}


@given(st.decimals(0, 10**9, places=4), st.sampled_from(sorted(SUFFIXES)))
def test_every_suffix_scales(number: object, suffix: str) -> None:
    parsed = quantity.parse(f"{number}{suffix}")
    assert isinstance(parsed, Fraction)
    assert float(parsed) == pytest.approx(float(str(number)) * SUFFIXES[suffix])


anything = st.one_of(
    st.text(alphabet=string.digits + "+-.eEinumkKMGTP _", max_size=12),
    st.text(max_size=20),
    st.integers(),
    st.floats(),
    st.none(),
    st.booleans(),
    st.lists(st.integers()),
)


@settings(max_examples=300)
@given(anything, resources)
def test_whatever_comes_is_a_number_or_a_fault(text: object, resource: str) -> None:
    parsed = quantity.parse(text)
    assert isinstance(parsed, Fraction | QuantityFault)
    asked, offered = quantity.amount(resource, text), quantity.allocatable(resource, text)
    if isinstance(asked, int):
        assert isinstance(parsed, Fraction)
        assert 0 <= offered <= asked  # type: ignore[operator]
        assert (asked > 0) == (parsed > 0), "too big or too small never becomes 0"
