"""The client of another server, whose line a test cuts between two frames."""

from __future__ import annotations

from agentrt._serve.remote.line import ServerLine
from agentrt._serve.remote.session import RemoteSession

__all__ = ["RemoteSession", "ServerLine"]
