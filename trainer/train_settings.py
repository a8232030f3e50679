"""What `muster-train train` can be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainer import numbers
from trainer.settings import Settings, at_least, at_most, one_of, text


@dataclass(frozen=True)
class TrainSettings(Settings):
    """What `muster-train train` can be told. Counts are global, whatever the world size."""

    steps: int = field(
        default=150, metadata=text("Optimizer steps in all, those before a resume included.")
    )
    global_batch: int = field(
        default=128,
        metadata=text(
            "Samples in one optimizer step over all ranks; the same whatever the world size."
        ),
    )
    lr: float = field(default=0.1, metadata=text("Learning rate of SGD."))
    momentum: float = field(default=0.9, metadata=text("Momentum of SGD."))
    hidden: int = field(default=64, metadata=text("Width of the hidden layer."))
    seed: int = field(
        default=0,
        metadata=text("Seed of the first weights, the split and the order of the samples."),
    )
    checkpoint_dir: Path | None = field(
        default=None,
        metadata=text(
            "Directory for checkpoints, shared by all ranks; without it nothing is saved."
        ),
    )
    checkpoint_every: int = field(
        default=50,
        metadata=text("Steps between checkpoints; 0 saves only at the end and on SIGTERM."),
    )
    keep: int = field(default=3, metadata=text("Newest checkpoints to keep."))
    report: Path | None = field(
        default=None, metadata=text("File for the final report, beside standard output.")
    )
    log_every: int = field(default=25, metadata=text("Steps between progress lines; 0 for none."))
    threads: int = field(
        default=1,
        metadata=text("CPU threads of each rank; the model is too small to gain from more."),
    )
    init_timeout: int = field(
        default=300, metadata=text("Seconds until a rank that does not come is an error.")
    )
    timeout: int = field(
        default=300,
        metadata=text("Seconds until a stuck collective is an error, from the second step on."),
    )
    model: str = field(
        default="mlp",
        metadata=text(
            "mlp or vit on digits, gpt on text, or MODULE:FUNCTION that returns a module; on "
            "digits it takes [n, 64] float32 to [n, 10]."
        ),
    )
    data: str | None = field(
        default=None,
        metadata=text(
            "MODULE:FUNCTION that returns two map-style datasets of (input, label) pairs, to learn "
            "from and held out, for a --model of your own."
        ),
    )
    workers: int = field(
        default=-1,
        metadata=text(
            "Processes of each rank that load --data; -1 takes a rank's share of the CPUs less "
            "one, 8 at most."
        ),
    )
    micro_batch: int = field(
        default=0,
        metadata=text(
            "Samples that a rank computes at a time; its share of the global batch is summed up "
            "from as many as it takes. 0 takes the share at once."
        ),
    )
    precision: str = field(
        default="fp32", metadata=text("fp32, or autocast to bf16 or fp16 (with loss scaling).")
    )
    compile: bool = field(default=False, metadata=text("Compile the model with torch.compile."))
    clip: float = field(
        default=0.0, metadata=text("Largest norm of the gradient; 0 does not clip.")
    )
    max_bad_steps: int = field(
        default=10,
        metadata=text("Steps in a row without a finite loss or gradient that end the run."),
    )
    deterministic: bool = field(
        default=False, metadata=text("Refuse operations whose result depends on timing.")
    )
    bucket_mib: float = field(
        default=25.0, metadata=text("MiB of gradients that are reduced together.")
    )
    comm_hook: str = field(
        default="none",
        metadata=text(
            "none; bf16 halves the bytes of gradients; powersgd sends a low-rank part of them; "
            "localsgd reduces them within each rack and averages weights over racks now and then. "
            "The last two are for slow links between racks, and change the result."
        ),
    )
    local_every: int = field(
        default=4, metadata=text("Steps between averages over racks with --comm-hook localsgd.")
    )
    local_warmup: int = field(
        default=100, metadata=text("Steps that localsgd reduces over all ranks at first.")
    )
    cuda_graphs: bool = field(
        default=False,
        metadata=text(
            "Replay the model as a CUDA graph: for small models whose kernels are shorter than "
            "their launch. Wants an NVIDIA GPU and parts of one size."
        ),
    )
    channels_last: bool = field(
        default=False,
        metadata=text(
            "Keep weights and inputs [n, c, h, w] in the order NHWC, which convolutions in bf16 "
            "and fp16 are faster in."
        ),
    )
    async_save: bool = field(
        default=False, metadata=text("Go on training while a checkpoint is written.")
    )
    jsonl: Path | None = field(
        default=None, metadata=text("File that gets a line of JSON at every progress line.")
    )
    curve: Path | None = field(
        default=None, metadata=text("SVG file for a picture of the learning curve.")
    )
    tensorboard: Path | None = field(
        default=None, metadata=text("Directory for TensorBoard, if that is installed.")
    )
    mlflow: str | None = field(
        default=None,
        metadata=text(
            "Tracking URI of MLflow, if that is installed: sqlite:///runs.db, or a server's. A run "
            "that resumes in its --checkpoint-dir goes on there, too."
        ),
    )
    profile: Path | None = field(
        default=None,
        metadata=text(
            "Directory for a trace of each rank over five steps, of torch.profiler, as browsers "
            "(chrome://tracing) and Perfetto show them."
        ),
    )
    memory_snapshot: Path | None = field(
        default=None,
        metadata=text(
            "Directory for each rank's record of GPU memory, at the end or when it runs out; see "
            "pytorch.org/memory_viz."
        ),
    )
    flight_dir: Path | None = field(
        default=None,
        metadata=text(
            "Directory for the flight recorder's dump when a rank is lost or stuck "
            "[default: beside the checkpoints, or the temporary directory]"
        ),
    )

    def __post_init__(self) -> None:
        one_of("precision", self.precision, ("fp32", "bf16", "fp16"))
        one_of("comm_hook", self.comm_hook, ("none", "bf16", "powersgd", "localsgd"))
        for name in (*_COUNTS, "local_every"):
            at_least(name, getattr(self, name), 1)
        at_least("workers", self.workers, -1)
        at_least("local_warmup", self.local_warmup, 0)
        for name in ("steps", "checkpoint_every", "log_every", "lr", "momentum", "micro_batch"):
            at_least(name, getattr(self, name), 0)
        for name in ("clip", "max_bad_steps", "bucket_mib"):
            at_least(name, getattr(self, name), 0)
        at_least("seed", self.seed, -_MOST["seed"])
        at_most(self, _MOST)


_COUNTS = ("global_batch", "hidden", "keep", "threads", "timeout", "init_timeout")

_MOST = {
    # Sizes beyond which the system gives out, in threads, processes or memory, before torch does.
    "threads": 1024,
    "workers": 256,
    "hidden": 65_536,
    "bucket_mib": 1_048_576,
    # The sampler multiplies the seed by a million, and torch takes 64 bits.
    "seed": 10**12,
    "timeout": numbers.YEAR_S,
    "init_timeout": numbers.YEAR_S,
    **dict.fromkeys(
        ("steps", "checkpoint_every", "log_every", "local_every", "local_warmup", "micro_batch"),
        10**12,
    ),
}
"""Largest values."""
