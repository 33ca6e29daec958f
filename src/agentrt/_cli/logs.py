"""The log lines of `--log-level` on standard error."""

from __future__ import annotations

import logging
import time
from typing import Final

import msgspec

from ..config import LogFormat, LogLevel
from ..telemetry import LOG_FIELDS
from .text import escaped, one_line, plain

_ORDINARY: Final = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "taskName",
    "asctime",
}


def start_logging(level: LogLevel, format: LogFormat) -> None:
    """Print agentrt's records of this level and above from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines() if format == "json" else _TextLines())
    logger = logging.getLogger("agentrt")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


def _more(record: logging.LogRecord) -> dict[str, object]:
    """Return the additional fields of a record, starting with those that identify its subject."""
    more = {name: value for name, value in vars(record).items() if name not in _ORDINARY}
    about = {name: more.pop(name) for name in LOG_FIELDS if name in more}
    return about | more


def _traceback(record: logging.LogRecord) -> str:
    """Return the traceback of a record; agentrt's own records contain it without secrets."""
    if record.exc_text or not record.exc_info:
        return record.exc_text or ""
    return logging.Formatter().formatException(record.exc_info)


class _TextLines(logging.Formatter):
    """Log records as text, one line each apart from tracebacks, safe to display in a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        more = "".join(f" {name}={one_line(str(value))}" for name, value in _more(record).items())
        line = f"{at}.{int(record.msecs):03} {record.levelname} {record.name}: "
        line += one_line(record.getMessage(), 2000) + more
        if record.exc_info or record.exc_text:
            line += "\n" + plain(_traceback(record))
        return line


class _JsonLines(logging.Formatter):
    """Log records as JSON, one object a line, with times in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{at}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_more(record),
        }
        if record.exc_info or record.exc_text:
            line["exception"] = _traceback(record)
        return escaped(msgspec.json.encode(line, enc_hook=str).decode())
