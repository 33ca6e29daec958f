"""The composition of sessions.

Tests give it ids, a clock and a driver of their own, so that each run is the same.
"""

from __future__ import annotations

from agentrt._core.runtime.runtime import Source, serve_runtime
from agentrt._core.runtime.stored import ClaimedSession
from agentrt._core.session.host import SessionHost
from agentrt._core.session.session import host_of
from agentrt._core.tools import bridge
from agentrt._core.tools.bridge import Endpoint, serve_tools
from agentrt._core.tools.server import ToolServer

__all__ = [
    "ClaimedSession",
    "Endpoint",
    "SessionHost",
    "Source",
    "ToolServer",
    "bridge",
    "host_of",
    "serve_runtime",
    "serve_tools",
]
