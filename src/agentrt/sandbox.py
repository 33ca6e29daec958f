"""Sandboxes: the files, the network and the programs that an agent can use.

Pass `Sandbox(…)` as `sandbox` to `open_session` or `open_runtime`. The agent and everything that it
starts then see a read-only system and can write only to the session's folders, its own state and
`/tmp`; the network has the hosts of the model, unless you choose others. A sandbox does not depend
on requests, rules or the agent's good will. If it cannot be built, the agent is not started
(`agentrt.errors.SandboxUnavailable`).

`probe` tests this machine, as `agentrt doctor --sandbox` does. `run_in_sandbox` runs any command in
the same sandbox, for trying it out. When a program reaches for something that is outside, a
permission request may ask for it; `SandboxStatus`, which is `Session.sandbox`, shows the
permissions that were granted since the start and revokes them.
"""

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
