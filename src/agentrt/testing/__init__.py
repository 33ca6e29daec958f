"""Test kit: agents that run in memory and are controlled by the test.

No process is started: a session with a `MemoryAgent` runs in one Trio loop and, with
`trio.testing.MockClock`, without waiting. A test of a program that prompts an agent once::

    async def test_the_summary(tmp_path):
        with scripted_agents({"claude": says("All tests pass.")}) as agents:
            assert await summarize(tmp_path) == "All tests pass."
        assert agents.session.prompts == ["Summarize the tests."]

Choose by the code under test:

- A program that opens sessions itself: `scripted_agents` replaces every agent program by a script
  while the block runs, and shows the prompts, questions and events afterwards.
- Code that gets a session: `open_fake_session` opens one with a fake agent. `FakeAcpAgent`,
  `FakeClaudeAgent` and `FakeCodexAgent` speak the three protocols and have the same methods.
- A tool or a policy by itself: `call_tool` and `ask_policy` need no session.
- Behaviour under faults: `simulate` runs a program with agents that stall, die and answer late,
  once for each seed, and checks the log of each session with `check_log`.
- A bug that a real agent has shown: `replay` plays a trace (see `agentrt.tracing`), and `mutations`
  changes it at one place.
- An agent or a store of your own: `check_agent` and `check_store` report the rules that it breaks.

Scripts are async functions that take the agent, and one script serves all three protocols: the
fakes have the same methods, and stop reasons are those of ACP everywhere. A script that raises ends
the session's block with its error, in a group with the errors that follow from it; a script that
returns is a process that exits with status 0.
"""

from .._lab.conformance.check import (
    ConformanceFinding,
    ConformanceLevel,
    ConformancePrompts,
    ConformanceVerdict,
)
from .._lab.conformance.run import Conformance
from .calls import ToolAnswer, ask_policy, call_tool
from .chaos import Chaos, Faults, simulate
from .checks import LogBroken, check_log
from .conformance import check_agent
from .fake_acp import FakeAcpAgent, FakePrompt
from .fake_claude import FakeClaudeAgent, FakeClaudePrompt
from .fake_codex import FakeCodexAgent, FakeCodexPrompt
from .memory import MemoryAgent
from .mutations import Mutation, MutationKind, mutations
from .replay import Replay, ReplayMismatch, replay
from .scripted import (
    FakeAgent,
    Question,
    Script,
    ScriptedAgents,
    SeenSession,
    says,
    scripted_agents,
)
from .seeded import run_seeded
from .sessions import open_fake_runtime, open_fake_session
from .stores import check_store

__all__ = [
    # scripted agents in place of real ones
    "scripted_agents",
    "ScriptedAgents",
    "SeenSession",
    "Question",
    "Script",
    "FakeAgent",
    "says",
    # agents in memory, one per protocol
    "open_fake_session",
    "open_fake_runtime",
    "MemoryAgent",
    "FakeAcpAgent",
    "FakePrompt",
    "FakeClaudeAgent",
    "FakeClaudePrompt",
    "FakeCodexAgent",
    "FakeCodexPrompt",
    # tools and policies by themselves
    "call_tool",
    "ToolAnswer",
    "ask_policy",
    # random runs and invariants
    "simulate",
    "Faults",
    "Chaos",
    "run_seeded",
    "check_log",
    "LogBroken",
    # recorded agents
    "replay",
    "Replay",
    "ReplayMismatch",
    "mutations",
    "Mutation",
    "MutationKind",
    # conformance of an agent
    "check_agent",
    "Conformance",
    "ConformanceFinding",
    "ConformanceVerdict",
    "ConformanceLevel",
    "ConformancePrompts",
    # conformance of a store
    "check_store",
]
