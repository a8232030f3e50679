"""A checkpoint is there completely or not at all, whatever moment a crash picks."""

import os
from pathlib import Path

import pytest

from trainer.checkpoint import LATEST, MANIFEST, commit, complete, read, retire


def write(root: Path, step: int, size: int = 10) -> Path:
    """A finished working directory, as torch leaves it."""
    work = root / f"step-{step:08d}.tmp"
    work.mkdir(parents=True)
    (work / ".metadata").write_bytes(b"m" * size)
    (work / "__0_0.distcp").write_bytes(b"d" * size)
    return work


def save(root: Path, step: int) -> Path:
    final = root / f"step-{step:08d}"
    commit(write(root, step), final)
    return final


def steps(root: Path) -> list[int]:
    return [checkpoint.step for checkpoint in complete(root)]


def test_a_committed_checkpoint_is_complete_and_the_latest(tmp_path: Path) -> None:
    save(tmp_path, 50)
    final = save(tmp_path, 100)
    assert steps(tmp_path) == [50, 100]
    assert (tmp_path / LATEST).read_text() == "step-00000100\n"
    assert sorted(os.listdir(final)) == [".metadata", "__0_0.distcp", MANIFEST]
    assert not list(tmp_path.glob("*.tmp"))


def test_steps_are_ordered_as_numbers(tmp_path: Path) -> None:
    for step in (99, 100_000_000, 7):
        save(tmp_path, step)
    assert steps(tmp_path) == [7, 99, 100_000_000]


def test_nothing_is_found_where_there_is_nothing(tmp_path: Path) -> None:
    assert complete(tmp_path / "absent") == []
    (tmp_path / "step-00000001").touch()
    (tmp_path / "notes").mkdir()
    assert complete(tmp_path) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / MANIFEST).unlink(),
        lambda folder: (folder / MANIFEST).write_text("{"),
        lambda folder: (folder / MANIFEST).write_text("[]"),
        lambda folder: (folder / ".metadata").unlink(),
        lambda folder: (folder / "__0_0.distcp").unlink(),
        lambda folder: (folder / "__0_0.distcp").write_bytes(b"d" * 9),
        lambda folder: folder.rename(folder.with_name(folder.name + ".tmp")),
    ],
    ids=["no manifest", "half a manifest", "no object", "no metadata", "no data", "short", "name"],
)
def test_an_incomplete_checkpoint_is_skipped(tmp_path: Path, damage) -> None:
    save(tmp_path, 50)
    damage(save(tmp_path, 100))
    assert steps(tmp_path) == [50]


def test_a_crash_at_any_moment_of_a_commit_leaves_whole_checkpoints_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is cut off before its first flush, its second, and so on to the end."""
    real, outcomes = os.fsync, []
    for moment in range(20):
        root = tmp_path / str(moment)
        save(root, 50)
        monkeypatch.setattr(os, "fsync", crash_after(moment, real))
        try:
            save(root, 100)
            crashed = False
        except KeyboardInterrupt:
            crashed = True
        monkeypatch.setattr(os, "fsync", real)
        latest = root / (root / LATEST).read_text().strip()
        assert read(latest) is not None
        assert all(len(os.listdir(found.path)) == 3 for found in complete(root))
        outcomes.append(steps(root))
        if not crashed:
            break
    assert outcomes[0] == [50]
    assert outcomes[-1] == [50, 100]
    assert outcomes == sorted(outcomes, key=len), "a checkpoint that was there is there later"


def crash_after(calls: int, real):
    left = iter(range(calls))

    def fsync(descriptor: int) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        real(descriptor)

    return fsync


def test_only_the_newest_are_kept_and_leftovers_go(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        save(tmp_path, step)
    write(tmp_path, 35)
    retire(tmp_path, keep=2)
    assert steps(tmp_path) == [30, 40]
    assert sorted(os.listdir(tmp_path)) == [LATEST, "step-00000030", "step-00000040"]


def test_incomplete_ones_do_not_count_as_kept(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save(tmp_path, step)
    (tmp_path / "step-00000030" / ".metadata").unlink()
    retire(tmp_path, keep=1)
    assert steps(tmp_path) == [20]
