"""An agent's process without a session: for tools that speak to agents themselves.

The drivers of `agentrt.lowlevel` need no process; this module starts one with the same care as a
session does: a process group of its own, bounded writes, and an end in bounded time.

`open_agent_program` is the block of a process: leaving it ends the program and everything that it
has started. Inside, the process is an `agentrt.agents.Transport`; `read_loop` reads its output and
a `LineWriter` writes to it, without letting a program that does not read block the caller.
`trace_process` records both directions in a trace (`agentrt.tracing`).

`let_agents_live` limits the life of all agents of this Trio run to a time, also if this process is
stopped or killed: a guard process ends them then. Servers that share a store use it, because a
server that lost its lease must have no agents left.
"""

from ._core.process.chosen import wait_exit
from ._core.process.guard import let_agents_live
from ._core.process.inherited import without_own
from ._core.process.pipes import (
    Happening,
    LineWriter,
    Readable,
    Watcher,
    WriterStatistics,
    read_loop,
)
from ._core.runtime.agent_program import open_agent_program, trace_process

__all__ = [
    # starting a process
    "open_agent_program",
    "without_own",
    "let_agents_live",
    "wait_exit",
    # reading and writing
    "LineWriter",
    "WriterStatistics",
    "read_loop",
    "Readable",
    # recording
    "trace_process",
    "Watcher",
    "Happening",
]
