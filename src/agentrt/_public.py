"""The names of `import agentrt`, for type checkers.

At run time each name is imported on first use, by the table in `agentrt/__init__.py`; a test
compares the two.
"""

from ._agents import Agent as Agent
from ._agents import find_agents as find_agents
from ._errors import AgentrtError as AgentrtError
from ._errors import AgentStartError as AgentStartError
from ._errors import Busy as Busy
from ._errors import LocalProtocolError as LocalProtocolError
from ._errors import SessionClosed as SessionClosed
from ._limits import Limits as Limits
from ._model.content import Image as Image
from ._model.content import Prompt as Prompt
from ._model.events import Event as Event
from ._model.events import ItemClosed as ItemClosed
from ._model.events import ItemOpened as ItemOpened
from ._model.events import ItemUpdated as ItemUpdated
from ._model.events import Notice as Notice
from ._model.events import PermissionOpened as PermissionOpened
from ._model.events import TextDelta as TextDelta
from ._model.events import ThoughtDelta as ThoughtDelta
from ._model.events import ToolCall as ToolCall
from ._model.events import TurnEnded as TurnEnded
from ._model.events import TurnStarted as TurnStarted
from ._model.result import TurnFailed as TurnFailed
from ._model.result import TurnResult as TurnResult
from ._permissions.policies import Allow as Allow
from ._permissions.policies import Deny as Deny
from ._permissions.policies import PermissionRequest as PermissionRequest
from ._permissions.policies import Policy as Policy
from ._permissions.policies import allow_all as allow_all
from ._permissions.policies import ask as ask
from ._permissions.policies import deny_all as deny_all
from ._permissions.policies import rules as rules
from ._runtime.open import open_session as open_session
from ._runtime.options import SessionOptions as SessionOptions
from ._runtime.query import Query as Query
from ._runtime.query import query as query
from ._runtime.register import SessionInfo as SessionInfo
from ._runtime.runtime import Runtime as Runtime
from ._runtime.runtime import open_runtime as open_runtime
from ._session.core import When as When
from ._session.queue import SessionQueue as SessionQueue
from ._session.session import Session as Session
from ._session.turn import Turn as Turn
from ._tools.hooks import hook as hook
from ._tools.tools import Tool as Tool
from ._tools.tools import ToolContext as ToolContext
from ._tools.tools import ToolError as ToolError
from ._tools.tools import tool as tool
