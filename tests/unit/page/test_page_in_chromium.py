"""The page as Chromium shows it: what is seen, heard by a screen reader, asked and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Tab
from guarded_site import Guarded
from people_site import Site, site

from scheduler.api import stream

LIVE = "document.getElementById('live').textContent"
TEXT = "document.body.innerText"
FIGURES = """(() => {
  const first = performance.getEntriesByName("muster-first")[0];
  const began = performance.now();
  picture.focus();
  picture.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
  return {
    interactive_ms: first.startTime + first.duration,
    draw_all_ms: first.duration,
    key_ms: performance.now() - began,
    updates_ms: performance.getEntriesByName("muster-update").map(entry => entry.duration),
  };
})()"""
"""What the large cluster costs the browser; moments count from when the page was asked for."""

WHY = "document.getElementById('why').innerText"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "EVERY_S", 0.02)
    monkeypatch.setattr(stream, "SHARE", 1)


@pytest.fixture
def here() -> Iterator[Site]:
    """64 nodes in two blocks of four racks, one gang on three nodes, one that waits."""
    with site() as made:
        made.nodes(2, 4, 8)
        made.synced()
        made.gang("train", 3, 8)
        made.gang("part", 1, 4)
        made.clock.now += 60
        made.gang("later", 62, 8)
        yield made


@pytest.fixture
def page(tab: Tab, here: Site) -> Tab:
    tab.open(here.url)
    tab.wait(LIVE)
    return tab


def pixel(page: Tab, node: str, gpu: int) -> list[int]:
    """The colour in the middle of one GPU in the picture."""
    found: list[int] = page.run(
        f"(() => {{ const s = world.spots[world.spotOf.get('{node}')], c = world.cell; return ["
        "...picture.getContext('2d').getImageData("
        f"s.x + {gpu} * c + c / 4, s.y + c / 4, 1, 1).data].slice(0, 3); }})()"
    )
    return found


def test_it_shows_the_cluster_the_gangs_and_the_figures(page: Tab, here: Site, out: Path) -> None:
    text = page.run(TEXT)

    assert "64 nodes · 28 of 512 GPUs used · gangs: 1 queued, 2 running" in text
    assert "queued 0/62" in text
    assert "480 on whole nodes, 4 on nodes in use" in text
    assert "1 gang, 62 pods" in text
    taken = pixel(page, "b0-r0-0", 0)
    free = pixel(page, "b1-r3-7", 0)
    assert taken != free
    assert pixel(page, "b0-r0-2", 7) == taken
    assert pixel(page, "b0-r0-3", 4) == free
    assert pixel(page, "b0-r0-3", 3) not in (taken, free)
    assert page.trouble() == []
    page.screenshot(out / "light.png")


def test_it_asks_nobody_but_muster(page: Tab, here: Site) -> None:
    assert page.requests()
    assert [url for url in page.requests() if not url.startswith(here.url)] == []


def test_a_click_on_a_gang_tells_why(page: Tab, here: Site) -> None:
    page.click("#list li:first-child button")
    page.wait(f"{WHY}.includes('must come free')")
    shown = page.run(WHY)
    why = here.get("/v1/gangs/t/later/why")
    assert page.run("document.getElementById('why-title').textContent") == "Why t/later"
    assert why["next"] in shown
    assert why["reason"] in shown
    assert "62 there, 0 bound, 62 needed at once" in shown


def test_what_happens_is_seen_at_once_without_asking_for_all_again(page: Tab, here: Site) -> None:
    before = len(page.requests())
    free = pixel(page, "b1-r3-7", 0)

    here.gang("new", 1, 8)
    here.node("b1-r3-7", gpu=8, block="b1", rack="r3", ready=False)

    page.wait(f"{TEXT}.includes('t/new')")
    page.wait("world.nodes.get('b1-r3-7').ready === false")
    middle = page.run(
        "(() => { const s = world.spots[world.spotOf.get('b1-r3-7')]; return [...picture.getContext"
        "('2d').getImageData(s.x + 5, s.y + Math.floor((world.cell - 1) / 2), 1, 1).data]; })()"
    )
    assert middle[:3] != free
    asked = page.requests()[before:]
    assert [url for url in asked if "/v1/nodes" in url] == []
    assert page.trouble() == []


def test_no_two_gangs_have_one_colour_as_long_as_there_are_enough(page: Tab) -> None:
    colours = page.run("[...Array(60).keys()].map(at => colour(`philly/g${at}`))")
    assert len(set(colours)) == 60
    assert page.run("[...Array(60).keys()].map(at => colour(`philly/g${at}`))") == colours

    page.run("[...Array(60).keys()].forEach(at => colours.delete(`philly/g${at}`))")

    others = page.run("[...Array(60).keys()].map(at => colour(`helios/g${at}`))")
    assert len(set(others)) == 60
    assert page.run("[...Array(500).keys()].map(at => colour(`x/${at}`)).length") == 500


def test_a_node_and_a_gang_that_are_new_or_gone_come_and_go(page: Tab, here: Site) -> None:
    here.node("b9-r9-9", gpu=4, block="b9", rack="r9")
    page.wait("world.spotOf.has('b9-r9-9')")
    assert "65 nodes" in page.run(TEXT)

    here.gone("t/part-0")
    page.wait("!world.gangs.has('t/part')")
    assert "t/part" not in page.run(TEXT)
    assert not page.run("colours.has('t/part')"), "no other gang can have its colour"
    assert pixel(page, "b0-r0-3", 0) == pixel(page, "b1-r3-6", 0)


def test_everything_can_be_reached_by_keyboard(page: Tab, here: Site) -> None:
    page.run("picture.focus()")
    page.key("ArrowDown")
    assert "b0 / r0 / b0-r0-0 · 8 of 8 GPUs used · t/train 8" in page.run(
        "document.getElementById('spot').textContent"
    )
    page.key("ArrowRight")
    assert "b0-r1-0" in page.run("document.getElementById('spot').textContent")
    page.key("ArrowLeft")
    page.key("Enter")
    page.wait("document.getElementById('why-title').textContent === 'Why t/train'")
    faded = pixel(page, "b0-r0-3", 0)
    page.key("Escape")
    page.wait("document.getElementById('why-title').textContent === 'Why'")
    assert pixel(page, "b0-r0-3", 0) != faded
    order = page.run(
        "[...document.querySelectorAll('button, input, select, summary, [tabindex]')]"
        ".filter(e => e.tabIndex < 0).length"
    )
    assert order == 0


def test_a_screen_reader_is_told_everything(page: Tab, here: Site) -> None:
    page.click("#domains summary")
    told = page.accessible()

    for role in ("button", "searchbox", "combobox", "application", "region"):
        assert [name for kind, name in told if kind == role], role
        assert "" not in [name for kind, name in told if kind == role], role
    images = [name for role, name in told if role in ("image", "img", "graphics-document")]
    assert any(name.startswith("GPUs in use, last ") and "now 5 %" in name for name in images)
    assert any(name.startswith("gangs that wait") and "now 1" in name for name in images)
    rows = page.run("[...document.querySelectorAll('#table tr')].map(row => row.innerText)")
    assert len(rows) == 8
    assert rows[0].split("\t") == ["b0 / r0", "8", "64", "28", "0", "36", "2"]


def test_search_and_state_narrow_the_list(page: Tab, here: Site) -> None:
    def names() -> Any:
        return page.run("[...document.querySelectorAll('#list .name')].map(e => e.textContent)")

    assert names() == ["t/later", "t/part", "t/train"]
    page.run("$('search').value = 'no room'; $('search').dispatchEvent(new Event('input'))")
    assert names() == ["t/later"]
    page.run("$('search').value = ''; $('state').value = 'running'; showList()")
    assert names() == ["t/part", "t/train"]


def test_dark_and_light_are_the_systems_choice(page: Tab, here: Site, out: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    swatch = "document.querySelector('#list li:last-child .swatch').style.backgroundColor"
    light, free, train = page.run(ground), pixel(page, "b1-r3-7", 0), page.run(swatch)
    page.dark(True)
    page.wait(f"{ground} !== '{light}'")
    page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert sum(pixel(page, "b1-r3-7", 0)) < sum(free) / 2
    assert page.run(swatch) != train
    page.run("select('t/train')")
    page.wait(WHY)
    page.screenshot(out / "dark.png")


def test_text_of_others_stays_text_and_no_foreign_script_runs(page: Tab, here: Site) -> None:
    here.pod("t/evil-0", gpu=8, gang="evil", min="<img src=x onerror=window.hacked=1>")
    page.wait(f"{TEXT}.includes('t/evil')")
    page.run("select('t/evil')")
    page.wait(f"{WHY}.includes('<img')")
    assert page.run("document.querySelectorAll('img').length") == 0

    page.run(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        "document.body.append(s); })()"
    )
    assert page.run("window.hacked === undefined")
    page.run("fetch('http://127.0.0.1:9/').catch(() => 0)")
    assert [text for text in page.trouble() if "Content Security Policy" in text]


def test_without_a_stream_it_asks_now_and_then(
    tab: Tab, here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "CLIENTS", 0)
    hurry = "const wait = setTimeout; window.setTimeout = (work, ms) => wait(work, ms / 50);"
    tab.call("Page.addScriptToEvaluateOnNewDocument", source=hurry)
    tab.open(here.url)
    tab.wait(f"{LIVE} === 'every few seconds'")
    here.gang("new", 1, 8)
    tab.wait(f"{TEXT}.includes('t/new')")


def test_it_says_when_muster_is_gone_and_when_it_is_not_ready(tab: Tab) -> None:
    with site() as made:
        made.service.set_unready_reason("cannot list nodes: 403 Forbidden")
        tab.open(made.url)
        tab.wait(f"{TEXT}.includes('Not ready: cannot list nodes: 403 Forbidden')")
        made.synced()
        made.nodes(1, 1, 1)
        tab.wait(f"!{TEXT}.includes('Not ready')")
    tab.wait(f"{TEXT}.includes('The connection to Muster is lost')")


def test_who_looks_has_to_say_who_they_are_where_that_is_wanted(tab: Tab, here: Site) -> None:
    here.pod("u/secret-0", gpu=8, gang="secret", min=1)
    guarded = Guarded(here)
    try:
        tab.open(guarded.url)
        tab.wait(f"{TEXT}.includes('Muster wants to know who is looking')")
        assert tab.run("getComputedStyle(document.getElementById('who')).display") != "none"

        _introduce(tab, "eve-token")
        tab.wait(f"{TEXT}.includes('does not know this token')")
        _introduce(tab, "ann-token")
        tab.wait(f"{LIVE} === 'live'")
        assert tab.run("document.getElementById('who').hidden")
        assert tab.run("[...world.gangs.keys()]") == ["t/later", "t/part", "t/train"]
        here.gang("new", 1, 8)
        tab.wait(f"{TEXT}.includes('t/new')")
        assert "secret" not in tab.run("document.documentElement.outerHTML")
    finally:
        guarded.close()


def _introduce(tab: Tab, token: str) -> None:
    tab.run(f"$('token').value = '{token}'; $('who').requestSubmit()")


def test_a_replica_that_stands_by_says_so(tab: Tab, here: Site) -> None:
    here.service.stand_by()
    tab.open(here.url)
    tab.wait(f"{TEXT}.includes('This replica stands by; nobody acts.')")


def test_a_large_cluster(tab: Tab, out: Path) -> None:
    """5,000 nodes; the times go to a file, for no test should depend on the machine's mood."""
    with site() as made:
        made.nodes(10, 25, 20)
        made.synced()
        made.gang("whole", 400, 8)
        for at in range(150):
            made.gang(f"job{at}", at % 4 + 1, 4)
        tab.open(made.url)
        tab.wait(LIVE)
        assert tab.run("world.spots.length") == 5000
        tab.screenshot(out / "large.png")
        before = tab.metrics()["TaskDuration"]
        for at in range(5):
            made.gang(f"new{at}", 8, 8)
            tab.wait(f"world.gangs.has('t/new{at}') && world.gangs.get('t/new{at}').bound === 8")
        busy = tab.metrics()["TaskDuration"] - before
        small = tab.run("performance.getEntriesByName('muster-update').length")
        for at in range(1000):
            block, rest = divmod(at, 500)
            name = f"b{block}-r{rest // 20}-{rest % 20}"
            made.node(name, gpu=8, block=f"b{block}", rack=f"r{rest // 20}", ready=False)
        tab.wait("!world.nodes.get('b1-r24-19').ready")
        figures = tab.run(FIGURES)
        assert tab.trouble() == []
        assert small, "no update was measured"
    figures |= {"nodes": 5000, "main_thread_ms_per_update": 1000 * busy / small}
    out.mkdir(parents=True, exist_ok=True)
    (out / "figures.json").write_text(json.dumps(figures, indent=2) + "\n")
