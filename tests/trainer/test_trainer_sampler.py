"""The order of the samples: each once an epoch, whatever the world, also over a resume."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.data import GlobalSampler, digits
from trainer.errors import CheckpointError

sizes = st.integers(1, 60)
worlds = st.integers(1, 9)


def global_batch(sampler: GlobalSampler, world: int) -> list[int]:
    """One batch as a world of that size takes it together, in stream order."""
    start = sampler.consumed
    parts = []
    for rank in range(world):
        sampler.consumed = start
        parts.append(sampler.next(rank, world).tolist())
    return [parts[i % world][i // world] for i in range(sampler.global_batch)]


@given(samples=sizes, batch=sizes, seed=st.integers(0, 99), world=worlds, batches=st.integers(1, 9))
def test_the_stream_is_the_same_for_every_world(
    samples: int, batch: int, seed: int, world: int, batches: int
) -> None:
    alone, shared = (GlobalSampler(samples, batch, seed) for _ in range(2))
    for _ in range(batches):
        assert global_batch(shared, world) == alone.next(0, 1).tolist()
    assert shared.consumed == alone.consumed == batches * batch


@given(samples=sizes, batch=sizes, seed=st.integers(0, 99))
def test_every_epoch_has_every_sample_once(samples: int, batch: int, seed: int) -> None:
    sampler = GlobalSampler(samples, batch, seed)
    stream: list[int] = []
    while len(stream) < 3 * samples:
        stream += sampler.next(0, 1).tolist()
    for epoch in range(3):
        assert sorted(stream[epoch * samples : (epoch + 1) * samples]) == list(range(samples))


@given(samples=sizes, batch=sizes, before=worlds, after=worlds, stop=st.integers(0, 9))
def test_a_resume_in_another_world_goes_on_with_the_next_sample(
    samples: int, batch: int, before: int, after: int, stop: int
) -> None:
    whole = GlobalSampler(samples, batch, 1)
    expected = [whole.next(0, 1).tolist() for _ in range(stop + 3)]
    first = GlobalSampler(samples, batch, 1)
    seen = [global_batch(first, before) for _ in range(stop)]
    second = GlobalSampler(samples, batch, 1)
    second.load_state_dict(first.state_dict())
    seen += [global_batch(second, after) for _ in range(3)]
    assert seen == expected


def test_epochs_and_seeds_differ() -> None:
    sampler, other = GlobalSampler(50, 50, 0), GlobalSampler(50, 50, 1)
    first, second = sampler.next(0, 1), sampler.next(0, 1)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other.next(0, 1))


@pytest.mark.parametrize("change", [{"seed": 1}, {"samples": 51}])
def test_a_state_of_other_data_is_refused(change: dict[str, int]) -> None:
    state = GlobalSampler(50, 10, 0).state_dict() | change
    with pytest.raises(CheckpointError, match=next(iter(change))):
        GlobalSampler(50, 10, 0).load_state_dict(state)


def test_the_digits_are_split_by_the_seed_without_overlap() -> None:
    split, again, other = digits(0), digits(0), digits(1)
    assert len(split.train_x) + len(split.held_out_x) == 1797
    assert torch.equal(split.train_x, again.train_x)
    assert not torch.equal(split.train_y, other.train_y)
    assert split.train_x.min() == 0
    assert split.train_x.max() == 1
    everything = torch.cat([split.train_x, split.held_out_x])
    assert len(everything.unique(dim=0)) == len(everything)
    counts = torch.cat([split.train_y, split.held_out_y]).bincount()
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
