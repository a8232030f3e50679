"""A gang is known by more than its name: what bears the name of one that was is another gang."""

from __future__ import annotations

from .story import Story


def test_what_an_earlier_gang_of_the_name_said_no_longer_counts() -> None:
    story = Story()
    story.node("n1", gpu=8)
    for member in range(4):
        story.pod(f"t/A-{member}", gpu=1, gang="A", min=4, owner=("Job", "A", "first"), priority=10)
    for member in range(4):
        fields = {"node": story.bound[f"t/A-{member}"], "deleting": True, "priority": 10}
        story.pod(f"t/A-{member}", gpu=1, gang="A", min=4, owner=("Job", "A", "first"), **fields)

    for member in range(4, 6):
        story.pod(f"t/A-{member}", gpu=2, gang="A", min=2, owner=("Job", "A", "second"))

    gang = story.state["gangs"]["t/A"]
    assert (gang["min"], gang["state"]) == (2, "running")
    assert "warnings" not in gang, "members of different generations do not contradict each other"


def test_a_label_that_cannot_be_read_is_told_and_harms_nothing() -> None:
    story = Story()
    story.node("n1", gpu=8)
    label = {"batch.kubernetes.io/job-completion-index": "first"}

    story.pod("t/A-0", gpu=1, gang="A", min=1, labels=label)

    gang = story.state["gangs"]["t/A"]
    assert gang["state"] == "running"
    assert "job-completion-index" in gang["warnings"][0]
