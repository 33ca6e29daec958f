"""The checks of `agentrt conformance`, on an agent in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from .._agents import ProtocolName
from .._conformance.check import ConformancePrompts
from .._conformance.run import Conformance, Run, Subject
from .._process.pipes import Transport
from .._trace.tap import ProcessTap
from .memory import MemoryAgent


async def check_agent(
    start: Callable[[], MemoryAgent],
    *,
    protocol: ProtocolName = "acp",
    prompts: ConformancePrompts | None = None,
    timeout: float = 60.0,
    only: Collection[str] = (),
    traces: Path | None = None,
) -> Conformance:
    """What an agent does with what a client may send it. `start` makes a process, one for each
    check; the folder of its session is a real one.

    - `prompts`: what the checks ask for, where the agent has to do something.
    - `timeout`: seconds for each check, of Trio's clock.
    - `only`: the names of the checks to run, else all of them.
    - `traces`: a folder for what went over the wire, a file a check.

    Raises `TraceError`.
    """

    def connect(cwd: Path, tap: ProcessTap) -> AbstractAsyncContextManager[Transport]:
        return start().connect()

    subject = Subject(connect=connect, protocol=protocol)
    run = Run(subject, prompts=prompts, timeout=timeout, only=only, traces=traces)
    return await run.run()
