"""Benchmarks. Each prints one JSON object as its last line: `python -m benchmarks.NAME`."""
