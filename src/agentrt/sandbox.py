"""Sandboxes: the files, the network and the programs that an agent can use."""

from ._core.sandbox.gateway import Granted
from ._core.sandbox.policy import Network, Sandbox, SandboxLike, SandboxLimits
from ._core.sandbox.wall import SandboxStatus

__all__ = [
    # settings
    "Sandbox",
    "SandboxLimits",
    "SandboxLike",
    "Network",
    # a session's sandbox
    "SandboxStatus",
    "Granted",
]
