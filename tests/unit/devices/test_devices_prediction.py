"""What the engine asks of a node: what is taken, what a new pod would get, how good that is."""

from __future__ import annotations

import device_boxes as boxes
import pytest

from scheduler.core.devices import (
    IN_USE_KEY,
    TOPOLOGY_KEY,
    Holder,
    InUse,
    Matrix,
    NodeDevices,
    Told,
    predict,
    taken,
    worth,
    write_in_use,
    write_topology,
)


def annotations(matrix: Matrix, in_use: dict[str, tuple[int, ...]] | None = None) -> dict[str, str]:
    found = {TOPOLOGY_KEY: write_topology(NodeDevices(matrix))}
    return found if in_use is None else {**found, IN_USE_KEY: write_in_use(InUse(in_use))}


def told(*gpus: int, exact: bool = False) -> Holder:
    """A pod of as many GPUs as it was told, by index."""
    return Holder(len(gpus), Told(gpus), exact)


def test_a_member_gets_what_is_best_of_the_rest() -> None:
    node = annotations(boxes.dgx1_v100())

    assert predict(node, (), 2) == (0, 3)
    assert predict(node, (0, 3), 2) == (1, 2)
    assert predict(node, range(7), 1) == (7,)


def test_no_prediction() -> None:
    node = annotations(boxes.power9())

    assert predict({}, (), 1) is None
    assert predict({TOPOLOGY_KEY: "{"}, (), 1) is None
    assert predict(node, (0, 1, 2), 2) is None
    assert predict(node, (), 0) is None


def test_members_planned_together_get_different_gpus() -> None:
    node, held = annotations(boxes.power9()), set[int]()

    for _ in range(2):
        gpus = predict(node, held, 2)
        assert gpus is not None
        assert held.isdisjoint(gpus)
        held |= set(gpus)

    assert predict(node, held, 1) is None


def test_what_is_taken_is_what_living_pods_have() -> None:
    """The kubelet forgets pods late: uid-gone is in the annotation, and no more on the node."""
    node = annotations(boxes.power9(), {"uid-a": (0, 1), "uid-gone": (2,)})

    assert taken(node, {"uid-a": Holder(2)}) == {0, 1}
    assert taken(node, {}) == set()


def test_a_prediction_counts_until_the_agent_has_published() -> None:
    node = annotations(boxes.power9(), {"uid-a": (0,)})

    assert taken(node, {"uid-a": Holder(1), "uid-new": told(3)}) == {0, 3}
    assert taken(node, {"uid-a": told(2)}) == {0}
    assert taken(node, {"uid-a": told(2, exact=True)}) == {2}


@pytest.mark.parametrize(
    ("node", "holders"),
    [
        (annotations(boxes.power9()), {"uid-a": told(0)}),
        (annotations(boxes.power9(), {}), {"uid-a": Holder(1)}),
        (annotations(boxes.power9(), {"uid-a": (0,)}), {"uid-a": Holder(2)}),
        (
            annotations(boxes.power9(), {"uid-a": (0,), "uid-b": (0,)}),
            {"uid-a": Holder(1), "uid-b": Holder(1)},
        ),
        (
            annotations(boxes.power9(), {"uid-a": (0, 1), "uid-b": (2,)}),
            {"uid-a": Holder(1), "uid-b": Holder(2)},
        ),
        (annotations(boxes.power9(), {"uid-a": (0,)}), {"uid-a": Holder(1), "uid-b": told(0)}),
        (annotations(boxes.power9(), {}), {"uid-a": told(4)}),
        ({IN_USE_KEY: "{"}, {"uid-a": Holder(1)}),
    ],
    ids=[
        "not-published",
        "not-yet",
        "in-part",
        "shared",
        "of-one-more-and-of-another-less",
        "prediction-was-wrong",
        "not-on-this-node",
        "bad",
    ],
)
def test_what_is_taken_cannot_be_told(node: dict[str, str], holders: dict[str, Holder]) -> None:
    assert taken(node, holders) is None


def test_gpus_are_known_again_by_uuid_where_they_are_numbered_anew() -> None:
    given = Told((0, 1), ("GPU-0", "GPU-1"))
    holders = {"uid-a": Holder(2, given, exact=True)}

    def held(*uuids: str) -> frozenset[int] | None:
        devices = NodeDevices(Matrix(len(uuids)), uuids)
        return taken(
            {TOPOLOGY_KEY: write_topology(devices), IN_USE_KEY: write_in_use(InUse())}, holders
        )

    assert held("GPU-0", "GPU-1", "GPU-2") == {0, 1}
    assert held("GPU-2", "GPU-1", "GPU-0") == {1, 2}
    assert held("GPU-1", "GPU-2") is None
    assert taken(annotations(boxes.power9(), {}), holders) is None


def test_what_a_node_is_worth_to_a_pod() -> None:
    """Two NVLinks of 300 on a board of four; all other pairs cross the processors, 10 each."""
    node = annotations(boxes.power9())

    assert worth(node, (), 2) == (300, -40, 300)
    assert worth(node, (0,), 2) == (300, -20, 0)
    assert worth(node, (0, 2), 2) == (10, 0, 0)
    assert worth(node, (), 1) == (0, -320, 0)
    assert worth(node, (0,), 1) == (0, -20, 0), "the one that has no partner left"
    assert worth(node, (0, 1, 2), 2) is None
    assert worth({}, (), 1) is None
