"""Everything the trainer raises on purpose.

    TrainerError
    ├── SettingsError     a flag or an environment variable that cannot be used
    ├── HintError         a hint that cannot be read
    ├── FactsError        facts of a machine that cannot be read
    ├── WorldError        a launch environment that contradicts itself
    ├── RendezvousError   ranks that did not meet, or that do not fit together
    ├── PreflightError    a check before the run that found a fault
    ├── DataError         a data set that is missing or not the one expected
    ├── PeerError         another rank that is gone or stuck
    ├── DivergedError     a loss that is not finite, step after step
    └── CheckpointError   a checkpoint that does not belong to this run
        └── StorageError  one that could not be written: no room, or a disk that fails

Every message says what is wrong, with the name and the value, and what to do about it.
"""


class TrainerError(Exception):
    """Base of all of them; the command line prints it without a traceback and exits with 2, or
    with 138 where another try or another node may do.
    """

    retry = False
    """Whether the same may work later, or elsewhere."""


class SettingsError(TrainerError):
    """A flag or an environment variable that cannot be used."""


class HintError(TrainerError):
    """A hint that cannot be read; never fatal to a run, which then keeps its launcher's order."""


class FactsError(TrainerError):
    """Facts of a machine that cannot be read."""


class WorldError(TrainerError):
    """A launch environment that is incomplete or contradicts itself."""


class RendezvousError(TrainerError):
    """Ranks that did not meet in time, or that do not fit together."""

    retry = True


class PreflightError(TrainerError):
    """A check before the run that found a fault."""

    retry = True


class DataError(TrainerError):
    """A data set that is missing or not the one expected."""


class PeerError(TrainerError):
    """Another rank is gone or stuck, so that no step can end."""

    retry = True


class DivergedError(TrainerError):
    """The loss or its gradient was not finite for too many steps in a row."""


class CheckpointError(TrainerError):
    """A checkpoint that does not belong to this run, or a directory that cannot hold any."""


class StorageError(CheckpointError):
    """A checkpoint that could not be written: no room, or a disk that fails."""

    retry = True
