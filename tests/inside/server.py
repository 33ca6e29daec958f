"""The parts of the server.

Tests connect viewers to a hub in memory: through a socket, the order in which frames, commands
and the end of a connection meet cannot be chosen.
"""

from __future__ import annotations

from agentrt._serve import commands, operations
from agentrt._serve.client import Client
from agentrt._serve.command_machine import (
    OWNER_PATIENCE_S,
    CommandEvent,
    CommandOrder,
    CommandPlace,
)
from agentrt._serve.feed import Feed
from agentrt._serve.forwarded import serve_forwarded
from agentrt._serve.hub import Hub

__all__ = [
    "Client",
    "CommandEvent",
    "CommandOrder",
    "CommandPlace",
    "Feed",
    "Hub",
    "OWNER_PATIENCE_S",
    "commands",
    "operations",
    "serve_forwarded",
]
