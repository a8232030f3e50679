"""What the docs show people asking about a gang, asked where there is such a gang."""

from __future__ import annotations

import json
import shlex

import pytest
from people_site import Site, muster, site

from tests.unit.docs.ledger import GANG
from tests.unit.docs.shown import block


@pytest.mark.parametrize("line", GANG)
def test_why_answers_for_the_gang_that_is_asked_about(here: Site, line: str) -> None:
    words = shlex.split(line)
    gang = words[-1]
    here.pod(f"{gang}-0", gpu=8, gang=gang.partition("/")[2], min=2)

    ran = muster(*words[1:], MUSTER_SERVER=here.url)

    assert ran.status == 0, ran.err
    assert ran.out.startswith(f"{gang} is forming: 1 of 2 pods exist")


def test_the_answer_for_programs_begins_as_the_readme_shows_it() -> None:
    shown = json.loads(block("README.md", "json"))
    member = {"gpu": 4, "cpu": "16", "memory": "32Gi"}
    with site() as here:
        for name, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2")):
            here.node(name, gpu=8, block="b1", rack=rack)
        here.synced()
        here.pod("team/other-0", gang="other", min=1, node="n2", **member)
        options = {"topology-required": "rack"}
        for at in range(4):
            here.pod(f"team/digits-{at}", gang="digits", min=4, options=options, **member)

        found = muster("why", "team/digits", "--json", "--server", here.url).json

    assert list(found.items())[: len(shown)] == list(shown.items())
