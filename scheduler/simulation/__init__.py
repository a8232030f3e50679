"""A cluster in one process: for the demo, for tests, and to replay what was recorded."""
