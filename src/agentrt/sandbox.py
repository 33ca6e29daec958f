"""Sandboxes: the files, the network and the programs that an agent can use."""

from ._core.sandbox.access import Granted
from ._core.sandbox.policy import Network, ProgramRule, Sandbox, SandboxLike, SandboxLimits, Tier
from ._core.sandbox.probe import ProbeResult, probe
from ._core.sandbox.run import run_in_sandbox
from ._core.sandbox.wall import SandboxStatus

__all__ = [
    # settings
    "Sandbox",
    "SandboxLimits",
    "SandboxLike",
    "Network",
    "ProgramRule",
    "Tier",
    # other commands
    "run_in_sandbox",
    # this machine
    "probe",
    "ProbeResult",
    # a session's sandbox
    "SandboxStatus",
    "Granted",
]
