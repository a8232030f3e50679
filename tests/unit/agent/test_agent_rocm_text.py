"""Tables of AMD GPUs."""

from __future__ import annotations

import agent_tables as tables

from scheduler.agent.smi_text import NoTable
from scheduler.agent.table import Table
from scheduler.agent.topology_text import parse

HIVE = [
    ["0", "XGMI", "PCIE", "PCIE"],
    ["XGMI", "0", "PCIE", "PCIE"],
    ["PCIE", "PCIE", "0", "XGMI"],
    ["PCIE", "PCIE", "XGMI", "0"],
]


def read(text: str) -> Table:
    table = parse(text)
    assert isinstance(table, Table), table
    return table


def test_two_hives_on_two_numa_nodes() -> None:
    table = read(tables.rocm(HIVE, [0, 0, 1, 1]))

    assert table.gpus == 4
    assert {pair for pair, word in table.words.items() if word == "XGMI"} == {(0, 1), (2, 3)}
    assert {word for pair, word in table.words.items() if pair[0] + 2 == pair[1]} == {"SYS"}
    assert table.numa == (0, 0, 1, 1)


def test_pcie_within_a_numa_node_is_closer() -> None:
    table = read(tables.rocm(HIVE, [0, 0, 0, 1]))

    assert (table.words[0, 2], table.words[0, 3]) == ("NODE", "SYS")


def test_no_numa_node() -> None:
    table = read(tables.rocm(HIVE, [-1] * 4))

    assert table.numa == (None,) * 4
    assert table.words[0, 2] == "SYS"


def test_cells_that_say_nothing_leave_the_pair_out() -> None:
    holed = [[("N/A" if cell == "XGMI" else cell) for cell in row] for row in HIVE]

    assert (0, 1) not in read(tables.rocm(holed, [0] * 4)).words


def test_a_row_that_is_missing_is_filled_in_from_the_others() -> None:
    text = tables.rocm(HIVE, [0, 0, 1, 1])
    head, title, rest = text.partition(" Link Type between two GPUs ")
    lines = rest.splitlines()
    del lines[2]  # the row of GPU0

    table = read(head + title + "\n".join(lines))

    assert table.words[0, 1] == "XGMI"
    assert table.remarks == ("row GPU0 is missing",)


def test_what_is_no_table() -> None:
    empty = parse("=== Link Type between two GPUs ===\n=== End of ROCm SMI Log ===\n")
    many = parse("=== Link Type between two GPUs ===\nGPU900 XGMI\n")

    assert empty == NoTable("the section 'Link Type between two GPUs' has no row of a GPU")
    assert many == NoTable("GPU900 is more than any node has")
