"""The checks of `agentrt conformance`, for an agent in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal

from .._lab.conformance.check import ConformancePrompts
from .._lab.conformance.run import CheckedAgent, Conformance, ConformanceRun
from ..agents import ProtocolName, Transport
from ..process import Watcher
from .memory import MemoryAgent


async def check_agent(
    start: Callable[[], MemoryAgent],
    *,
    protocol: ProtocolName = "acp",
    acp_version: Literal[1, 2] = 1,
    prompts: ConformancePrompts | None = None,
    timeout: float = 60.0,
    only: Collection[str] = (),
    traces: Path | None = None,
) -> Conformance:
    """Check how an agent handles the messages that a client may send.

    - `start`: makes a process; called for each check. The session's working directory is a real
      one.
    - `protocol`: the agent's protocol. `acp_version`: the version of ACP to check against.
    - `prompts`: the prompts that the checks send if they need the agent to do something.
    - `timeout`: seconds for each check, by Trio's clock.
    - `only`: the names of the checks to run; all of them if empty.
    - `traces`: a folder for protocol traces, one file for each check.

    Returns the findings. Raises `TraceError`.
    """

    def connect(cwd: Path, watcher: Watcher) -> AbstractAsyncContextManager[Transport]:
        return start().connect()

    subject = CheckedAgent(connect=connect, protocol=protocol, acp_version=acp_version)
    run = ConformanceRun(subject, prompts=prompts, timeout=timeout, only=only, traces=traces)
    return await run.run()
