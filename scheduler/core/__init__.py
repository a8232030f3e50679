"""The decision core: pure functions and one state machine. No clock, no I/O, no logging."""
