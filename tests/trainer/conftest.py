"""Settings of hypothesis for the trainer's tests: no test fails because a machine is busy."""

from hypothesis import settings

settings.register_profile("trainer", deadline=None)
settings.load_profile("trainer")
