"""The picture shows every GPU once, and names cannot break it."""

from __future__ import annotations

from xml.etree import ElementTree

from rich.console import Console

from scheduler.simulation.fleet import Fleet, node, nodes
from scheduler.simulation.picture import FREE, SMALL, as_svg, as_text, picture

SVG = "{http://www.w3.org/2000/svg}"


def text_of(title: str, fleet: Fleet, seating: dict[str, dict[str, int]]) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(as_text(picture(title, nodes(fleet), seating)))
    return capture.get()


def test_gangs_of_several_nodes_have_letters_and_a_legend() -> None:
    seating = {"n000": {"t/big": 8}, "n001": {"t/big": 8}, "n002": {"t/small": 3}}
    text = text_of("now", Fleet(1, 2, 2), seating)
    assert "n000 AAAAAAAA" in text
    assert "n001 AAAAAAAA" in text
    assert f"n002 {SMALL * 3}{FREE * 5}" in text
    assert f"n003 {FREE * 8}" in text
    assert "A\u00a0t/big" in text
    assert "t/small" not in text
    assert "b0/r0" in text
    assert "b0/r1" in text


def test_no_line_of_the_legend_ends_between_a_letter_and_its_gang() -> None:
    gangs = {f"n{number:03d}": {f"philly/g{number // 2:03d}": 8} for number in range(32)}
    lines = text_of("now", Fleet(1, 4, 8), gangs).splitlines()
    for number in range(16):
        entry = f"{chr(ord('A') + number)}\u00a0philly/g{number:03d}"
        assert any(entry in line for line in lines), entry


def test_the_svg_has_each_gpu_with_its_node_and_gang() -> None:
    seating = {"n000": {"t/big": 8}, "n001": {"t/big": 6, "t/small": 1}}
    root = ElementTree.fromstring(as_svg(picture("now", nodes(Fleet(1, 1, 2)), seating)))
    titles = [item.text for item in root.iter(f"{SVG}title")]
    assert len(titles) == 16
    assert titles.count("n000: t/big") == 8
    assert titles.count("n001: t/small") == 1
    assert titles.count("n001: free") == 1


def test_gangs_differ_in_colour() -> None:
    seating = {f"n{number:03d}": {f"t/g{number}": 8} for number in range(16)}
    shown = picture("now", nodes(Fleet(1, 2, 8)), seating)
    assert len({mark.colour for mark in shown.marks.values()}) == 16


def test_names_are_escaped_in_the_svg() -> None:
    odd = '<script>"&'
    items = [node(odd, odd, odd, 2), node("n2", odd, odd, 2)]
    svg = as_svg(picture(odd, items, {odd: {odd: 1}, "n2": {odd: 1}}))
    assert "<script" not in svg
    titles = [item.text for item in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert titles[0] == f"{odd}: {odd}"
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", ""), "stands alone"
