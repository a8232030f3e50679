"""Reading the scheduler's hint: strict about what it uses, indifferent to the rest."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainer_worlds import hint

from scheduler.core.hints import text
from trainer.errors import HintError
from trainer.hints import Hint, find, parse
from trainer.settings import HintSource

TEXT = json.dumps(hint(3, "n12", "b1", "r3"))


def test_a_hint_is_read_field_by_field() -> None:
    raw = hint(3, "n12", "b1", None, clique="uuid.1", gpus=[0, 2], spot=True, min=2, size=8)
    assert parse(json.dumps(raw)) == Hint(
        v=1,
        gang="team/job",
        id="uid-1",
        rank=3,
        size=8,
        min=2,
        role="worker",
        node="n12",
        levels=("topo/block", "topo/rack"),
        path=("b1", None),
        clique="uuid.1",
        gpus=(0, 2),
        spot=True,
    )


def test_fields_of_later_writers_are_ignored() -> None:
    assert parse(json.dumps(hint(3, "n12", "b1", "r3", rails=[1, {"x": 2}]))) == parse(TEXT)


def test_what_may_be_left_out_is_left_out() -> None:
    raw = hint(0, "n")
    for field in ("min", "role", "clique", "gpus", "spot"):
        del raw[field]
    found = parse(json.dumps(raw))
    assert found.min == found.size
    assert (found.role, found.clique, found.gpus, found.spot) == (None, None, None, False)


def test_a_hint_from_which_the_scheduler_left_something_out_is_read() -> None:
    """It writes 4 KB at most, and label keys may be long."""
    keys = [f"example.com/{'x' * 60}-{at}" for at in range(60)]
    values = [f"{'v' * 60}-{at}" for at in range(60)]
    whole = hint(3, "n12") | {"levels": keys[:5], "path": values[:5], "nics": ["mlx5_0"] * 300}

    without = [
        json.loads(text(whole)),
        json.loads(text(whole | {"levels": keys[:45], "path": values[:45]})),
        json.loads(text(whole | {"levels": keys, "path": values})),
    ]

    assert [(raw["levels"] != [], raw["path"] != []) for raw in without] == [
        (True, True),
        (False, True),
        (False, False),
    ]
    for raw in without:
        found = parse(json.dumps(raw))
        assert (found.rank, found.size, found.path) == (3, 4, tuple(raw["path"]))


def test_a_higher_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(HintError, match=r"version 2 .* reads up to 1; upgrade"):
        parse(json.dumps(hint(0, "n") | {"v": 2, "rank": "means something else"}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("v", 0),
        ("v", "1"),
        ("v", True),
        ("gang", ""),
        ("id", None),
        ("rank", -1),
        ("rank", "3"),
        ("rank", True),
        ("rank", 1.0),
        ("rank", 10**7),
        ("size", 10**400),
        ("size", 0),
        ("min", 0),
        ("node", 5),
        ("levels", "rack"),
        ("levels", [None, "rack"]),
        ("path", ["b1"]),
        ("path", ["b1", 3]),
        ("clique", 7),
        ("gpus", [0, -1]),
        ("gpus", [0, True]),
        ("gpus", "0"),
        ("spot", "no"),
    ],
)
def test_a_wrong_value_is_named(field: str, value: object) -> None:
    with pytest.raises(HintError, match=f"hint field '{field}'"):
        parse(json.dumps(hint(0, "n") | {field: value}))


@pytest.mark.parametrize("field", ["v", "gang", "id", "rank", "size", "node", "levels", "path"])
def test_a_missing_field_is_named(field: str) -> None:
    raw = hint(0, "n")
    del raw[field]
    with pytest.raises(HintError, match=f"hint field '{field}' is missing"):
        parse(json.dumps(raw))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"x"', "[" * 100_000, "\0"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(HintError):
        parse(text)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_a_hint_or_a_hint_error(text: str) -> None:
    with pytest.raises(HintError):
        parse(text)


names = st.text(min_size=1, max_size=20)


@given(
    st.builds(
        Hint,
        v=st.just(1),
        gang=names,
        id=names,
        rank=st.integers(0, 10**6),
        size=st.integers(1, 10**6),
        min=st.integers(1, 10**6),
        role=st.none() | names,
        node=names,
        levels=st.just(("a", "b")),
        path=st.tuples(st.none() | names, st.none() | names),
        clique=st.none() | names,
        gpus=st.none() | st.lists(st.integers(0, 15)).map(tuple),
        spot=st.booleans(),
    )
)
def test_writing_and_reading_is_the_identity(written: Hint) -> None:
    assert parse(written.as_json()) == written


def test_the_place_leaves_unlabelled_levels_out() -> None:
    assert parse(json.dumps(hint(0, "n1", "b1", None))).place == "b1/n1"
    assert parse(json.dumps(hint(0, "n1", "b1", ""))).place == "b1/n1"


class TestWhereItIsFound:
    @pytest.fixture
    def files(self, tmp_path: Path) -> dict[str, Path]:
        """One file for each place, told apart by the hint's rank."""
        found = {}
        for rank, name in enumerate(("flag", "variable", "default")):
            found[name] = tmp_path / name
            found[name].write_text(json.dumps(hint(rank, "n")))
        return found

    def test_the_flag_comes_first_then_the_variables_then_the_default(
        self, files: dict[str, Path]
    ) -> None:
        env = {
            "MUSTER_HINT": json.dumps(hint(7, "n")),
            "MUSTER_HINT_FILE": str(files["variable"]),
        }
        seen = []
        for file, without in [(files["flag"], ""), (None, ""), (None, "MUSTER_HINT")]:
            env.pop(without, None)
            found = find(HintSource.load(env, file), files["default"])
            seen.append((found.hint.rank, found.origin))
        env.clear()
        found = find(HintSource.load(env), files["default"])
        seen.append((found.hint.rank, found.origin))
        assert seen == [
            (0, "--hint"),
            (7, "MUSTER_HINT"),
            (1, "MUSTER_HINT_FILE"),
            (2, str(files["default"])),
        ]

    def test_none_anywhere_is_no_problem(self, tmp_path: Path) -> None:
        found = find(HintSource(), tmp_path / "absent")
        assert (found.hint, found.problem) == (None, None)

    @pytest.mark.parametrize("text", ["", " \n"])
    def test_an_empty_value_means_that_the_pod_has_no_hint(self, text: str) -> None:
        found = find(HintSource(text=text))
        assert (found.hint, found.problem) == (None, None)

    def test_a_file_that_was_named_but_is_absent_is_a_problem(self, tmp_path: Path) -> None:
        found = find(HintSource(file=tmp_path / "absent"))
        assert found.hint is None
        assert str(tmp_path / "absent") in found.problem

    def test_a_file_that_is_not_text_is_a_problem(self, tmp_path: Path) -> None:
        (tmp_path / "hint").write_bytes(b"\xff\xfe\x00")
        assert "cannot read" in find(HintSource(variable_file=tmp_path / "hint")).problem

    def test_an_unreadable_hint_is_a_problem_that_says_where_it_came_from(self) -> None:
        found = find(HintSource(text="{nonsense"))
        assert found.hint is None
        assert found.problem.startswith("MUSTER_HINT: the hint is not JSON")

    def test_children_are_told_the_same_place(self, files: dict[str, Path]) -> None:
        env = {"MUSTER_HINT": TEXT}
        found = find(HintSource.load(env, files["flag"]), files["default"])
        for name, value in found.variables:
            env.pop(name, None) if value is None else env.update({name: value})
        assert find(HintSource.load(env)).hint == found.hint
