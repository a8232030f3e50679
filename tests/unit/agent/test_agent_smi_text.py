"""Tables of GPUs, in all the forms in which they arrive."""

from __future__ import annotations

from itertools import combinations

import agent_tables as tables
import pytest
from agent_tables import Shown
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.agent.smi_text import NoTable
from scheduler.agent.table import Table
from scheduler.agent.topology_text import LONGEST, parse
from scheduler.core.devices import Matrix, Nic

TWO_PAIRS = {(0, 1): "NV3", (0, 2): "SYS", (0, 3): "SYS"} | {
    (1, 2): "SYS",
    (1, 3): "SYS",
    (2, 3): "NV3",
}
CARDS = {(0, 4): "PIX", (1, 4): "NODE", (2, 4): "SYS", (3, 4): "SYS"} | {
    (0, 5): "SYS",
    (1, 5): "SYS",
    (2, 5): "PHB",
    (3, 5): "PHB",
    (4, 5): "SYS",
}

BOX = Shown(
    4,
    TWO_PAIRS | CARDS,
    cards=("mlx5_0", "mlx5_bond_1"),
    cpus=("0-15,32-47",) * 2 + ("16-31,48-63",) * 2,
    numa=("0", "0", "1", "1"),
    gpu_numa=True,
)
PLAIN = Shown(4, TWO_PAIRS, cpus=BOX.cpus, numa=BOX.numa)


def read(text: str) -> Table:
    table = parse(text)
    assert isinstance(table, Table), table
    return table


def refused(text: str) -> str:
    table = parse(text)
    assert isinstance(table, NoTable), table
    return table.reason


@pytest.mark.parametrize(
    "text",
    [
        tables.with_tabs(BOX),
        tables.with_tabs(BOX, lead=""),
        tables.with_tabs(BOX, legend=""),
        tables.with_spaces(BOX),
        tables.with_spaces(BOX, indent="        "),
        tables.glued(BOX),
        tables.underlined(BOX),
        tables.underlined(BOX, escape=""),
        "$ nvidia-smi topo -m\n\n" + tables.with_tabs(BOX) + "\n$ exit\n",
        tables.with_tabs(BOX).replace("\n", "\r\n"),
        tables.with_tabs(BOX).replace("mlx5_bond_1\tCPU", "mlx5_bond_1 CPU"),
        tables.with_tabs(BOX).replace("GPU1\tNV3\t X \tSYS", "GPU1\tNV3   X   SYS"),
        tables.with_tabs(BOX) + "\n" + tables.with_tabs(Shown(2, {(0, 1): "SYS"})),
    ],
    ids=[
        "as-printed",
        "no-leading-tab",
        "no-legend",
        "spaces",
        "indented",
        "glued-header",
        "escapes",
        "half-escapes",
        "prompt",
        "crlf",
        "space-in-header",
        "spaces-in-a-row",
        "a-second-table",
    ],
)
def test_one_table_in_many_forms(text: str) -> None:
    table = read(text)

    assert table.words == TWO_PAIRS
    assert table.numa == (0, 0, 1, 1)
    assert table.matrix().nics == (Nic("mlx5_0", 0, (0, 1)), Nic("mlx5_bond_1", 1, (2, 3)))
    assert table.remarks == ()


def test_old_drivers_say_soc_and_have_no_numa_column() -> None:
    old = {pair: "SOC" if word == "SYS" else word for pair, word in TWO_PAIRS.items()}

    table = read(tables.with_tabs(Shown(4, old, cpus=BOX.cpus)))

    assert table.words == TWO_PAIRS
    assert table.numa == (0, 0, 1, 1), "groups of CPUs, in their order"


def test_a_short_title_of_the_numa_column() -> None:
    text = tables.with_spaces(PLAIN).replace("NUMA Affinity", "NUMA")

    assert read(text).numa == (0, 0, 1, 1)


def test_numa_nodes_that_are_ranges_or_missing() -> None:
    ranges = Shown(4, TWO_PAIRS, cpus=BOX.cpus, numa=("0,3-9", "0,3-9", "1,19-25", "1,19-25"))
    absent = Shown(4, TWO_PAIRS, cpus=("0-7",) * 4, numa=("N/A",) * 4)

    assert read(tables.with_tabs(ranges)).numa == (0, 0, 1, 1)
    assert read(tables.with_spaces(absent)).numa == (0, 0, 0, 0)
    assert read(tables.with_tabs(Shown(4, TWO_PAIRS))).numa == (None,) * 4


