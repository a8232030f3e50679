"""The HTTP face: the four extender verbs, and views for people. Only place that imports FastAPI."""

from scheduler.api.app import create_app
from scheduler.api.listeners import Address
from scheduler.api.server import ServerError, ServerThread, run
from scheduler.api.tls import TlsFiles, TlsFront

__all__ = [
    "Address",
    "ServerError",
    "ServerThread",
    "TlsFiles",
    "TlsFront",
    "create_app",
    "run",
]
