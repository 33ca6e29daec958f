"""Test kit: agents that run in memory and are controlled by the test.

No process is started: a session with a `MemoryAgent` runs in one Trio loop and, with
`trio.testing.MockClock`, without waiting.
"""

from .._conformance.check import ConformanceFinding as ConformanceFinding
from .._conformance.check import ConformancePrompts as ConformancePrompts
from .._conformance.run import Conformance as Conformance
from .calls import ToolAnswer as ToolAnswer
from .calls import ask_policy as ask_policy
from .calls import call_tool as call_tool
from .chaos import Chaos as Chaos
from .chaos import Faults as Faults
from .chaos import simulate as simulate
from .checks import LogBroken as LogBroken
from .checks import check_log as check_log
from .conformance import check_agent as check_agent
from .fake_acp import FakeAcpAgent as FakeAcpAgent
from .fake_acp import FakePrompt as FakePrompt
from .fake_claude import FakeClaudeAgent as FakeClaudeAgent
from .fake_claude import FakeClaudePrompt as FakeClaudePrompt
from .fake_codex import FakeCodexAgent as FakeCodexAgent
from .fake_codex import FakeCodexPrompt as FakeCodexPrompt
from .memory import MemoryAgent as MemoryAgent
from .mutations import Mutation as Mutation
from .mutations import MutationKind as MutationKind
from .mutations import mutations as mutations
from .replay import Replay as Replay
from .replay import ReplayMismatch as ReplayMismatch
from .replay import replay as replay
from .scripted import FakeAgent as FakeAgent
from .scripted import Question as Question
from .scripted import Script as Script
from .scripted import ScriptedAgents as ScriptedAgents
from .scripted import SeenSession as SeenSession
from .scripted import says as says
from .scripted import scripted_agents as scripted_agents
from .seeded import run_seeded as run_seeded
from .sessions import open_fake_runtime as open_fake_runtime
from .sessions import open_fake_session as open_fake_session
