"""The HTTP face: the four extender verbs, and views for people. Only place that imports FastAPI."""

from scheduler.api.app import create_app
from scheduler.api.server import ServerThread, run

__all__ = ["ServerThread", "create_app", "run"]
