"""What the docs show people asking about a gang, asked where there is such a gang."""

from __future__ import annotations

import shlex

import pytest
from people_site import Site, muster

from tests.unit.docs.ledger import GANG


@pytest.mark.parametrize("line", GANG)
def test_why_answers_for_the_gang_that_is_asked_about(here: Site, line: str) -> None:
    words = shlex.split(line)
    gang = words[-1]
    here.pod(f"{gang}-0", gpu=8, gang=gang.partition("/")[2], min=2)

    ran = muster(*words[1:], MUSTER_SERVER=here.url)

    assert ran.status == 0, ran.err
    assert ran.out.startswith(f"{gang} is forming: 1 of 2 pods exist")