@pytest.mark.parametrize("render", [tables.with_tabs, tables.with_spaces])
def test_empty_cpu_cells(render: object) -> None:
    shown = Shown(4, TWO_PAIRS, cpus=("0-7", "0-7", "", ""), numa=BOX.numa, gpu_numa=True)

    assert callable(render)
    assert read(render(shown)).numa == (0, 0, 1, 1)


def test_names_of_cards_from_the_legend() -> None:
    shown = Shown(4, TWO_PAIRS | CARDS, cards=("NIC0", "NIC1"), numa=BOX.numa)
    legend = "\nNIC Legend:\n\n  NIC0: mlx5_10\n  NIC1: mlx5_bond_0\n"

    named = read(tables.with_tabs(shown, legend=legend)).matrix()

    assert [nic.name for nic in named.nics] == ["mlx5_10", "mlx5_bond_0"]


def test_one_gpu() -> None:
    one = read(tables.with_tabs(Shown(1, {}, cpus=("0-25",), numa=("0",), gpu_numa=True)))

    assert one.matrix() == Matrix(1, numa=(0,))


def test_rows_that_are_cut_off_are_filled_in_from_the_others() -> None:
    text = tables.cut_off(tables.with_tabs(PLAIN), rows=3, width=3)

    table = read(text)

    assert table.words == {pair: word for pair, word in TWO_PAIRS.items() if pair != (2, 3)}
    assert table.numa == (0, 0, None, None)
    assert table.remarks == ("row GPU3 is missing",)


def test_cards_that_only_their_own_rows_know() -> None:
    """The GPUs' rows end before the cards' columns."""
    lines = tables.with_tabs(BOX, legend="").splitlines()
    narrow = ["\t".join(line.split("\t")[:5]) for line in lines[1:5]]

    table = read("\n".join([lines[0], *narrow, *lines[5:]]))

    assert table.words == TWO_PAIRS
    assert [nic.near for nic in table.matrix().nics] == [(0, 1), (2, 3)]


def test_rows_that_disagree_give_the_weaker_link() -> None:
    text = tables.with_tabs(PLAIN).replace("GPU1\tNV3", "GPU1\tPHB")

    assert read(text).words[0, 1] == "PHB"


def test_rows_of_cards_that_disagree_give_the_weaker_link() -> None:
    text = tables.with_tabs(BOX)

    for worse in (text.replace("mlx5_0\tPIX", "mlx5_0\tSYS"), text.replace("SYS\tPIX", "SYS\tSYS")):
        assert worse != text
        assert read(worse).nics[0].words == ("SYS", "NODE", "SYS", "SYS")


def test_another_table_does_not_fill_in_what_is_cut_off() -> None:
    other = tables.with_tabs(Shown(4, dict.fromkeys(TWO_PAIRS, "PIX")))

    table = read(tables.cut_off(tables.with_tabs(PLAIN), rows=3, width=6) + "\n" + other)

    assert table.remarks == ("row GPU3 is missing",)
    assert "PIX" not in table.words.values()


def test_a_row_out_of_line_is_left_out_with_a_remark() -> None:
    text = tables.with_tabs(PLAIN).replace("GPU0\t X \t", "GPU0\tSYS\t X \t")

    table = read(text)

    assert table.words == TWO_PAIRS, "the other rows know it all"
    assert table.remarks == (
        'row "GPU0": its cells do not stand below the header',
        "row GPU0 is missing",
    )


def test_words_that_are_not_known_leave_the_pair_out() -> None:
    text = tables.with_tabs(PLAIN).replace("NV3", "NV")

    assert read(text).words == {pair: word for pair, word in TWO_PAIRS.items() if word != "NV3"}


