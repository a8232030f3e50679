"""Muster: starts distributed training jobs whole, close together and fast."""

__version__ = "0.1.0"
