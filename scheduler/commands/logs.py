"""Log lines for people or for machines."""

from __future__ import annotations

import json
import logging
import sys
import time
from enum import StrEnum

ABOUT = ("gang", "pod")
"""What a line may be about; given to the log call by ``extra``."""


class LogLevel(StrEnum):
    """How much is said."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How it is written."""

    TEXT = "text"
    JSON = "json"


def set_up(level: LogLevel, form: LogFormat) -> None:
    """Send all logs to standard error; times are UTC."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else _text())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("uvicorn", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def __init__(self) -> None:
        super().__init__()
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        """The record as ``time``, ``level``, ``logger``, ``message`` and perhaps ``exception``.

        What it is about goes besides as ``gang`` and ``pod``, each NAMESPACE/NAME.
        """
        line = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: str(about) for key in ABOUT if (about := getattr(record, key, ""))}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _text() -> logging.Formatter:
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    return formatter
