"""agentrt runs a coding agent's conversation as a tree of Trio tasks, and tells everyone who
watches exactly one story about it.

The layers, each importing only what is below it: the terminal and the web frontends; the runtime
(sessions, turns, processes, tools); the wings `_acp` and `_claude`, which do not know each other;
the wire and the model, which know neither processes nor clocks.
"""

__version__ = "0.1.0"

from ._agents import Agent as Agent
from ._agents import Found as Found
from ._agents import acp as acp
from ._agents import agent_version as agent_version
from ._agents import claude as claude
from ._agents import find_agents as find_agents
from ._claude.options import ClaudeOptions as ClaudeOptions
from ._claude.sessions import StoredSession as StoredSession
from ._errors import AgentDied as AgentDied
from ._errors import AgentFailed as AgentFailed
from ._errors import AgentNotFound as AgentNotFound
from ._errors import AgentrtError as AgentrtError
from ._errors import AgentStartError as AgentStartError
from ._errors import Busy as Busy
from ._errors import LimitExceeded as LimitExceeded
from ._errors import LocalProtocolError as LocalProtocolError
from ._errors import ProtocolError as ProtocolError
from ._errors import RemoteProtocolError as RemoteProtocolError
from ._errors import RequestError as RequestError
from ._errors import SessionClosed as SessionClosed
from ._errors import SessionNotFound as SessionNotFound
from ._errors import TurnFailed as TurnFailed
from ._errors import TurnTimedOut as TurnTimedOut
from ._limits import Limits as Limits
from ._model.content import Audio as Audio
from ._model.content import Diff as Diff
from ._model.content import Image as Image
from ._model.content import Resource as Resource
from ._model.content import ResourceLink as ResourceLink
from ._model.content import Text as Text
from ._model.events import CommandsChanged as CommandsChanged
from ._model.events import Error as Error
from ._model.events import Event as Event
from ._model.events import Item as Item
from ._model.events import ItemClosed as ItemClosed
from ._model.events import ItemDelta as ItemDelta
from ._model.events import ItemOpened as ItemOpened
from ._model.events import ItemUpdated as ItemUpdated
from ._model.events import Modes as Modes
from ._model.events import ModesChanged as ModesChanged
from ._model.events import Notice as Notice
from ._model.events import PermissionClosed as PermissionClosed
from ._model.events import PermissionOpened as PermissionOpened
from ._model.events import PermissionOption as PermissionOption
from ._model.events import PlanChanged as PlanChanged
from ._model.events import PlanEntry as PlanEntry
from ._model.events import QueueChanged as QueueChanged
from ._model.events import State as State
from ._model.events import StateChanged as StateChanged
from ._model.events import Task as Task
from ._model.events import TaskChanged as TaskChanged
from ._model.events import TextDelta as TextDelta
from ._model.events import ThoughtDelta as ThoughtDelta
from ._model.events import TitleChanged as TitleChanged
from ._model.events import TurnEnded as TurnEnded
from ._model.events import TurnStarted as TurnStarted
from ._model.events import Usage as Usage
from ._model.events import UsageChanged as UsageChanged
from ._model.log import Overrun as Overrun
from ._model.result import TurnResult as TurnResult
from ._model.state import Snapshot as Snapshot
from ._runtime.claude_sessions import ClaudeSessions as ClaudeSessions
from ._runtime.hooks import Hook as Hook
from ._runtime.hooks import HookContext as HookContext
from ._runtime.hooks import hook as hook
from ._runtime.open import open_session as open_session
from ._runtime.permissions import Allow as Allow
from ._runtime.permissions import Ask as Ask
from ._runtime.permissions import Decision as Decision
from ._runtime.permissions import Deny as Deny
from ._runtime.permissions import PermissionRequest as PermissionRequest
from ._runtime.permissions import Policy as Policy
from ._runtime.permissions import allow_all as allow_all
from ._runtime.permissions import ask as ask
from ._runtime.permissions import deny_all as deny_all
from ._runtime.permissions import rules as rules
from ._runtime.query import Query as Query
from ._runtime.query import query as query
from ._runtime.session import Session as Session
from ._runtime.session import Subscription as Subscription
from ._runtime.tools import Tool as Tool
from ._runtime.tools import ToolContext as ToolContext
from ._runtime.tools import ToolError as ToolError
from ._runtime.tools import tool as tool
from ._runtime.turn import Turn as Turn