def test_cards_that_are_across_numa_nodes_by_their_words_count_by_their_node() -> None:
    """On boards with GPUs on the CPU's own link every word between GPU and card is SYS."""
    far = Shown(2, {(0, 1): "NV18", (0, 2): "SYS", (1, 2): "SYS"}, ("mlx5_0",), numa=("0", "1"))

    table = read(tables.with_tabs(far))

    assert table.matrix().nics == (Nic("mlx5_0", None, ()),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no line names the GPUs"),
        ("No devices were found\n", "no line names the GPUs"),
        ("\tGPU0\tGPU1\tCPU Affinity\n", "below the header of 2 GPUs there is no row"),
        ("\tGPU0\tGPU2\nGPU0\t X \tSYS\n", "the header numbers its GPUs 0, 2; they must"),
        ("\tGPU1\tGPU0\nGPU0\tSYS\t X \n", "the header numbers its GPUs 1, 0; they must"),
        ("\tGPU0\tmlx5_0\tmlx5_0\nGPU0\t X \tSYS\tSYS\n", "the header names a device twice"),
        ("\t" + "\t".join(f"GPU{at}" for at in range(65)) + "\n", "65 GPUs in 65 columns"),
        ("GPU0 " * 300_000, f"{5 * 300_000} characters"),
    ],
)
def test_what_is_no_table(text: str, reason: str) -> None:
    assert refused(text).startswith(reason)


def test_the_limit_of_the_length_is_far_from_real_tables() -> None:
    biggest = Shown(16, dict.fromkeys(combinations(range(16), 2), "NODE"))

    assert len(tables.with_tabs(biggest)) * 100 < LONGEST


words = st.sampled_from(["SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV4", "NV18"])


@st.composite
def shown(draw: st.DrawFn) -> Shown:
    gpus = draw(st.integers(1, 9))
    cards = tuple(f"mlx5_{at}" for at in range(draw(st.integers(0, 3))))
    pairs = combinations(range(gpus + len(cards)), 2)
    nodes = [str(draw(st.integers(0, 3))) for _ in range(gpus)]
    has_numa = draw(st.booleans())
    return Shown(
        gpus,
        {pair: draw(words) for pair in pairs},
        cards,
        tuple(f"{node}-{node}" for node in nodes) if has_numa or draw(st.booleans()) else (),
        tuple(nodes) if has_numa else (),
        gpu_numa=has_numa and draw(st.booleans()),
    )


@given(
    shown(),
    st.sampled_from([tables.with_tabs, tables.with_spaces, tables.glued, tables.underlined]),
)
def test_what_is_printed_is_read(shown: Shown, render: object) -> None:
    assert callable(render)

    table = read(render(shown))

    assert table.gpus == shown.gpus
    assert table.words == {p: word for p, word in shown.words.items() if p[1] < shown.gpus}
    assert [nic.words for nic in table.nics] == [
        tuple(shown.words[gpu, shown.gpus + at] for gpu in range(shown.gpus))
        for at in range(len(shown.cards))
    ]
    if shown.numa:
        assert table.numa == tuple(map(int, shown.numa))


@settings(max_examples=300)
@given(shown(), st.data())
def test_a_damaged_table_raises_nothing(shown: Shown, data: st.DataObject) -> None:
    text = tables.with_tabs(shown)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + data.draw(st.text(max_size=6)) + text[end:]

    table = parse(text)

    if isinstance(table, Table):
        matrix = table.matrix()
        assert all(0 <= a < b < matrix.gpus for a, b, _ in matrix.links)
    else:
        assert table.reason


PIECES = ["GPU0", "GPU1", "GPU", "GPU99", "NIC0", "mlx5_0", "X", "NV2", "SYS", "0-3", "NUMA"]
PIECES += ["N/A", "XGMI", "PCIE", "é"]
PIECES += ["\t", " ", "\n", "\x00", "\x1b[4m", "CPU Affinity", "NIC0: a", "=== Numa Nodes ==="]
PIECES += ["=== Link Type between two GPUs ===", "GPU[0]: (Topology) Numa Node: 1"]
pieces = st.sampled_from(PIECES)


@settings(max_examples=300)
@given(st.lists(pieces, max_size=60).map("".join) | st.text())
def test_garbage_raises_nothing(text: str) -> None:
    table = parse(text)

    if isinstance(table, Table):
        table.matrix()
    else:
        assert table.reason
