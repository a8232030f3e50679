"""Whatever happens in whatever order, the invariants hold after every event.

MUSTER_PROPERTY_RUNS sets how many sequences are tried; 10000 take about half an hour.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core import engine
from scheduler.core.messages import Record

from . import kits, sequences
from .operations import OPERATIONS, Op, do
from .trial import Trial

RUNS = int(os.environ.get("MUSTER_PROPERTY_RUNS", "120"))
BLOCK = 30
"""Sequences per test, so that none of them runs into the time-out of a test."""


@pytest.mark.parametrize("block", range(-(-RUNS // BLOCK)))
def test_invariants_hold_in_every_sequence(block: int) -> None:
    for seed in range(block * BLOCK, min(RUNS, (block + 1) * BLOCK)):
        kit, operations = kits.make(seed), sequences.draw(seed)
        error = sequences.failure_of(kit, operations)
        assert error is None, sequences.explain(seed, kit, operations, error)


@pytest.mark.parametrize("seed", [230, 2956, 5030, 6143, 21918])
def test_sequences_that_once_failed_do_so_no_more(seed: int) -> None:
    kit, operations = kits.make(seed), sequences.draw(seed)
    error = sequences.failure_of(kit, operations)
    assert error is None, sequences.explain(seed, kit, operations, error)


@pytest.mark.parametrize("seed", [2525, 2561, 2665, 2706, 2791])
def test_calm_sequences_that_once_failed_do_so_no_more(seed: int) -> None:
    kit = kits.make(seed, calm=True)
    operations = sequences.draw(seed, weights=sequences.CALM)
    error = sequences.failure_of(kit, operations)
    assert error is None, sequences.explain(seed, kit, operations, error)


@pytest.mark.parametrize("block", range(-(-RUNS // (2 * BLOCK))))
def test_in_calm_weather_no_gang_is_ever_left_with_a_part(block: int) -> None:
    for seed in range(block * BLOCK, min(RUNS, (block + 1) * BLOCK)):
        kit = kits.make(seed, calm=True)
        operations = sequences.draw(seed, weights=sequences.CALM)
        error = sequences.failure_of(kit, operations)
        assert error is None, sequences.explain(seed, kit, operations, error)


NUMBERS = st.integers(0, 2**16 - 1)
DRAWN = st.builds(
    Op,
    st.sampled_from([name for name, weight in sequences.WEIGHTS.items() for _ in range(weight)]),
    NUMBERS,
    NUMBERS,
    NUMBERS,
)


@settings(max_examples=max(25, RUNS // 5), derandomize=True, database=None)
@given(seed=st.integers(0, 2**16), operations=st.lists(DRAWN, max_size=60))
def test_invariants_hold_in_sequences_that_can_be_shrunk(seed: int, operations: list[Op]) -> None:
    sequences.run(kits.make(seed), operations)


@pytest.mark.parametrize("seed", range(8))
def test_the_same_events_give_the_same_steps(seed: int) -> None:
    trial = sequences.run(kits.make(seed), sequences.draw(seed))
    state, steps = engine.new_state(trial.kit.settings), []

    for event, now in trial.history:
        if event is None:
            state = engine.new_state(trial.kit.settings)
        else:
            steps.append(engine.step(state, event, now))

    assert steps == trial.steps


def digest(seeds: range) -> str:
    """A fingerprint of all that the engine answered and did."""
    steps = [sequences.run(kits.make(seed), sequences.draw(seed)).steps for seed in seeds]
    return hashlib.sha256(repr(steps).encode()).hexdigest()


def test_no_step_depends_on_the_order_of_hashes() -> None:
    tests = Path(__file__).parent.parent
    script = "from engine.test_random_sequences import digest; print(digest(range(6)))"

    def run(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(tests)}
        command = [sys.executable, "-c", script]
        return subprocess.run(
            command, env=environment, cwd=tests.parent, check=True, capture_output=True, text=True
        ).stdout

    assert run("1") == run("2")


def test_sequences_reach_what_they_are_meant_to_test() -> None:
    """A random test proves little if nothing ever happens in it."""
    trials = [sequences.run(kits.make(seed), sequences.draw(seed)) for seed in range(40)]

    steps = [step for trial in trials for step in trial.steps]
    effects = [effect for step in steps for effect in step.effects]
    kinds = {type(effect).__name__ for effect in effects}
    reasons = {effect.reason for effect in effects if isinstance(effect, Record)}

    assert kinds == {"Bind", "Nominate", "ClearNomination", "Wake", "Evict", "Record", "Cancel"}
    assert {"GangTimedOut", "GangBroken", "GangWaiting", "GangNeverFits"} <= reasons
    assert sum(pod.node != "" for trial in trials for pod in trial.pods.values()) > 100


def test_every_operation_may_be_drawn() -> None:
    assert set(sequences.WEIGHTS) == set(OPERATIONS)


def test_an_operation_that_finds_nothing_does_nothing() -> None:
    trial = Trial(kits.make(0))
    for name in sequences.WEIGHTS:
        if name not in ("member", "whole_gang", "single", "plain", "foreign", "new_controller"):
            do(trial, Op(name, 0, 0, 0))
    assert trial.pods == {}
