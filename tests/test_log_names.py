"""Every logger of the package redacts secrets: see `agentrt._core.logging`."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import agentrt
from agentrt.telemetry import LogContext

SRC = Path(agentrt.__file__).parent


def test_every_logger_of_the_package_has_the_filter_that_redacts() -> None:
    assert LogContext  # its module sets the loggers up
    pattern = r'(?:get_logger\("|getLogger\("agentrt\.)([\w.]+)"\)'
    names = {name for path in SRC.rglob("*.py") for name in re.findall(pattern, path.read_text())}
    assert {"server", "session", "store"} <= names
    bare = [name for name in names if not logging.getLogger(f"agentrt.{name}").filters]
    assert not bare
