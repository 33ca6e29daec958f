"""Test kit: agents that live in memory and do what a test says.

Nothing here starts a process: a session on a `MemoryAgent` runs in one Trio loop and, with
`trio.testing.MockClock`, without waiting.
"""

from .._conformance.check import ConformanceFinding as ConformanceFinding
from .._conformance.check import ConformancePrompts as ConformancePrompts
from .._conformance.run import Conformance as Conformance
from .conformance import check_agent as check_agent
from .fake_acp import FakeAcpAgent as FakeAcpAgent
from .fake_acp import FakePrompt as FakePrompt
from .memory import MemoryAgent as MemoryAgent
from .replay import Departed as Departed
from .replay import Replay as Replay
from .replay import replay as replay
from .seeded import run_seeded as run_seeded
from .sessions import open_fake_runtime as open_fake_runtime
from .sessions import open_fake_session as open_fake_session
