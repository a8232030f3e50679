"""Log lines for machines say which gang and which pod they are about."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from people_site import Site

from scheduler.commands.logs import JsonLines


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    form = JsonLines()
    return [json.loads(form.format(record)) for record in caplog.records]


def test_what_a_line_is_about_is_a_key_of_its_own() -> None:
    record = logging.makeLogRecord({"msg": "no %s", "args": ("room",), "name": "x"})
    record.gang, record.pod = "t/a", "t/a-0"
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["gang"], line["pod"]) == ("no room", "t/a", "t/a-0")


def test_a_line_about_nothing_has_no_such_keys() -> None:
    line = json.loads(JsonLines().format(logging.makeLogRecord({"msg": "hello", "gang": ""})))
    assert not {"gang", "pod"} & line.keys()
    assert {"time", "level", "logger", "message"} <= line.keys()


def test_a_start_is_logged_with_its_gang(here: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    here.gang("train", 3, 8)

    (line,) = (line for line in lines(caplog) if line.get("gang") == "t/train")
    assert line["message"].startswith("gang t/train started: 3 members bound, 0.000 s after")
