"""What can be seen of a run while it runs: metrics, lines of JSON, trackers, and a picture.

Each rank writes its metrics to a file; the launcher of the pod serves them all on one port (see
`trainer.health`). Rank 0 alone writes the rest. Nothing here may stop a run: a disk that is full
costs a warning.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from trainer import curve, exposition, pace, trackers
from trainer.exposition import Sample
from trainer.health import METRICS_DIR
from trainer.job import Job
from trainer.settings import environment
from trainer.step import Outcome

log = logging.getLogger("muster.eyes")

EVERY = 25
"""Steps between readings where no progress is shown."""


STEADILY = 3
"""Readings in a row that make a slow rank a straggler."""


class Eyes:
    """Told after every step, on every rank. As a context, it closes what it opened."""

    def __init__(self, job: Job) -> None:
        """Raises SettingsError if a tracker is asked for that is not installed."""
        self.job = job
        self.every = job.settings.log_every or EVERY
        self.history: list[tuple[int, float]] = []
        self.scores: list[float] = [1.0] * job.ranks.world_size
        self._first = job.ranks.rank == 0
        self._trackers = trackers.Guarded([])
        self._folder = environment().get(METRICS_DIR)
        self._warned: set[str] = set()
        self._slow_readings: dict[int, int] = {}

    def __enter__(self) -> Eyes:
        return self

    def __exit__(self, *_: object) -> None:
        if self._first and self.job.settings.curve and self.history:
            picture = curve.svg(self.history, "Loss by step")
            self._write(self.job.settings.curve, picture)
        self._trackers.close()

    def open(self) -> None:
        """Once it is known at which step the run begins."""
        if self._first:
            opened = trackers.open_trackers(self.job.settings, environment(), self.job.step)
            self._trackers = trackers.Guarded(opened)

    def see(self, outcome: Outcome) -> None:
        """Collective at every reading: the ranks compare how fast they are."""
        job = self.job
        if outcome.agreed:
            self.history.append((job.step, outcome.loss))
        if job.step % self.every and job.step != job.settings.steps:
            return
        own = pace.exchanged(job.pace.own, job.ranks.world_size)
        self.scores = pace.scores(own)
        reading = self._reading(outcome)
        job.pace = pace.Pace(last=job.pace.last)
        self._export(reading)
        if self._first:
            self._record(reading)

    def _steadily_slow(self) -> list[int]:
        """A single reading says little on a machine that does other things, too."""
        slow = pace.stragglers(self.scores)
        self._slow_readings = {rank: self._slow_readings.get(rank, 0) + 1 for rank in slow}
        return [rank for rank, times in self._slow_readings.items() if times >= STEADILY]

    def _reading(self, outcome: Outcome) -> dict[str, float]:
        job, taken = self.job, self.job.pace
        samples = taken.steps * job.settings.global_batch
        return {
            "step": job.step,
            "loss": outcome.loss,
            "samples_per_s": round(samples / taken.wall, 1),
            "data_s": round(taken.data, 6),
            "own_s": round(taken.own, 6),
            "shared_s": round(taken.shared, 6),
            "skipped": job.skipped,
        }

    def _record(self, reading: dict[str, float]) -> None:
        slow = self._steadily_slow()
        line = {**reading, "straggler_scores": self.scores, "stragglers": slow}
        if slow:
            log.warning("step %d: held up by ranks %s: %s", self.job.step, slow, self.scores)
        if self.job.settings.jsonl is not None:
            self._write(self.job.settings.jsonl, json.dumps(line) + "\n", "a")
        values = {name: value for name, value in reading.items() if name != "step"}
        self._trackers.record(self.job.step, values | {"straggler_score": min(self.scores)})

    def _export(self, reading: dict[str, float]) -> None:
        if self._folder is None:
            return
        rank = (("rank", str(self.job.ranks.rank)),)
        score = self.scores[self.job.ranks.rank]
        samples = [
            Sample(f"muster_train_{name}", text, reading[key], kind, rank)
            for key, name, text, kind in _METRICS
        ]
        samples.append(
            Sample("muster_train_straggler_score", "Best rank's own time over this one's, 0 to 1.",
                   score, labels=rank)
        )  # fmt: skip
        path = Path(self._folder) / f"rank-{self.job.ranks.rank}.prom"
        try:
            exposition.write(path, samples)
        except OSError as error:
            self._warn(str(path), error)

    def _write(self, path: Path, text: str, mode: str = "w") -> None:
        try:
            with path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            self._warn(str(path), error)

    def _warn(self, path: str, error: OSError) -> None:
        if path not in self._warned:
            log.warning("%s cannot be written, and the run goes on: %s", path, error)
        self._warned.add(path)


_METRICS = (
    ("step", "step", "Optimizer steps so far.", "counter"),
    ("loss", "loss", "Mean loss over the global batch of the last step.", "gauge"),
    ("samples_per_s", "samples_per_second", "Samples of all ranks.", "gauge"),
    ("data_s", "data_seconds", "Taking samples, since the last reading.", "gauge"),
    ("own_s", "own_seconds", "Work that needs no other rank.", "gauge"),
    ("shared_s", "shared_seconds", "Backward with reductions, and waiting for others.", "gauge"),
    ("skipped", "skipped_steps", "Steps without a finite loss or gradient.", "counter"),
)
