"""Requests of a sandbox, which are about its limits and not about a tool of the agent."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

NETWORK: Final = "Network"
"""The name of these requests and of the rules about them."""


class BoundaryRequest(Struct, frozen=True):
    """The `raw` of a request about a connection from a sandbox.

    No agent can make one: a tool of an agent that is called `Network` is not about the sandbox.
    """

    host: str
    port: int
